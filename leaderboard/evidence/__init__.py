"""The evidence on one model, as a folder that can be filed: `medhelm report`."""
