"""How one instance is conducted with a model; every protocol returns an `Exchange`."""
