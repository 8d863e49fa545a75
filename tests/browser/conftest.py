"""One Chromium for all browser tests of a test process, and a window in it for each test, which must not complain."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.chromium import NoChromium, Watched, running_chromium
from tests.support.served import ROOT, Served, served

PICTURES = ROOT / "build" / "screenshots"

OpenWindow = Callable[..., Watched]

# Machines are noisy; what is expected is waited for, not slept for.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    try:
        with running_chromium() as chromium:
            yield chromium
    except NoChromium as why:
        if os.environ.get("CI") == "true":
            pytest.fail(str(why))
        pytest.skip(str(why))


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that is open to this machine, with a worker in it. Tests share it: each has books of its own."""
    with served(tmp_path_factory.mktemp("up")) as running:
        yield running


@pytest.fixture
def open_window(browser: Browser) -> Iterator[OpenWindow]:
    """`open_window(url)`: a window with no cookies. When the test is over, none may have complained."""
    windows: list[Watched] = []

    def open_one(url: str, **options: Any) -> Watched:
        windows.append(Watched(browser, url, **options))
        return windows[-1]

    yield open_one
    complaints = [told for window in windows for told in window.complaints]
    for window in windows:
        window.close()
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def window(up: Served, open_window: OpenWindow) -> Watched:
    return open_window(up.url)


@pytest.fixture
def page(window: Watched) -> Page:
    return window.page()


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`picture(page, "paused")`: kept in build/screenshots for whoever reads the CI's output."""

    def take(page: Page, name: str, **options: Any) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        test = re.sub(r"\W+", "-", request.node.name).strip("-").removeprefix("test_")
        page.screenshot(path=PICTURES / f"{test}--{name}.png", **options)

    return take
