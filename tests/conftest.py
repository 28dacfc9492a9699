"""Settings that hold for every test."""

from hypothesis import settings

# A busy machine is no defect: what must be fast is measured in perf/, not timed in tests.
settings.register_profile("medhelm", deadline=None)
settings.load_profile("medhelm")
