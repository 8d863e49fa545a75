"""The dashboard's pages, asked as a browser asks them: what they show, what their buttons do, and to whom."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock import FollowUp, Penstock, Permanent, Workflow
from penstock.config import Settings
from penstock.engine.call import Call
from penstock.service.access.guard import Reader
from penstock.service.app import create_app
from penstock.service.beginning import first_job
from penstock.service.dashboard import survey
from penstock.service.dashboard.acting import MOST
from penstock.service.dashboard.assets import FOLDER, asset
from penstock.service.dashboard.charts import Axis, columns, stacked
from penstock.service.dashboard.pages.job import folded, timeline
from penstock.service.dashboard.rendering import own_path, render
from penstock.service.dashboard.wording import coded, dollars, shape_of
from penstock.service.live import LiveFeed
from penstock.service.sections import Section
from penstock.service.state import Service
from tests.support.api import Api, serving
from tests.support.house import in_a_loop

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Tab:
    """A browser's tab without scripts: it follows links by hand, keeps cookies, and sends forms with their fields."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.client.headers["Accept"] = "text/html"

    async def open(self, path: str, status: int = 200) -> str:
        answer = await self.client.get(path)
        assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text[:300]}"
        return answer.text

    async def part(self, path: str) -> str:
        """What htmx gets."""
        return (await self.client.get(path, headers={"HX-Request": "true"})).text

    async def send(self, path: str, **fields: Any) -> httpx2.Response:
        """A form of a page of ours."""
        found = re.search(r'name="csrf" value="([^"]+)"', await self.open("/ui/costs"))
        return await self.client.post(path, data={"csrf": found[1] if found else "", **fields})

    async def press(self, path: str, **fields: Any) -> str:
        """The page a button leads back to."""
        answer = await self.send(path, **fields)
        assert answer.status_code == 303, f"{path}: {answer.status_code} {answer.text[:300]}"
        return await self.open(answer.headers["location"])


