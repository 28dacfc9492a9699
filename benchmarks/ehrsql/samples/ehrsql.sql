-- Synthetic: no record of a real patient. Built in memory by the sandbox.
CREATE TABLE patient
(
    uniquepid VARCHAR(10) NOT NULL,
    patientunitstayid INT NOT NULL PRIMARY KEY,
    gender VARCHAR(25) NOT NULL,
    age VARCHAR(10) NOT NULL,
    admissionweight NUMERIC(10,2),
    hospitaladmittime TIMESTAMP(0) NOT NULL,
    hospitaldischargetime TIMESTAMP(0),
    hospitaldischargestatus VARCHAR(10)
) ;
CREATE TABLE diagnosis
(
    diagnosisid INT NOT NULL PRIMARY KEY,
    patientunitstayid INT NOT NULL,
    diagnosisname VARCHAR(200) NOT NULL,
    diagnosistime TIMESTAMP(0) NOT NULL,
    icd9code VARCHAR(100)
) ;
CREATE TABLE medication
(
    medicationid INT NOT NULL PRIMARY KEY,
    patientunitstayid INT NOT NULL,
    drugname VARCHAR(220) NOT NULL,
    dosage VARCHAR(60) NOT NULL,
    routeadmin VARCHAR(120) NOT NULL,
    drugstarttime TIMESTAMP(0)
) ;
CREATE TABLE lab
(
    labid INT NOT NULL PRIMARY KEY,
    patientunitstayid INT NOT NULL,
    labname VARCHAR(256) NOT NULL,
    labresult NUMERIC(11,4) NOT NULL,
    labresulttime TIMESTAMP(0) NOT NULL
) ;
CREATE TABLE vitalperiodic
(
    vitalperiodicid BIGINT NOT NULL PRIMARY KEY,
    patientunitstayid INT NOT NULL,
    heartrate INT,
    respiration INT,
    observationtime TIMESTAMP(0) NOT NULL
) ;
INSERT INTO patient VALUES
    ('s-001', 11, 'female', '71', 64.5, '2105-12-02 08:10:00', '2105-12-09 15:00:00', 'alive'),
    ('s-002', 12, 'male', '58', 81.2, '2105-12-20 22:40:00', NULL, NULL),
    ('s-003', 13, 'female', '43', NULL, '2104-06-11 03:05:00', '2104-06-14 11:30:00', 'alive'),
    ('s-003', 14, 'female', '44', 70.1, '2105-11-30 19:20:00', '2105-12-05 09:45:00', 'expired');
INSERT INTO diagnosis VALUES
    (21, 11, 'congestive heart failure', '2105-12-02 09:00:00', '428.0'),
    (22, 12, 'pneumonia', '2105-12-20 23:30:00', '486'),
    (23, 13, 'pneumonia', '2104-06-11 04:00:00', '486'),
    (24, 14, 'septic shock', '2105-11-30 20:00:00', '785.52');
INSERT INTO medication VALUES
    (31, 11, 'furosemide', '40 mg', 'iv push', '2105-12-02 10:00:00'),
    (32, 11, 'furosemide', '40 mg', 'oral', '2105-12-05 08:00:00'),
    (33, 12, 'ceftriaxone', '2 g', 'iv', '2105-12-21 00:15:00'),
    (34, 12, 'enoxaparin', '40 mg', 'subcutaneous', '2105-12-21 08:00:00'),
    (35, 14, 'ceftriaxone', '2 g', 'iv', '2105-11-30 20:30:00');
INSERT INTO lab VALUES
    (41, 11, 'potassium', 3.1, '2105-12-02 08:50:00'),
    (42, 11, 'potassium', 3.9, '2105-12-04 06:10:00'),
    (43, 11, 'creatinine', 1.4, '2105-12-04 06:10:00'),
    (44, 12, 'potassium', 4.4, '2105-12-21 05:40:00'),
    (45, 12, 'lactate', 2.2, '2105-12-21 05:40:00'),
    (46, 14, 'lactate', 6.8, '2105-11-30 19:50:00');
INSERT INTO vitalperiodic VALUES
    (51, 11, 112, 24, '2105-12-02 08:20:00'),
    (52, 11, 88, 18, '2105-12-04 12:00:00'),
    (53, 12, 97, 26, '2105-12-31 06:00:00'),
    (54, 14, 131, 30, '2105-11-30 19:25:00');
