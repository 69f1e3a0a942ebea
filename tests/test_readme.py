"""The README's example gives the program text that the README shows, and its commands are real ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import vxgraph as vx

README = (Path(__file__).parent.parent / "README.md").read_text()


def block(language: str) -> str:
    """The first fenced block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def shown(program: vx.Program) -> str:
    """The instructions without reasons and source lines, as the README shows them."""
    lines = program.text().splitlines()
    first, last = lines.index("  load {"), max(k for k, line in enumerate(lines) if line == "  }")
    return "\n".join(re.sub(r" (why|loc) \"[^\"]*\"", "", line[2:]) for line in lines[first : last + 1]) + "\n"


def test_the_example_becomes_the_program_that_is_shown() -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python"), "README.md", "exec"), names)
    assert shown(names["program"]) == block("text")


def test_each_folder_that_the_table_names_is_there() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", README, re.MULTILINE)
    folders = [name for row in rows for name in re.findall(r"`([a-z0-9/]+)`", row)]
    assert len(folders) == 9
    assert [f for f in folders if not (Path(__file__).parent.parent / f).is_dir()] == []


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) >= 9
    assert [link for link in links if not (Path(__file__).parent.parent / link).exists()] == []
