"""The routes of the pages pipeline, and its dashboard as a browser without scripts asks for it: a real run on a real
local Gemini, what clients may name, and what nobody is sent."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from PIL import Image

from penstock.pipelines.pages.dashboard.pictures import MOST_KEPT
from penstock.pipelines.pages.ledger_rows import Totals
from penstock.pipelines.pages.reading import Overview
from penstock.pipelines.pages.workflow import pages
from penstock.service.sections import found_sections
from tests.support import pages_show
from tests.support.api import Api, serving
from tests.support.gemini import Gemini, running_gemini
from tests.support.house import in_a_loop
from tests.support.pages import SCRIPT, Library, said

HOWARD, OBERLIN = "Alabama/Howard College/1849", "Ohio/Ob:erlin 50%/1850"
BODY: dict[str, Any] = {
    "paths": {"label_source_dir": "labels", "image_source_dir": "images", "output_dir": "out"},
    "prompt": {"name": "transcription"},
    "batch": {"poll_interval_seconds": 0.2},
}


@pytest.fixture(scope="module")
def gemini() -> Iterator[Gemini]:
    with running_gemini() as running:
        running.script(SCRIPT)
        yield running


@asynccontextmanager
async def shelf(folder: Path, *, roots: list[str] | None = None, url: str = "", open_access: bool = True
                ) -> AsyncIterator[tuple[Api, httpx2.AsyncClient]]:  # fmt: skip
    """A service whose root is `folder/books`, and somebody who asks it."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    also: dict[str, Any] = {"pages": {"roots": roots or [str(folder / "books")]}}
    if url:
        also["gemini"] = {"base_url": url, "api_key": "a-key"}
    async with serving(home, open_access=open_access, more=[pages], sections=found_sections(), also=also) as api:
        secret = None if open_access else await api.secret(f"boss-{roots is None}", "admin")
        async with api.client(secret) as client:
            yield api, client


def body(**groups: Any) -> dict[str, Any]:
    return {**BODY, **groups}


async def actions(api: Api, client: httpx2.AsyncClient) -> list[tuple[str, str]]:
    told = (await client.get("/api/v1/audit")).json()["items"]
    return [(one["action"], one["target"]) for one in reversed(told)]


def test_a_run_from_start_to_end_and_a_dead_page_tried_again(tmp_path: Path, gemini: Gemini) -> None:
    @in_a_loop
    async def main() -> None:
        library = Library(tmp_path / "books", {HOWARD: [1, 2, 3, 7], OBERLIN: [14, 15]})
        library.image(HOWARD, 7).unlink()
        async with shelf(tmp_path, url=gemini.url) as (api, client):
            started = await client.post("/pages/runs", json=BODY)
            assert started.status_code == 201 and started.json()["created"] is True
            run = started.json()["run"]
            place = f"/pages/runs/{run['id']}"
            assert started.headers["location"] == place
            assert run["output_dir"] == str(library.outputs.resolve())
            again = await client.post("/pages/runs", json=BODY)
            assert (again.status_code, again.json()["created"]) == (200, False) and again.json()["run"]["id"] == run[
                "id"
            ]
            await api.run(run["id"])
            await looked_at(client, place, library)

            dry = (await client.post(f"{place}/retry", json={"dry_run": True})).json()
            assert (dry["pages"], dry["run"]["id"]) == (1, run["id"])
            assert (await client.post(f"{place}/retry", json={"state": "Ohio"})).json()["pages"] == 0
            library.add(HOWARD, 7)
            retried = (await client.post(f"{place}/retry", json={"key": library.key(HOWARD, 7)})).json()
            assert retried["pages"] == 1 and retried["run"]["id"] != run["id"] and retried["run"]["run"] == 2
            await api.run(retried["run"]["id"])
            shown = (await client.get(place)).json()
            assert shown["run"]["newest"] == retried["run"]["id"]
            assert (shown["overview"]["done"], shown["overview"]["dead"], shown["overview"]["wishes"]) == (6, 0, 0)
            assert (await client.get("/pages/runs")).json()["items"][0]["id"] == retried["run"]["id"]
            done = await actions(api, client)
            assert ("pages.retry", f"job:{run['id']}") in done and ("job.submit", f"job:{run['id']}") in done

    main()


