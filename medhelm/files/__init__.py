"""Files that survive a killed process, that a flipped bit cannot change unseen, and bounded YAML."""
