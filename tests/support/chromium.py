"""A real Chromium, and pages that are watched: what a browser complains about, and what it asks of other hosts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route, sync_playwright

ROOT = Path(__file__).parents[2]
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}

LIVE = re.compile("live|news")
"""What `data-state` of `#pulse` is while a page has its stream of changes."""

_TELL_OF_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", event =>
    console.error(`content security policy: ${event.violatedDirective} refused ${event.blockedURI} ${event.sample}`));
"""


class NoChromium(Exception):
    """There is none to start; says how to get one."""


def chromium_path() -> str:
    found = subprocess.run([str(ROOT / "scripts" / "ensure-chromium"), "--path"], capture_output=True, text=True)
    if found.returncode:
        raise NoChromium("no Chromium or Chrome was found: run `make setup` as root, or set PENSTOCK_CHROMIUM")
    return found.stdout.strip()


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """While this lasts, an event loop is running in this thread: nothing here may call `asyncio.run`."""
    path = chromium_path()
    with sync_playwright() as playwright:
        # A container's /dev/shm is often too small for a browser.
        browser = playwright.chromium.launch(executable_path=path, args=["--disable-dev-shm-usage", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A browser's window with cookies of its own. Whatever a page complains about, or asks of another host, is kept in
    `complaints`, and other hosts are never asked: there is no internet."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self._told: list[str] = []
        self._forgiven: list[str] = []
        self.loads = 0
        self.context: BrowserContext = browser.new_context(
            base_url=url, locale="en-GB", timezone_id="UTC", **({"viewport": DESK} | options)
        )
        self.context.add_init_script(_TELL_OF_VIOLATIONS)
        self.context.route("**/*", self._only_ours)
        self.context.on("console", self._heard)
        self.context.on("weberror", lambda error: self._told.append(f"script error: {error.error}"))
        self.context.set_default_timeout(15_000)

    def page(self) -> Page:
        page = self.context.new_page()
        page.on("load", self._loaded)
        return page

    @property
    def complaints(self) -> list[str]:
        return [told for told in self._told if not any(word in told for word in self._forgiven)]

    def forgive(self, *words: str) -> None:
        """Complaints that a test means to cause do not count, whenever the browser comes to tell them."""
        self._forgiven += words

    def close(self) -> None:
        self.context.close()

    def _loaded(self, page: Page) -> None:
        self.loads += 1

    def _only_ours(self, route: Route) -> None:
        address = urlsplit(route.request.url)
        if f"{address.scheme}://{address.netloc}" == self.url or address.scheme in ("data", "blob"):
            route.continue_()
        else:
            self._told.append(f"asked another host: {route.request.url}")
            route.abort()

    def _heard(self, message: ConsoleMessage) -> None:
        # htmx tells of a refresh that a button's own request has taken the place of, as it should.
        if message.type in ("error", "warning") and "AbortError: signal is aborted" not in message.text:
            self._told.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")