async def looked_at(client: httpx2.AsyncClient, place: str, library: Library) -> None:
    overview = (await client.get(place)).json()["overview"]
    wanted = {"books": 2, "pages": 6, "done": 5, "dead": 1, "in_flight": 0, "ready": 0, "waiting": 0}
    assert {name: overview[name] for name in wanted} == wanted and overview["cost_microdollars"] > 0

    first = (await client.get(f"{place}/books?limit=1")).json()
    assert [one["states"] for one in first["items"]] == ["ddd x"] and first["items"][0]["pages"] == "0001-0003 0007"
    second = (await client.get(f"{place}/books", params={"limit": 1, "cursor": first["next"]})).json()
    assert [one["book"] for one in second["items"]] == [OBERLIN]
    for query, books in (("only=dead", 1), ("only=open", 1), ("state=Ohio", 1), ("year=1850&school=x", 0)):
        assert len((await client.get(f"{place}/books?{query}")).json()["items"]) == books, query

    page = (await client.get(f"{place}/pages/{library.key(OBERLIN, 15).replace('%', '%25')}")).json()
    assert (page["status"], page["school"], page["name"]) == ("done", "Ob:erlin 50%", "0015")
    assert page["output"] == {"text": said(OBERLIN, 15, 14)} and page["context"]["text"] == said(OBERLIN, 14)
    assert page["before"] == library.key(OBERLIN, 14) and page["after"] is None
    dead = (await client.get(f"{place}/pages/{library.key(HOWARD, 7)}")).json()
    assert dead["dead"] and dead["image"] is None and [one["type"] for one in dead["attempts"]] == ["image"]
    for key in ("Ohio:None:1850:1", "nonsense", "a:b:c:d", f"Ohio:x:1:{'9' * 900}"):
        assert (await client.get(f"{place}/pages/{key}")).status_code == 404, key

    batches = (await client.get(f"{place}/batches")).json()["items"]
    assert [one["number"] for one in batches] == sorted((one["number"] for one in batches), reverse=True)
    assert sum(one["successful_records"] for one in batches) == 5 and all(one["batch_id"] for one in batches)
    assert (await client.get(f"{place}/batches?active=true")).json()["items"] == []
    failures = (await client.get(f"{place}/failures?type=image&state=Alabama")).json()
    assert [one["key"] for one in failures["items"]] == [library.key(HOWARD, 7)] and failures["groups"] is None
    assert (await client.get(f"{place}/failures?state=Ohio")).json()["items"] == []
    by = (await client.get(f"{place}/failures?by=school")).json()
    assert by["groups"] == [{"group": "Alabama/Howard College", "attempts": 1, "pages": 1}] and by["items"] == []


@in_a_loop
async def test_a_run_is_paused_resumed_and_canceled_as_a_job_is(tmp_path: Path) -> None:
    Library(tmp_path / "books", {HOWARD: [1]})
    async with shelf(tmp_path) as (api, client):
        run = (await client.post("/pages/runs", json=BODY)).json()["run"]["id"]
        place = f"/pages/runs/{run}"
        assert (await client.post(f"{place}/pause", json={"reason": "lunch"})).json()["status"] == "paused"
        assert (await client.get(f"/api/v1/jobs/{run}")).json()["reason"] == "lunch"
        assert (await client.post(f"{place}/resume")).json()["status"] == "queued"
        assert (await client.post(f"{place}/rescan", json={"state": "Alabama"})).json()["run"]["id"] == run
        assert (await client.get(place)).json()["overview"]["wishes"] == 1
        status = (await client.post(f"{place}/cancel")).json()["status"]
        refused = await client.post(f"{place}/pause")
        assert (refused.status_code, refused.json()["state"], refused.json()["id"]) == (409, status, run)
        assert [action for action, _ in await actions(api, client)] == [
            "job.submit", "job.pause", "job.resume", "pages.rescan", "job.cancel"
        ]  # fmt: skip


