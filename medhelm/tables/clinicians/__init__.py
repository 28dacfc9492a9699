"""Tables that compare raters: clinicians, judges, metrics, and the sheets that they fill in."""
