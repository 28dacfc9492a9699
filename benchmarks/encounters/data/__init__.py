"""Cases of encounters from files: folders of role packets, tables, and frozen rubrics."""