@in_a_loop
async def test_an_idempotency_key_is_answered_once(tmp_path: Path) -> None:
    Library(tmp_path / "books", {HOWARD: [1]})
    async with shelf(tmp_path) as (api, client):
        key = {"Idempotency-Key": "upload-17"}
        first = await client.post("/pages/runs", json=BODY, headers=key)
        assert first.status_code == 201
        again = await client.post("/pages/runs", json=BODY, headers=key)
        assert (again.status_code, again.json()) == (201, first.json())
        other = await client.post("/pages/runs", json=body(execution={"max_retries": 1}), headers=key)
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
        # Under another key the run that is alive is the answer, also when it has ended since.
        later = {"Idempotency-Key": "upload-18"}
        assert (await client.post("/pages/runs", json=BODY, headers=later)).status_code == 200
        run = first.json()["run"]["id"]
        await client.post(f"/pages/runs/{run}/cancel")
        await api.run(run)
        for asked in (key, later):
            assert (await client.post("/pages/runs", json=BODY, headers=asked)).json()["run"]["id"] == run
        assert len((await client.get("/pages/runs")).json()["items"]) == 1


@in_a_loop
async def test_another_configuration_for_the_same_folder_waits(tmp_path: Path) -> None:
    Library(tmp_path / "books", {HOWARD: [1]})
    async with shelf(tmp_path) as (_, client):
        run = (await client.post("/pages/runs", json=BODY)).json()["run"]["id"]
        refused = await client.post("/pages/runs", json=body(execution={"max_retries": 1}))
        assert (refused.status_code, refused.json()["id"], refused.json()["state"]) == (409, run, "queued")
        assert "execution.max_retries" in refused.json()["detail"]


@in_a_loop
async def test_no_folder_outside_of_the_roots_can_be_named(tmp_path: Path) -> None:
    Library(tmp_path / "books", {HOWARD: [1]})
    Library(tmp_path / "secret", {HOWARD: [1]})
    (tmp_path / "books" / "way-out").symlink_to(tmp_path / "secret")
    (tmp_path / "books-too").mkdir()
    outside = (str(tmp_path / "secret" / "images"), "../secret/images", "way-out/images", "/", "/nonesuch", "..",
               str(tmp_path / "books-too"), "images/../../secret", "~", "~root/x")  # fmt: skip
    async with shelf(tmp_path) as (_, client):
        for name in ("label_source_dir", "image_source_dir", "output_dir"):
            for path in outside:
                answer = await client.post("/pages/runs", json=body(paths={**BODY["paths"], name: path}))
                told = answer.json()
                assert answer.status_code == 422, (name, path)
                assert [one["location"] for one in told["errors"]] == [f"body.paths.{name}"], told
                assert "pages.roots" in told["detail"] or "~" in path
                assert "no folder" not in answer.text.replace("no folder that can be found", "")
        prompt = {"name": "transcription", "registry_dir": "../secret"}
        assert "body.prompt.registry_dir" in (await client.post("/pages/runs", json=body(prompt=prompt))).text
        assert (await client.get("/pages/runs")).json()["items"] == []


