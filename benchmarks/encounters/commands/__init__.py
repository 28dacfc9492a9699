"""Commands of encounters, each imported when it is called."""
