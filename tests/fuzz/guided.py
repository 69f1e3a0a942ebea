"""Guided by coverage: libFuzzer through atheris, in a process of its own for each target."""

from __future__ import annotations

import importlib.util

HOW_TO_GET_IT = "not guided by coverage, as atheris is not installed: pip install 'vxgraph[fuzz]'"


def is_installed() -> bool:
    return importlib.util.find_spec("atheris") is not None
