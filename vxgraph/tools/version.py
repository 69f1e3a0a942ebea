"""Which vxgraph this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """`0.1.0`, or what it says where it runs from its source."""
    try:
        return version("vxgraph")
    except PackageNotFoundError:
        return "(from its source, not installed)"
