"""What a command works on: a function that builds a graph, or a saved graph or program.

model.py:mlp       called with the values of --set, converted by the parameters' annotations; `machine` is passed
mlp.vxg, mlp.vxp   told apart by their first word, `graph` or `program`
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from vxgraph import dsl
from vxgraph.errors import Loc, VxError
from vxgraph.ir.graph import Graph
from vxgraph.ir.text import parse_graph
from vxgraph.program.compile import Mode, on_machine, plan
from vxgraph.program.model import Program
from vxgraph.program.text import parse_program
from vxgraph.tools.user_code import import_file, in_user_code
from vxgraph.topology.load import shipped_machines
from vxgraph.topology.model import Machine

MACHINE = "machine"  # the parameter that is given the machine and not a --set value


class TargetError(VxError):
    """A command's target cannot be opened, or its --set values do not fit."""


@dataclass(frozen=True)
class Target:
    """Something that becomes a graph or a program once the machine, if one is given, is known."""

    text: str
    build: Callable[[Machine | None], Graph | Program]

    def program(self, machine: Machine | None, *, place: Mode = "auto") -> Program:
        """The proved program, whether it fits or not; only one that is compiled already may be without a machine."""
        made = self.build(machine)
        if isinstance(made, Program):
            return made if machine is None else on_machine(made, machine)
        if machine is None:
            raise TargetError(
                f"{self.text} is a graph, which is placed on a machine first; give one, like -m h200-x2",
                details=(f"shipped: {', '.join(shipped_machines())}",),
            )
        return plan(made, machine, place=place)


def open_target(text: str, settings: Sequence[str] = ()) -> Target:
    """The target that `text` names. TargetError, TextError or ProgramError says what is wrong with it."""
    path, _, function = text.rpartition(":")
    if path.endswith(".py"):
        return _function_target(text, Path(path), function, parse_settings(settings))
    if text.endswith(".py"):
        names = ", ".join(_functions(import_file(Path(text)))) or "none"
        raise TargetError(f"{text}: no function is named; wanted {text}:function, with one of: {names}")
    return _saved_target(text, settings)


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """`k=v` pairs as a dict."""
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            raise TargetError(f"--set {setting}: wanted name=value")
        if key in found:
            raise TargetError(f"--set {key} is given twice: {found[key]} and {value}")
        found[key] = value
    return found


# Saved files.


def _saved_target(text: str, settings: Sequence[str]) -> Target:
    try:
        contents = Path(text).read_text(encoding="utf-8")
    except OSError as error:
        raise TargetError(
            f"{text}: cannot read: {error.strerror}; wanted file.py:function, or a saved graph or program"
        ) from None
    except UnicodeDecodeError:
        contents = ""
    except ValueError as error:  # a NUL in the path
        raise TargetError(f"{text}: cannot read: {error}") from None
    found = re.match(r"(?:\s|//[^\n]*\n)*(\w*)", contents)
    word = found[1] if found else ""
    if word not in ("graph", "program"):
        raise TargetError(f"{text}: neither a graph's text nor a program's; those begin with 'graph' or 'program'")
    if settings:
        raise TargetError(f"--set {settings[0]}: {text} is saved, with its values in it; set them where it is built")
    saved = parse_graph(contents, text) if word == "graph" else parse_program(contents, text)
    return Target(text, lambda _: saved)


# Functions.


def _function_target(text: str, path: Path, name: str, settings: Mapping[str, str]) -> Target:
    module = import_file(path)
    function = getattr(module, name, None)
    if not inspect.isfunction(function):
        names = _functions(module)
        near = get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TargetError(
            f"{path}: has no function {name!r}{hint}", details=(f"functions: {', '.join(names) or 'none'}",)
        )
    loc = Loc(str(path), function.__code__.co_firstlineno)
    with in_user_code(f"the signature of {name}", path):
        signature = inspect.signature(function, eval_str=True)
    arguments = _arguments(name, loc, signature, settings)

    def build(machine: Machine | None) -> Graph | Program:
        given = _with_machine(name, loc, signature, arguments, machine)
        with in_user_code(f"{name}()", path):
            made = function(**given)
        return _graph_of(name, loc, made)

    return Target(text, build)


def _functions(module: ModuleType) -> list[str]:
    """The names of the module's own public functions, in the order of its lines."""
    found = [
        (f.__code__.co_firstlineno, n)
        for n, f in inspect.getmembers(module, inspect.isfunction)
        if f.__module__ == module.__name__ and not n.startswith("_")
    ]
    return [name for _, name in sorted(found)]


def _arguments(name: str, loc: Loc, signature: inspect.Signature, settings: Mapping[str, str]) -> dict[str, Any]:
    """The --set values as the function's annotations have them; TargetError lists the parameters."""
    settable = {p.name: p for p in signature.parameters.values() if p.name != MACHINE}
    shown = (f"{name}({', '.join(map(_shown, settable.values()))})",)
    if unknown := [key for key in settings if key not in settable]:
        near = get_close_matches(unknown[0], settable, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TargetError(f"--set {unknown[0]}: {name} has no such parameter{hint}", loc=loc, details=shown)
    if missing := [p.name for p in settable.values() if p.default is p.empty and p.name not in settings]:
        wanted = " ".join(f"--set {key}=..." for key in missing)
        raise TargetError(f"{name} needs values for {', '.join(missing)}; give {wanted}", loc=loc, details=shown)
    return {key: _converted(settable[key], value, loc) for key, value in settings.items()}


def _shown(parameter: inspect.Parameter) -> str:
    """`hidden: int = 256`."""
    return str(parameter)


def _converted(parameter: inspect.Parameter, text: str, loc: Loc) -> Any:
    annotation: Any = parameter.annotation
    if annotation is parameter.empty:
        annotation = str
    try:
        return TypeAdapter(annotation).validate_strings(text)
    except ValidationError as error:
        what = error.errors()[0]["msg"].lower().replace("input should be", "wanted")
        raise TargetError(f"--set {parameter.name}={text}: {what} ({_shown(parameter)})", loc=loc) from None
    except PydanticUserError:
        raise TargetError(
            f"--set {parameter.name}: the command line sets int, float, bool and str, not {_shown(parameter)}", loc=loc
        ) from None


def _with_machine(
    name: str, loc: Loc, signature: inspect.Signature, arguments: dict[str, Any], machine: Machine | None
) -> dict[str, Any]:
    if MACHINE not in signature.parameters:
        return arguments
    if machine is None:
        raise TargetError(f"{name} takes the machine that it builds for; give one, like -m h200-x2", loc=loc)
    return {MACHINE: machine, **arguments}


def _graph_of(name: str, loc: Loc, made: object) -> Graph | Program:
    match made:
        case dsl.Graph():
            return made.build()
        case Graph() | Program():
            return made
        case _:
            raise TargetError(
                f"{name}() returned {type(made).__name__}, wanted the graph: end it with 'return g'", loc=loc
            )
