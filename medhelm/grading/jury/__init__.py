"""The jury: several judges rate a free-text answer by a rubric.

rubrics (what is rated) -> prompt (what a judge sees) -> reply (how its answer is read)
-> verdicts (stored ones, or those of the offline graders) -> metric (the score)
"""
