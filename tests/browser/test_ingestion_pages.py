"""Knowledge bases on the dashboard: readable by everybody, in both themes and on a phone; a run that was started from
the form is watched, paused, resumed and cancelled where it is seen, and a question is answered with where the answer
comes from, also without a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenWindow
from tests.browser.test_pages import AXE, CONTRAST, settled
from tests.support import ingestion_show
from tests.support.chromium import PHONE
from tests.support.served import Served, served

Picture = Callable[..., None]

QUESTION = "How tight do the screws of the mounting rail have to be?"
HANDBOOK = "/ui/knowledge/bases/handbook"
PLACES = {
    "list": "/ui/knowledge",
    "form": "/ui/knowledge/new",
    "paused": "/ui/knowledge/bases/archive",
    "completed": "/ui/knowledge/bases/papers",
    "documents": f"{HANDBOOK}/documents",
    "document": f"{HANDBOOK}/document?uri=start/installation.md",
    "errors": "/ui/knowledge/bases/papers/errors",
    "runs": f"{HANDBOOK}/runs",
    "search": f"{HANDBOOK}/search?q=screws+of+the+rail",
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("knowledge")
    with served(folder, app=ingestion_show.APP, environ=ingestion_show.ENVIRON) as up:
        ingestion_show.fill(up)
        yield up


def test_everybody_can_use_it(shelf: Served, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(shelf.url, reduced_motion="reduce").page()
    for name, path in PLACES.items():
        page.emulate_media(color_scheme="light")
        settled(page, path)
        for theme, options in (("light", AXE), ("dark", CONTRAST)):
            page.emulate_media(color_scheme=theme)
            picture(page, f"knowledge-{name}-{theme}")
            found = Axe().run(page, options=options)
            assert found.violations_count == 0, f"{name} in {theme}: {found.generate_report()}"
        for box in page.locator(".table-box").all():
            wide, seen = box.evaluate("e => [e.scrollWidth, e.clientWidth]")
            assert wide <= seen, f"{name}: {wide - seen} pixels of {box.get_attribute('aria-label')} are cut off"


def test_it_fits_on_a_phone(shelf: Served, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(shelf.url, viewport=PHONE, has_touch=True, is_mobile=True).page()
    for name, path in PLACES.items():
        settled(page, path)
        picture(page, f"knowledge-{name}-phone")
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= seen, f"{name}: {wide - seen} pixels stand out at the side"


def test_a_run_is_started_watched_and_steered_where_it_is_seen(
    shelf: Served, open_window: OpenWindow, picture: Picture
) -> None:
    window = open_window(shelf.url)
    window.forgive("422")
    page = window.page()
    settled(page, "/ui/knowledge")
    page.get_by_role("link", name="New knowledge base").click()
    page.get_by_label("Name").fill("watched")
    page.get_by_label("Folder, address or ids").fill("/etc")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#place-wrong")).to_contain_text("ingestion.roots")
    expect(page.get_by_label("Name")).to_have_value("watched")
    page.get_by_label("Folder, address or ids").fill("docs")
    page.get_by_label("Tokens of a chunk").fill("60")
    page.get_by_role("button", name="Plan first").click()
    expect(page.get_by_role("status").filter(has_text="The plan")).to_contain_text("24")
    page.get_by_label("Folder, address or ids").fill("archive")
    with ingestion_show.held(shelf, "watched", 100):
        page.get_by_role("button", name="Start").click()
        page.wait_for_url("**/ui/knowledge/bases/watched")
        loads = window.loads
        seen = page.locator(".pipe-piece .pipe-count strong").first
        expect(seen).to_have_text(re.compile(r"[1-9]\d*"))
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("h1 + p .pill")).to_have_text("running pause asked")
    expect(page.locator("h1 + p .pill")).to_have_text("paused")
    picture(page, "paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1 + p .pill")).to_have_text("completed")
    expect(seen).to_have_text("160")
    assert window.loads == loads, "everything was seen without loading the page again"
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text(re.compile("ledger and index agree: 160 documents"))).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    page.wait_for_url("**/ui/knowledge")
    expect(page.get_by_role("link", name="handbook", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="watched", exact=True)).to_have_count(0)


def test_cancelling_asks_first_and_takes_out_what_was_written(shelf: Served, open_window: OpenWindow) -> None:
    page = open_window(shelf.url).page()
    ingestion_show.begun(shelf, "dropped", 40)
    settled(page, "/ui/knowledge/bases/dropped")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keep it as it is").click()
    assert ingestion_show.status(shelf, "dropped")["status"] == "paused"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("h1 + p .pill")).to_have_text("not started")
    expect(page.get_by_text("Canceled by user").first).to_be_visible()
    assert shelf.get("/kb/dropped")["documents"] == 0


def test_a_question_is_answered_with_where_it_comes_from(
    shelf: Served, open_window: OpenWindow, picture: Picture
) -> None:
    page = open_window(shelf.url).page()
    settled(page, f"{HANDBOOK}/search")
    page.locator("h1").click()
    page.keyboard.press("/")
    expect(page.get_by_label("Question, or words")).to_be_focused()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    best = page.locator(".hit").first
    expect(best).to_contain_text("start/installation.md")
    expect(best.locator("mark", has_text="screws").first).to_be_visible()
    expect(best).to_contain_text("5 Nm")
    picture(page, "hits")
    page.get_by_text("words", exact=True).click()
    page.wait_for_url("**mode=text*")
    expect(page.locator(".hit").first).to_contain_text("start/installation.md")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".kb-chunk.on")).to_contain_text("5 Nm")


def test_it_is_searched_without_a_script(shelf: Served, open_window: OpenWindow) -> None:
    page = open_window(shelf.url, java_script_enabled=False).page()
    page.goto("/ui/knowledge/bases/films/search")
    page.get_by_label("Question, or words").fill("what if the wheel does not turn")
    page.get_by_role("button", name="Search").click()
    best = page.locator(".hit").first
    assert "oil on the spindle" in best.inner_text() and "1:04" in best.inner_text()
    page.goto("/ui/knowledge/bases/papers")
    page.get_by_role("button", name="Delete").click()
    assert page.locator("h1").inner_text() == "Delete this knowledge base?"
    page.get_by_role("link", name="Keep it").click()
    assert _words(page) == "papers"


def _words(page: Page) -> str:
    return page.locator("h1").inner_text()
