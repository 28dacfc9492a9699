"""Files of other tools: their answers become runs here, requests of ours are answered elsewhere."""
