"""What shows itself in a notebook: a class says so, and the package's front says who renders it.

    class Program(Displayed): ...
    set_renderer(views)        views(program) -> {"text/plain": make the text, "text/html": make the page, ...}

Nothing below the tools knows how a picture is made; they are loaded when a notebook asks for the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

View = Callable[[], str | None]  # None where it cannot be made here
Renderer = Callable[[Any], Mapping[str, View]]  # by MIME type

_renderers: list[Renderer] = []


def set_renderer(renderer: Renderer) -> None:
    """Who renders from now on."""
    _renderers[:] = [renderer]


class Displayed:
    """Rendered by notebooks, through IPython's documented hook."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        """The views by MIME type: those in `include`, where it is given, less those in `exclude`."""
        views: Mapping[str, View] = _renderers[-1](self) if _renderers else {}
        kinds = [k for k in views if (not include or k in include) and not (exclude and k in exclude)]
        return {kind: shown for kind in kinds if (shown := views[kind]()) is not None}
