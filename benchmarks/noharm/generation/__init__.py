"""Cases for action-level safety, written by a language model from a clinical guideline.

    guideline -> scene -> options -> traps -> menu -> ratings -> case
                 1        2          3        4       rubric

(Krishna et al., MedAct, section 3.) Every request is made from one of the values of `views`, and
each has only the fields that its stage may see: who writes the first options has no guideline, who
rates has no tag. What has not one meaning in a reply is asked for again at most twice, and the
case is discarded after that. The models are the roles of one protocol (`conduct`), so that budget, log
and resumption are those of any run. All that follows from ratings is derived elsewhere, by rule.
"""
