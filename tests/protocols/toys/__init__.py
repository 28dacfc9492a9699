"""A benchmark whose setting `way` chooses how an episode is conducted: what a core must stand."""
