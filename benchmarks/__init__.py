"""Benchmarks: time, peak memory and quality, against other packages on named problems."""
