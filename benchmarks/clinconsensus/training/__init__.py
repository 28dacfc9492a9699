"""A judge that is fine-tuned on experts' decisions: rows, split by model, training, held-out fidelity."""
