"""Documents and reviews on the dashboard: dropped files are taken in and read, a review is done with the keyboard
alone, each value is shown where it stands, and of two reviewers one is told that the other was quicker."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from penstock.pipelines.documents.samples import Sample, make_samples
from tests.browser.conftest import OpenWindow
from tests.browser.test_pages import AXE, settled
from tests.browser.test_pages_dashboard import CONTRAST
from tests.support.chromium import PHONE
from tests.support.documents_show import ENVIRON, ask, behind_a_cover, decide, until_read, upload
from tests.support.served import Served, served

Picture = Callable[..., None]

KINDS = ("pdf", "facturx", "facturx_conflict", "facturx", "facturx", "facturx", "facturx", "pdf", "facturx")
NAMES = ("covered", "keyed", "shown", "approved", "fought", "plain", "rejected")
DROP = """(zone, files) => {
    const carried = new DataTransfer();
    for (const { name, content } of files)
        carried.items.add(new File([Uint8Array.from(atob(content), c => c.charCodeAt(0))], name));
    for (const kind of ["dragenter", "dragover", "drop"])
        zone.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""


@dataclass(frozen=True)
class Office:
    """A service that has read some invoices. Each test has those of its own."""

    up: Served
    samples: list[Sample]
    documents: dict[str, str]
    items: dict[str, str]

    def review(self, name: str) -> str:
        return f"/ui/review/{self.items[name]}"

    def item(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.up.get(f"/api/queue/{self.items[name]}")
        return found

    def free(self, *others: str) -> None:
        """What a test came to by going on is nobody's again."""
        for one in self.up.get("/api/queue?status=in_review")["items"]:
            if one["review_item_id"] not in [self.items[name] for name in others]:
                ask(self.up, "POST", f"/api/queue/{one['review_item_id']}/release")

    def path(self, name: str) -> str:
        return {
            "documents": "/ui/documents",
            "document": f"/ui/documents/{self.documents['shown']}",
            "queue": "/ui/review",
            "review": self.review("shown"),
        }[name]


PLACES = ("documents", "document", "queue", "review")


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    samples = make_samples(folder / "samples", count=len(KINDS), seed=11, kinds=KINDS)
    with served(folder, app="tests.support.documents_show:app", environ=ENVIRON) as up:
        files = {f"{name}.pdf": one.path.read_bytes() for name, one in zip(NAMES, samples, strict=False)}
        files["covered.pdf"] = behind_a_cover(samples[0].path)
        ids = upload(up, files)
        items = until_read(up, ids)
        yield Office(up, samples, dict(zip(NAMES, ids, strict=True)), dict(zip(NAMES, items, strict=True)))


def dropped(page: Page, *files: tuple[str, bytes]) -> None:
    told = [{"name": name, "content": base64.b64encode(content).decode()} for name, content in files]
    page.locator("#drop").evaluate(DROP, told)


def test_dropped_files_are_taken_in_and_read(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    window = open_window(office.up.url)
    window.forgive("status of 400")
    page = window.page()
    settled(page, "/ui/documents")
    fresh = [one.path for one in office.samples[len(NAMES) :]]
    dropped(page, *((path.name, path.read_bytes()) for path in fresh), ("letter.pdf", b"Dear all"), ("none.pdf", b""))
    rows = page.locator("#uploads .upload")
    expect(rows).to_have_count(len(fresh) + 2)
    for path in fresh:
        row = rows.filter(has_text=path.name)
        expect(row).to_contain_text("uploaded")
        expect(row.locator("progress")).to_have_js_property("value", 100)
        expect(page.locator("tr.row", has_text=path.name)).to_contain_text("completed")
        expect(page.locator("tr.row", has_text=path.name)).to_contain_text("pending")
    expect(rows.filter(has_text="letter.pdf")).to_contain_text("is not a document that is read here")
    expect(rows.filter(has_text="none.pdf")).to_contain_text("empty")
    picture(page, "uploaded")
    expect(page.locator("#uploads-said")).to_have_text(f"{len(fresh)} uploaded, 2 refused")
    # What was dropped together is one batch, without what was refused.
    page.get_by_role("link", name="Show the batch").click()
    expect(page.locator("tr.row")).to_have_count(len(fresh))


def test_a_file_that_is_too_large_is_not_even_sent(office: Office, open_window: OpenWindow) -> None:
    page = open_window(office.up.url).page()
    settled(page, "/ui/documents")
    page.locator("#drop").evaluate("zone => zone.dataset.largest = 100")
    dropped(page, ("large.pdf", b"%PDF-1.7" + b" " * 200))
    expect(page.locator("#uploads .upload")).to_contain_text("at most")
    assert "large.pdf" not in [one["filename"] for one in office.up.get("/api/documents")["items"]]


def test_a_review_is_done_with_the_keyboard_alone(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(office.up.url).page()
    settled(page, "/ui/review")
    link = page.locator(f"#row-{office.items['keyed']} .row-link")
    for _ in range(len(NAMES) + len(office.samples)):
        page.keyboard.press("j")
        if link.evaluate("e => e === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{office.review('keyed')}")
    fields = page.locator(".rfield")
    expect(fields.first).to_be_focused()
    assert sureness(page) == sorted(sureness(page)), "the least sure field comes first"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Accept the field and go on")
    picture(page, "help")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(fields.nth(1)).to_be_focused()
    expect(page.locator("#claim-said")).to_contain_text("yours for")
    page.keyboard.press("k")
    expect(fields.first).to_be_focused()
    # To the vendor, which is corrected, taken back, and corrected again.
    while page.evaluate("document.activeElement.dataset.field") != "vendor":
        page.keyboard.press("ArrowDown")
    vendor = page.locator("#v-vendor")
    was = vendor.input_value()
    page.keyboard.press("e")
    page.keyboard.type("Somebody else")
    expect(page.locator("#decide-said")).to_contain_text("1 correction")
    page.keyboard.press("Escape")
    expect(vendor).to_have_value(was)
    page.keyboard.press("s")
    expect(page.locator("#review-problem")).to_contain_text("Nothing is corrected")
    page.keyboard.press("e")
    page.keyboard.type("Brandt & Söhne")
    page.keyboard.press("Enter")
    expect(page.locator("#f-vendor")).to_have_class(re.compile("changed"))
    page.keyboard.press("a")
    expect(page.locator("#review-problem")).to_contain_text("There is 1 correction")
    picture(page, "corrected")
    page.keyboard.press("s")
    expect(page.get_by_text("Brandt & Söhne", exact=False).first).to_be_visible()
    page.wait_for_url(lambda url: office.items["keyed"] not in url)
    expect(page.locator("#said")).to_contain_text("corrected")
    assert office.item("keyed")["item"]["status"] == "corrected"
    # Who looks again sees the lock, and may take it away.
    settled(page, f"/ui/documents/{office.documents['keyed']}")
    row = page.locator("#f-vendor")
    expect(row).to_contain_text("Corrected by local")
    expect(row).not_to_contain_text("check")
    expect(row).to_contain_text(f"the extraction says {was}")
    row.get_by_role("button", name="Unlock Vendor").click()
    expect(row).not_to_contain_text("Corrected")
    expect(row).to_contain_text(was)
    office.free()


def test_the_next_one_is_claimed_and_shown(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(office.up.url).page()
    settled(page, "/ui/review")
    page.keyboard.press("?")
    told = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(told).to_contain_text("Review the next one")
    expect(told).not_to_contain_text("New job")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.wait_for_url(re.compile("/ui/review/[^/]+$"))
    expect(page.locator("#claim-said")).to_contain_text("yours for")
    expect(page.locator(".rfield").first).to_be_focused()
    expect(page.locator("#pulse")).not_to_be_visible()
    picture(page, "shown")
    # Who asks once more goes on with what they have.
    first = page.url
    settled(page, "/ui/review")
    page.get_by_role("button", name="Review the next one").click()
    page.wait_for_url(first)
    expect(page.locator("#claim-said")).to_contain_text("yours for")
    assert len(office.up.get("/api/queue?status=in_review")["items"]) == 1
    office.free()


def test_a_value_that_cannot_be_is_told_at_its_field(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    window = open_window(office.up.url)
    window.forgive("status of 400")
    window.forgive("status of 422")
    page = window.page()
    settled(page, office.review("shown"))
    page.locator("#v-date").fill("the first of May")
    page.keyboard.press("Enter")
    field, said = page.locator("#f-date"), page.locator("#w-date")
    expect(said).to_contain_text("date")
    expect(field.get_by_text("corrected", exact=True)).not_to_be_visible()
    page.locator("#v-vendor").fill("")
    page.keyboard.press("Enter")
    expect(page.locator("#w-vendor")).to_contain_text("required")
    page.keyboard.press("s")
    expect(page.locator("#review-problem")).not_to_be_empty()
    picture(page, "wrong")
    page.locator("#v-date").fill("1.5.2024")
    expect(said).not_to_be_visible()
    expect(field.get_by_text("corrected", exact=True)).to_be_visible()
    page.evaluate("sessionStorage.clear()")
    office.free()


def sureness(page: Page) -> list[int]:
    told = page.locator(".rfield:not(.t-locked) .conf-text").all_inner_texts()
    return [int(text.removesuffix(" %")) for text in told]


def test_an_approval_leads_to_the_next_item(office: Office, open_window: OpenWindow) -> None:
    page = open_window(office.up.url).page()
    settled(page, office.review("approved"))
    page.keyboard.press("a")
    expect(page.locator("#said")).to_contain_text("approved")
    page.wait_for_url(lambda url: office.items["approved"] not in url)
    expect(page.locator("#claim-said")).to_contain_text("yours for")
    assert office.item("approved")["item"]["status"] == "approved"
    office.free()


def test_a_rejection_asks_for_the_reason(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(office.up.url).page()
    settled(page, office.review("rejected"))
    page.keyboard.press("r")
    expect(page.locator("#reason")).to_be_focused()
    picture(page, "why")
    page.keyboard.type("a reminder,")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("no invoice")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_contain_text("rejected")
    found = office.item("rejected")["item"]
    assert (found["status"], found["reason"]) == ("rejected", "a reminder,\nno invoice")
    office.free()


def test_of_two_reviewers_one_is_told(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    first = open_window(office.up.url, extra_http_headers={"X-Penstock-As": "anna"})
    second = open_window(office.up.url, extra_http_headers={"X-Penstock-As": "ben"})
    second.forgive("status of 409")
    anna, ben = first.page(), second.page()
    settled(anna, office.review("fought"))
    settled(ben, office.review("fought"))
    anna.keyboard.press("c")
    expect(anna.locator("#claim-said")).to_contain_text("yours for")
    ben.locator("#v-total").fill("99.50")
    expect(ben.locator("#review-problem")).to_contain_text("in review by anna")
    expect(ben.locator("#claim-said")).to_contain_text("with anna")
    expect(ben.locator(".decide-bar")).to_have_count(0)
    ben.keyboard.press("Escape")
    # What somebody types at what is not theirs does nothing, and they are told why.
    ben.keyboard.type("approved, next")
    expect(ben.locator("#review-problem")).to_contain_text("This is anna's")
    expect(ben.locator("#v-total")).to_have_value("99.50")
    assert ben.url.endswith(office.review("fought"))
    picture(ben, "told")
    # She gives it back, and what he typed is still there to be submitted.
    anna.get_by_role("button", name="Release").click()
    expect(anna.locator("#said")).to_contain_text("back in the queue")
    ben.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(ben.locator(".decide-bar")).to_be_visible()
    expect(ben.locator("#v-total")).to_have_value("99.50")
    ben.locator("#f-total").focus()
    ben.keyboard.press("s")
    expect(ben.locator("#said")).to_contain_text("corrected")
    assert office.item("fought")["invoice_data"]["total"] == "99.50"
    office.free()


def test_a_value_is_shown_where_it_stands(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(office.up.url).page()
    settled(page, office.review("covered"))
    told = {one["field"]: one for one in office.item("covered")["fields"]}
    total = told["total"]["evidence"]
    assert total["page"] > 1, "the first page is empty"
    while page.locator("[data-at]").inner_text() != "1":
        page.get_by_role("link", name="Page before").click()
    expect(page.get_by_role("img", name="Page 1 of covered.pdf")).to_be_visible()
    expect(page.locator(".boxes rect:not([hidden])")).to_have_count(0)
    page.locator("#v-total").focus()
    image = page.get_by_role("img", name=f"Page {total['page']} of covered.pdf")
    expect(image).to_be_visible()
    assert image.evaluate("e => e.decode().then(() => e.naturalWidth)") > 500
    box = page.locator(".boxes rect.on")
    expect(box).to_have_attribute("data-of", "total")
    for _ in range(2):
        assert within(box, image) == pytest.approx(total["box"], abs=0.01)
        page.get_by_role("button", name="Larger").click()
        expect(page.locator("[data-scale]")).to_have_text(re.compile("150|200"))
        image.evaluate("e => e.decode()")
    expect(box).to_be_in_viewport()
    picture(page, "zoomed")
    # A box on the page leads to its field.
    page.locator('.boxes rect[data-of="invoice_number"]').dispatch_event("click", {"bubbles": True})
    expect(page.locator("#f-invoice_number")).to_be_focused()


def within(box: Locator, image: Locator) -> list[float]:
    small, large = box.bounding_box(), image.bounding_box()
    assert small is not None and large is not None
    left, top = (small["x"] - large["x"]) / large["width"], (small["y"] - large["y"]) / large["height"]
    return [left, top, left + small["width"] / large["width"], top + small["height"] / large["height"]]


def test_without_a_script_forms_do(office: Office, open_window: OpenWindow) -> None:
    window = open_window(office.up.url, java_script_enabled=False)
    window.forgive("status of 422")
    page = window.page()
    page.goto(office.review("plain"))
    page.locator("#v-date").fill("the first of May")
    page.get_by_role("button", name="Submit corrections").click()
    expect(page.locator("#review-problem")).to_contain_text("date")
    expect(page.locator("#v-date")).to_have_value("the first of May")
    page.locator("#v-date").fill("1.5.2024")
    page.get_by_role("button", name="Submit corrections").click()
    expect(page.locator("#said")).to_contain_text("corrected")
    assert office.item("plain")["invoice_data"]["date"] == "2024-05-01"
    office.free()


def test_everybody_can_use_it(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(office.up.url, reduced_motion="reduce").page()
    for name in PLACES:
        settled(page, office.path(name))
        for box in page.locator(".table-box").all():
            wide, seen = box.evaluate("e => [e.scrollWidth, e.clientWidth]")
            assert wide <= seen, f"{name}: {wide - seen} pixels of a table are cut off"
        for theme, options in (("light", AXE), ("dark", CONTRAST)):
            page.emulate_media(color_scheme=theme)
            picture(page, f"{name}-{theme}")
            found = Axe().run(page, options=options)
            assert found.violations_count == 0, f"{name} in {theme}: {found.generate_report()}"


def test_it_fits_on_a_phone(office: Office, open_window: OpenWindow, picture: Picture) -> None:
    page = open_window(office.up.url, viewport=PHONE, has_touch=True, is_mobile=True).page()
    for name in PLACES:
        settled(page, office.path(name))
        picture(page, f"{name}-phone")
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= seen, f"{name}: {wide - seen} pixels stand out at the side"


def test_the_queue_says_what_would_be_approved(office: Office, open_window: OpenWindow) -> None:
    page = open_window(office.up.url).page()
    settled(page, "/ui/review")
    pending = office.up.get("/api/queue?status=pending&limit=100")["items"]
    most = int(page.locator("#approve-said").inner_text().removeprefix("Approve "))
    assert most <= sum(one["confidence"] >= 0.95 for one in pending)
    page.locator("#percent").focus()
    page.keyboard.press("Home")
    expect(page.locator("#percent-said")).to_have_text("50 %")
    assert int(page.locator("#approve-said").inner_text().removeprefix("Approve ")) >= most
    page.keyboard.press("End")
    expect(page.locator("#approve-said")).to_have_text("Approve 0")
    expect(page.locator(".approve-form button")).to_be_disabled()


def test_a_job_leads_to_its_document_and_a_document_can_go(
    office: Office, open_window: OpenWindow, tmp_path: Path
) -> None:
    made = make_samples(tmp_path, count=1, seed=77, kinds=["facturx"])[0]
    (document,) = upload(office.up, {"away.pdf": made.path.read_bytes()})
    until_read(office.up, [document])
    page = open_window(office.up.url).page()
    settled(page, f"/ui/documents/{document}")
    page.locator("dd a.mono").first.click()
    page.get_by_role("link", name="Open in Documents").click()
    page.wait_for_url(f"**/ui/documents/{document}")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("#said")).to_contain_text("deleted")
    expect(page.get_by_role("heading", name="Documents", exact=True)).to_be_visible()
    assert document not in [one["document_id"] for one in office.up.get("/api/documents")["items"]]
    decide(office.up, office.items["shown"], "clara")
    office.free()
