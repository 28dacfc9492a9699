"""The types that cross a border between rooms, by stage: data, model, episode, score, run."""
