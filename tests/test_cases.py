"""Failures that other systems had, and the tests that show that they are not ours.

Each failure has an id. `@pytest.mark.case("P01")` on a test says that it asserts what is right there; a case of CORE
has such a test that runs on any machine.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent

CORE = {
    "P01": "an operand that two places read",
    "P02": "one transfer per value and destination, of graph inputs too",
    "P03": "what does not change is not moved in every step",
    "P07": "device ids that are not there, or that a mask renumbers",
    "P08": "names used twice, and cycles",
    "P09": "the same plan in every process",
    "R01": "a driver that says that peer copies work",
    "R02": "a copy through the host is ordered on both sides",
    "R04": "the current device of threads and of the caller",
    "R05": "a copy that ignores its stream",
    "R06": "memory that is freed or reused while another stream reads it",
    "R09": "tensors of no bytes, and negative strides",
    "N01": "which key head serves which query head",
    "N02": "RMS normalisation in half precision",
    "N04": "rotary angles in low precision",
    "N05": "the two rotary layouts, and the rows of keys",
    "N06": "the rotary base and its scaling",
    "N08": "tied and untied output weights",
    "N09": "checkpoints that are damaged, or of another dtype",
    "N10": "the Llama tokenizer's quirks",
    "D01": "the position after the hand-over",
    "D02": "a hand-over of the valid rows",
    "D03": "a cache's layout or dtype differs between the sides",
    "D04": "a layer's cache lives where the layer runs",
    "D05": "decoding beyond the context",
}
EXTRA = {
    "P05": "a leaf that is larger than a device",
    "P06": "a cache that is not in the plan",
    "P10": "graphs deeper than Python's stack",
    "R03": "allocators, and a runtime that is opened twice",
    "R11": "opposite transfers",
    "N11": "dtypes and sums that differ between backends",
    "D07": "a decoder that computes the prompt itself",
}
# Marks and fixtures of tests that do not run everywhere.
SOMEWHERE = {"gpu", "model", "skip", "skipif", "needs_cases", "needs_stories"}


class Marked(NamedTuple):
    """A test with a case's mark."""

    case: str
    test: str
    anywhere: bool


FILES = [path for path in sorted(TESTS.rglob("test_*.py")) if path != Path(__file__)]


@cache
def marked() -> tuple[Marked, ...]:
    """Every case's mark, read from the files of the tests."""
    return tuple(mark for path in FILES if "mark.case(" in path.read_text(encoding="utf-8") for mark in _in_file(path))


def _in_file(path: Path) -> Iterator[Marked]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    of_all = [_words(node) for node in body if isinstance(node, ast.Assign) and "pytestmark" in _words(node)]
    for node in body:
        if isinstance(node, ast.FunctionDef):
            limits = SOMEWHERE & _limits(node).union(*of_all)
            for case in _cases(node):
                yield Marked(case, f"{path.relative_to(TESTS)}::{node.name}", not limits)


def _cases(test: ast.FunctionDef) -> Iterator[str]:
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.case":
            (name,) = decorator.args
            yield ast.literal_eval(name)


def _limits(test: ast.FunctionDef) -> set[str]:
    """The words of its marks, and `skip` where its body may."""
    own = [_words(d) for d in test.decorator_list if not {"parametrize", "given"} & _words(d)]  # those mark rows
    return ({"skip"} & set().union(*map(_words, test.body))).union(*own)


def _words(tree: ast.AST) -> set[str]:
    """Names and attributes, such as `gpu` of `pytest.mark.gpu`."""
    return set(re.findall(r"\w+", ast.unparse(tree)))


def test_every_core_case_has_a_test_that_runs_on_any_machine() -> None:
    assert CORE.keys() - {mark.case for mark in marked() if mark.anywhere} == set()


def test_every_case_beside_the_core_has_a_test() -> None:
    assert EXTRA.keys() - {mark.case for mark in marked()} == set()


def test_a_mark_names_a_case_and_stands_on_a_test() -> None:
    assert {mark.case for mark in marked()} - CORE.keys() - EXTRA.keys() == set()
    assert [mark.test for mark in marked() if "::test_" not in mark.test] == []
    assert len(marked()) == sum(path.read_text(encoding="utf-8").count("mark.case(") for path in FILES)
