"""Debian's Chromium, driven by Playwright: for tests of pages, their screenshots and their benchmark.

with chromium() as browser:
    browser.new_page().goto("file:///tmp/llama.html")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from shutil import which
from typing import Any

HOW = "apt-get install chromium; pip install 'vxgraph[test]'"
FLAGS = (  # root needs no sandbox; the others keep it from asking for what is not the page's
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)


def missing() -> str | None:
    """What is not here, and how to get it."""
    if which("chromium") is None or find_spec("playwright") is None:
        return f"needs Debian's chromium and playwright ({HOW})"
    return None


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of its own."""
    from playwright.sync_api import sync_playwright  # only here is it needed

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=FLAGS.split())
        yield browser
        browser.close()
