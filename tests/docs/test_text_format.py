"""The grammar of docs/text-format.md against the two parsers: what does not fit the one is refused by the other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from lark import Lark, UnexpectedInput

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.model import PLACEMENTS, build
from vxgraph.ir.lexer import Reader
from vxgraph.program.compile import place_graph

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "text-format.md").read_text(encoding="utf-8")
PARSERS = {"graph": vx.parse_graph, "program": vx.parse_program}


def block(pattern: str) -> str:
    found = re.search(rf"^```{pattern}.*?^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found, pattern
    return found[0].partition("\n")[2].removesuffix("```")


GRAPH = block("graph example.vxg")
PROGRAM = block('text\nprogram "example"')
GRAMMAR = Lark(block("lark"), start=["graph", "program"], parser="lalr")


def fits_the_grammar(text: str, start: str) -> bool:
    try:
        GRAMMAR.parse(text, start=start)
    except UnexpectedInput:
        return False
    return True


def refusal(text: str, start: str) -> str:
    """The parser's complaint, or nothing."""
    try:
        PARSERS[start](text)
    except vx.VxError as error:
        return error.message
    return ""


def without_a_token(text: str) -> list[str]:
    """The text with one token left out, for every third token."""
    tokens = Reader(text, "").texts[:-1]
    return [" ".join(tokens[:k] + tokens[k + 1 :]) for k in range(0, len(tokens), 3)]


def with_a_token_twice(text: str) -> list[str]:
    """The text with one token doubled, for every third token."""
    tokens = Reader(text, "").texts[:-1]
    return [" ".join([*tokens[: k + 1], *tokens[k:]]) for k in range(1, len(tokens), 3)]


@pytest.mark.parametrize(("text", "start"), [(GRAPH, "graph"), (PROGRAM, "program")], ids=["graph", "program"])
@pytest.mark.parametrize("damaged", [without_a_token, with_a_token_twice])
def test_the_grammar_and_the_parser_refuse_the_same_damage(text: str, start: str, damaged):
    text = re.sub(r'  digest ".*"\n', "", text)
    for broken in damaged(text):
        complaint = refusal(broken, start)
        assert fits_the_grammar(broken, start) or complaint, broken
        assert not (fits_the_grammar(broken, start) and complaint.startswith("expected")), (broken, complaint)


@pytest.mark.parametrize("place", PLACEMENTS)
def test_the_grammar_reads_a_model_at_every_stage(place: str):
    machine = vx.load_machine("cpu-x2")
    config = replace(preset("stories15m"), layers=2)
    graph = build(config, PLACEMENTS[place](machine, config.layers), max_len=32)
    texts = [graph.text(), place_graph(graph, machine).text()]
    assert all(fits_the_grammar(text, "graph") for text in texts)
    assert [vx.parse_graph(text).text() for text in texts] == texts
    program = vx.compile(graph, machine).text()
    assert fits_the_grammar(program, "program")
    assert vx.parse_program(program).text() == program


@pytest.mark.parametrize("text", ['graph "g" {', 'graph "g" { result "a" = %b emit "c" = %d }', "graph g { }"])
def test_what_is_no_graph_fits_neither(text: str):
    assert refusal(text, "graph")
    assert not fits_the_grammar(text, "graph")
