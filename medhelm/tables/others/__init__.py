"""Tables of scores that other tools gave, or others published, beside ours."""
