"""Imports go one way, and each third party stays where it belongs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    "errors display",
    "topology",
    "ir",
    "ops",
    "passes dsl",
    "program",
    "runtime",
    "backends",
    "tools",
    "examples",
)
RANK = {name: k for k, names in enumerate(LAYERS) for name in names.split()}

# Imports inside a function that go up or would be circular: the printers of what they print.
LAZY = {
    ("vxgraph/ir/graph.py", "vxgraph.ir.text"),
    ("vxgraph/program/model.py", "vxgraph.program.bill"),
    ("vxgraph/program/model.py", "vxgraph.program.text"),
}

# The one import upward at a module's head: the backends that are there even where nothing is installed.
UPWARD = {
    ("vxgraph/runtime/binding.py", "vxgraph.runtime.backends.cupy"),
    ("vxgraph/runtime/binding.py", "vxgraph.runtime.backends.numpy"),
    ("vxgraph/runtime/binding.py", "vxgraph.runtime.backends.sanitizer"),
}

# Where a third party may be imported: folders and files, relative to the repository.
THIRD_PARTIES = {
    "numpy": (
        "vxgraph/ir/types.py",
        "vxgraph/ops/",
        "vxgraph/dsl/",
        "vxgraph/passes/canonicalise.py",
        "vxgraph/runtime/",
        "vxgraph/tools/",
        "examples/",
    ),
    "ml_dtypes": ("vxgraph/ir/types.py", "vxgraph/runtime/backends/", "examples/llama2/weights/"),
    "pydantic": (
        "vxgraph/topology/tables.py",
        "vxgraph/tools/target.py",
        "vxgraph/tools/trace_file.py",
        "examples/llama2/config.py",
        "examples/llama2/weights/",
        "examples/llama2/tokenizer/",
    ),
    "networkx": ("vxgraph/topology/routes.py",),
    "graphviz": ("vxgraph/tools/draw/",),
    "graphviz_pure": ("vxgraph/tools/draw/",),
    "typer": ("vxgraph/tools/", "examples/llama2/"),
    "click": ("vxgraph/tools/", "examples/llama2/"),
    "rich": ("vxgraph/tools/", "examples/llama2/"),
    "cupy": ("vxgraph/runtime/backends/cupy/",),
    "cupy_backends": ("vxgraph/runtime/backends/cupy/",),
    "gguf": ("examples/llama2/",),
    "safetensors": ("examples/llama2/",),
    "tokenizers": ("examples/llama2/",),
    "jinja2": ("examples/llama2/",),
}
FILES = sorted(p.relative_to(ROOT).as_posix() for top in ("vxgraph", "examples") for p in (ROOT / top).rglob("*.py"))


def imports(path: str) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether a function does it; what only type checkers see is left out."""
    pending: list[tuple[ast.AST, bool]] = [(ast.parse((ROOT / path).read_text(encoding="utf-8")), False)]
    while pending:
        node, lazy = pending.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pending += [(n, lazy) for n in node.orelse]
                continue
            case ast.Import(names=names):
                yield from ((alias.name, lazy) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                inner = [f"{module}.{alias.name}" for alias in names]
                # `from vxgraph import ops` imports vxgraph.ops, and the whole package only in name.
                yield from ((name, lazy) for name in (inner if module in ("vxgraph", "examples") else [module]))
            case ast.ImportFrom():
                pytest.fail(f"{path}:{node.lineno}: a relative import")
            case _:
                pass
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]


def layer(module: str) -> str:
    """`vxgraph.runtime.backends.numpy` is of layer `backends`."""
    parts = module.removesuffix(".py").replace("/", ".").split(".")
    if parts[0] == "examples":
        return "examples"
    if parts[1:3] == ["runtime", "backends"]:
        return "backends"
    return parts[1]


def test_every_file_is_of_a_layer():
    assert {layer(p) for p in FILES if p != "vxgraph/__init__.py"} - set(RANK) - {"__main__"} == set()


@pytest.mark.parametrize("path", [p for p in FILES if p.split("/")[1] not in ("__init__.py", "__main__.py")])
def test_a_file_imports_only_what_stands_before_it(path: str):
    for module, lazy in imports(path):
        if not module.startswith(("vxgraph.", "examples.")) or (path, module) in (LAZY if lazy else UPWARD):
            continue
        mine, other = layer(path), layer(module)
        assert other in RANK, f"{path} imports {module} from the package's front"
        assert RANK[other] < RANK[mine] or mine == other, f"{path} ({mine}) imports {module} ({other})"
        assert not (lazy and path.startswith(("vxgraph/ir/", "vxgraph/ops/", "vxgraph/passes/", "vxgraph/dsl/")))


@pytest.mark.parametrize("path", FILES)
def test_a_third_party_stays_where_it_belongs(path: str):
    for module, _ in imports(path):
        places = THIRD_PARTIES.get(module.partition(".")[0])
        assert places is None or path.startswith(places), f"{path} imports {module}; it belongs in {', '.join(places)}"


def test_every_lazy_import_that_is_allowed_is_there():
    found = {(path, module) for path in FILES for module, lazy in imports(path) if lazy}
    assert found >= LAZY
