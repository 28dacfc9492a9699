"""Those who rate the actions of cases, against each other and against the ratings of the cases."""
