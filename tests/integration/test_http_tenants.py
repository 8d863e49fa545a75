"""Tenants never meet: another tenant's ids, tried on every route of the OpenAPI document with a token that is bound to
a tenant. A route that this table does not know fails the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from penstock.pipelines.documents.samples import sample
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.pipelines.ingestion.workflow import ALL as INGESTION
from penstock.pipelines.pages.workflow import pages
from penstock.service.app import create_app
from penstock.service.sections import found_sections
from tests.support.api import Api, Document, serving
from tests.support.house import in_a_loop

V1 = "/api/v1"

NOTES = {"sources": [{"type": "markdown", "path": "notes"}]}
RUN = {"paths": {"label_source_dir": "labels", "image_source_dir": "images", "output_dir": "secret-out"}}


@dataclass
class Theirs:
    """What belongs to the other tenant, `acme`."""

    job: str
    paused: str
    dead: str
    batch: str
    sealed: str
    quarantined: str
    running: str
    run: str
    ended_run: str
    document: str
    item: str
    many: str
    base: str
    ingestion: str


Ask = tuple[str, dict[str, Any]]
"""A path with its query, and what is sent."""

ATTEMPTS: dict[str, Callable[[Theirs], list[Ask]]] = {
    "getJob": lambda it: [(f"/jobs/{it.job}", {})],
    "getJobTimeline": lambda it: [(f"/jobs/{it.job}/timeline", {})],
    "getJobLogs": lambda it: [(f"/jobs/{it.dead}/logs", {})],
    "pauseJob": lambda it: [(f"/jobs/{it.job}/pause", {"json": {"reason": "mine"}})],
    "resumeJob": lambda it: [(f"/jobs/{it.paused}/resume", {})],
    "cancelJob": lambda it: [(f"/jobs/{it.job}/cancel", {})],
    "retryJob": lambda it: [(f"/jobs/{it.dead}/retry", {})],
    "submitJob": lambda it: [
        ("/jobs", {"json": {"workflow": "notes", "tenant": "acme"}}),
        ("/jobs", {"json": {"workflow": "notes", "batch": it.batch}}),
    ],
    "submitJobs": lambda it: [
        ("/jobs/many", {"json": {"jobs": [{"workflow": "notes"}], "tenant": "acme"}}),
        ("/jobs/many", {"json": {"jobs": [{"workflow": "notes", "batch": it.batch}]}}),
    ],
    "listJobs": lambda it: [
        ("/jobs", {}),
        ("/jobs?tenant=acme", {}),
        ("/jobs?key=secret-key", {}),
        (f"/jobs?batch={it.batch}", {}),
        (f"/jobs?parent={it.job}", {}),
        ("/jobs?dead=true&include=payload", {}),
    ],
    "listBatches": lambda it: [("/batches", {}), ("/batches?tenant=acme", {}), ("/batches?key=secret-key", {})],
    "openBatch": lambda it: [("/batches", {"json": {"tenant": "acme"}})],
    "getBatch": lambda it: [(f"/batches/{it.batch}", {})],
    "listBatchMembers": lambda it: [(f"/batches/{it.batch}/members", {})],
    "sealBatch": lambda it: [(f"/batches/{it.batch}/seal", {})],
    "retryBatch": lambda it: [(f"/batches/{it.sealed}/retry", {})],
    "listCalls": lambda it: [
        ("/calls", {}),
        ("/calls?tenant=acme", {}),
        (f"/calls?job={it.paused}", {}),
        ("/calls?state=quarantined", {}),
    ],
    "getCall": lambda it: [(f"/calls/{it.quarantined}", {})],
    "adoptCall": lambda it: [(f"/calls/{it.quarantined}/adopt", {"json": {"provider_id": "mine"}})],
    "resubmitCall": lambda it: [(f"/calls/{it.quarantined}/resubmit", {})],
    "discardCall": lambda it: [(f"/calls/{it.quarantined}/discard", {})],
    "cancelCall": lambda it: [(f"/calls/{it.running}/cancel", {})],
    "listDeadLetters": lambda it: [("/dead-letters", {}), ("/dead-letters?tenant=acme", {})],
    "retryDeadLetters": lambda it: [
        ("/dead-letters/retry", {"json": {"ids": [it.dead]}}),
        ("/dead-letters/retry", {"json": {"workflow": "breaks"}}),
        ("/dead-letters/retry", {"json": {"workflow": "breaks", "tenant": "acme"}}),
    ],
    "listSchedules": lambda it: [("/schedules", {}), ("/schedules?tenant=acme", {})],
    "putSchedule": lambda it: [
        ("/schedules/nightly", {"json": {"cron": "* * * * *", "workflow": "notes", "tenant": "acme"}})
    ],
    "deleteSchedule": lambda it: [("/schedules/nightly", {}), ("/schedules/nightly?tenant=acme", {})],
    "listLocks": lambda it: [
        ("/locks", {}),
        ("/locks?tenant=acme", {}),
        (f"/locks?job={it.job}", {}),
        ("/locks?name=secret-door", {}),
    ],
    "listWorkers": lambda it: [("/workers", {})],
    "getCounts": lambda it: [("/counts", {}), ("/counts?tenant=acme", {})],
    "getCosts": lambda it: [
        ("/costs?by=job", {}),
        ("/costs?tenant=acme", {}),
        (f"/costs?job={it.paused}", {}),
        (f"/costs?batch={it.batch}", {}),
    ],
    "listBudgets": lambda it: [("/budgets", {})],
    "putBudget": lambda it: [
        (f"/budgets/{scope}", {"json": {"budget_usd": 1000}})
        for scope in ("tenant:acme", f"job:{it.job}", f"batch:{it.batch}")
    ],
    "deleteBudget": lambda it: [
        (f"/budgets/{scope}", {}) for scope in ("tenant:acme", f"job:{it.job}", f"batch:{it.batch}")
    ],
    "listAudit": lambda it: [
        ("/audit", {}),
        ("/audit?tenant=acme", {}),
        (f"/audit?target=job:{it.job}", {}),
        ("/audit?actor=acme-boss", {}),
    ],
    "listTokens": lambda it: [("/tokens", {})],
    "streamEvents": lambda it: [
        ("/events?tenant=acme", {}),
        (f"/events?job={it.job}", {}),
        (f"/events?batch={it.batch}", {}),
    ],
    "listPagesRuns": lambda it: [("/pages/runs", {}), ("/pages/runs?tenant=acme", {})],
    "startPagesRun": lambda it: [
        ("/pages/runs?tenant=acme", {"json": RUN}),
        ("/pages/runs", {"json": {"paths": {name: f"../acme/{path}" for name, path in RUN["paths"].items()}}}),
        ("/pages/runs", {"json": {"paths": RUN["paths"] | {"image_source_dir": "../acme/images"}}}),
    ],
    "getPagesRun": lambda it: [(f"/pages/runs/{it.run}", {}), (f"/pages/runs/{it.ended_run}", {})],
    "listPagesBooks": lambda it: [(f"/pages/runs/{it.run}/books", {})],
    "getPagesPage": lambda it: [(f"/pages/runs/{it.run}/pages/Ohio:Oberlin:1850:0001", {})],
    "listPagesBatches": lambda it: [(f"/pages/runs/{it.run}/batches", {})],
    "listPagesFailures": lambda it: [(f"/pages/runs/{it.run}/failures{query}", {}) for query in ("", "?by=type")],
    "retryPages": lambda it: [(f"/pages/runs/{run}/retry", {"json": {}}) for run in (it.run, it.ended_run)],
    "rescanPages": lambda it: [(f"/pages/runs/{run}/rescan", {}) for run in (it.run, it.ended_run)],
    "pausePagesRun": lambda it: [(f"/pages/runs/{it.run}/pause", {})],
    "resumePagesRun": lambda it: [(f"/pages/runs/{it.run}/resume", {})],
    "cancelPagesRun": lambda it: [(f"/pages/runs/{it.run}/cancel", {})],
    "uploadDocuments": lambda it: [("/api/documents?tenant=acme", {"files": [("file", ("mine.pdf", b"%PDF-1.7"))]})],
    "listDocuments": lambda it: [
        ("/api/documents", {}),
        ("/api/documents?tenant=acme", {}),
        (f"/api/documents?batch={it.many}", {}),
    ],
    "exportDocuments": lambda it: [
        (f"/api/documents/export?format={format}{more}", {})
        for format in ("csv", "parquet")
        for more in ("", "&tenant=acme", f"&batch={it.many}")
    ],
    "getDocument": lambda it: [(f"/api/documents/{it.document}", {})],
    "previewDocument": lambda it: [(f"/api/documents/{it.document}/preview", {})],
    "downloadDocument": lambda it: [
        (f"/api/documents/{it.document}/download/{format}", {}) for format in ("json", "parquet")
    ],
    "reExtractDocument": lambda it: [(f"/api/documents/{it.document}/re-extract", {})],
    "unlockField": lambda it: [(f"/api/documents/{it.document}/fields/total/unlock", {})],
    "deleteDocument": lambda it: [(f"/api/documents/{it.document}", {})],
    "getDocumentBatch": lambda it: [(f"/api/batches/{it.many}", {})],
    "listQueue": lambda it: [
        ("/api/queue", {}),
        ("/api/queue?tenant=acme", {}),
        ("/api/queue?assigned_to=acme-ann", {}),
    ],
    "getQueueItem": lambda it: [(f"/api/queue/{it.item}", {})],
    "claimItem": lambda it: [(f"/api/queue/{it.item}/claim", {"json": {"reviewer": "acme-ann"}})],
    "submitReview": lambda it: [(f"/api/queue/{it.item}/submit", {"json": {"action": "approve"}})],
    "releaseItem": lambda it: [(f"/api/queue/{it.item}/release", {})],
    "getReviewAudit": lambda it: [(f"/api/queue/{it.item}/audit", {})],
    "autoAssign": lambda it: [
        (f"/api/queue/auto-assign{query}", {"json": {"reviewers": ["eve"]}}) for query in ("", "?tenant=acme")
    ],
    "batchApprove": lambda it: [
        (f"/api/queue/batch-approve{query}", {"json": {"min_confidence": 0}}) for query in ("", "?tenant=acme")
    ],
    "getDocumentStats": lambda it: [("/api/stats", {}), ("/api/stats?tenant=acme", {})],
    "startIngestion": lambda it: [
        (f"/jobs/{it.base}/start", {}),
        (f"/jobs/{it.base}/start?tenant=acme", {"json": NOTES}),
        (f"/jobs/{it.base}/start", {"json": {"sources": [{"type": "markdown", "path": "../acme/notes"}]}}),
    ],
    "startIngestionOf": lambda it: [(f"/ingestion/jobs/{it.base}/start", {})],
    "planIngestion": lambda it: [
        ("/kb/plan", {"json": {"kb_id": it.base}}),
        ("/kb/plan?tenant=acme", {"json": {"kb_id": it.base}}),
        ("/kb/plan", {"json": {"kb_id": "mine", "sources": [{"type": "markdown", "path": "../acme/notes"}]}}),
    ],
    **{
        f"{word}Ingestion{'Of' if prefix else ''}": lambda it, word=word, prefix=prefix: [
            (f"{prefix}/jobs/{name}/{word}{query}", {})
            for name in (it.base, it.ingestion)
            for query in ("", "?tenant=acme")
        ]
        for word in ("pause", "resume", "cancel")
        for prefix in ("", "/ingestion")
    },
    "getIngestionStatus": lambda it: [(f"/jobs/{name}/status", {}) for name in (it.base, it.ingestion)],
    "getIngestionStatusOf": lambda it: [(f"/ingestion/jobs/{name}/status", {}) for name in (it.base, it.ingestion)],
    "listKnowledgeBases": lambda it: [("/kb", {}), ("/kb?tenant=acme", {})],
    "getKnowledgeBase": lambda it: [(f"/kb/{it.base}", {}), (f"/kb/{it.base}?tenant=acme", {})],
    "deleteKnowledgeBase": lambda it: [(f"/kb/{it.base}", {}), (f"/kb/{it.base}?tenant=acme", {})],
    "searchKnowledgeBase": lambda it: [
        (f"/kb/{it.base}/search?q=roses", {}),
        (f"/kb/{it.base}/search?q=a&tenant=acme", {}),
    ],
    "listKnowledgeBaseDocuments": lambda it: [(f"/kb/{it.base}/documents", {})],
    "listKnowledgeBaseErrors": lambda it: [
        (f"/kb/{it.base}/errors", {}),
        (f"/kb/{it.base}/errors?run={it.ingestion}", {}),
    ],
    "listKnowledgeBaseRuns": lambda it: [(f"/kb/{it.base}/runs", {})],
    "verifyKnowledgeBase": lambda it: [(f"/kb/{it.base}/verify", {})],
    "repairKnowledgeBase": lambda it: [(f"/kb/{it.base}/repair", {}), (f"/kb/{it.base}/repair?tenant=acme", {})],
}

OF_NO_TENANT = {"listWorkflows", "getWorkflow", "getLive", "getReady"}
"""They say the same to everybody."""

WITHOUT_PROBLEMS = {"/metrics"}

NAMES_FOLDERS = {"startPagesRun", "startIngestion", "planIngestion"}


@asynccontextmanager
async def everybodys(folder: Path) -> AsyncIterator[Api]:
    """A service with the pipelines that come with Penstock, and a folder of pages for each tenant."""
    for tenant in ("acme", "bolt"):
        for place in ("labels", "images"):
            (folder / tenant / place / "Ohio" / "Oberlin" / "1850").mkdir(parents=True)
        (folder / tenant / "notes").mkdir()
        (folder / tenant / "notes" / "roses.md").write_text(f"# Roses\n\nThe roses of {tenant}.\n")
    roots = {"roots": [str(folder / "{tenant}")]}
    also = {"pages": roots, "ingestion": roots}
    more = [pages, documents, export, many, *INGESTION]
    async with serving(folder, open_access=False, more=more, sections=found_sections(), also=also) as api:
        yield api


async def acme(api: Api) -> Theirs:
    """A tenant that has something of every kind."""
    stock, penstock = api.stock, api.penstock
    async with api.client(await api.secret("acme-pages", "operate", tenant="acme")) as own:
        ended = (await own.post("/pages/runs", json=RUN)).json()["run"]["id"]
        await own.post(f"/pages/runs/{ended}/cancel")
        await api.run(ended)
        run = (await own.post("/pages/runs", json=RUN)).json()["run"]["id"]
        await own.post(f"/pages/runs/{run}/pause")
        filled = (await own.post("/jobs/secret-notes/start", json=NOTES)).json()["id"]
        await api.run(filled)
        ingestion = (await own.post("/jobs/secret-notes/start")).json()["id"]
        await own.post(f"/jobs/{ingestion}/pause")
        invoice, _ = sample("tenants", kind="facturx")
        files = [("file", (name, invoice)) for name in ("secret-out.pdf", "acme-twin.pdf")]
        sent = (await own.post("/api/documents", files=files)).json()
        await api.run(*(each["job_id"] for each in sent["documents"]))
        document = sent["documents"][0]["document_id"]
        item = (await own.get(f"/api/documents/{document}")).json()["document"]["review_item_id"]
    async with api.client(await api.secret("acme-ann", "review", tenant="acme")) as ann:
        await ann.post(f"/api/queue/{item}/claim")
    batch = await penstock.open_batch(tenant="acme", key="secret-key", budget=1)
    over = await penstock.open_batch(tenant="acme")
    job = (await penstock.submit("holds", "secret-door", tenant="acme", key="secret-key", batch=batch.id)).job_id
    dead = (await penstock.submit("breaks", "acme-payload", tenant="acme", batch=over.id)).job_id
    await penstock.seal_batch(over.id)
    await api.run(job, until="waiting")
    await api.run(dead)
    quarantined, running = await stock.calls("run", "run", tenant="acme")
    await stock.doubt(quarantined)
    await penstock.schedule("nightly", "0 6 * * *", "notes", "acme-payload", tenant="acme")
    await penstock.set_budget("tenant:acme", 5)
    await penstock.set_budget(f"job:{job}", 5)
    await api.secret("acme-boss", "admin", tenant="acme")
    calls = (quarantined.id, running.id)
    read = (document, item, sent["batch_id"])
    kept = ("secret-notes", ingestion)
    return Theirs(job, quarantined.job, dead, batch.id, over.id, *calls, run, ended, *read, *kept)


async def everything(client: httpx2.AsyncClient, theirs: Theirs) -> dict[str, Any]:
    """All that there is of acme's, as somebody sees it who sees all; but not the audit log, which grows."""
    told = {}
    for path in ("jobs?include=payload", "batches", "calls", "dead-letters", "schedules", "locks", "budgets", "tokens"):
        answer = await client.get(f"{V1}/{path}")
        assert answer.status_code == 200
        told[path] = [one for one in answer.json()["items"] if one.get("tenant", "acme") != "bolt"]
    told["tokens"] = [{**one, "used": None} for one in told["tokens"]]
    told["runs"] = (await client.get("/pages/runs?tenant=acme")).json()["items"]
    told["overview"] = [(await client.get(f"/pages/runs/{run['id']}")).json()["overview"] for run in told["runs"]]
    for path in ("documents", "queue", f"documents/{theirs.document}", f"queue/{theirs.item}/audit"):
        told[path] = (await client.get(f"/api/{path}")).json()
    for item in told["queue"]["items"]:
        # It rises by itself.
        item["priority"] = None
    told["costs"] = (await client.get(f"{V1}/costs?tenant=acme")).json()
    for path in ("", f"/{theirs.base}", f"/{theirs.base}/documents", f"/{theirs.base}/runs"):
        told[f"kb{path}"] = (await client.get(f"/kb{path}?tenant=acme")).json()
    return told


