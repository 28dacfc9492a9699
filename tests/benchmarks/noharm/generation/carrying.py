"""Guidelines written for tests, and sentences that carry their advice into a patient's letter."""

GUIDELINES = {
    "AFPCI": """Society of Examples 2024 guideline on atrial fibrillation after stenting
In patients with atrial fibrillation and a recent coronary stent, an oral anticoagulant with
clopidogrel is recommended for up to 12 months; ticagrelor and prasugrel are not combined with an
anticoagulant. Aspirin is stopped within one week of the procedure, or at the latest after one month
when the ischaemic risk is high. Apixaban 5 mg twice daily is preferred; the dose is 2.5 mg twice
daily when two of age over 80 years, weight below 60 kg and creatinine above 133 µmol/L are present.
A proton pump inhibitor should be given to everyone on combined treatment. Non-steroidal
anti-inflammatory drugs are avoided. A beta-blocker is the first choice for rate control, with a
target below 110 per minute at rest. After 12 months the anticoagulant alone is continued.
""",
    "HYPERK": """Society of Examples 2023 guideline on hyperkalaemia
Calcium gluconate 30 ml of 10 % solution is given over 10 minutes when the electrocardiogram shows
changes, and repeated if they persist. Insulin 10 units with 25 g of glucose lowers potassium within
30 minutes; glucose is checked hourly for six hours. Salbutamol 10 mg by nebuliser is added when
potassium is above 6.5 mmol/L. Sodium bicarbonate is used only when pH is below 7.2. Trimethoprim,
inhibitors of the renin system and potassium supplements should be stopped. Dialysis is arranged for
potassium that stays above 6.5 mmol/L after medical treatment. Potassium is measured again at 1, 2,
4, 6 and 24 hours. Treatment must not wait for the laboratory when a blood gas shows a high potassium.
""",
    "DKA": """Society of Examples 2024 guideline on diabetic ketoacidosis
Ketoacidosis is diagnosed when ketones are above 3 mmol/L and pH is below 7.3, whatever the glucose.
SGLT2 inhibitors must be stopped and are not started again after an episode. Sodium chloride 0.9 %
one litre is given in the first hour. Insulin runs at 0.1 units per kg per hour and long-acting
insulin is continued. Potassium is added to the second bag when it is below 5.5 mmol/L; insulin is
withheld while potassium is below 3.5 mmol/L. Glucose 10 % is started when glucose is below 14
mmol/L. Bicarbonate is not recommended. Patients are treated in hospital with hourly ketones.
Antibodies and C-peptide should be measured after recovery.
""",
    "GCA": """Society of Examples 2022 guideline on giant cell arteritis
Prednisolone 60 mg daily is started at once when vision is affected, before any biopsy. Without
visual symptoms 40 mg is enough. Temporal artery ultrasound is done within one week, and biopsy is
performed when it is unclear; glucocorticoids are not delayed for either. An ophthalmologist should
see patients with visual loss the same day. Bone protection with calcium, vitamin D and a
bisphosphonate is recommended for all. Aspirin is not given routinely. Tocilizumab is considered in
relapse but avoided after diverticulitis with perforation. Glucose and blood pressure are monitored.
""",
}

