"""Text to a number, a date, or weeks and days: what a reply commits to."""
