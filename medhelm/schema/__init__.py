"""The types that several packages share, by stage: data, model, episode, score, run."""
