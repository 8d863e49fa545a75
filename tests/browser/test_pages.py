"""Every page, in both themes and on a phone: readable by everybody, without a complaint, without the internet."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenWindow
from tests.support.chromium import LIVE, PHONE
from tests.support.served import ROOT, Served, served

Picture = Callable[..., None]

PAGES = {
    "overview": "/",
    "jobs": "/ui/jobs",
    "jobs, none": "/ui/jobs?workflow=nonesuch",
    "running job": "/ui/jobs/{running}",
    "failed job": "/ui/jobs/{failed}",
    "completed job": "/ui/jobs/{completed}",
    "batches": "/ui/batches",
    "batch": "/ui/batches/{batch}",
    "calls": "/ui/calls",
    "quarantined call": "/ui/calls/{quarantined}",
    "collected call": "/ui/calls/{collected}",
    "dead letters": "/ui/dead-letters",
    "costs": "/ui/costs",
    "schedules": "/ui/schedules",
    "documents, none": "/ui/documents",
    "knowledge, none": "/ui/knowledge",
    "pages, none": "/ui/pages",
    "review, none": "/ui/review",
    "workers": "/ui/workers",
    "audit": "/ui/audit",
    "tokens": "/ui/tokens",
    "login": "/ui/login",
}
AXE = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
"""What a theme can break."""


@dataclass(frozen=True)
class Show:
    """A service with something on every page, and the ids of what there is."""

    up: Served
    ids: dict[str, str]

    def path(self, name: str) -> str:
        return PAGES[name].format_map(self.ids)


@pytest.fixture(scope="package")
def show(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Show]:
    folder = tmp_path_factory.mktemp("show")
    command = [sys.executable, "-m", "tests.support.showcase", str(folder / ".penstock"), "2", "6"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100)
    with served(folder, app="tests.support.showcase:app") as up:
        up.until(lambda: up.items("jobs?status=running&workflow=captions"), "jobs to run")
        ids = {
            name: up.items(f"jobs?status={name}&workflow=captions")[0]["id"]
            for name in ("running", "failed", "completed")
        }
        ids |= {name: up.items(f"calls?state={name}")[0]["id"] for name in ("quarantined", "collected")}
        ids["batch"] = up.items("batches")[0]["id"]
        yield Show(up, ids)


def settled(page: Page, path: str) -> None:
    """Loaded, with its fonts, and live where it is to be."""
    answer = page.goto(path)
    assert answer is not None and answer.status == 200, path
    page.evaluate("document.fonts.ready.then(() => true)")
    if page.locator("#live[data-feed]:not([data-feed=''])").count():
        expect(page.locator("#pulse")).to_have_attribute("data-state", LIVE)


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_it(name: str, show: Show, open_window: OpenWindow, picture: Picture) -> None:
    """No rule of WCAG 2.2 A and AA that axe knows is broken; nothing is asked of another host; nothing complains."""
    page = open_window(show.up.url, reduced_motion="reduce").page()
    settled(page, show.path(name))
    for theme, options in (("light", AXE), ("dark", CONTRAST)):
        page.emulate_media(color_scheme=theme)
        picture(page, theme, full_page=True)
        found = Axe().run(page, options=options)
        assert found.violations_count == 0, f"in {theme}: {found.generate_report()}"


@pytest.mark.parametrize("name", PAGES)
def test_it_fits_on_a_phone(name: str, show: Show, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(show.up.url, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2).page()
    settled(page, show.path(name))
    picture(page, "phone")
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= seen, f"{wide - seen} pixels stand out at the side"


@pytest.mark.parametrize("name", ["overview", "costs", "jobs", "dead letters"])
def test_no_table_is_cut_off_on_a_desk(name: str, show: Show, open_window: OpenWindow) -> None:
    page = open_window(show.up.url, viewport={"width": 1280, "height": 800}).page()
    settled(page, show.path(name))
    for box in page.locator(".table-box").all():
        wide, seen = box.evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert wide <= seen, f"{box.get_attribute('aria-label')}: {wide - seen} pixels are cut off"


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 800}, PHONE], ids=["desk", "phone"])
def test_a_refusal_stands_in_the_middle(viewport: dict[str, int], show: Show, open_window: OpenWindow) -> None:
    window = open_window(show.up.url, viewport=viewport)
    window.forgive("404")
    page = window.page()
    page.goto("/ui/jobs/nonesuch")
    box = page.locator(".card").bounding_box()
    assert box is not None and abs(box["x"] + box["width"] / 2 - viewport["width"] / 2) < 10


def test_the_navigation_opens_on_a_phone(show: Show, open_window: OpenWindow) -> None:
    page = open_window(show.up.url, viewport=PHONE, has_touch=True, is_mobile=True).page()
    settled(page, "/")
    link = page.get_by_role("link", name="Dead letters", exact=False).first
    page.get_by_role("button", name="Open the navigation").tap()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Jobs").tap()
    page.wait_for_url("**/ui/jobs")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    expect(link).to_be_hidden()


def test_the_theme_follows_the_system_until_somebody_chooses(show: Show, open_window: OpenWindow) -> None:
    page = open_window(show.up.url, color_scheme="dark").page()

    def brightness() -> int:
        corner = page.screenshot(clip={"x": 1270, "y": 790, "width": 1, "height": 1}, animations="disabled")
        red, green, blue = Image.open(BytesIO(corner)).convert("RGB").getpixel((0, 0))  # type: ignore[misc]
        return int(red + green + blue)

    settled(page, "/")
    dark = brightness()
    page.emulate_media(color_scheme="light")
    light = brightness()
    assert dark < 200 < 600 < light
    page.emulate_media(color_scheme="dark")
    for _ in range(3):
        page.locator("#theme").click()
        if brightness() > 600:
            break
    assert brightness() == light, "light was chosen, whatever the system says"
    page.reload()
    assert brightness() == light, "the choice is kept"


def test_every_page_has_been_opened(show: Show, open_window: OpenWindow) -> None:
    """A place of the navigation that no test above opens is a page that nobody checks."""
    page = open_window(show.up.url).page()
    settled(page, "/")
    links = page.get_by_role("navigation", name="Main").get_by_role("link").all()
    places = {link.get_attribute("href") for link in links}
    assert places and places <= set(PAGES.values())


def test_the_keyboard_reaches_everything(show: Show, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(show.up.url).page()
    settled(page, "/ui/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    picture(page, "skip")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.evaluate(
        """void (nameOf = e => [e.tagName, e.id, e.name, e.value, e.getAttribute("href"), e.ariaLabel].join(" "))"""
    )
    wanted = page.evaluate(
        """[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")]
           .filter(e => e.checkVisibility() && !e.disabled && !e.closest("dialog")).map(nameOf)"""
    )
    page.evaluate("document.activeElement.blur()")
    reached = set()
    assert len(wanted) > 50
    for _ in range(2 * len(wanted) + 20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("nameOf(document.activeElement)"))
        if reached.issuperset(wanted):
            break
    assert set(wanted) <= reached


def test_letters_lead_to_places(show: Show, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(show.up.url).page()
    settled(page, "/")
    for letters, place in (("gj", "/ui/jobs"), ("gd", "/ui/dead-letters"), ("gc", "/ui/calls"), ("go", "/")):
        # As one, for the page waits but a moment for the second.
        page.keyboard.type(letters)
        page.wait_for_url(f"**{place}")
        expect(page.locator("#pulse")).to_have_attribute("data-state", LIVE)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    picture(page, "help")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("launch-film")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="launch-film")).to_be_visible()
    page.keyboard.type("gj")
    page.wait_for_url("**/ui/jobs")
    page.keyboard.press("j")
    expect(page.locator("tbody a.row-link").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/jobs/*")
