"""A person starts a job in the browser and watches it run."""

from __future__ import annotations

from collections.abc import Callable

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.test_pages import AXE, CONTRAST
from tests.support.chromium import PHONE, Watched
from tests.support.served import Served

Picture = Callable[..., None]


def check_usable(page: Page) -> None:
    for theme, options in (("light", AXE), ("dark", CONTRAST)):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        found = Axe().run(page, options=options)
        assert found.violations_count == 0, f"in {theme}: {found.generate_report()}"


def test_a_job_is_started_and_watched(up: Served, window: Watched, page: Page, picture: Picture) -> None:
    window.forgive("422")
    page.goto("/ui/jobs")
    page.locator("body").press("n")
    page.wait_for_url("**/ui/jobs/new")
    page.get_by_label("Workflow").select_option("books")
    page.wait_for_url("**/ui/jobs/new?workflow=books")
    payload = page.get_by_label("Payload, as JSON")
    expect(payload).to_have_value('{\n  "title": "",\n  "pages": 10,\n  "unit": "pages"\n}')
    check_usable(page)
    picture(page, "empty", full_page=True)
    payload.fill('{"title": 7}')
    page.get_by_label("Key (optional)").fill("lady-susan")
    page.get_by_role("button", name="Start the job").click()
    expect(page.locator("#payload-wrong")).to_contain_text("title")
    expect(payload).to_have_value('{"title": 7}')
    expect(page.get_by_label("Key (optional)")).to_have_value("lady-susan")
    check_usable(page)
    picture(page, "wrong", full_page=True)
    page.set_viewport_size(PHONE)
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= seen, f"{wide - seen} pixels stand out at the side"
    payload.fill('{"title": "Lady Susan"}')
    page.get_by_role("button", name="Start the job").click()
    status = page.locator("header.head .pill").first
    expect(status).to_contain_text("running")
    up.write("pages of Lady Susan", 10)
    expect(status).to_have_text("completed")
    expect(page.locator("#result")).to_contain_text("Lady Susan")
