"""A plugin whose licence has run out."""

raise OSError("the licence server\ndoes not answer")
