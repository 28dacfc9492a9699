"""A metric: share of completions of at most 20 characters."""

from dataclasses import dataclass

from medhelm import Episode, Instance, Metric, Score, hookimpl


@dataclass(frozen=True, kw_only=True)
class Length(Metric):
    """1 where the completion has at most 20 characters, else 0."""

    name: str = "example_length"
    source: str = "this package"

    def score(self, instance: Instance, episode: Episode) -> Score:
        return Score(value=float(len(episode.text) <= 20))


@hookimpl
def medhelm_metrics() -> list[Metric]:
    return [Length()]
