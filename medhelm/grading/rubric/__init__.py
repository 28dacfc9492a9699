"""Binary criteria, one decision each: prompts, replies, verdicts, and the scores made of them."""
