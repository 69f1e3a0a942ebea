"""`import vxgraph` is light: it loads none of the heavy third parties, and neither does building a graph."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("cupy", "networkx", "graphviz", "graphviz_pure", "pydantic", "typer", "rich")
BUILD = """
with vx.Graph("mlp") as g, vx.on(vx.GPU[0]):
    x, w = vx.input("x", vx.f32[1, 4]), vx.param("w", vx.f32[4, 4])
    (y,), _ = vx.loop(lambda a: (vx.silu(a @ w),), [x], max_steps=3)
    vx.output("y", y.to(vx.GPU[1]))
g.text()
"""


PARSE = """
vx.parse_graph('graph "g" { arg %x : f32[2] %y = neg(%x) : f32[2] result "y" = %y }')
"""


@pytest.mark.parametrize(
    "then", ["", PARSE, BUILD, BUILD + "vx.parse_graph(g.text())"], ids=["import", "parse", "build", "print and parse"]
)
def test_importing_and_building_load_no_heavy_package(then: str):
    code = f"import sys\nimport vxgraph as vx\n{then}\nprint(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_name_of_the_front_is_there_and_an_unknown_one_is_an_attribute_error():
    import vxgraph as vx

    for name in vx.__all__:
        assert getattr(vx, name) is not None
    assert len(vx.__all__) == len(set(vx.__all__))
    with pytest.raises(AttributeError, match="module 'vxgraph' has no attribute 'transferr'"):
        vx.transferr  # noqa: B018


def test_every_name_of_the_dsl_is_a_name_of_the_package() -> None:
    import vxgraph as vx
    import vxgraph.dsl

    assert set(vxgraph.dsl.__all__) <= set(vx.__all__)
    assert all(getattr(vx, name) is getattr(vxgraph.dsl, name) for name in vxgraph.dsl.__all__)
