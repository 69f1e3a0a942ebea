"""What the pages name is there: files, links, and a line on the architecture page for every module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
# The architecture page names these as folders.
FOLDERS = ("runtime/backends", "tools/commands", "tools/draw", "tools/viewer")
NAMED = re.compile(r"`((?:vxgraph|tests|examples|docs)/[\w./-]*)`")


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_file_and_link_of_a_page_is_there(page: Path):
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", prose(page))
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [name for name in NAMED.findall(prose(page)) if not (ROOT / name).exists()] == []


def test_the_architecture_page_has_a_line_for_every_module():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `vxgraph/(\w+)/`.*?\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE))
    named = {f"{section}/{name}" for section, body in sections.items() for name in re.findall(r"`(\w+\.py)`", body)}
    package = ROOT / "vxgraph"
    modules = {path.relative_to(package).as_posix() for path in package.glob("*/**/*.py") if path.name != "__init__.py"}
    assert named == {module for module in modules if not module.startswith(FOLDERS)}


def test_decisions_are_numbered_without_a_gap_and_say_why():
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    assert [path.name[:4] for path in decisions] == [f"{k:04d}" for k in range(1, len(decisions) + 1)]
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:4]}. ")
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