def at(template: str, path: str) -> str:
    """Those of the engine's own API are written without its prefix."""
    return V1 + path if template.startswith(V1) else path


def refused(name: str, answer: httpx2.Response) -> bool:
    """Folders of others are no folders that may be named, whether they are there or not."""
    outside = name in NAMES_FOLDERS and answer.status_code == 422 and ".roots of the service" in answer.text
    return answer.status_code in (403, 404) or outside


def shows_nothing(answer: httpx2.Response, theirs: Theirs) -> bool:
    """An empty list, a count of none, or a list in which nothing is acme's."""
    ids = list(vars(theirs).values())
    asked = {one for one in ids if one in str(answer.request.url) or one.encode() in answer.request.content}
    words = ["acme", "secret-key", "secret-door", "secret-out", *(one for one in ids if one not in asked)]
    return answer.is_success and not any(word in answer.text for word in words)


@in_a_loop
async def test_another_tenants_things_are_not_there_on_any_route(tmp_path: Path) -> None:
    async with everybodys(tmp_path) as api:
        theirs = await acme(api)
        async with (
            api.client(await api.secret("boss", "admin")) as boss,
            api.client(await api.secret("bolt-boss", "admin", tenant="bolt")) as bolt,
        ):
            before = await everything(boss, theirs)
            missing = [name for name in api.document.operations() if name not in ATTEMPTS and name not in OF_NO_TENANT]
            known = [name for name in missing if api.document.operations()[name][1] not in WITHOUT_PROBLEMS]
            assert not known, f"say here how another tenant's ids are tried on {known}"
            for name, attempts in ATTEMPTS.items():
                method, template, _ = api.document.operations()[name]
                for told, sent in attempts(theirs):
                    path = at(template, told)
                    answer = await bolt.request(method, path, **sent)
                    assert refused(name, answer) or shows_nothing(answer, theirs), f"{name}: {answer.text}"
                    if "{" in template and answer.status_code == 404:
                        await same_as_never(bolt, method, path, sent, answer, theirs)
            assert await everything(boss, theirs) == before


