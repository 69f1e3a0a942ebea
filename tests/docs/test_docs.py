"""Every page of docs/ is played: its files are saved, its code runs, and what it shows is what was printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAYED = ("add-a-backend.md", "add-a-pass.md", "add-an-op.md", "text-format.md", "tour.md")


@pytest.mark.parametrize("name", PLAYED)
def test_a_page_shows_what_running_it_prints(name: str):
    page = ROOT / "docs" / name
    command = [sys.executable, str(Path(__file__).with_name("page.py")), str(page)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == page.read_text(encoding="utf-8")
