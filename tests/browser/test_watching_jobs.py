"""A person watches jobs and steers them, and the page follows by itself: nothing here ever reloads a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenWindow
from tests.support.chromium import LIVE
from tests.support.served import Served, served

Picture = Callable[..., None]


def status(page: Page) -> object:
    """The status that a job's page shows at its top."""
    return page.locator("header.head .pill").first


def stays(page: Page) -> Callable[[], bool]:
    """Whether the page is still the very one it is now, and not one that was loaded since."""
    page.evaluate("window.stayed = true")
    return lambda: bool(page.evaluate("window.stayed === true"))


def test_a_job_is_watched_from_its_start_to_its_end(up: Served, page: Page, picture: Picture) -> None:
    page.goto("/ui/jobs?key=emma")
    expect(page.get_by_text("No job fits")).to_be_visible()
    same_list = stays(page)
    started = up.run("jobs", "submit", "books", "--payload", '{"title": "Emma"}', "--key", "emma")
    row = page.get_by_role("link", name="emma")
    expect(row).to_be_visible()
    assert same_list(), "the list was loaded again"
    row.click()
    expect(status(page)).to_contain_text("running")
    same_page = stays(page)
    for pages in (3, 7):
        up.write("pages of Emma", pages)
        expect(page.locator(".big-progress .progress-text")).to_have_text(f"{pages}/10 pages")
        expect(page.locator(".big-progress progress")).to_have_attribute("value", str(pages))
    picture(page, "running")
    up.write("pages of Emma", 10)
    expect(status(page)).to_contain_text("completed")
    expect(page.locator("#result")).to_contain_text('"pages": 10')
    expect(page.locator("#logs")).to_contain_text("printing Emma")
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    assert same_page(), "the page was loaded again"
    assert page.url.endswith(f"/ui/jobs/{started['job']['id']}")
    picture(page, "completed", full_page=True)


def test_a_running_job_is_paused_and_resumed(up: Served, page: Page, picture: Picture) -> None:
    job = up.submit("books", {"title": "Persuasion"})
    page.goto(f"/ui/jobs/{job}")
    expect(status(page)).to_contain_text("running")
    same_page = stays(page)
    page.get_by_role("button", name="Pause").click()
    expect(status(page)).to_have_text("paused")
    assert up.job(job)["status"] == "paused"
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    picture(page, "paused")
    page.get_by_role("button", name="Resume").click()
    expect(status(page)).to_contain_text("running")
    up.write("pages of Persuasion", 10)
    expect(status(page)).to_have_text("completed")
    assert same_page(), "the page was loaded again"


def test_a_job_is_cancelled_only_by_who_is_sure(up: Served, page: Page, picture: Picture) -> None:
    job = up.submit("books", {"title": "Sanditon"})
    page.goto(f"/ui/jobs/{job}")
    expect(status(page)).to_contain_text("running")
    asked = page.get_by_role("dialog")
    page.get_by_role("button", name="Cancel").click()
    expect(asked).to_contain_text("stops for good")
    picture(page, "asked")
    asked.get_by_role("button", name="Keep it as it is").click()
    expect(asked).to_be_hidden()
    assert up.job(job)["status"] == "running"
    page.get_by_role("button", name="Cancel").click()
    asked.locator("#confirm-yes").click()
    expect(status(page)).to_have_text("canceled")
    expect(page.locator("#logs")).to_contain_text("pulping Sanditon")
    assert up.job(job)["status"] == "canceled"
    expect(page.locator(".actions button")).to_have_count(0)


def test_what_is_long_stays_in_its_place(up: Served, page: Page, picture: Picture) -> None:
    key = "a key of " + "x" * 300
    job = up.submit("books", {"title": "Evelina", "unit": "A" * 3000}, key=key)
    up.until(lambda: up.job(job)["progress"], "the job to say how far it is")
    for path in (f"/ui/jobs/{job}", "/ui/jobs", "/"):
        page.goto(path)
        expect(page.locator(".progress-text").first).to_be_visible()
        picture(page, path.strip("/").replace("/", "-") or "overview")
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= seen, f"{path}: {wide - seen} pixels stand out at the side"
        for box in page.locator(".table-box").all():
            wide, seen = box.evaluate("e => [e.scrollWidth, e.clientWidth]")
            assert wide <= seen, f"{path}: a table is {wide - seen} pixels too wide"
    page.goto("/ui/jobs")
    title = page.locator(f"#row-{job} .row-title")
    expect(title).to_have_attribute("title", key)
    box = title.bounding_box()
    assert box is not None and box["height"] < 60, "a long key takes two lines"
    up.post(f"/api/v1/jobs/{job}/cancel")


def test_what_is_said_of_a_button_is_said_once(up: Served, page: Page) -> None:
    """However often the page fetches itself again meanwhile."""
    job = up.submit("books", {"title": "Belinda"})
    page.goto(f"/ui/jobs/{job}")
    expect(status(page)).to_contain_text("running")
    page.evaluate("setInterval(() => htmx.trigger('#live', 'penstock:changed', {}), 20)")
    # What is said goes away again after some seconds: how often it was said is counted as it comes.
    page.evaluate(
        """void (said = 0, new MutationObserver(changes => {
            for (const { addedNodes } of changes)
                for (const node of addedNodes) said += Boolean(node.matches?.(".toast"));
        }).observe(document.getElementById("said"), { childList: true }))"""
    )
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".toast")).to_contain_text(job)
    expect(status(page)).to_have_text("paused")
    assert page.evaluate("said") == 1


def test_buttons_do_without_a_script(up: Served, open_window: OpenWindow) -> None:
    job = up.submit("books", {"title": "Camilla"})
    up.until_job(job, "running")
    page = open_window(up.url, java_script_enabled=False).page()
    page.goto(f"/ui/jobs/{job}")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Cancel this job?")).to_be_visible()
    page.get_by_role("button", name="Cancel the job").click()
    up.until_job(job, "canceled")


def test_a_page_follows_work_that_another_process_does(tmp_path: Path, open_window: OpenWindow) -> None:
    with served(tmp_path, "--no-worker") as up:
        page = open_window(up.url).page()
        up.write("pages of Lady Susan", 10)
        job = up.submit("books", {"title": "Lady Susan"})
        page.goto(f"/ui/jobs/{job}")
        expect(status(page)).to_have_text("queued")
        same_page = stays(page)
        up.beside("worker")
        expect(status(page)).to_have_text("completed")
        assert same_page(), "the page was loaded again"


def test_a_page_comes_back_to_life_when_the_service_does(
    tmp_path: Path, open_window: OpenWindow, picture: Picture
) -> None:
    with served(tmp_path) as up:
        window = open_window(up.url)
        # A browser says so itself when a connection is refused.
        window.forgive("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")
        page = window.page()
        page.goto("/ui/jobs")
        pulse = page.locator("#pulse")
        expect(pulse).to_have_attribute("data-state", LIVE)
        same_page = stays(page)
        up.stop()
        expect(pulse).to_have_attribute("data-state", "lost")
        expect(pulse).to_have_text("not connected")
        expect(page.get_by_role("alert")).to_contain_text("Not connected since")
        picture(page, "gone")
        up.start()
        expect(pulse).to_have_attribute("data-state", LIVE)
        expect(page.get_by_role("alert")).to_be_hidden()
        up.submit("books", {"title": "The Watsons"}, key="watsons")
        expect(page.get_by_role("link", name="watsons")).to_be_visible()
        assert same_page(), "the page was loaded again"
