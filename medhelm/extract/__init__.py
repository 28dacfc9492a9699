"""Completion text -> the answer that it states, or None. Nothing is guessed.

`marks` finds a completion's own text and what it marks as final, `choices` reads options (whose
names `options` finds, by the words of `languages` and `polarity`), `numbers` reads numbers, dates and
durations, `sets` labels and codes. These count, in this order:

1. An answer that is marked as final (`Answer: B` lines, `final answer is`, a box, a JSON key). Marks of
   different options are not an answer.
2. Statements: the first line, a line that is only a letter or a lettered option, `the answer is`,
   `I choose`, `is correct`, `Therefore, C.` If they name more than one option there is no answer.
3. In short completions that were not cut: the one option that is mentioned as the answer, without
   doubt, negation, history or comparison.

A list of the options, or of their probabilities, states none of them.
"""

from medhelm.extract.choices import extract_choice as extract_choice
from medhelm.extract.choices import read_choice as read_choice
from medhelm.extract.json_reply import without_halves as without_halves
from medhelm.extract.marks import Reading as Reading
from medhelm.extract.marks import final_answer as final_answer
from medhelm.extract.marks import marked_answers as marked_answers
from medhelm.extract.marks import own_text as own_text
from medhelm.extract.marks import read_answer as read_answer
from medhelm.extract.marks import visible_text as visible_text
from medhelm.extract.numbers.asked import Asked as Asked
from medhelm.extract.numbers.asked import Glossary as Glossary
from medhelm.extract.numbers.asked import Quantity as Quantity
from medhelm.extract.numbers.values import extract_date as extract_date
from medhelm.extract.numbers.values import extract_number as extract_number
from medhelm.extract.numbers.values import extract_weeks_days as extract_weeks_days
from medhelm.extract.numbers.values import read_date as read_date
from medhelm.extract.numbers.values import read_number as read_number
from medhelm.extract.numbers.values import read_weeks_days as read_weeks_days
from medhelm.extract.sets import extract_codes as extract_codes
from medhelm.extract.sets import extract_labels as extract_labels
from medhelm.extract.sets import is_code as is_code
from medhelm.extract.sets import read_codes as read_codes
from medhelm.extract.sets import read_labels as read_labels
