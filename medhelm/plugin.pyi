# The names of `medhelm.plugin`, a line each: imported on first use from the module that the line names.
# Below a module are the names that plugins take of it.
# ruff: noqa: E402, E501, I001
# fmt: off

# -- Errors that a command prints in one line
from medhelm.errors import RecordError as RecordError  # a stored file that cannot be read
from medhelm.errors import closest as closest  # the known names nearest to a misspelt one
from medhelm.schema.type_errors import explain as explain  # what is wrong with values that do not fit a type

# -- Commands
from medhelm.cli import options as options  # options that commands share, plugins, models by name, output as JSON
#   options.find_models: models by name, those of plugins too
#   options.print_json: prints an object with its schema
#   options.print_rows: prints columns of texts as far as there is room
#   options.schema_command: a command that prints the JSON Schema of a type
from medhelm.cli import model_calls as model_calls  # a command that asks models: estimate, asking, what was used
#   model_calls.ask: asks runs under the caps of the command; how they ended
#   model_calls.check_estimate: refuses an estimate where no judge is named
#   model_calls.environ_of: the environment with the keys; None for an estimate
#   model_calls.show_estimate: prints what is left to ask
from medhelm.cli import rating_forms as rating_forms  # a form of `medhelm agreement`
#   rating_forms.Asked: what one line of `medhelm agreement` asks for
#   rating_forms.RatingForm: what is rated, and what is shown of it
#   rating_forms.Setting: what `--set NAME=VALUE` changes
from medhelm.cli import tables as tables  # --format and --out of tables, and printing them
#   tables.printer: prints tables, or writes them, by --format and --out
#   tables.settings: draws, seed and confidence of the options
#   tables.write: writes what is rendered

# -- Files
from medhelm.data import readers as readers  # numbered rows of a file, by its suffix; keys that occur twice
#   readers.read_file: the rows of a file by its suffix
#   readers.read_jsonl: the objects of JSON lines
#   readers.repeated_key: a key that occurs twice in one JSON object
from medhelm.files.folders import entries as entries  # what lies in a folder, links that lead out refused
from medhelm.files import durable as durable  # files written whole or not at all, and why that failed
#   durable.os_errors_as: an error of the user's in the place of an OSError
#   durable.write_lines: values as JSON, one a line
#   durable.write_whole: bytes, readable by their owner alone
from medhelm.data.sources import file_sha256 as file_sha256  # the hash of a file or folder

# -- Judges
from medhelm.grading.graders import grader as grader  # a grader that asks judges about what it is shown
#   grader.Controls: how the judges of a grader are measured
#   grader.GradedMetric: a metric over the verdicts of a grader's judges
#   grader.Grader: asks judges about an episode; a metric brings it
#   grader.Item: one verdict that a grader asks for
#   grader.JUDGE: the role that a grader asks
#   grader.Shown: what a grader sees of an episode
#   grader.answer: an episode in which a model under test gave this answer
#   grader.below_quorum: the score of an answer with too few verdicts; None where there are enough
from medhelm.grading.rubric.prompt import decision_messages as decision_messages  # what a judge is sent
from medhelm.grading.rubric.prompt import decision_of as decision_of  # what its reply decides
from medhelm.prompts.fencing import fenced as fenced  # a text between tags that it cannot close
from medhelm.tables.clinicians.decisions import plain_name as plain_name  # a model's name, whatever its spelling

