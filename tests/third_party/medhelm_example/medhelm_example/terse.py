"""An asking: the letter and nothing else."""

from medhelm import Asking, hookimpl


@hookimpl
def medhelm_askings() -> list[Asking]:
    return [Asking(name="terse", instruction="Reply with the letter and nothing else.")]
