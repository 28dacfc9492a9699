"""Why criteria are not met: seven types of failure, labelled by hand or by a model, and their counts."""