@in_a_loop
async def test_each_tenant_has_folders_of_its_own(tmp_path: Path) -> None:
    for name in ("acme", "bolt", "books"):
        Library(tmp_path / name, {HOWARD: [1]})
    roots = [str(tmp_path / "books"), str(tmp_path / "{tenant}")]
    async with shelf(tmp_path, roots=roots, open_access=False) as (api, boss):
        async with api.client(await api.secret("acme", "operate", tenant="acme")) as acme:
            run = (await acme.post("/pages/runs", json=BODY)).json()["run"]
            assert (run["tenant"], run["output_dir"]) == ("acme", str((tmp_path / "acme" / "out").resolve()))
            for paths in ({"image_source_dir": "../bolt/images"}, {"image_source_dir": str(tmp_path / "books/images")}):
                assert (await acme.post("/pages/runs", json=body(paths={**BODY["paths"], **paths}))).status_code == 422
            assert (await acme.post("/pages/runs?tenant=bolt", json=BODY)).status_code == 403
        bolt = await boss.post("/pages/runs?tenant=bolt", json=BODY)
        async with api.client(await api.secret("bolt", "operate", tenant="bolt"), Accept="text/html") as foreign:
            assert run["id"] not in (await foreign.get("/ui/pages?tenant=acme")).text
            place = f"/ui/pages/runs/{run['id']}"
            for path in ("", "/batches", "/failures", "/pages/a:b:1:1", "/images/a:b:1:1", "/books/a/b/1"):
                assert (await foreign.get(place + path)).status_code == 404, path
            for action in ("retry", "rescan"):
                assert (await foreign.post(f"{place}/{action}", data={"everything": "yes"})).status_code == 404
        assert bolt.json()["run"]["output_dir"] == str((tmp_path / "bolt" / "out").resolve())
        assert (await boss.post("/pages/runs", json=BODY)).json()["run"]["tenant"] == "default"
        refused = await boss.post("/pages/runs?tenant=..", json=BODY)
        assert refused.status_code == 403 and "pages.roots" in refused.json()["detail"]
    async with shelf(tmp_path, open_access=False) as (_, boss):
        refused = await boss.post("/pages/runs?tenant=acme", json=BODY)
        assert refused.status_code == 403 and "pages.roots" in refused.json()["detail"]


@in_a_loop
async def test_a_run_is_started_by_its_own_route_alone(tmp_path: Path) -> None:
    """With any other, a client could write a payload with folders that nobody has looked at."""
    async with shelf(tmp_path) as (_, client):
        job = {"workflow": "pages", "payload": {"run": BODY, "ledger": "x"}}
        for method, path, sent in (
            ("POST", "/api/v1/jobs", job),
            ("POST", "/api/v1/jobs/many", {"jobs": [{"workflow": "notes"}, job]}),
            ("POST", "/api/v1/batches", {"then": job}),
            ("PUT", "/api/v1/schedules/nightly", {**job, "cron": "0 6 * * *"}),
        ):
            refused = await client.request(method, path, json=sent)
            assert refused.status_code == 403 and "routes of pages" in refused.json()["detail"], path
        form = (await client.get("/ui/jobs/new", headers={"Accept": "text/html"})).text
        assert "<option" in form and ">pages<" not in form
        csrf = re.search(r'name="csrf" value="([^"]+)"', form)
        typed = {"csrf": csrf[1] if csrf else "", "workflow": "pages", "payload": "{}"}
        assert (await client.post("/ui/jobs/new", data=typed)).status_code == 422
        assert (await client.get("/api/v1/jobs")).json()["items"] == []


