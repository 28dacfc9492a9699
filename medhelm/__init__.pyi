# The names of `medhelm`, a line each: imported on first use from the module that the line names.
# ruff: noqa: E402, E501, I001
# fmt: off

from pathlib import Path

__version__: str

def listed_names(stub: Path) -> dict[str, str]: ...

# -- For users: run, read results, catch errors
from medhelm.api import describe as describe  # all facts of what bears a name
from medhelm.api import list_benchmarks as list_benchmarks  # all benchmarks, as a tuple that shows itself
from medhelm.api import list_models as list_models  # the models that have a config file
from medhelm.api import estimate as estimate  # requests, tokens and cost of an evaluation, before it
from medhelm.api import evaluate as evaluate  # ask models, grade the answers, return the results
from medhelm.api import fetch_data as fetch_data  # download and verify the files of benchmarks
from medhelm.api import score as score  # grade stored answers again, without a model
from medhelm.api import validate as validate  # a benchmark proves itself on constant answers
from medhelm.api import verify_data as verify_data  # hashes of the files that are there
from medhelm.tables.loading import load_results as load_results  # the results of a folder
from medhelm.tables.results import Results as Results  # graded runs, and their tables
from medhelm.config import PrivacyPolicy as PrivacyPolicy  # which models may see which data
from medhelm.schema.run import JurySpec as JurySpec  # the judges of open answers
from medhelm.schema.asking import Asking as Asking  # another way to ask benchmarks
from medhelm.schema.asking import Form as Form  # the form of an answer: text, line, schema, logprobs
from medhelm.schema.episode import Sampling as Sampling  # temperature and the like
from medhelm.schema.model import Price as Price  # USD for a million tokens
from medhelm.errors import BudgetReached as BudgetReached  # the cap of cost or tokens is reached
from medhelm.errors import MedhelmError as MedhelmError  # what a user can mend, in one line
from medhelm.errors import ModelError as ModelError  # a model cannot be asked
from medhelm.errors import PrivacyRefused as PrivacyRefused  # data that a model may not see
from medhelm.errors import UnknownName as UnknownName  # a name that does not exist, with the nearest known ones
from medhelm.errors import UsageError as UsageError  # an argument, option or config that is wrong

# -- For users: what their functions take and return
from medhelm.listing.description import Description as Description  # kind, name and facts of one thing
from medhelm.listing.listed import BenchmarkEntry as BenchmarkEntry  # what a list says of a benchmark
from medhelm.listing.listed import Listing as Listing  # things that have a name, shown as a table
from medhelm.data.fetch import FileStatus as FileStatus  # a file of a benchmark, and whether it is right
from medhelm.runs.estimates import RunEstimate as RunEstimate  # requests, tokens and cost of one run
from medhelm.proof.validation import Report as Report  # what is found wrong with a benchmark
from medhelm.schema.model import Order as Order  # when judges' servers are up: beside a model's, or after all
from medhelm.schema.data import Variant as Variant  # other forms of multiple-choice questions
from medhelm.schema.score import Scoring as Scoring  # the metric as it should be, or the published scorer
from medhelm.schema.score import Unread as Unread  # outcomes of replies without an answer
from medhelm.tables.study.selection import Data as Data  # bundled samples, or the full data
from medhelm.tables.format.table import Settings as Settings  # draws, seed and confidence of a table
from medhelm.tables.study.study import Study as Study  # what of the runs is compared, and its ranking
from medhelm.tables.format.table import RankBy as RankBy  # the basis of ranks
from medhelm.tables.format.table import MdeScale as MdeScale  # the scale of the table mde
from medhelm.tables.charts import Chart as Chart  # names of charts
from medhelm.tables.gate import Decision as Decision  # the rule by which a gate decides
from medhelm.plugins.profiles import Profile as Profile  # thresholds that a model must reach
from medhelm.plugins.registry import Registry as Registry  # all plugins, read once
from medhelm.tables.known_tables import KnownTables as KnownTables  # the tables that there are

# -- Every plugin
from medhelm.plugins.hookspecs import hookimpl as hookimpl  # marks the function of a hook
from medhelm.errors import DataError as DataError  # a row, file or instance that cannot be used

# -- A benchmark: files, rows, instances, prompt
from medhelm.schema.data import Benchmark as Benchmark  # data, mapping, prompt and metrics
from medhelm.schema.data import FileDataset as FileDataset  # files that are fetched or brought
from medhelm.schema.data import SourceFile as SourceFile  # one file: address, hash, splits
from medhelm.schema.data import GitHub as GitHub  # a commit of a repository, and its files
from medhelm.schema.data import HubDataset as HubDataset  # a data set of the hub
from medhelm.schema.data import Hub as Hub  # a revision of a data set of the hub, and its files
from medhelm.schema.data import Row as Row  # a record by column
from medhelm.schema.data import Instance as Instance  # what is asked, and what is right
from medhelm.schema.data import LeftOut as LeftOut  # a row that is no instance, and why
from medhelm.schema.data import Criterion as Criterion  # one thing that a judge decides on
from medhelm.schema.data import CriteriaRules as CriteriaRules  # how a judge goes by criteria
from medhelm.schema.data import Items as Items  # what a list of labels is about
from medhelm.schema.data import Prompt as Prompt  # a template of one's own, with its version
from medhelm.schema.data import Exposure as Exposure  # since when the data are public
from medhelm.schema.data import Phrasings as Phrasings  # replies by which the reading is tried
from medhelm.schema.data import RowFinding as RowFinding  # what a check finds in a row
from medhelm.data.readers import read_table as read_table  # a CSV file, a row at a time
from medhelm.data.table_layout import TableLayout as TableLayout  # columns of a user's table
from medhelm.data.instance_ids import text_key as text_key  # names a text whatever its case and blanks: a cluster
from medhelm.data.weighted_rubrics import weighted_rubric_instance as weighted_rubric_instance  # turns, criteria with points

