"""One HTML text that is the whole page: data, styles, scripts, libraries and their licences."""

from __future__ import annotations

import html
from importlib.resources import files

from vxgraph.tools.viewer.data import Json, as_json

STYLES = ("page.css", "views.css")
LIBRARIES = (  # in the order in which they need one another; vendor/README.md says what they are
    *(f"d3-{name}.min.js" for name in ("dispatch", "selection", "color", "interpolate", "timer", "ease")),
    *(f"d3-{name}.min.js" for name in ("transition", "drag", "zoom")),
    "elk-api.js",
)
WORKER = "elk-worker.min.js"  # the page starts it from its text: a file may load no script from elsewhere
LICENCES = ("d3.LICENSE", "d3-ease.LICENSE", "elkjs.LICENSE")
SCRIPTS = (  # in the order in which they need one another
    "app.js",
    "model.js",
    "route.js",
    "layout.js",
    "camera.js",
    "draw.js",
    "graph.js",
    "details.js",
    "search.js",
    "plot.js",
    "plan.js",
    "memory-paint.js",
    "memory.js",
    "lanes.js",
    "timeline-paint.js",
    "timeline.js",
    "bill.js",
)


def page(data: Json) -> str:
    """The page of what `page_data` gives; the same text for the same data."""
    parts = {
        "<!-- vxgraph:title -->": html.escape(str(data["title"])),
        "/* vxgraph:css */": "\n".join(_text("page", name) for name in STYLES),
        "<!-- vxgraph:vendor -->": "\n".join(
            [*(_script(_text("vendor", name)) for name in LIBRARIES), _worker(_text("vendor", WORKER))]
        ),
        "<!-- vxgraph:licences -->": html.escape("\n\n".join(_text("vendor", name) for name in LICENCES)),
        "<!-- vxgraph:data -->": f'<script type="application/json" id="data">{as_json(data)}</script>',
        "<!-- vxgraph:scripts -->": "\n".join(_script(_text("page", name)) for name in SCRIPTS),
    }
    text = _text("page", "page.html")
    for mark, part in parts.items():
        before, found, after = text.partition(mark)
        text = f"{before}{part}{after}" if found else text
    return text


def _script(text: str) -> str:
    return f"<script>\n{text}\n</script>"


def _worker(text: str) -> str:
    return f'<script type="text/plain" id="elk-worker">{text}</script>'


def _text(folder: str, name: str) -> str:
    return files("vxgraph.tools.viewer").joinpath(folder, name).read_text(encoding="utf-8")
