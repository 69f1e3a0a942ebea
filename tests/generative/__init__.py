"""Random graphs, placements and schedules by the thousand: `python -m tests.generative --count 1000000`."""
