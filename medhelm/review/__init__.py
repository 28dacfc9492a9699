"""Review by clinicians in a browser: marks that are on the disk at once, and the server of one page."""
