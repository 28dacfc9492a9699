"""ROUGE-1, ROUGE-2 and ROUGE-L against the reference. Of several references the best one counts."""

from dataclasses import dataclass

from medhelm import Episode, Instance, Metric, Outcome, Score, hookimpl, rouge_scores, visible_text

_NO_REFERENCE = Score(value=None, outcome="uninformative", reason="there is no reference")


@dataclass(frozen=True, kw_only=True)
class Rouge(Metric):
    """The F-measure of one kind of ROUGE, with the Porter stemmer."""

    kind: str
    version: str = "2"
    is_slow: bool = True
    is_as_published: bool = True
    source: str = "Lin 2004, ROUGE; implementation rouge-score, use_stemmer=True"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the best F-measure over the references. Without one the gold says nothing."""
        golds = [r for r in instance.references if r.strip()]
        if not golds:
            return _NO_REFERENCE
        if not (answer := visible_text(episode.text)):
            return Score(value=None, outcome="unparsed", reason="nothing but thinking")
        return Score(value=max(rouge_scores(gold, answer)[self.kind] for gold in golds))

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return 0, or `uninformative` where no answer would have counted."""
        if not any(r.strip() for r in instance.references):
            return _NO_REFERENCE
        return Score(value=self.floor, outcome=outcome, reason=reason)


@hookimpl
def medhelm_metrics() -> list[Metric]:
    return [
        Rouge(name="rouge_l", kind="rougeL"),
        Rouge(name="rouge_1", kind="rouge1"),
        Rouge(name="rouge_2", kind="rouge2"),
    ]
