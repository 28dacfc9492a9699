"""An interview: one model asks, the model under test answers, a third says when it is enough."""
