"""Golden files, and what hypothesis draws.

`golden(text)` holds a text against `tests/golden/<module>/<test>.txt`.

pytest --update-golden                  writes what the tests give; the diff is then the review
pytest --hypothesis-profile=default     property tests draw other examples each time, and keep those that fail

Without the last, a property test draws the same examples every time: whether the suite passes is a matter of the commit
alone. Searching is for `python -m tests.generative`, `tests.mutants` and `tests.fuzz`, which say their seeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden instead of comparing with it")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`golden(text, name=None)`: the text is what the golden file says. Source lines in it are not compared."""
    module = Path(str(request.node.path)).relative_to(Path(__file__).parent).with_suffix("").as_posix()

    def check(text: str, name: str | None = None) -> None:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", name or request.node.name).strip("-")
        path = GOLDEN / module.replace("/", ".").replace("test_", "") / f"{stem}.txt"
        found = without_source_lines(text)
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found, encoding="utf-8")
        assert path.exists(), f"{path} is not there: look at the text, then run pytest --update-golden\n{found}"
        assert found == path.read_text(encoding="utf-8"), "run pytest --update-golden if this is meant"

    return check


def without_source_lines(text: str) -> str:
    """The text without ` loc "..."`: an edit further up in a test changes no golden file."""
    return re.sub(r' loc "(?:[^"\\]|\\.)*"', "", text)
