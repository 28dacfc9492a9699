"""Work beside this process: on the cores of this machine, or by tasks of a Ray cluster."""
