"""The jury: several judges rate a free-text answer by a rubric (`grader`); their ratings become a score (`metric`)."""
