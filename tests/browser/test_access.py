"""Who may see and do what, as a browser finds it: with a token, with the wrong one, and with one that may do little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenWindow
from tests.support.chromium import LIVE, Watched
from tests.support.served import Served, served

Picture = Callable[..., None]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Reachable from elsewhere, so everybody needs a token."""
    with served(tmp_path_factory.mktemp("guarded"), guarded=True) as up:
        yield up


def token(up: Served, name: str, *options: str) -> str:
    secret: str = up.run("tokens", "create", name, *options)["secret"]
    return secret


def log_in(page: Page, secret: str) -> None:
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()


def logged_in(window: Watched, secret: str, path: str = "/") -> Page:
    page = window.page()
    page.goto(path)
    log_in(page, secret)
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    return page


def test_a_person_logs_in_and_out(guarded: Served, open_window: OpenWindow, picture: Picture) -> None:
    window = open_window(guarded.url)
    window.forgive("401")
    page = window.page()
    page.goto("/ui/jobs?status=failed")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    picture(page, "login")
    log_in(page, "pst_not_a_token")
    expect(page.get_by_role("alert")).to_contain_text("not known")
    assert page.context.cookies() == []
    log_in(page, token(guarded, "ann", "--scope", "operate"))
    page.wait_for_url("**/ui/jobs?status=failed")
    expect(page.get_by_text("as ann")).to_be_visible()
    (cookie,) = [cookie for cookie in page.context.cookies() if cookie["httpOnly"]]
    assert cookie["sameSite"] == "Lax"
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_too_many_wrong_tokens_are_no_longer_looked_at(tmp_path: Path, open_window: OpenWindow) -> None:
    with served(tmp_path, guarded=True, environ={"PENSTOCK_SERVICE__LOGINS_A_MINUTE": "2"}) as up:
        window = open_window(up.url)
        window.forgive("401", "429")
        page = window.page()
        page.goto("/ui/login")
        for words in ("not known", "not known", "Too many"):
            log_in(page, "pst_not_a_token")
            expect(page.get_by_role("alert")).to_contain_text(words)


def test_who_may_only_read_has_no_buttons_and_cannot_forge_one(
    guarded: Served, open_window: OpenWindow, picture: Picture
) -> None:
    job = guarded.submit("books", {"title": "Emma"})
    guarded.until_job(job, "running")
    window = open_window(guarded.url)
    page = logged_in(window, token(guarded, "reader", "--scope", "read"), f"/ui/jobs/{job}")
    expect(page.locator("header.head .pill").first).to_contain_text("running")
    expect(page.locator(".actions button")).to_have_count(0)
    picture(page, "reading")
    for path in ("/ui/jobs", "/ui/dead-letters", "/ui/costs", "/ui/schedules"):
        page.goto(path)
        expect(page.locator("#main form[method=post]")).to_have_count(0)
    # Even with the secret that its own pages carry.
    secret = page.locator("input[name=csrf]").first.input_value()
    for path, form in ((f"/ui/jobs/{job}/pause", {}), ("/ui/jobs/act", {"action": "cancel", "id": job})):
        answer = page.request.post(path, form={"csrf": secret, "back": "/", **form}, max_redirects=0)
        assert answer.status == 403, answer.text()
    answer = page.request.post(f"/api/v1/jobs/{job}/pause", headers={"X-CSRF-Token": secret}, data={})
    assert answer.status == 403
    assert guarded.job(job)["status"] == "running"


def test_a_button_without_the_secret_of_its_page_does_nothing(guarded: Served, open_window: OpenWindow) -> None:
    job = guarded.submit("books", {"title": "Emma"})
    guarded.until_job(job, "running")
    page = logged_in(open_window(guarded.url), token(guarded, "bob", "--scope", "operate"))
    for form in ({"back": "/"}, {"back": "/", "csrf": "guessed"}):
        assert page.request.post(f"/ui/jobs/{job}/pause", form=form, max_redirects=0).status == 403
    elsewhere = {"Origin": "http://evil.example"}
    secret = page.locator("input[name=csrf]").first.input_value()
    answer = page.request.post(f"/ui/jobs/{job}/pause", form={"csrf": secret}, headers=elsewhere, max_redirects=0)
    assert answer.status == 403
    assert guarded.job(job)["status"] == "running"


def test_a_tenant_sees_nothing_of_another(guarded: Served, open_window: OpenWindow, picture: Picture) -> None:
    ours = guarded.submit("books", {"title": "Emma"}, key="emma", tenant="acme")
    theirs = guarded.submit("books", {"title": "Secret"}, key="secret", tenant="globex")
    guarded.until_job(theirs, "running")
    window = open_window(guarded.url)
    window.forgive("404")
    page = logged_in(window, token(guarded, "acme", "--scope", "operate", "--tenant", "acme"), "/ui/jobs")
    expect(page.get_by_role("link", name="emma")).to_be_visible()
    expect(page.get_by_text("secret")).to_have_count(0)
    expect(page.get_by_role("navigation", name="Main").get_by_role("link", name="Workers")).to_have_count(0)
    picture(page, "acme")
    for path in ("/", "/ui/batches", "/ui/calls", "/ui/dead-letters", "/ui/costs", "/ui/audit"):
        page.goto(path)
        expect(page.get_by_role("main")).to_be_visible()
        assert theirs not in page.content() and "globex" not in page.content(), path
    unknown = "0" * len(theirs)
    told = [page.request.get(f"/ui/jobs/{job}").text().replace(job, "ID") for job in (theirs, unknown)]
    assert told[0] == told[1], "it tells what is another's from what never was"
    assert page.goto(f"/ui/jobs/{theirs}").status == 404  # type: ignore[union-attr]
    assert page.goto(f"/ui/jobs/{ours}").status == 200  # type: ignore[union-attr]


def test_a_revoked_token_ends_what_it_opened(guarded: Served, open_window: OpenWindow) -> None:
    window = open_window(guarded.url)
    window.forgive("401")
    page = logged_in(window, token(guarded, "leaver", "--scope", "read"))
    expect(page.locator("#pulse")).to_have_attribute("data-state", LIVE)
    guarded.run("tokens", "revoke", "leaver")
    # The page that is open goes to the login by itself when it next asks for something: only another one is led.
    another = window.page()
    another.goto("/ui/jobs")
    expect(another.get_by_role("heading", name="Log in")).to_be_visible()
    guarded.submit("books", {"title": "Emma"})
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
