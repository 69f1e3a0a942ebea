"""DOT text as a picture, through the `graphviz-pure` that is installed with vxgraph, or a `dot` that is here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

from vxgraph.errors import VxError

PROGRAMS = ("graphviz-pure", "dot")


def find_renderer() -> str | None:
    """The program that draws: beside this Python first, then on the PATH."""
    beside = str(Path(sys.executable).parent)
    return next(
        (found for name in PROGRAMS for where in (beside, None) if (found := shutil.which(name, path=where))), None
    )


def render(dot: str, format: Literal["svg", "png"], renderer: str) -> bytes:
    """The picture's bytes; VxError where the program fails."""
    done = subprocess.run([renderer, f"-T{format}"], input=dot.encode(), capture_output=True, check=False)
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise VxError(f"{renderer} could not draw {format}: {said[-1] if said else 'it said nothing'}")
    return done.stdout