class Policy(HTMLParser):
    """What of a page the service's own policy would forbid, or what htmx would have to evaluate."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "style" or (tag == "script" and "src" not in given):
            self.found.append(f"inline {tag}")
        for name, value in given.items():
            if name == "style" or name.startswith(("on", "hx-on")) or value.startswith(("js:", "javascript:")):
                self.found.append(f"{tag} {name}")
            if name in ("src", "href", "action", "hx-get", "hx-post") and not value.startswith(("/", "#", "?")):
                self.found.append(f"{tag} {name}={value}")
            if name in ("src", "href", "action") and value.startswith("//"):
                self.found.append(f"{tag} {name}={value}")


@dataclass
class World:
    """Something of everything."""

    api: Api
    calls: dict[str, Call]
    failed: str
    done: str
    waiting: str
    batch: str

    @property
    def tab(self) -> Tab:
        return Tab(self.api.client())

    @property
    def pages(self) -> list[str]:
        jobs = [self.failed, self.done, self.waiting, self.calls["collected"].job]
        return [
            *("/", "/ui/jobs", "/ui/jobs?status=failed,paused&workflow=breaks", "/ui/batches", "/ui/calls"),
            *("/ui/calls?state=live", "/ui/workers", "/ui/dead-letters", "/ui/costs?days=7", "/ui/schedules"),
            *("/ui/audit", "/ui/tokens", f"/ui/batches/{self.batch}"),
            *(f"/ui/jobs/{job}" for job in jobs),
            *(f"/ui/calls/{call.id}" for call in self.calls.values()),
        ]


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    async with serving(folder) as api:
        app = api.penstock
        calls = await api.stock.every_state()
        batch = await app.open_batch(key="the batch", then=FollowUp(workflow="notes", payload="after"))
        failed = (await app.submit("breaks", {"text": HOSTILE}, key="broken <b>key</b>")).job_id
        done = (await app.submit("notes", {"text": HOSTILE}, batch=batch.id)).job_id
        waiting = (await app.submit("holds", "the printer")).job_id
        await api.run(failed, done)
        await api.run(waiting, until="waiting")
        await app.set_budget("tenant:default", 5, actor="keeper")
        await app.schedule("nightly", "0 3 * * *", "notes", {})
        yield World(api, calls, failed, done, waiting, batch.id)


@in_a_loop
async def test_every_page_is_shown_without_anything_inline_or_foreign(tmp_path: Path) -> None:
    """The policy of the service forbids inline script and style, and a page loads nothing from elsewhere."""
    async with world(tmp_path) as it:
        for path in it.pages:
            page = await it.tab.open(path)
            assert page.count("<h1") == 1, path
            problems = Policy()
            problems.feed(page)
            assert problems.found == [], path


@in_a_loop
async def test_every_page_gives_htmx_its_live_part_alone(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for path in it.pages:
            part = await it.tab.part(path)
            assert "<html" not in part and part.count('id="live"') == 1, path
            assert f'hx-get="{path}"' in unescape(part), path


@in_a_loop
async def test_what_people_wrote_is_shown_as_text(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for path in (f"/ui/jobs/{it.failed}", f"/ui/jobs/{it.done}", "/ui/jobs", "/ui/dead-letters"):
            page = await it.tab.open(path)
            assert "<script>alert" not in page and "<img" not in page and "<b>key" not in page, path
        assert HOSTILE in unescape(await it.tab.open(f"/ui/jobs/{it.done}"))


@in_a_loop
async def test_the_overview_shows_first_what_needs_a_person(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        page = await it.tab.open("/")
        for words in ("No worker is alive", "in quarantine", "1 remote call overdue"):
            assert words in page
        assert page.index("Needs you") < page.index("Jobs ended")


@in_a_loop
async def test_an_empty_service_says_how_to_begin(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        page = await Tab(api.client()).open("/")
        assert "penstock jobs submit notes --payload JSON" in page and "Needs you" not in page
        assert "penstock init" not in page and page.count("nothing yet") == 2


@pytest.mark.parametrize(
    ("kind", "payload"), [(str, """'"world"'"""), (int, "1"), (bool, "true"), (dict, "JSON")], ids=str
)
def test_the_first_job_has_a_payload_that_fits(kind: type, payload: str) -> None:
    flow = Workflow("flow", payload=kind)

    @flow.step
    async def go(payload: Any, ctx: Any) -> None: ...

    assert first_job(Penstock(workflows=[flow]), Settings()) == f"penstock jobs submit flow --payload {payload}"


@in_a_loop
async def test_a_service_without_an_app_says_how_to_make_one(tmp_path: Path) -> None:
    app = Penstock(store=f"sqlite:///{tmp_path}/penstock.db")
    async with app:
        service = Service(app, Settings(), LiveFeed(app), open_access=True)
        transport = httpx2.ASGITransport(create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8800") as client:
            page = await Tab(client).open("/")
        assert "penstock init" in page and "jobs submit" not in page


@in_a_loop
async def test_what_was_retried_has_not_failed_last(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        tab = it.tab
        assert f'id="fail-{it.failed}"' in await tab.open("/")
        await tab.press("/ui/jobs/act", action="retry", ids=it.failed, back="/")
        page = await tab.open("/")
        assert f'id="fail-{it.failed}"' not in page and "dead letter<" not in page


@in_a_loop
async def test_the_overview_leaves_out_what_penstock_does_for_itself(tmp_path: Path) -> None:
    app = Penstock(store=f"sqlite:///{tmp_path}/penstock.db")
    for name in ("letters", "penstock.webhook"):
        flow = Workflow(name)

        @flow.step
        async def go(payload: Any, ctx: Any) -> None:
            raise Permanent("no")

        app.add(flow)
    async with app:
        told = [(await app.submit(name, {})).job_id for name in ("letters", "penstock.webhook")]
        async with app.worker(grace=5.0):
            for job in told:
                await app.wait(job, timeout=30.0)
        service = Service(app, Settings(), LiveFeed(app), open_access=True)
        transport = httpx2.ASGITransport(create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8800") as client:
            tab = Tab(client)
            page = await tab.open("/")
            assert "1 job, 0 not ended" in page and "2 dead letters" in page
            assert f'id="fail-{told[0]}"' in page and told[1] not in page and "flow-penstock" not in page
            jobs = await tab.open("/ui/jobs")
            assert all(f'id="row-{job}"' in jobs for job in told)


@in_a_loop
async def test_checkpoints_are_marks_on_one_bar_and_one_line_of_history(tmp_path: Path) -> None:
    app = Penstock(store=f"sqlite:///{tmp_path}/penstock.db")
    flow, reached, enough = Workflow("flow"), asyncio.Event(), asyncio.Event()

    @flow.step
    async def go(payload: Any, ctx: Any) -> None:
        for n in range(12):
            await ctx.checkpoint(n)
        reached.set()
        await enough.wait()

    app.add(flow)
    async with app, app.worker(grace=5.0):
        job_id = (await app.submit("flow", 0)).job_id
        async with asyncio.timeout(30):
            await reached.wait()
        row = await app.engine.store.job(job_id)
        history, job = await app.history(job_id), await app.job(job_id)
        assert row is not None
        _, (track,) = timeline(job, history, [], job.created + 1000, entered=row.entered)
        assert [bar.kind for bar in track.bars if not bar.mark] == ["running"] and not track.note
        assert any(bar.mark for bar in track.bars)
        (line,) = folded(history)
        assert [event.at for event in line.checkpoints] == sorted((event.at for event in history), reverse=True)
        service = Service(app, Settings(), LiveFeed(app), open_access=True)
        transport = httpx2.ASGITransport(create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8800") as client:
            assert "12 checkpoints" in await Tab(client).open(f"/ui/jobs/{job_id}")
        enough.set()
        await app.wait(job_id, timeout=30.0)


@in_a_loop
async def test_a_page_that_fetches_itself_again_takes_nothing_that_was_said(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        tab, place = it.tab, f"/ui/jobs/{it.waiting}"
        await tab.send(f"{place}/pause", back=place)
        again = {"HX-Request": "true", "Penstock-Refresh": "true"}
        assert f"holds {it.waiting}: paused" not in (await tab.client.get(place, headers=again)).text
        assert f"holds {it.waiting}: paused" in await tab.part(place)
        assert f"holds {it.waiting}: paused" not in await tab.part(place)


@in_a_loop
async def test_characters_that_turn_text_around_are_shown_as_their_numbers(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        key = "invoice \u202efdp.exe\u202c \u2066x\u2069"
        job = (await api.penstock.submit("breaks", {"text": key}, key=key)).job_id
        await api.run(job)
        tab = Tab(api.client())
        for path in ("/", "/ui/jobs", f"/ui/jobs/{job}", "/ui/dead-letters"):
            page = re.sub(r'data-copy="[^"]*"', "", await tab.open(path))
            assert not re.search("[\u202a-\u202e\u2066-\u2069]", page), path
            assert "invoice \\u202efdp.exe" in page, path
        assert (await tab.open("/ui/jobs", 200)).count('id="row-') == 1
        found = await tab.client.get("/ui/jobs", params={"key": key})
        assert f'value="{key}"' in found.text, "a filter keeps what was typed"


@in_a_loop
async def test_a_cancel_is_explained_by_what_the_job_has(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        plain = (await it.api.penstock.submit("notes", "x")).job_id
        asked = (await it.tab.send(f"/ui/jobs/{plain}/cancel")).text
        assert "It stops for good." in asked and "clean-up" not in asked and "paid" not in asked
        assert "clean-up step let_go runs" in (await it.tab.send(f"/ui/jobs/{it.waiting}/cancel")).text
        called = it.calls["running"].job
        assert "asked to stop 1 remote call" in (await it.tab.send(f"/ui/jobs/{called}/cancel")).text


@in_a_loop
async def test_buttons_of_a_job_do_what_they_say_and_lead_back_to_its_page(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        tab, place = it.tab, f"/ui/jobs/{it.waiting}"
        page = await tab.press(f"{place}/pause", back=place)
        assert "Resume" in page and f"holds {it.waiting}: paused" in page
        assert "paused</p>" not in await tab.open(place), "what was said is said once"
        page = await tab.press(f"{place}/resume", back=place)
        assert "Pause" in page and "resumed" in page
        asked = await tab.send(f"{place}/cancel", back=place)
        assert asked.status_code == 200 and "Cancel this job?" in asked.text
        assert (await it.api.penstock.job(it.waiting)).status == "waiting"
        await tab.press(f"{place}/cancel", back=place, confirmed="yes")
        assert (await it.api.penstock.job(it.waiting)).status == "canceling"
        page = await tab.press(f"{place}/pause", back=place)
        assert "cannot be paused" in page


@in_a_loop
async def test_a_retry_is_the_next_run_and_the_dead_letter_is_gone(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        tab = it.tab
        assert it.failed in await tab.open("/ui/dead-letters")
        page = await tab.press("/ui/jobs/act", action="retry", ids=it.failed, back="/ui/dead-letters")
        assert "1 job retried" in page and it.failed not in page
        runs = await it.api.penstock.jobs(workflow="breaks")
        assert [run.run for run in runs] == [2, 1]
        page = await tab.open(f"/ui/jobs/{it.failed}")
        assert f'href="/ui/jobs/{runs[0].id}"' in page, "a run links to the others"
        (entry,) = await it.api.penstock.audit(action="job.retry")
        assert entry.target == f"job:{it.failed}" and entry.actor == "local"


@in_a_loop
async def test_many_jobs_are_changed_at_once_and_refusals_are_said(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        page = await it.tab.press("/ui/jobs/act", action="pause", id=[it.waiting, it.done], back="/ui/jobs")
        assert "1 job paused" in page and f"job {it.done} is completed and cannot be paused" in page
        page = await it.tab.press("/ui/jobs/act", action="explode", id=[it.waiting], back="/ui/jobs")
        assert "choose jobs" in page


@in_a_loop
async def test_one_click_is_about_so_many_jobs_at_most(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        told = await api.penstock.submit_many("notes", range(MOST + 20))
        ids = ",".join(one.job_id for one in told)
        await Tab(api.client()).press("/ui/jobs/act", action="pause", ids=ids, back="/ui/jobs")
        counts = await api.penstock.counts()
        assert counts["notes", "paused"] == MOST


@in_a_loop
async def test_the_list_is_paged_and_filtered_by_its_address(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        tab = Tab(api.client())
        told = [one.job_id for one in await api.penstock.submit_many("notes", range(60))]
        other = (await api.penstock.submit("scans", {"pages": 1}, key="atlas")).job_id
        first = await tab.open("/ui/jobs?workflow=notes")
        assert first.count('id="row-') == 50 and other not in first
        older = re.search(r'href="([^"]+before=[^"]+)" rel="next"', first)
        assert older is not None
        second = await tab.open(unescape(older[1]))
        assert second.count('id="row-') == 10
        shown = re.findall(r'id="row-(\w+)"', first + second)
        assert sorted(shown) == sorted(told)
        assert re.findall(r'id="row-(\w+)"', await tab.open("/ui/jobs?key=atlas")) == [other]
        for search, place in ((other, f"/ui/jobs/{other}"), ("atlas", "/ui/jobs?key=atlas")):
            assert (await tab.client.get("/ui/find", params={"q": search})).headers["location"] == place


@in_a_loop
async def test_a_quarantined_call_is_adopted_with_the_id_it_has_there(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        tab, call = it.tab, it.calls["quarantined"]
        place = f"/ui/calls/{call.id}"
        page = await tab.open(place)
        for words in ("Nothing is paid a second time", "both are paid", "Nothing new is paid"):
            assert words in page
        assert "say the id it has at shop" in await tab.press(f"{place}/adopt")
        page = await tab.press(f"{place}/adopt", provider_id="batches/answer-1")
        assert "adopted" in page and "Decide what becomes of it" not in page
        assert (await it.api.penstock.call(call.id)).provider_id == "batches/answer-1"


@in_a_loop
async def test_budgets_are_set_raised_and_removed(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        tab, app = it.tab, it.api.penstock
        assert "not &#39;much&#39;" in await tab.press("/ui/costs/budget", scope="tenant:acme", dollars="much")
        assert "$12.50" in await tab.press("/ui/costs/budget", scope="tenant:acme", dollars="$12.50")
        assert {budget.scope: budget.most for budget in await app.budgets()}["tenant:acme"] == 12_500_000
        assert "belongs to" in await tab.press("/ui/costs/budget", scope="galaxy", dollars="1")
        await tab.press("/ui/costs/budget", scope="tenant:acme", action="remove")
        assert "tenant:acme" not in [budget.scope for budget in await app.budgets()]


@in_a_loop
async def test_a_schedule_is_switched_off_and_on_and_removed(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        tab, app = it.tab, it.api.penstock
        about = {"name": "nightly", "tenant": "default"}
        for action, enabled in (("disable", False), ("enable", True)):
            await tab.press("/ui/schedules/act", **about, action=action)
            assert [one.enabled for one in await app.schedules()] == [enabled]
        assert "No schedules" in await tab.press("/ui/schedules/act", **about, action="remove")


@in_a_loop
async def test_a_batch_is_sealed_and_what_failed_of_it_runs_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        tab, app = Tab(api.client()), api.penstock
        batch = await app.open_batch(key="pages")
        bad = (await app.submit("breaks", {}, batch=batch.id)).job_id
        await api.run(bad)
        assert "more may come" in await tab.open(f"/ui/batches/{batch.id}")
        page = await tab.press(f"/ui/batches/{batch.id}/seal")
        assert "Retry what failed" in page and "1 failed" in page
        page = await tab.press(f"/ui/batches/{batch.id}/retry")
        assert "generation 2 runs what failed" in page
        open_one = re.search(r'href="/ui/jobs/\w{20}"', page)
        assert open_one is not None, "what failed is a member again"


@in_a_loop
async def test_who_may_only_read_sees_no_buttons_and_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        tab = Tab(it.api.client(await it.api.secret("reader", "read")))
        for path in (f"/ui/jobs/{it.waiting}", "/ui/jobs", "/ui/dead-letters", "/ui/costs", "/ui/schedules"):
            assert 'method="post"' not in await tab.open(path), path
        assert (await tab.client.post(f"/ui/jobs/{it.waiting}/pause")).status_code == 403
        assert "Audit log" not in await tab.open("/") and (await tab.client.get("/ui/tokens")).status_code == 403


@in_a_loop
async def test_another_tenants_things_are_not_there(tmp_path: Path) -> None:
    """On any page or button, the words are those for something that never was."""
    async with world(tmp_path) as it:
        tab = Tab(it.api.client(await it.api.secret("theirs", "admin", tenant="acme")))
        call = it.calls["quarantined"].id
        asked = [
            *(("GET", f"/ui/jobs/{it.waiting}"), ("GET", f"/ui/batches/{it.batch}"), ("GET", f"/ui/calls/{call}")),
            *(("POST", f"/ui/jobs/{it.waiting}/{action}") for action in ("pause", "resume", "cancel", "retry")),
            *(("POST", f"/ui/batches/{it.batch}/{action}") for action in ("seal", "retry")),
            *(("POST", f"/ui/calls/{call}/{decision}") for decision in ("adopt", "resubmit", "discard", "cancel")),
        ]
        for method, path in asked:
            theirs = await tab.client.request(method, path, data={} if method == "POST" else None)
            part = path.split("/")[3]
            never = path.replace(part, "0" * len(part))
            nobodys = await tab.client.request(method, never, data={} if method == "POST" else None)
            assert theirs.status_code == nobodys.status_code == 404, path
            assert theirs.text.replace(part, "0" * len(part)) == nobodys.text, path
        gone = await tab.client.post(
            "/ui/schedules/act", data={"name": "nightly", "tenant": "default", "action": "remove"}
        )
        assert gone.status_code == 404
        answer = await tab.client.post("/ui/jobs/act", data={"action": "pause", "id": it.waiting})
        assert answer.status_code == 303
        assert (await it.api.penstock.job(it.waiting)).status == "waiting"
        secrets = (it.waiting, it.failed, it.done, it.batch, call, "nightly", "tenant:default", "the printer")
        for path in ("/", "/ui/jobs", "/ui/jobs?tenant=default", "/ui/batches", "/ui/calls", "/ui/dead-letters",
                     "/ui/costs", "/ui/schedules", "/ui/audit", f"/ui/find?q={it.waiting}"):  # fmt: skip
            page = (await tab.client.get(path, follow_redirects="find" not in path)).text
            assert not [secret for secret in secrets if secret in page], path
        for path in ("/ui/workers", "/ui/tokens"):
            assert (await tab.client.get(path)).status_code == 403


@in_a_loop
async def test_a_button_without_the_pages_secret_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        answer = await it.tab.client.post(f"/ui/jobs/{it.waiting}/pause", data={"csrf": "wrong"})
        assert answer.status_code == 403 and "<h1>" in answer.text
        assert (await it.api.penstock.job(it.waiting)).status == "waiting"


@in_a_loop
async def test_a_refusal_is_a_page_for_people_and_a_problem_for_programs(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        page = await Tab(api.client()).open("/ui/jobs/nothing", status=404)
        assert "<h1>Nothing here</h1>" in page and "there is no job nothing" in page
        plain = api.client(Accept="application/json")
        answer = await plain.get("/ui/jobs/nothing")
        assert answer.status_code == 404 and answer.headers["content-type"] == "application/problem+json"
        part = await api.client(**{"HX-Request": "true"}).get("/ui/jobs/nothing")
        assert part.status_code == 404 and 'hx-swap-oob="beforeend:#said"' in part.text


@in_a_loop
async def test_an_address_that_makes_no_sense_is_no_mistake_of_the_service(tmp_path: Path) -> None:
    names = "status workflow key tenant batch parent before state remote job days lock after actor action target q"
    async with world(tmp_path) as it:
        client = it.tab.client
        for path in (*it.pages[:12], "/ui/find", "/ui/jobs/x", "/ui/calls/x", "/ui/batches/x"):
            for value in ("\x00", "~", "nan~x", "-1", "%", "'", "é" * 600, "😀", "a,b,failed"):
                asked = dict.fromkeys(names.split(), value)
                answer = await client.get(path.partition("?")[0], params=asked)
                assert answer.status_code in (200, 303, 404), f"{path} {value!r}: {answer.status_code}"


@in_a_loop
async def test_a_page_is_told_that_something_changed_and_nothing_about_what(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.stream("/ui/live?workflow=notes") as stream:
        await stream.until("event: open")
        job = (await api.penstock.submit("notes", {})).job_id
        told = await stream.until("event: changed")
        assert job not in told


@in_a_loop
async def test_the_stream_ends_when_the_service_stops(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.stream("/ui/live") as stream:
        await stream.until("event: open")
        await api.service.feed.stop()
        async with asyncio.timeout(30):
            await stream.task


@in_a_loop
async def test_files_are_kept_for_ever_under_the_address_that_pages_use(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        client = api.client()
        page = await Tab(api.client()).open("/")
        used = {unescape(path).partition("#")[0] for path in re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', page)}
        assert len(used) >= 5
        for path in used:
            answer = await client.get(path)
            assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"], path
        assert (await client.get("/ui/static/penstock.css?v=old")).headers["cache-control"] == "no-cache"
        for path in re.findall(r'url\("([^"]+)"\)', (FOLDER / "penstock.css").read_text()):
            assert (await client.get(f"/ui/static/{path}")).status_code == 200, path


def test_every_icon_that_a_page_names_is_in_the_sprite() -> None:
    there = set(re.findall(r'<symbol id="([\w-]+)"', (FOLDER / "icons.svg").read_text()))
    templates = FOLDER.parent / "templates"
    text = "".join(path.read_text() for path in [*templates.glob("*.html"), FOLDER.parent / "rendering.py"])
    named = set(re.findall(r'icon\("([\w-]+)"', text)) | set(re.findall(r'Place\("[^"]+", "[^"]+", "([\w-]+)"', text))
    assert named - there == set()


def test_the_notice_names_every_vendored_file() -> None:
    notice = (FOLDER / "NOTICE").read_text()
    own = {"NOTICE", "documents.js", "favicon.svg", "icons.svg", "penstock.css", "penstock.js", "review.js"}
    for path in sorted(FOLDER.rglob("*")):
        name = str(path.relative_to(FOLDER))
        if path.is_file() and name not in own:
            assert name.partition("-latin")[0] in notice, name


@in_a_loop
async def test_a_section_has_pages_of_its_own_and_a_place_in_the_navigation(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "list.html").write_text(
        '{% extends "base.html" %}{% block title %}Shelves{% endblock %}'
        "{% block live %}<h1>{{ words }}</h1>{% endblock %}"
    )
    pages = APIRouter()

    @pages.get("")
    async def shelves(request: Request, principal: Reader) -> Response:
        return render(request, "shelves/list.html", words="<i>books</i>")

    section = Section(
        name="shelves", title="The shelves", pages=pages, templates=tmp_path / "templates", workflows=("notes",)
    )
    async with serving(tmp_path) as api:
        api.service.sections = (section,)
        api.app = create_app(api.service)
        tab = Tab(api.client())
        await api.penstock.submit_many("notes", [1, 2, 3])
        overview = await tab.open("/")
        assert "The shelves" in overview and 'title="jobs not ended">3<' in overview
        page = await tab.open("/ui/shelves")
        assert "<h1>&lt;i&gt;books&lt;/i&gt;</h1>" in page and 'href="/ui/shelves" aria-current="page"' in page
        assert "<html" not in await tab.part("/ui/shelves")


@in_a_loop
async def test_jobs_are_counted_for_many_requests_at_once_and_anew_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as api:
        counted = 0
        take = survey.take

        async def counting(*args: Any) -> survey.Snapshot:
            nonlocal counted
            counted += 1
            return await take(*args)

        monkeypatch.setattr(survey, "take", counting)
        monkeypatch.setattr(survey, "PAUSE", 3600.0)
        counts = survey.Survey(api.service)
        found = await asyncio.gather(*(counts.look(None) for _ in range(20)))
        assert counted == 1 and {snapshot.jobs for snapshot in found} == {0}
        await api.penstock.submit("notes", {})
        assert (await counts.look(None)).jobs == 0
        monkeypatch.setattr(survey, "CHEAP", 3600.0)
        counts.touch()
        assert (await counts.look(None)).jobs == 1 and counted == 2


@pytest.mark.parametrize("path", ["//evil", "/\\evil", "https://evil", "/a\nb", "evil", "", "/" + "x" * 3000])
def test_a_form_leads_back_to_pages_of_ours_alone(path: str) -> None:
    assert own_path(path, "/ui/jobs") == "/ui/jobs"


def test_errors_that_differ_in_numbers_and_names_alone_have_one_shape() -> None:
    one = shape_of("Transient: HTTP 504 from render-3 after 21 s for 'a.pdf'\nmore")
    assert (
        one
        == shape_of("Transient: HTTP 503 from render-7 after 40 s for 'b.pdf'")
        == ("Transient: HTTP … from render-… after … s for …")
    )
    assert shape_of(None) == "no error was kept"


def test_words_between_backticks_are_code_and_nothing_else_is_markup() -> None:
    assert str(coded("run `a <b>` & go")) == "run <code>a &lt;b&gt;</code> &amp; go"


def test_money_is_written_with_as_many_digits_as_say_something() -> None:
    assert [dollars(n) for n in (0, 12, 4_500, 420_000, 1_234_567_890)] == [
        "$0.00", "$0.000012", "$0.0045", "$0.42", "$1,234.57",
    ]  # fmt: skip


def test_an_axis_of_some_days_names_the_days() -> None:
    noon = 86_400.0 * 20_000 + 43_200
    for days in (1.2, 2, 3, 5, 9):
        labels = [tick.label for tick in Axis.around([noon, noon + 86_400 * days], noon).ticks()]
        assert len(set(labels)) == len(labels) or "12:00" in labels, labels
        assert "00:00" not in labels, labels


def test_one_old_call_does_not_make_dots_of_all_the_others() -> None:
    now = 1_000_000.0
    spans = [(now - 86_400 * 9, now - 86_400 * 8), *((now - 60 * n, now) for n in range(1, 11))]
    axis = Axis.with_most_of(spans, now)
    assert axis.span < 3600 and axis.at(spans[0][1]) == 0.0
    assert all(0 < float(tick.x.rstrip("%")) < 100 for tick in axis.ticks())


def test_a_bar_is_as_long_as_its_parts_and_a_column_as_high() -> None:
    parts = stacked([("done", 3), ("failed", 1), ("none", 0)])
    assert [(part.x, part.width) for part in parts] == [("0%", "75%"), ("75%", "25%")]
    chart = columns([(0.0, {"a": 4.0, "b": 4.0})], kinds=("a", "b"), height=104, titles=["x"])
    assert chart.top == 8 and [part.height for part in chart.columns[0].parts] == ["50.0", "50.0"]
    assert asset("penstock.css").startswith("/ui/static/penstock.css?v=")
