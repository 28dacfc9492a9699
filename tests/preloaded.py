"""What the commands of `tests.processes` import, imported once."""

from medhelm.plugins.registry import load_registry

load_registry()
