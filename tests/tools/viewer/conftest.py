"""Pages in Debian's Chromium, driven by Playwright; a machine without them skips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import chromium, missing

Opens = Callable[..., "Tab"]


class Tab:
    """An open page, what it said on its console, and what it asked the network for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))

    def text(self, selector: str) -> str:
        """The text of the first element that is found."""
        return self.page.locator(selector).first.inner_text()

    def texts(self, selector: str) -> list[str]:
        """The text of each."""
        return self.page.locator(selector).all_inner_texts()

    def count(self, selector: str) -> int:
        """How many there are."""
        return self.page.locator(selector).count()

    def press(self, *keys: str) -> None:
        """Keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def see(self, selector: str) -> Any:
        """Waits until it can be seen."""
        self.page.wait_for_selector(selector)
        return self.page.locator(selector).first

    def search(self, words: str) -> None:
        """Types words into the search box and chooses the best match."""
        self.press("/")
        self.page.keyboard.insert_text(words)
        self.see("#matches .match")
        self.press("Enter")


@pytest.fixture(scope="module")  # Playwright runs once at a time: another module may start its own
def browser() -> Iterator[Any]:
    if why := missing():
        pytest.skip(why)
    with chromium() as started:
        yield started


@pytest.fixture
def opens(browser: Any) -> Iterator[Opens]:
    """`opens(path)` opens a page and waits until its first picture stands; at the end it must have been quiet."""
    tabs: list[Tab] = []

    def open(path: Path, *, theme: str = "light", width: int = 1280, height: int = 800) -> Tab:
        size = {"width": width, "height": height}
        page = browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce")
        tabs.append(Tab(page))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=true]")
        return tabs[-1]

    yield open
    for tab in tabs:
        tab.page.close()
        assert tab.said == []
        assert {url.split(":")[0] for url in tab.asked} <= {"file", "blob", "data"}