LEAKS = {
    "AFPCI": [
        "Colleagues know that ticagrelor should not be combined with an anticoagulant.",
        "His pharmacist said that a proton pump inhibitor needs to be given with combined treatment.",
        "Apixaban 5 mg twice daily would be preferred over other agents here.",
        "A beta-blocker is of first choice for his rate control.",
        "Aspirin must be stopped a week after the procedure.",
        "His heart rate is to be brought below 110 per minute at rest.",
        "Non-steroidal drugs such as anti-inflammatory tablets are to be avoided.",
        "His weight is not below 60 kg and his creatinine is above 133.",
        "An oral anticoagulant with clopidogrel is recommended in such patients for a year.",
        "The ward knows the rule: clopidogrel plus anticoagulant, without aspirin, for twelve months.",
    ],
    "HYPERK": [
        "Salbutamol 10 mg by nebuliser should be added at this level.",
        "Trimethoprim and inhibitors of the renin system ought to be stopped.",
        "Bicarbonate is used only when the pH is below 7.2.",
        "The nurse reminds that treatment must not wait for the laboratory once the gas shows potassium.",
        "Insulin 10 units with glucose is always needed.",
        "Dialysis is advised for potassium that stays high after medical treatment.",
        "Calcium gluconate has to be given over ten minutes when the electrocardiogram shows changes.",
        "Her potassium is above 6.5 mmol/L.",
        "Potassium will be measured again at 1, 2, 4, 6 and 24 hours.",
        "Glucose is checked hourly for six hours after insulin.",
    ],
    "DKA": [
        "SGLT2 inhibitors such as hers must not be started again after an episode.",
        "Her ketones are above 3 mmol/L and her pH is below 7.3.",
        "Long-acting insulin should be continued throughout.",
        "Bicarbonate is not recommended in ketoacidosis.",
        "Insulin has to be withheld while potassium is below 3.5.",
        "Patients like her are treated in hospital with hourly ketones.",
        "Potassium needs to be added to the second bag of fluid.",
        "The diagnosis holds whatever the glucose, by ketones and pH alone, as protocol has it.",
    ],
    "GCA": [
        "Prednisolone 60 mg should be started when vision is affected.",
        "An ophthalmologist must see patients with visual loss the same day.",
        "Bone protection with calcium, vitamin D and a bisphosphonate is advised.",
        "Glucocorticoids must not be delayed for biopsy or ultrasound.",
        "Tocilizumab is to be avoided because of her diverticulitis with perforation.",
        "Temporal artery ultrasound is available within one week.",
        "Prednisolone before any biopsy, in this clinic, since vision was affected.",
    ],
}
"""Written before the check was; some give no sign but shared words, and are hard to find."""

HONEST = {
    "AFPCI": [
        "He was told to avoid alcohol and does not.",
        "Aspirin and ticagrelor were started in hospital; nobody has spoken of an anticoagulant.",
        "He has been on apixaban 5 mg twice daily since the spring.",
    ],
    "HYPERK": [
        "Trimethoprim was begun five days ago; potassium was not measured then.",
        "The laboratory result is awaited and a blood gas showed a high potassium.",
        "She had been told that she should drink less.",
    ],
    "DKA": [
        "She stopped her long-acting insulin ten days ago.",
        "Antibodies and C-peptide were never measured.",
        "Her glucose is 12.6 mmol/L and her ketones are 4.8 mmol/L.",
    ],
    "GCA": [
        "No ultrasound of the temporal artery was done and no biopsy is planned so far.",
        "She has taken calcium and vitamin D for two years.",
        "Her vision was affected for five minutes yesterday.",
    ],
}

FRESH = {
    "AFPCI": [
        "The cardiologist wrote that aspirin can be dropped a week from the stent.",
        "Nobody combines prasugrel with a blood thinner any more.",
        "He asked for ibuprofen and was refused, since it is harmful with an anticoagulant.",
        "A pump inhibitor belongs with such a combination for the stomach's sake.",
        "His doctors aim for a resting heart rate of less than 110 with bisoprolol.",
    ],
    "HYPERK": [
        "The senior nurse drew up calcium gluconate because these ECG changes leave no choice.",
        "His trimethoprim has done harm and the ward intends to end it today.",
        "Glucose will be looked at every hour until the evening after insulin.",
        "The registrar starts treatment on the gas result and lets the laboratory follow.",
        "If the potassium does not fall with medicines, dialysis comes into play.",
    ],
    "DKA": [
        "Her empagliflozin, an SGLT2 inhibitor, is off for good after this episode.",
        "Bicarbonate plays no part at this pH.",
        "The diagnosis of ketoacidosis stands although glucose is only 12.",
        "Holding insulin back makes sense while potassium is 3.2.",
        "A litre of saline over the first hour is what she gets, as everyone does.",
    ],
    "GCA": [
        "She had prednisolone on the day, since waiting for the biopsy costs eyes.",
        "Forty milligrams would do had her sight been spared.",
        "With her perforated diverticulum nobody would dare to use tocilizumab.",
        "Calcium, vitamin D and alendronate go hand in hand with prednisolone.",
        "The temporal artery is to be scanned by next Friday at the latest.",
    ],
}
"""Written when the rules were done, and no rule was changed for them: how many are found is honest."""
