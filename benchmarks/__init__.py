"""Benchmarks, run by hand: `python -m benchmarks.NAME` from the root of a checkout. README.md says what each shows."""