@in_a_loop
async def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    Library(tmp_path / "books", {HOWARD: [1]})
    async with shelf(tmp_path) as (_, client):
        for sent, location in (
            ({}, "body.paths"),
            (body(execution={"max_retries": -1}), "body.execution.max_retries"),
            (body(execution={"max_retries": True}), "body.execution.max_retries"),
            (body(executon={}), "body.executon"),
            (body(paths={**BODY["paths"], "label_source_dir": "nonesuch"}), "body.paths.label_source_dir"),
            (body(paths={**BODY["paths"], "output_dir": "images"}), "body.paths.output_dir"),
            (body(prompt={"name": "nonesuch"}), "request"),
        ):
            answer = await client.post("/pages/runs", json=sent)
            assert answer.status_code == 422 and answer.json()["errors"][0]["location"] == location, answer.text
        told = {"max_retrys": 2, "batch_size_limit": 0, "on_dead_page": "wait"}
        answer = await client.post("/pages/runs", json=body(execution=told, model={"name": 7}))
        assert {one["location"]: one["message"] for one in answer.json()["errors"]} == {
            "body.execution.max_retrys": "there is no such key; did you mean execution.max_retries?",
            "body.execution.batch_size_limit": "must be 1 or more",
            "body.execution.on_dead_page": "must be 'block' or 'skip'",
            "body.model.name": "must be text: put it in quotes",
        }
        for sent in (None, [], "labels", [BODY]):
            answer = await client.post("/pages/runs", json=sent)
            assert (answer.status_code, answer.json()["errors"][0]["location"]) == (422, "body"), sent
            assert "of which paths must be there" in answer.json()["detail"]
        run = (await client.post("/pages/runs", json=BODY)).json()["run"]["id"]
        for sent in ({"school": "Howard College"}, {"state": "x", "year": 1}, {"key": "k", "state": "s"}, {"dead": 1}):
            assert (await client.post(f"/pages/runs/{run}/retry", json=sent)).status_code == 422, sent
        for query in ("books?only=x", "batches?cursor=x", "failures?by=color", "books?stat=Ohio"):
            assert (await client.get(f"/pages/runs/{run}/{query}")).status_code == 422, query
        other = (await client.post("/api/v1/jobs", json={"workflow": "notes"})).json()["job"]["id"]
        assert (await client.get(f"/pages/runs/{other}")).json()["detail"] == f"there is no run {other}"


@in_a_loop
async def test_files_are_sent_from_the_runs_own_folders_alone(tmp_path: Path) -> None:
    async with shelf(tmp_path) as (api, client):
        run = await pages_show.fill(api.penstock, tmp_path / "books", books=3, batches=6, style="tiny")
        folder = next((tmp_path / "books/library/images").glob("*/*/*"))
        key = ":".join(folder.parts[-3:])
        images, html = f"/ui/pages/runs/{run}/images/{key}", {"Accept": "text/html"}
        plain = await client.get(f"{images}:1")
        assert (plain.status_code, plain.headers["content-type"]) == (200, "image/jpeg")
        assert (
            plain.headers["x-content-type-options"] == "nosniff"
            and "default-src 'none'" in (plain.headers["content-security-policy"])
        )
        (secret := tmp_path / "secret.jpg").write_bytes(b"\xff\xd8\xff secret")
        (folder / "2.jpg").unlink()
        (folder / "2.jpg").symlink_to(secret)
        (folder / "3.jpg").write_text("<script>alert(1)</script>")
        (folder / "4.jpg").unlink()
        Image.new("L", (20, 30), 9).save(folder / "4.tif")
        (kept := tmp_path / "home" / "pages" / "shown").mkdir(parents=True)
        for n in range(MOST_KEPT + 5):
            (kept / f"{n}.png").touch()
        assert [(await client.get(f"{images}:{n}")).status_code for n in (2, 3, 4, 99)] == [404, 404, 200, 404]
        tiff = await client.get(f"{images}:4")
        assert tiff.headers["content-type"] == "image/png" and tiff.content.startswith(b"\x89PNG")
        assert len(list(kept.iterdir())) == MOST_KEPT
        assert (await client.get(f"/ui/pages/runs/{run}/images/..:..:1:1")).status_code == 404

        outputs = tmp_path / "books/library/output" / folder.relative_to(tmp_path / "books/library/images")
        (told := tmp_path / "told.json").write_text('{"text": "a secret"}')
        (outputs / "1.json").unlink()
        (outputs / "1.json").symlink_to(told)
        (outputs / "2.json").write_text('{"text": "half \\ud800 of it <script>alert(1)</script>"}')
        (outputs / "3.json").write_text("[" * 200_000)
        assert (await client.get(f"/pages/runs/{run}/pages/{key}:3")).json()["output"] is None
        for path in (f"/pages/runs/{run}/pages/{key}:1", f"/ui/pages/runs/{run}/pages/{key}:1",
                     f"/ui/pages/runs/{run}/pages/{key}:2"):  # fmt: skip
            answer = await client.get(path, headers=html)
            assert answer.status_code == 200 and "a secret" not in answer.text and "<script>alert" not in answer.text
        assert (await client.get(f"/pages/runs/{run}/pages/{key}:2")).json()["output"]["text"].startswith("half ? of")


