"""Texts are compared with references: ROUGE, BERTScore, metrics of `evaluate`, words."""
