"""The gallery shows what its script makes today."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import vxgraph as vx

DOCS = Path(__file__).parents[2] / "docs"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


GALLERY = script()


@pytest.mark.parametrize("picture", GALLERY.PICTURES, ids=lambda p: p.name)
def test_a_drawing_is_what_the_compiler_draws_today(picture: object, tmp_path: Path) -> None:
    vx.draw(picture.program(), tmp_path / "new.svg")  # type: ignore[attr-defined]
    shown = DOCS / "images" / f"{picture.name}.svg"  # type: ignore[attr-defined]
    assert shown.read_bytes() == (tmp_path / "new.svg").read_bytes(), "run python docs/gallery.py, and look"


def test_the_page_is_what_the_script_writes() -> None:
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == GALLERY.text()


def test_every_picture_of_the_docs_is_one_of_the_gallery() -> None:
    names = {f"{p.name}.svg" for p in GALLERY.PICTURES} | {f"{s.name}.png" for s in GALLERY.SCREENSHOTS}
    assert {p.name for p in (DOCS / "images").iterdir()} == names
