"""The smallest example runs as its own text says."""

from __future__ import annotations

import re

import pytest

from examples.mlp import main


def test_the_example_prints_what_crossed_and_agrees_with_numpy(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    *report, last = capsys.readouterr().out.splitlines()
    assert report == [
        "gpu:0 on numpy:gpu:0: 2 dispatches",
        "gpu:1 on numpy:gpu:1: 1 dispatches",
        "host -> gpu:0: 1 transfers, planned 256 bytes, observed 256",
        "gpu:0 -> gpu:1: 1 transfers, planned 1,024 bytes, observed 1,024",
        "gpu:1 -> host: 1 transfers, planned 256 bytes, observed 256",
    ]
    found = re.fullmatch(r"largest difference from NumPy: (.*)", last)
    assert found is not None
    assert float(found[1]) < 1e-4
