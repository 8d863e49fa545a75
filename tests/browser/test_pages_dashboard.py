"""The pages pipeline on the dashboard: readable by everybody, in both themes and on a phone; a click on a cell of the
grid opens its page, and a dead page is tried again from where it is seen."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenWindow
from tests.browser.test_pages import AXE, CONTRAST, settled
from tests.support.chromium import PHONE
from tests.support.served import ROOT, Served, served

Picture = Callable[..., None]

PLACES = ("runs", "grid", "book", "batches", "failures", "page", "dead page")


@dataclass(frozen=True)
class Shelf:
    """A service with a run in the middle of its work."""

    up: Served
    run: str
    book: dict[str, Any]

    @property
    def place(self) -> str:
        return f"/ui/pages/runs/{self.run}"

    def page(self, name: str) -> str:
        return f"{self.place}/pages/{self.book['book'].replace('/', ':')}:{name}"

    def path(self, name: str) -> str:
        return {
            "runs": "/ui/pages",
            "grid": self.place,
            "book": f"{self.place}/books/{self.book['book']}",
            "batches": f"{self.place}/batches",
            "failures": f"{self.place}/failures",
            "page": self.page("3"),
            "dead page": self.page(str(self.book["total"] - 1)),
        }[name]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    folder = tmp_path_factory.mktemp("shelf")
    command = [sys.executable, "-m", "tests.support.pages_show", str(folder / ".penstock")]
    made = subprocess.run(command, cwd=ROOT, check=True, timeout=100, capture_output=True, text=True)
    run = made.stdout.strip()
    with served(folder, app="tests.support.pages_show:app") as up:
        books = up.get(f"/pages/runs/{run}/books?limit=500")["items"]
        yield Shelf(up, run, min(books, key=lambda book: book["total"]))


def test_everybody_can_use_it(shelf: Shelf, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(shelf.up.url, reduced_motion="reduce").page()
    for name in PLACES:
        settled(page, shelf.path(name))
        for theme, options in (("light", AXE), ("dark", CONTRAST)):
            page.emulate_media(color_scheme=theme)
            picture(page, f"{name}-{theme}")
            found = Axe().run(page, options=options)
            assert found.violations_count == 0, f"{name} in {theme}: {found.generate_report()}"


def test_it_fits_on_a_phone(shelf: Shelf, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(shelf.up.url, viewport=PHONE, has_touch=True, is_mobile=True).page()
    for name in PLACES:
        settled(page, shelf.path(name))
        picture(page, f"{name}-phone")
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= seen, f"{name}: {wide - seen} pixels stand out at the side"
        if name == "runs":
            last = page.get_by_role("navigation", name="Status").get_by_role("link").last.bounding_box()
            assert last is not None and last["x"] + last["width"] <= PHONE["width"]
        if name == "batches":
            expect(page.locator("td.gantt .bar").first).to_be_visible()


def test_the_overview_and_the_job_lead_to_the_run(shelf: Shelf, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(shelf.up.url).page()
    settled(page, "/")
    picture(page, "overview")
    page.get_by_role("link", name="pages are dead in library/output").click()
    expect(page.get_by_role("heading", name="Dead pages")).to_be_visible()
    page.get_by_role("link", name="Job and logs").click()
    page.get_by_role("link", name="Open in Pages").click()
    page.wait_for_url(f"**{shelf.place}")


def test_a_cell_of_the_grid_opens_its_page(shelf: Shelf, open_window: OpenWindow) -> None:
    page = open_window(shelf.up.url).page()
    settled(page, f"{shelf.place}?state={shelf.book['state']}&school={shelf.book['school']}")
    strip = page.locator(".strip").first
    box = strip.bounding_box()
    assert box is not None and strip.get_attribute("aria-label")
    # The fourth of forty cells: all books shown are short.
    at = {"x": box["width"] * 3.5 / 40, "y": 9}
    strip.hover(position=at)
    expect(strip.locator("rect[data-first] title").first).to_have_text("page 4: done")
    strip.click(position=at)
    expect(page.get_by_role("heading", name="Page 4", exact=True)).to_be_visible()
    image = page.get_by_role("img", name=re.compile("Scan of page 4"))
    expect(image).to_be_visible()
    assert image.evaluate("e => e.decode().then(() => e.naturalWidth)") > 100
    page.get_by_role("link", name="After").click()
    expect(page.get_by_role("heading", name="Page 5", exact=True)).to_be_visible()


def test_the_keyboard_leads_from_the_grid_to_a_page(shelf: Shelf, open_window: OpenWindow) -> None:
    page = open_window(shelf.up.url).page()
    settled(page, f"{shelf.place}?state={shelf.book['state']}&school={shelf.book['school']}")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/books/**")
    link = page.get_by_role("link", name=re.compile("^2.*done"))
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Page 2", exact=True)).to_be_visible()


def test_a_dead_page_is_tried_again_from_where_it_is_seen(shelf: Shelf, open_window: OpenWindow) -> None:
    page = open_window(shelf.up.url).page()
    settled(page, shelf.path("dead page"))
    expect(page.get_by_text("It is dead")).to_be_visible()
    page.get_by_role("button", name="Retry this page").click()
    expect(page.get_by_text("1 page will be tried again at the run's next turn")).to_be_visible()
    wished(shelf, page, 1)
    settled(page, shelf.path("failures"))
    state = shelf.book["state"]
    page.get_by_role("button", name=re.compile(f"dead pages? of {state}")).click()
    page.get_by_role("button", name="Try them again").click()
    expect(page.get_by_text(re.compile("pages will be tried again at the run's next turn"))).to_be_visible()
    wished(shelf, page, 2)


def wished(shelf: Shelf, page: Page, many: int) -> None:
    assert shelf.up.get(f"/pages/runs/{shelf.run}")["overview"]["wishes"] == many
    actions = [one["action"] for one in shelf.up.items("audit")]
    assert actions.count("pages.retry") == many
