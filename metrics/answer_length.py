"""The length of an answer, for controls of verbosity: no score."""

from dataclasses import dataclass

from medhelm import Episode, Instance, Metric, Score, hookimpl, visible_text


@dataclass(frozen=True, kw_only=True)
class AnswerCharacters(Metric):
    """The characters of the visible answer; more is not better."""

    name: str = "answer_characters"
    maximum: float = 1e9
    source: str = "Zheng et al. 2026, rubric coverage (arXiv 2603.02097), table 11"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the length of the text without thinking."""
        return Score(value=float(len(visible_text(episode.text))))


@hookimpl
def medhelm_metrics() -> list[Metric]:
    return [AnswerCharacters()]