# -- Asking: replies of a form, tokens, runs of one's own
from medhelm.extract import reply_form as reply_form  # the JSON Schema of a reply, and its value
#   reply_form.BadReply: a reply cannot be read, and why
#   reply_form.closed: the schema of an object with these properties and no other
#   reply_form.fit: a value as a schema has it
#   reply_form.read_form: a reply as a value of a type
#   reply_form.read_members: the members of a reply by name, and all others
#   reply_form.read_object: the only object of a reply, by a schema
#   reply_form.unify: a text with full-width letters and the like made plain
#   reply_form.without_halves: JSON without halves of surrogate pairs
from medhelm.schema.model import Model as Model  # a model that answers requests, without slots and connections
from medhelm.models.tokens import estimate_tokens as estimate_tokens  # about how many tokens a text, messages or a request are
from medhelm.prompts.messages import render_prompt as render_prompt  # what a benchmark's prompt makes of an instance
from medhelm.protocols.protocol import RoleTerms as RoleTerms  # budget and decoding of one role
from medhelm.protocols.protocol import together as together  # calls at the same time
from medhelm.protocols import questions as questions  # a question, asked again until its reply can be read
#   questions.Question: what one model is asked, and how its reply is read
#   questions.REASONING_BUDGET: tokens of an author that thinks before it answers
#   questions.Readout: what came of a question: a value, or how it ended
#   questions.Stage: one request to an author, and what may come back
#   questions.Unwritten: why an author has no usable reply
#   questions.asking: a protocol that asks one model some questions about an instance
#   questions.followed_by: repeats the reply, and says what is wrong with it
#   questions.one_call: the forecast of a call that may be repeated
#   questions.send_until_read: asks again until the reply can be read
#   questions.send_until_written: asks an author again until nothing is wrong with the text
from medhelm.runs import own_runs as own_runs  # runs of instances that no benchmark declares
#   own_runs.DataClass: the class of data, which says who may see them
#   own_runs.Run: what is asked of which models, and where it is stored
#   own_runs.identity: what of a model decides its answers
#   own_runs.own_run: a run of instances by a protocol, in a folder of its own
#   own_runs.stored_episodes: the episodes of such a run that have ended
from medhelm.store import runlog as runlog  # plan, episodes and records of a stored run, names of models
#   runlog.bare_name: a model's name without who serves it
#   runlog.episode_key: a key of an instance with all its content
#   runlog.is_same_model: whether a name is that of a model, whoever serves it
#   runlog.of_threads: a type of record that several threads may read
#   runlog.order_key: the place of an instance in the seeded order
#   runlog.read_log: the episodes of a log
#   runlog.read_plan: what a stored run was to ask

# -- Ratings by clinicians
from medhelm.tables.clinicians import ratings as ratings  # what is rated, on which scale, and filled-in sheets
#   ratings.Asked: the unit of a row, and what it may be given
#   ratings.Item: one question about a unit
#   ratings.KeyItem: the stored answer behind an opaque name
#   ratings.RatedRow: a row of a file that rates stored answers
#   ratings.RatingTable: the ratings of some files: unit, rater, item, value
#   ratings.Scale: the values of a rating, and words for them
#   ratings.Unit: what a rater reads, and what is asked of it
#   ratings.YES_NO: the scale of two values
#   ratings.agreement_of: how far raters agree: equal pairs, alpha
#   ratings.blind_name: the name of a unit that does not say whose it is
#   ratings.check_columns: refuses a file without a column
#   ratings.guard: a text that no spreadsheet takes for a formula
#   ratings.is_same_text: whether a cell holds a text
#   ratings.read_ratings: rows of files that rate stored answers
#   ratings.read_rows: rows of files of ratings
#   ratings.read_units: the table of ratings of units by the names on the sheet
#   ratings.several: the first of many names, and how many more there are
#   ratings.to_table: the table of ratings of rows
from medhelm.tables.clinicians import sheet as sheet  # a sheet to fill in, as a file
#   sheet.RatingSheet: units in the order in which raters see them
#   sheet.Sample: how many units and items are drawn, and by which seed
#   sheet.check_privacy: refuses texts that may not leave the results folder
from medhelm.tables.clinicians import stored_decisions as stored_decisions  # graded runs, and what judges decided
#   stored_decisions.Explained: a judge's decision on a criterion, and its words
#   stored_decisions.GradedRun: a graded run and its record
#   stored_decisions.RunChoice: which stored runs are taken
#   stored_decisions.explained_answers: answers with each judge's decisions on all criteria
#   stored_decisions.graded_runs: the graded runs of a folder, and what is damaged
#   stored_decisions.of_names: the runs of some benchmarks and models
#   stored_decisions.read_scores: columns of the scores of a graded run
#   stored_decisions.request_of: what a user asked, as one text

