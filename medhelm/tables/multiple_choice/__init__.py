"""Tables of multiple-choice questions that are asked in several forms."""
