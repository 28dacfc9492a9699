# The names of `medhelm.plugin`, a line each: imported on first use from the module that the line names.
# ruff: noqa: E402, E501, I001
# fmt: off

# -- Errors that a command prints in one line
from medhelm.errors import UsageError as UsageError  # an option or a config that is wrong
from medhelm.errors import RecordError as RecordError  # a stored file that cannot be read
from medhelm.errors import closest as closest  # the known names nearest to a misspelt one

# -- Commands
from medhelm.cli.options import add_format as add_format  # the option --format text or json
from medhelm.cli.options import print_json as print_json  # a command's output as JSON

# -- Files
from medhelm.data.readers import read_file as read_file  # numbered rows of a file, by its suffix
from medhelm.data.sources import file_sha256 as file_sha256  # the hash of a file or folder

# -- Judges of binary criteria
from medhelm.grading.rubric.prompt import decision_messages as decision_messages  # what a judge is sent
from medhelm.grading.rubric.prompt import decision_of as decision_of  # what its reply decides

from medhelm.tables.clinicians.decisions import plain_name as plain_name  # a model's name, whatever its spelling

# -- Statistics
from medhelm.stats.two_class import confusion as confusion  # decisions of two, in four columns
from medhelm.stats.two_class import macro_f1 as macro_f1  # of such counts

# -- Tables of a study: columns, and the runs behind them
from medhelm.tables.format.column_kinds import count as count  # a column of whole numbers
from medhelm.tables.format.column_kinds import number as number  # a column of numbers
from medhelm.tables.format.column_kinds import text as text  # a column of texts
from medhelm.tables.format.column_kinds import yes as yes  # a column of true and false
from medhelm.tables.format.column_kinds import ends as ends  # the columns of an interval
from medhelm.tables import notes as notes  # the notes that every table has
from medhelm.tables.slices import instance_tags as instance_tags  # metadata of instances
from medhelm.tables.study.study import Study as Study  # the selected runs of a table
from medhelm.tables.study.study import Panel as Panel  # the scores of models on the same instances
from medhelm.tables.study.study import Estimate as Estimate  # a score with its interval
from medhelm.tables.study.study import estimate as estimate  # the estimates of a panel
from medhelm.tables.study.study import restrict as restrict  # a panel of some instances