# -- Statistics
from medhelm.stats import aggregation as aggregation  # scores pooled over instances, worst cases, Holm's correction
#   aggregation.Pooling: what sums of these names make, by an aggregation
#   aggregation.holm: p values of one family, corrected by Holm's method
#   aggregation.worst_case: the mean if every missing value were the worst
from medhelm.stats import intervals as intervals  # bootstrap, exact and permutation intervals
#   intervals.NEAR_BORDER: clusters with, or without, an event that a bootstrap needs
#   intervals.bootstrap: sums of clusters, drawn again
#   intervals.bounded: Gaffke's interval, of a score near an end of its range
#   intervals.cluster_sums: sums of instances over their clusters
#   intervals.clustered_percentile: the percentile interval, expanded by the sizes of the clusters
#   intervals.exact_rate: the exact interval of a rate
#   intervals.percentile: the percentile interval of draws
#   intervals.score_interval: the interval of a score by its values and draws
#   intervals.seed_of: a seed of a number and names
from medhelm.stats import measured as measured  # kappas, alphas and shares of two raters, with intervals
#   measured.Measured: measures of one pair of raters, or their means over several
#   measured.Pair: the values of two raters as places on a scale
#   measured.column_mean: the measure that is the mean of a column of counts
#   measured.common_pairs: pairs of raters with enough units in common
#   measured.counted: measures of counts of units with their intervals over whole clusters
#   measured.icc2: ICC(2,1) and ICC(2,k): single raters and their mean, absolute agreement
#   measured.icc3k: ICC(3,k) with its interval
#   measured.kappa: the measure weighted kappa
#   measured.krippendorff_alpha: alpha over all raters
#   measured.mean_squares: the mean squares of rows, columns and error
#   measured.measure: several measures with their intervals over whole clusters
#   measured.share: the measure that is a mean over units
from medhelm.stats import two_class as two_class  # counts of yes and no of two, and their measures
#   two_class.confusion: the four counts of yes and no of two
#   two_class.kappa: Cohen's kappa of such counts
#   two_class.macro_f1: the mean of the F1 of both classes
#   two_class.pearson: Pearson's correlation; NaN where one side does not vary
#   two_class.positive_rates: the share of yes of each of the two
#   two_class.same: the share of equal decisions
#   two_class.spearman: Spearman's rank correlation; NaN below three
#   two_class.top_overlap: how many of the first of one order are among the first of another
from medhelm.schema.aggregation import ShareExtremes as ShareExtremes  # the least and most that sums can be
from medhelm.similarity.word_model import WordModel as WordModel  # a classifier that knows words alone

# -- Tables of a study: columns, and the runs behind them
from medhelm.tables.format import column_kinds as column_kinds  # tables and columns as tables.toml declares them
#   column_kinds.form: a table without its rows, as `tables.toml` beside a module declares it
from medhelm.tables import compare as compare  # two models, paired on the instances that both have
#   compare.pair: two cells of one benchmark, paired; None where they share no instance
from medhelm.tables import notes as notes  # the notes that every table has
#   notes.fewer_instances: the note on runs that do not cover the same instances
#   notes.study_table: a table of runs with the notes that every such table has
from medhelm.tables.study import study as study  # the selected runs of a table, panels of models on the same instances, estimates
#   study.Cell: one model on one benchmark
#   study.ERRORS: the columns of judges' errors on controls
#   study.Estimate: a score with its interval and draws
#   study.MIN_READ: the share of replies that must be read for a rank
#   study.MetricScores: one metric over one run, as arrays
#   study.Panel: one metric of one benchmark with all models
#   study.best_first: models by score
#   study.error_columns: the values of `ERRORS`
