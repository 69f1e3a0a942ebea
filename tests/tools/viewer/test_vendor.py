"""The libraries in the page are the ones that vendor/README.md names, byte for byte."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import vxgraph.tools.viewer

VENDOR = Path(vxgraph.tools.viewer.__file__).parent / "vendor"
ROW = re.compile(r"^\| `(\S+)` \| (\S+) (\S+) \| `\S+` \| ([^|]*) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
ROWS = {
    name: (package, licence, sha256)
    for name, package, _, licence, sha256 in ROW.findall((VENDOR / "README.md").read_text())
}


@pytest.mark.parametrize("name", ROWS)
def test_a_vendored_file_has_the_digest_that_the_readme_says(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == ROWS[name][2]


def test_every_vendored_file_stands_in_the_readme() -> None:
    assert sorted(ROWS) == sorted(path.name for path in VENDOR.iterdir() if path.name != "README.md")


def test_every_vendored_script_names_a_licence_whose_text_is_there() -> None:
    named = {name: re.search(r"\(`(\S+)`\)", licence) for name, (_, licence, _) in ROWS.items() if name.endswith(".js")}
    assert {name: found and (VENDOR / found[1]).exists() for name, found in named.items()} == dict.fromkeys(named, True)


@pytest.mark.parametrize("name", [name for name in ROWS if name.endswith(".js")])
def test_a_vendored_script_does_not_end_the_element_that_it_stands_in(name: str) -> None:
    assert "</script" not in (VENDOR / name).read_text(encoding="utf-8").lower()