@in_a_loop
async def test_the_dashboard_shows_all_of_it_and_asks_what_its_buttons_say(tmp_path: Path) -> None:
    async with shelf(tmp_path) as (api, client):
        client.headers["Accept"] = "text/html"
        run = await pages_show.fill(api.penstock, tmp_path / "books", books=60, batches=120, style="tiny")
        place = f"/ui/pages/runs/{run}"
        texts = {
            path: (await client.get(path)).text
            for path in ("/ui/pages", place, f"{place}?only=dead&state=Ohio", f"{place}?only=nonesuch",
                         f"{place}/batches", f"{place}/batches?active=yes", f"{place}/failures?type=schema")
        }  # fmt: skip
        for path, text in texts.items():
            assert "library/output" in text and " style=" not in text and "<script>" not in text, path
        assert texts[place].count('class="book row"') == 50 and len(texts[place]) < 150_000
        following = re.search(r'href="([^"]+)" rel="next"', texts[place])
        rest = (await client.get(following[1].replace("&amp;", "&") if following else "")).text
        assert rest.count('class="book row"') == 10
        assert texts[f"{place}/batches"].count('id="batch-') == 100 and ">Older<" in texts[f"{place}/batches"]
        assert texts[f"{place}/batches?active=yes"].count('id="batch-') == 4
        book = re.search(rf'href="({place}/books/[^"]+)"', texts[place])
        listed = (await client.get(book[1] if book else "")).text
        assert re.search(rf'<a class="leaf p-done" href="{place}/pages/', listed)

        csrf = re.search(r'name="csrf" value="([^"]+)"', texts[place])
        form = {"csrf": csrf[1] if csrf else ""}
        browser = {"Origin": "http://127.0.0.1:8800"}
        assert (await client.post(f"{place}/retry", data={"everything": "yes"}, headers=browser)).status_code == 403
        for fields, words in (
            ({"state": "Ohio"}, "will be tried again"),
            ({"key": "Ohio:None:1850:1"}, "nothing to try again"),
            ({}, "say which pages"),
        ):
            answer = await client.post(f"{place}/retry", data={**form, **fields, "back": f"{place}/failures"})
            assert (answer.status_code, answer.headers["location"]) == (303, f"{place}/failures")
            assert words in (await client.get(f"{place}/failures")).text
        answer = await client.post(f"{place}/rescan", data={**form, "back": "//elsewhere"})
        assert answer.headers["location"] == "/"
        huge = "9" * 20
        for path in (f"{place}/books/Ohio/None/1850", f"{place}/pages/nonsense", "/ui/pages/runs/nonesuch",
                     f"{place}/books/Ohio/None/{huge}", f"{place}/batches?before={huge}"):  # fmt: skip
            assert (await client.get(path)).status_code in (404, 422), path


