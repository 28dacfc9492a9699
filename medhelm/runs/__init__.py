"""Plan a sweep, ask the models, grade what came back, estimate and interrupt."""
