"""What went wrong is mended from the dashboard: a dead letter is run again, a call that nobody knows of is decided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenWindow
from tests.support.gemini import running_gemini
from tests.support.served import Served, served

Picture = Callable[..., None]


def test_a_dead_letter_is_retried(up: Served, page: Page, picture: Picture) -> None:
    failed = up.submit("bindery", "Evelina", key="evelina")
    up.until_job(failed, "failed")
    page.goto("/")
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Dead letters").click()
    expect(page.get_by_role("link", name="evelina")).to_be_visible()
    expect(page.get_by_text("the needle broke while binding Evelina").first).to_be_visible()
    picture(page, "dead")
    up.write("needle for Evelina")
    page.get_by_label(f"Choose job {failed}").check()
    page.get_by_role("button", name="Retry the chosen").click()
    expect(page.get_by_text("1 job retried").first).to_be_visible()
    expect(page.get_by_role("link", name="evelina")).to_have_count(0)
    (again,) = [job for job in up.items("jobs?key=evelina") if job["run"] == 2]
    up.until_job(again["id"], "completed")
    page.goto(f"/ui/jobs/{failed}")
    page.get_by_role("link", name="2 completed").click()
    expect(page.locator("#result")).to_contain_text("Evelina, bound")


def test_chosen_jobs_are_retried_together(up: Served, page: Page) -> None:
    failed = [up.submit("bindery", title, key=title) for title in ("one", "two", "three")]
    for job in failed:
        up.until_job(job, "failed")
        up.write(f"needle for {up.job(job)['key']}")
    page.goto("/ui/jobs?status=failed")
    page.get_by_label(f"Choose job {failed[0]}").check()
    page.get_by_label(f"Choose job {failed[2]}").check()
    page.locator("#bulk").get_by_role("button", name="Retry").click()
    expect(page.get_by_text("2 jobs retried").first).to_be_visible()
    runs = {job["key"]: job["run"] for job in reversed(up.items("jobs?workflow=bindery"))}
    assert {key: runs[key] for key in ("one", "two", "three")} == {"one": 2, "two": 1, "three": 2}


def test_a_quarantined_call_is_adopted(tmp_path: Path, open_window: OpenWindow, picture: Picture) -> None:
    """The local Gemini denies that it knows a batch it has taken, until a person looks and finds it there."""
    with running_gemini() as gemini:
        gemini.faults([{"kind": "get_404_for", "seconds": 100_000, "times": 1}])
        settings = {
            "PENSTOCK_GEMINI__BASE_URL": gemini.url, "PENSTOCK_GEMINI__API_KEY": "a-key",
            "PENSTOCK_GEMINI__POLL_EVERY": "0.1", "PENSTOCK_GEMINI__POLL_AT_MOST": "0.2",
        }  # fmt: skip
        with served(tmp_path, environ=settings) as up:
            page = open_window(up.url).page()
            page.goto("/ui/calls")
            job = up.submit("reviews", "Emma")
            call = page.get_by_role("link", name="review", exact=True)
            expect(page.locator("tbody .pill")).to_have_text("quarantined")
            call.click()
            picture(page, "quarantined", full_page=True)
            expect(page.get_by_label("Its id at gemini.batch")).to_have_value(
                up.items(f"calls?job={job}")[0]["provider_id"]
            )
            gemini.advance(200_000)
            page.get_by_role("button", name="Adopt").click()
            expect(page.locator("header.head .pill")).to_have_text("collected")
            expect(page.get_by_text("Decided by")).to_be_visible()
            up.until_job(job, "completed")
            assert len(gemini.journal(operation="create")) == 1, "it was made once, and paid once"
            picture(page, "adopted")
