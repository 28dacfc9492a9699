# The names of `medhelm.plugin`, a line each: imported on first use from the module that the line names.
# ruff: noqa: E402, E501, I001
# fmt: off

# -- Errors that a command prints in one line
from medhelm.errors import RecordError as RecordError  # a stored file that cannot be read
from medhelm.errors import closest as closest  # the known names nearest to a misspelt one
from medhelm.schema.type_errors import explain as explain  # what is wrong with values that do not fit a type

# -- Commands
from medhelm.cli import options as options  # options that commands share, plugins, models by name, output as JSON
from medhelm.cli import model_calls as model_calls  # a command that asks models: estimate, asking, what was used
from medhelm.cli import rating_forms as rating_forms  # a form of `medhelm agreement`
from medhelm.cli import tables as tables  # --format and --out of tables, and printing them

# -- Files
from medhelm.data import readers as readers  # numbered rows of a file, by its suffix; keys that occur twice
from medhelm.files.folders import entries as entries  # what lies in a folder, links that lead out refused
from medhelm.files import durable as durable  # files written whole or not at all, and why that failed
from medhelm.data.sources import file_sha256 as file_sha256  # the hash of a file or folder

# -- Judges
from medhelm.grading.graders import grader as grader  # a grader that asks judges about what it is shown
from medhelm.grading.rubric.prompt import decision_messages as decision_messages  # what a judge is sent
from medhelm.grading.rubric.prompt import decision_of as decision_of  # what its reply decides
from medhelm.prompts.fencing import fenced as fenced  # a text between tags that it cannot close
from medhelm.tables.clinicians.decisions import plain_name as plain_name  # a model's name, whatever its spelling

# -- Asking: replies of a form, tokens, runs of one's own
from medhelm.extract import reply_form as reply_form  # the JSON Schema of a reply, and its value
from medhelm.schema.model import Model as Model  # a model that answers requests, without slots and connections
from medhelm.models.tokens import estimate_tokens as estimate_tokens  # about how many tokens a text, messages or a request are
from medhelm.prompts.messages import render_prompt as render_prompt  # what a benchmark's prompt makes of an instance
from medhelm.protocols.protocol import RoleTerms as RoleTerms  # budget and decoding of one role
from medhelm.protocols.protocol import together as together  # calls at the same time
from medhelm.protocols import questions as questions  # a question, asked again until its reply can be read
from medhelm.runs import own_runs as own_runs  # runs of instances that no benchmark declares
from medhelm.store import runlog as runlog  # plan, episodes and records of a stored run, names of models

# -- Ratings by clinicians
from medhelm.tables.clinicians import ratings as ratings  # what is rated, on which scale, and filled-in sheets
from medhelm.tables.clinicians import sheet as sheet  # a sheet to fill in, as a file
from medhelm.tables.clinicians import stored_decisions as stored_decisions  # graded runs, and what judges decided

# -- Statistics
from medhelm.stats import aggregation as aggregation  # scores pooled over instances, worst cases, Holm's correction
from medhelm.stats import intervals as intervals  # bootstrap, exact and permutation intervals
from medhelm.stats import measured as measured  # kappas, alphas and shares of two raters, with intervals
from medhelm.stats import two_class as two_class  # counts of yes and no of two, and their measures
from medhelm.schema.aggregation import ShareExtremes as ShareExtremes  # the least and most that sums can be
from medhelm.similarity.word_model import WordModel as WordModel  # a classifier that knows words alone

# -- Tables of a study: columns, and the runs behind them
from medhelm.tables.format import column_kinds as column_kinds  # tables and columns as tables.toml declares them
from medhelm.tables import compare as compare  # two models, paired on the instances that both have
from medhelm.tables import notes as notes  # the notes that every table has
from medhelm.tables.study import study as study  # the selected runs of a table, panels of models on the same instances, estimates
