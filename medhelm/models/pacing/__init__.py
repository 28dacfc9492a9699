"""When an endpoint gets the next request, and how many it holds at once."""
