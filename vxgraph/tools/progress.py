"""Progress bars, on standard error and only where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from vxgraph.runtime.backends.sanitizer.sanitize import Progress as OnOrder
from vxgraph.runtime.executor import Progress as OnUpload


@contextmanager
def upload_progress() -> Generator[OnUpload]:
    """A bar that a session's `progress` moves while params become resident; gone when the block ends."""
    columns = (TextColumn("loading {task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("params", total=None)

        def on_upload(param: str, done: int, total: int) -> None:
            bar.update(task, description=param, completed=done, total=total)

        yield on_upload


@contextmanager
def order_progress() -> Generator[OnOrder]:
    """A bar over the orders that the sanitizer tries; gone when the block ends."""
    columns = (TextColumn("random orders"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("orders", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
