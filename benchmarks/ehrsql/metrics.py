"""EHRSQL: does a query give the rows of the gold query (Lee et al., 2022, arXiv 2301.07695)?"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from medhelm import DataError, Episode, Instance, Metric, Outcome, Score, hookimpl, visible_text
from medhelm_benchmarks.ehrsql.compare import is_ordered, same_query, same_rows
from medhelm_benchmarks.ehrsql.sandbox import QueryResult, Sandbox, open_sandbox

ABSTENTION = "UNANSWERABLE"
"""The prompt asks for this word where a question cannot be answered."""
NOW = "2105-12-31 23:59:00"
"""The present of all questions, by upstream's evaluator."""
_SOURCE = "arXiv 2301.07695"
_SHOWN = 2_000
_THRESHOLDS = {
    "temperature": ("35.5", "38.1"),
    "sao2": ("95", "100"),
    "heart_rate": ("60", "100"),
    "respiration": ("12", "18"),
    "systolic_bp": ("90", "120"),
    "diastolic_bp": ("60", "90"),
    "mean_bp": ("60", "110"),
}
_NAMES = {
    f"{name}_{end}": value
    for name, values in _THRESHOLDS.items()
    for end, value in zip(("lower", "upper"), values, strict=True)
} | {"current_time": f"'{NOW}'"}
_NAME = re.compile(rf"\b(?:{'|'.join(_NAMES)})\b")
_TOKEN = re.compile(
    r"(?<![\w'])''(?P<doubled>\w[^'\n]*)''(?![\w'])"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
_TAKES_FORMAT = re.compile(r"\bstrftime\s*\(\s*\Z", re.IGNORECASE)

_VERBS = (
    r"(?:select|values|insert|update|delete|create|drop|alter|attach|pragma|replace|explain|vacuum"
    r"|with\s+(?:recursive\s+)?\w+\s*(?:\([^()]*\)\s*)?as)\b"
)
_BEGINS = re.compile(rf"(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/|\()*{_VERBS}", re.IGNORECASE)
_LINE = re.compile(rf"^[ \t>*`_]*(?:[A-Za-z ]{{1,40}}:[ \t*`]*)?(?={_VERBS})", re.I | re.M)
_GOES_ON = re.compile(
    r"\s*(?:[(),]|--|(?:select|from|where|and|or|group|order|having|limit|join|left|inner|cross"
    r"|union|intersect|except|on|with)\b)",
    re.IGNORECASE,
)
_TAG = re.compile(r"<sql>((?:(?!<sql>).)*?)(?:</sql>|\Z)", re.IGNORECASE | re.DOTALL)
_TAGS = re.compile(r"<\s{0,3}(/?)\s{0,3}sql\s{0,3}>", re.IGNORECASE)
_LAST_TAG = re.compile(r"<sql>\s*\Z")
_QUOTED_VERB = re.compile(rf"`({_VERBS})`", re.IGNORECASE)
_PUBLISHED_TAG = re.compile(r"<\s*sql\s*>(.*?)</?\s*sql\s*>", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"```(.*?)(?:```|\Z)", re.DOTALL)
_WRAPPING = re.compile(r"\A[\s`]*(?:sql(?:ite3?)?\s)?\s*|[\s`]+\Z", re.IGNORECASE)
_ABSTAINS = re.compile(
    r"^[^\w\n]{0,9}(?:(?:the )?(?:final )?answer(?: is)?[^\w\n]{1,6}|th(?:e|is) question is )?"
    rf"{ABSTENTION}(?:[^\w\n]{{0,9}}$|[.:;,\u2013\u2014]|[ \t]+(?:-|(?:because|as|since)\b))",
    re.IGNORECASE | re.MULTILINE,
)


# Completion -> query -----------------------------------------------------------------------


@lru_cache(maxsize=256)
def read_answer(completion: str, *, is_cut: bool = False) -> str | None:
    """Return the query of a completion, ABSTENTION, or None where neither or both are stated.

    A query is in <sql> tags, in a fence (of several the last counts), or as bare text. An opening
    tag at the end closes, as in the published pattern. `is_cut`: the output budget ended the
    completion, so that a query without its end is none.
    """
    text = _TAGS.sub(r"<\1sql>", _QUOTED_VERB.sub(r"\1", visible_text(completion)))
    text = text if is_cut else _LAST_TAG.sub("</sql>", text)
    if is_cut and _has_open_query(text):
        return None
    query, rest = _marked(text)
    if not query and not _ABSTAINS.search(rest):
        query, rest = _bare(rest)
    if _ABSTAINS.search(rest):
        return None if query else ABSTENTION
    if query.count("`") % 2 and f"{query}`" in text:  # the mark closes a name, not the query
        query += "`"
    return query or None


def _has_open_query(text: str) -> bool:
    """Return whether the last query of a text has no closing tag, fence or semicolon."""
    closes = _TAGS.findall(text)
    if closes or "```" in text:
        return closes[-1:] == [""] or text.count("```") % 2 == 1
    begin = _LINE.search(text)
    return begin is not None and _semicolon(text[begin.end() :]) is None


def _marked(text: str) -> tuple[str, str]:
    """Return the last query in tags, else in a fence, and all text that is not a query."""
    for pattern in (_TAG, _FENCE):
        found = [_WRAPPING.sub("", m[1]) for m in pattern.finditer(text)]
        queries = [
            inner
            for inner in found
            if (pattern is _TAG and inner and not _ABSTAINS.fullmatch(inner))
            or _BEGINS.match(inner)
        ]
        others = [inner for inner in found if inner not in queries]
        if queries or any(map(_ABSTAINS.fullmatch, others)):
            rest = "\n".join([pattern.sub("\n", text), *others])
            return (queries[-1] if queries else "", rest)
    return "", text


def _bare(text: str) -> tuple[str, str]:
    """Return the query that is in plain text, and the text around it."""
    begin = _LINE.search(text)
    if not begin:
        return "", text
    first, *further = re.split(r"\n[ \t]*\n", text[begin.end() :])
    kept = [first]
    for block in further:
        if ";" in kept[-1] or not _GOES_ON.match(block):
            break
        kept.append(block)
    query = "\n\n".join(kept)
    end = begin.end() + len(query)
    if (stop := _semicolon(query)) is not None and not _BEGINS.match(query[stop + 1 :]):
        query, end = query[:stop], begin.end() + stop + 1
    return query.strip(" \t\n`*"), text[: begin.start()] + "\n" + text[end:]


def _semicolon(query: str) -> int | None:
    hidden = [(m.start(), m.end()) for m in _TOKEN.finditer(query)]
    for match in re.finditer(";", query):
        if not any(start <= match.start() < end for start, end in hidden):
            return match.start()
    return None


# Upstream's rewrites -----------------------------------------------------------------------


@lru_cache(maxsize=8192)
def prepare_sql(sql: str) -> str:
    """Return a query as upstream's evaluator rewrites gold and model alike before it runs.

    Lower case; current_time and the threshold names become values; doubled quotes become one,
    `< =` becomes `<=`, %y and %j in formats of strftime become %Y and %J. Unlike upstream's,
    these rewrites know what is a text: an escaped quote and an empty text stay, and so does the
    case of a format (%M is not a month).
    """
    parts: list[str] = []
    at = 0
    for match in _TOKEN.finditer(sql):
        before = _rewrite(sql[at : match.start()])
        parts.append(before)
        at = match.end()
        if match["comment"]:
            parts.append(" ")
            continue
        text = match["text"] or f"'{match['doubled']}'"
        if _TAKES_FORMAT.search(before):
            parts.append(text.replace("%y", "%Y").replace("%j", "%J"))
        elif text[1:-1].lower() == "current_time":
            parts.append(_NAMES["current_time"])
        else:
            parts.append(text.lower())
    return "".join([*parts, _rewrite(sql[at:])]).strip()


def _rewrite(code: str) -> str:
    return _NAME.sub(lambda m: _NAMES[m[0]], code.lower()).replace("< =", "<=")


# Metrics -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _OnDatabase(Metric):
    """A metric that runs queries on the database that `answer_key` names, in a sandbox."""

    version: str = "2"
    source: str = _SOURCE
    folder: Path | None = None
    """The path of the database, filled by `prepare`."""
    seconds: float = 2.0
    """Processor time of one query, of the gold's too."""

    def prepare(self, folder: Path) -> Metric:
        """Return the metric for the database below `folder`."""
        return replace(self, folder=folder)

    def _sandbox(self, instance: Instance) -> Sandbox:
        name, sha256 = (_key_of(instance, key) for key in ("database", "database_sha256"))
        if self.folder is None:
            raise DataError(f"{self.name}: the folder of {name} is not known; call prepare first")
        path = self.folder / Path(name).name
        return open_sandbox(path, sha256=sha256, now=NOW, seconds=self.seconds)


@dataclass(frozen=True, kw_only=True)
class _OfAnswer(Metric):
    """A metric of the query, or the abstention, that a completion states."""

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1, `unparsed`, or `uninformative` whatever the answer is."""
        if why := self.says_nothing(instance):
            return Score(value=None, outcome="uninformative", reason=why)
        answer = read_answer(episode.text, is_cut=episode.finish == "length")
        if answer is None:
            reason = f"neither a query nor {ABSTENTION} is stated, or both are"
            return Score(value=None, outcome="unparsed", reason=reason)
        return self.of(instance, answer)

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return 0, or `uninformative` where no answer would have counted."""
        if why := self.says_nothing(instance):
            return Score(value=None, outcome="uninformative", reason=why)
        return super().floor_score(instance, outcome, reason)

    def says_nothing(self, instance: Instance) -> str:
        """Return why any answer is as good as another; empty where it is not."""
        return ""

    @abstractmethod
    def of(self, instance: Instance, answer: str) -> Score:
        """Return the score of a query or of ABSTENTION."""


@dataclass(frozen=True, kw_only=True)
class ExecutionAccuracy(_OnDatabase, _OfAnswer):
    """1 where a query gives the gold's rows, and where an unanswerable question is declined.

    Rows count as often as they occur; their order counts where the gold orders them. Questions
    whose gold gives no row on the database are uninformative: any query without rows is as good.
    """

    name: str = "ehrsql_execution_accuracy"
    version: str = "4"

    def says_nothing(self, instance: Instance) -> str:
        """Return why the gold's rows say nothing."""
        gold = self._gold(instance) if _is_answerable(instance) else None
        if gold is None or gold.rows:
            return ""
        if gold.status == "rows":
            return "the gold query gives no row on this database"
        return f"the gold query does not run on this database ({gold.status})"

    def of(self, instance: Instance, answer: str) -> Score:
        """Return 1 for the gold's rows, or the gold's abstention."""
        gold = instance.references[0]
        if ABSTENTION in (answer, gold):
            return _score(answer == gold, answer)
        found = _run(self._sandbox(instance), prepare_sql(answer))
        if found.status != "rows":
            return _score(False, answer, f"the query {found.status}: {found.detail}")
        rows = self._gold(instance).rows
        return _score(same_rows(rows, found.rows, ordered=is_ordered(gold)), answer)

    def _gold(self, instance: Instance) -> QueryResult:
        return _run_gold(self._sandbox(instance), prepare_sql(instance.references[0]))


@dataclass(frozen=True, kw_only=True)
class PublishedExecutionAccuracy(_OnDatabase):
    """The published rule: queries as written, sets of rows, and nothing right without rows.

    Where the gold gives no row, the constants of the question replace its result, which no
    rows equal; where there are none, an empty completion is right. Our declared abstention is
    read as the empty completion that the published prompt asks for.
    """

    name: str = "ehrsql_execution_accuracy"
    scoring: Literal["fixed", "helm"] = "helm"
    source: str = "HELM, ehr_sql_metrics"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1."""
        sql = _published_query(episode.text)
        if sql == ABSTENTION or not episode.text.strip():
            return _score(self._is_right_when_empty(instance), sql)
        gold = self._gold(instance)
        found = _run(self._sandbox(instance), sql)
        is_right = bool(gold) and set(found.rows) == gold
        return _score(is_right, sql, found.detail)

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return what the published rule gives an empty completion, whatever made it empty."""
        value = float(self._is_right_when_empty(instance))
        return Score(value=value, outcome=outcome, reason=reason)

    def _is_right_when_empty(self, instance: Instance) -> bool:
        if not _is_answerable(instance):
            return True
        return not self._gold(instance) and _key_of(instance, "constants") == "0"

    def _gold(self, instance: Instance) -> set[tuple[Any, ...]]:
        if not _is_answerable(instance):
            return set()
        return set(_run_gold(self._sandbox(instance), instance.references[0]).rows)


@dataclass(frozen=True, kw_only=True)
class QueryValidity(_OnDatabase, _OfAnswer):
    """1 where an answerable question is answered by a query that runs, whatever it gives."""

    name: str = "ehrsql_query_validity"
    version: str = "4"

    def says_nothing(self, instance: Instance) -> str:
        """Return that an unanswerable question has no query that could be valid."""
        return "" if _is_answerable(instance) else "an unanswerable question has no query"

    def of(self, instance: Instance, answer: str) -> Score:
        """Return 1 where the query runs."""
        if answer == ABSTENTION:
            return _score(False, answer)
        found = _run(self._sandbox(instance), prepare_sql(answer))
        return _score(found.status == "rows", answer, found.detail)


@dataclass(frozen=True, kw_only=True)
class PublishedQueryValidity(_OnDatabase):
    """The published rule: 1 where a query runs as written, whatever is asked and whatever it gives.

    Unanswerable questions count too, and so does a comment without a query. Our declared
    abstention is read as the empty completion that the published prompt asks for. A statement
    that does more than read counts 0, since it is not run here.
    """

    name: str = "ehrsql_query_validity"
    scoring: Literal["fixed", "helm"] = "helm"
    source: str = "HELM, ehr_sql_metrics"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1."""
        sql = _published_query(episode.text)
        if sql in ("", ABSTENTION):
            return _score(False, sql, "no query")
        if not _TOKEN.sub(lambda m: "" if m["comment"] else m[0], sql).strip(" ;\n"):
            return _score(True, sql, "SQLite runs a comment without an error")
        found = _run(self._sandbox(instance), sql)
        return _score(found.status == "rows", sql, found.detail)


@dataclass(frozen=True, kw_only=True)
class AbstentionAccuracy(_OfAnswer):
    """1 where a question is declined exactly if it is unanswerable, right query or not."""

    name: str = "ehrsql_abstention_accuracy"
    version: str = "4"
    source: str = _SOURCE

    def of(self, instance: Instance, answer: str) -> Score:
        """Return 1 where both decline, or neither."""
        return _score((answer == ABSTENTION) != _is_answerable(instance), answer)


@dataclass(frozen=True, kw_only=True)
class CanonicalMatch(_OfAnswer):
    """1 where the query is the gold's in canonical form, on every question, rows or none.

    The form evens out case, quotes, comments, aliases, left-out table names and the order of
    conditions (sqlglot). It needs no database, and is strict: another way to the same rows is 0.
    """

    name: str = "ehrsql_canonical_match"
    version: str = "4"
    source: str = "sqlglot"
    is_slow: bool = True

    def of(self, instance: Instance, answer: str) -> Score:
        """Return 1 for the gold's canonical form, or the gold's abstention."""
        if ABSTENTION in (answer, instance.references[0]):
            return _score(answer == instance.references[0], answer)
        gold, found = prepare_sql(instance.references[0]), prepare_sql(answer).rstrip("; \n")
        return _score(same_query(gold, found, instance.context), answer)


def _published_query(completion: str) -> str:
    """Return what HELM runs: what the first tags enclose, else all of the text, without fences."""
    tag = _PUBLISHED_TAG.search(completion)
    sql = (tag[1] if tag else completion).replace("`", "").strip()
    return re.sub(r"^sql\n", "", sql, flags=re.MULTILINE)


@lru_cache(maxsize=4096)
def _run_gold(sandbox: Sandbox, sql: str) -> QueryResult:
    return sandbox.query(sql)


@lru_cache(maxsize=16)
def _run(sandbox: Sandbox, sql: str) -> QueryResult:
    """Run a model's query. The metrics that come next over the same answer find it here."""
    return sandbox.query(sql)


def _is_answerable(instance: Instance) -> bool:
    if not instance.references:
        raise DataError(f"instance {instance.id!r}: references must hold a query or {ABSTENTION}")
    return instance.references[0] != ABSTENTION


def _key_of(instance: Instance, key: str) -> str:
    if key not in instance.answer_key:
        raise DataError(f"instance {instance.id!r}: answer_key[{key!r}] is missing for EHRSQL")
    return instance.answer_key[key]


def _score(is_right: bool, answer: str, reason: str = "") -> Score:
    return Score(value=float(is_right), extracted=answer[:_SHOWN], reason=reason)


@hookimpl
def medhelm_metrics() -> Iterable[Metric]:
    """Return execution accuracy and query validity by both rules, and two metrics of our own."""
    return [
        ExecutionAccuracy(),
        PublishedExecutionAccuracy(),
        QueryValidity(),
        PublishedQueryValidity(),
        AbstentionAccuracy(),
        CanonicalMatch(),
    ]
