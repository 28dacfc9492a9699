"""The benchmarks that come with medhelm, one file each."""
