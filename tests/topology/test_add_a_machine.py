"""docs/add-a-machine.md is executed: its file, its session and its error are what a reader gets."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vxgraph.errors import MachineError
from vxgraph.topology.load import load_machine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-a-machine.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "box.toml").write_text(blocks("toml")[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def test_the_pages_session_prints_what_the_page_says(folder: Path):
    command = [sys.executable, "-c", blocks("python")[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert (done.stdout, done.stderr) == (blocks("text")[0], "")


def test_the_pages_mistake_is_reported_as_the_page_says(folder: Path):
    (folder / "box.toml").write_text(blocks("toml")[0].replace('dst = "vram"', 'dst = "hbm9"'))
    with pytest.raises(MachineError) as error:
        load_machine("box.toml")
    assert f"{error.value}\n" == blocks("text")[1]
