"""Commands for cases with criteria."""