@in_a_loop
async def test_dead_pages_are_said_where_people_look(tmp_path: Path) -> None:
    async with shelf(tmp_path, roots=[str(tmp_path / "books"), str(tmp_path / "{tenant}")], open_access=False
                     ) as (api, client):  # fmt: skip
        client.headers["Accept"] = "text/html"
        run = await pages_show.fill(api.penstock, tmp_path / "books", books=20, batches=6, style="tiny")
        place = f"/ui/pages/runs/{run}"
        dead = (await client.get(f"/pages/runs/{run}", headers={"Accept": "*/*"})).json()["overview"]["dead"]
        overview = (await client.get("/")).text
        assert "Nothing needs you" not in overview and f"{dead} pages are dead in library/output" in overview
        assert f'href="{place}/failures"' in overview
        assert f'href="{place}"' in (await client.get(f"/ui/jobs/{run}")).text
        async with api.client(await api.secret("acme", "read", tenant="acme"), Accept="text/html") as acme:
            assert "dead in" not in (await acme.get("/")).text
        await api.penstock.engine.write(
            "UPDATE jobs SET status = 'completed', phase = 'final', finished = created, due = NULL"
            " WHERE workflow = 'pages'"
        )
        for path in ("/ui/pages", place, f"{place}/failures"):
            assert f"completed, {dead} dead" in (await client.get(path)).text, path
        assert "pages not read behind them" in (await client.get(place)).text


@in_a_loop
async def test_a_batch_that_was_not_sent_is_not_in_flight(tmp_path: Path) -> None:
    async with shelf(tmp_path) as (api, client):
        run = await pages_show.fill(api.penstock, tmp_path / "books", books=20, batches=6, style="tiny")
        await api.penstock.engine.write("UPDATE pages_batches SET state = 'planned', submitted = NULL WHERE number = 6")
        told = (await client.get(f"/pages/runs/{run}")).json()["overview"]
        assert (told["batches_active"], told["batches_planned"]) == (4, 1)
        client.headers["Accept"] = "text/html"
        place = f"/ui/pages/runs/{run}"
        assert "in 3 of 10 batches" in (await client.get(place)).text
        row = re.search(r'id="batch-6".*?</tr>', (await client.get(f"{place}/batches")).text, re.DOTALL)
        assert row and "to be sent" in row[0] and "not sent yet" in row[0] and "at Gemini" not in row[0]


def test_what_is_left_takes_as_long_as_chains_and_slots_say() -> None:
    def left(**more: Any) -> float | None:
        told = {"longest_chain": 200, "batch_seconds": 600.0, "pace": 6000.0, "pages_left": 1_000_000, **more}
        plain = dict.fromkeys(("batches_active", "batches_ended", "cost", "failed_attempts", "ignored", "wishes"), 0)
        return Overview(totals=Totals(pages=1_000_000), scanned=None, **plain, **told).seconds_left

    assert left(slots=10, batch_size=100) == 600_000 == left()
    assert left(slots=10, batch_size=100, pages_left=2_000) == 120_000 == left(pages_left=2_000)
    assert left(pace=None) == 120_000 and left(batch_seconds=None) is None and left(longest_chain=0) == 0


@in_a_loop
async def test_names_that_mean_something_in_html_or_an_address_are_just_names(tmp_path: Path) -> None:
    async with shelf(tmp_path) as (api, client):
        client.headers["Accept"] = "text/html"
        hostile = '"><script src=x onerror=alert(1)>?a=b&c#d%20'
        run = await pages_show.fill(api.penstock, tmp_path / "books", books=2, batches=6, style="tiny")
        await api.penstock.engine.write(
            ("UPDATE pages_books SET school = :school, book = state || '/' || :school || '/' || year"
             " WHERE total > 10", {"school": hostile})
        )  # fmt: skip
        text = (await client.get(f"/ui/pages/runs/{run}")).text
        assert "<script src=x" not in text
        book = re.search(rf'href="(/ui/pages/runs/{run}/books/[^"]+script[^"]+)"', text)
        listed = await client.get(book[1] if book else "")
        assert listed.status_code == 200 and "<script src=x" not in listed.text
        page = re.search(rf'<a class="leaf[^"]*" href="(/ui/pages/runs/{run}/pages/[^"]+)"', listed.text)
        shown = await client.get(page[1] if page else "")
        assert shown.status_code == 200 and "<script src=x" not in shown.text