# -- A metric: score and aggregation
from medhelm.schema.score import Metric as Metric  # scores an episode by its instance
from medhelm.schema.score import Score as Score  # a value, or the reason why there is none
from medhelm.schema.score import Outcome as Outcome  # how an instance ended
from medhelm.schema.episode import Episode as Episode  # what an instance became
from medhelm.schema.episode import Response as Response  # what came back of a request
from medhelm.schema.aggregation import Aggregation as Aggregation  # scores of a run -> one number
from medhelm.schema.aggregation import MEAN as MEAN  # the mean
from medhelm.schema.aggregation import Sums as Sums  # what an aggregation is given
from medhelm.schema.aggregation import Floats as Floats  # an array of floats
from medhelm.schema.aggregation import pooled_share as pooled_share  # one sum divided by another
from medhelm.stats.aggregation import ratio as ratio  # a / b, NaN where b is 0
from medhelm.stats.aggregation import by_label as by_label  # sums by label
from medhelm.stats.aggregation import mean_of_defined as mean_of_defined  # without NaN
from medhelm.similarity.rouge import rouge_scores as rouge_scores  # ROUGE of two texts
from medhelm.grading.rubric.metrics import rubric_score_of as rubric_score_of  # points of some criteria

# -- Reading free text
from medhelm.extract import Reading as Reading  # a value, or the reason why none is read
from medhelm.extract import visible_text as visible_text  # a reply without its thinking
from medhelm.extract import own_text as own_text  # a reply without what it repeats of the prompt
from medhelm.extract import marked_answers as marked_answers  # what a reply marks as its answer
from medhelm.extract import read_answer as read_answer  # the final answer, as a text
from medhelm.extract import read_choice as read_choice  # the option
from medhelm.extract import read_labels as read_labels  # several labels
from medhelm.extract import read_codes as read_codes  # codes of diagnoses and procedures
from medhelm.extract import is_code as is_code  # whether a text has the form of such a code
from medhelm.extract import read_number as read_number  # a number
from medhelm.extract import read_date as read_date  # a date
from medhelm.extract import read_weeks_days as read_weeks_days  # weeks and days
from medhelm.extract import Glossary as Glossary  # the names of the values that may be asked for

# -- A protocol, a strategy
from medhelm.protocols.protocol import Protocol as Protocol  # how an instance is conducted
from medhelm.protocols.protocol import Send as Send  # sends one request in a role
from medhelm.protocols.protocol import FinalAnswer as FinalAnswer  # what an episode is scored by
from medhelm.protocols.protocol import Forecast as Forecast  # calls that are expected of an episode
from medhelm.protocols.protocol import Terms as Terms  # settings and models of a run
from medhelm.protocols.strategy import Strategy as Strategy  # how one role's turn is made
from medhelm.protocols.strategy import SendToRole as SendToRole  # sends one request in the strategy's role
from medhelm.schema.episode import Message as Message  # role and content
from medhelm.schema.episode import Request as Request  # what is sent
from medhelm.schema.episode import Usage as Usage  # tokens of a call

# -- A model, a provider
from medhelm.schema.model import ModelSpec as ModelSpec  # a model and how it is asked
from medhelm.models.provider import Provider as Provider  # asks models by one interface
from medhelm.models.endpoint import Endpoint as Endpoint  # an address with its limits
from medhelm.models.endpoint import EndpointModel as EndpointModel  # a model at an address
from medhelm.models.hosts import Access as Access  # key and headers
from medhelm.models.hosts import Host as Host  # where a provider's models are by default
from medhelm.models.codecs.wire import Answer as Answer  # a body that came back, read
from medhelm.models.codecs.wire import Failure as Failure  # a refused request, and whether to try again
from medhelm.models.codecs.wire import read_failure as read_failure  # the failure of a status and body

# -- A table, a page
from medhelm.tables.table_spec import TableSpec as TableSpec  # name, columns, and how it is made
from medhelm.tables.table_spec import TableRequest as TableRequest  # the runs and options of a table
from medhelm.tables.table_spec import publish_whole as publish_whole  # rows that hold no text
from medhelm.tables.format.table import Table as Table  # rows, columns and notes
from medhelm.tables.format.table import Column as Column  # name, meaning and form
from medhelm.tables.format.table import make_table as make_table  # checked rows -> a table
from medhelm.schema.page import Page as Page  # a page of the leaderboard
from medhelm.tables.published import PageData as PageData  # what a page shows
from medhelm.tables.published import PublishedRuns as PublishedRuns  # the runs of the site
from medhelm.tables.published import Mark as Mark  # a sentence beside a benchmark
