"""Grade one reply as if it were an episode of one call."""

from __future__ import annotations

from medhelm.grading import grade as core
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from medhelm.schema.score import Metric, Score


def said(text: str) -> Response:
    """Return a reply."""
    return Response(instance_id="i", text=text)


def grade(metric: Metric, instance: Instance, response: Response) -> Score:
    """Return what a metric says of a response."""
    return core.grade(metric, Episode(instance=instance, response=response))