async def same_as_never(
    client: httpx2.AsyncClient, method: str, path: str, sent: dict[str, Any], answer: httpx2.Response, theirs: Theirs
) -> None:
    """An id of another tenant is answered like one that never was."""
    for one in vars(theirs).values():
        if one in path:
            never = "0" * len(one)
            other = await client.request(method, path.replace(one, never), **sent)
            assert other.status_code == answer.status_code
            assert other.text.replace(never, one) == answer.text


@in_a_loop
async def test_a_tenants_own_things_are_there(tmp_path: Path) -> None:
    """The table above would be kept by a service that shows nothing to anybody."""
    async with everybodys(tmp_path) as api:
        theirs = await acme(api)
        async with api.client(await api.secret("own", "admin", tenant="acme")) as own:
            assert len((await own.get("/pages/runs")).json()["items"]) == 2
            assert (await own.get(f"/pages/runs/{theirs.run}")).json()["run"]["tenant"] == "acme"
            assert len((await own.get("/api/documents")).json()["items"]) == 2
            assert [one["kb_id"] for one in (await own.get("/kb")).json()["items"]] == [theirs.base]
            assert (await own.get(f"/kb/{theirs.base}/search?q=roses")).json()["hits"][0]["source"] == "roses.md"
            assert (await own.get(f"/jobs/{theirs.ingestion}/status")).json()["status"] == "paused"
            assert (await own.get(f"/api/queue/{theirs.item}")).json()["item"]["assigned_to"] == "acme-ann"
            assert (await own.get(f"/api/batches/{theirs.many}")).json()["completed"] == 2
            for path in ("jobs", "batches", "calls", "dead-letters", "schedules", "locks", "audit", "tokens"):
                assert (await own.get(f"{V1}/{path}")).json()["items"], path
            scopes = [one["scope"] for one in (await own.get(f"{V1}/budgets")).json()["items"]]
            assert scopes == sorted([f"batch:{theirs.batch}", f"job:{theirs.job}", "tenant:acme"])
            assert (await own.get(f"{V1}/jobs/{theirs.job}")).json()["tenant"] == "acme"
            assert (await own.delete(f"{V1}/budgets/job:{theirs.job}")).status_code == 204
            assert (await own.post(f"{V1}/calls/{theirs.quarantined}/discard")).status_code == 200


def test_the_table_names_only_routes_that_are_there(tmp_path: Path) -> None:
    @in_a_loop
    async def check() -> None:
        async with everybodys(tmp_path) as api:
            known = Document(create_app(api.service).openapi()).operations()
            assert (ATTEMPTS.keys() | OF_NO_TENANT) <= known.keys()

    check()
