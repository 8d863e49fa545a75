"""The HTTP API, asked what its own OpenAPI document allows and what it forbids, over a socket: no answer is a 5xx, and
every answer is as the document says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock.pipelines.documents.samples import sample
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.pipelines.ingestion.workflow import ALL as INGESTION
from penstock.pipelines.pages.workflow import pages
from penstock.service.sections import found_sections
from tests.support import pages_show
from tests.support.api import Api, serving

pytestmark = pytest.mark.timeout(300)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 8

FEW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

OF_OTHERS = {"/metrics"}

THE_SAME = "/ingestion/jobs/"
"""What is asked of `/jobs/` already, under its other name."""


@dataclass
class Running:
    """A service on a port of its own, in a thread of its own, with something of every kind in its store."""

    url: str = ""
    ids: dict[str, list[str]] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("fuzz")
    found = Running()
    ready = threading.Event()
    loop_and_server: list[Any] = []

    async def main() -> None:
        roots = {"pages": {"roots": [str(folder / "books")]}, "ingestion": {"roots": [str(folder / "notes")]}}
        more = [pages, documents, export, many, *INGESTION]
        async with serving(folder, more=more, sections=found_sections(), also=roots) as api:
            run = await pages_show.fill(api.penstock, folder / "books", books=3, batches=6, style="tiny")
            book = next((folder / "books" / "library" / "images").glob("*/*/*"))
            job = (await api.penstock.submit("holds", "door")).job_id
            dead = (await api.penstock.submit("breaks", 1)).job_id
            batch = (await api.penstock.open_batch()).id
            await api.run(dead)
            calls = await api.stock.calls("answer", "run")
            invoices = await invoiced(api)
            runs = await ingested(api, folder / "notes")
            await api.penstock.set_budget("tenant:default", 1000)
            found.ids = {
                "job_id": [job, dead],
                "batch_id": [batch, invoices[0]["batch_id"]],
                "call_id": [call.id for call in calls],
                "scope": ["tenant:default", f"job:{job}"],
                "name": ["notes", "nightly"],
                "run_id": [run],
                "document_id": [each["document_id"] for each in invoices],
                "item_id": [each["review_item_id"] for each in invoices],
                "field": ["total", "vendor"],
                "format": ["json", "parquet"],
                "kb_id": list(runs),
                "id": [*runs, *runs.values()],
                "key": [":".join((*book.parts[-3:], str(number))) for number in (2, 5)],
            }
            found.document = api.document.document
            # Streams end at once; everything else is as ever.
            await api.service.feed.stop()
            server = uvicorn.Server(uvicorn.Config(api.app, port=0, log_level="error", lifespan="off"))
            serve = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            found.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            loop_and_server.append(server)
            ready.set()
            await serve

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(60), "the service did not start"
    yield found
    loop_and_server[0].should_exit = True
    thread.join(60)


async def invoiced(api: Api) -> list[dict[str, Any]]:
    """Documents that were extracted and wait for a review."""
    content, _ = sample("fuzz", kind="facturx")
    async with api.client() as client:
        sent = await client.post("/api/documents", files=[("file", ("a.pdf", content))] * 3)
        await api.run(*(each["job_id"] for each in sent.json()["documents"]))
        items: list[dict[str, Any]] = (await client.get("/api/documents")).json()["items"]
    return items


async def ingested(api: Api, folder: Path) -> dict[str, str]:
    """Knowledge bases by name, with a run of each: one that is filled, and one that is being filled."""
    folder.mkdir()
    (folder / "roses.md").write_text("# Roses\n\nThey are cut back before the first frost.\n")
    runs = {}
    async with api.client() as client:
        for name in ("garden", "shed"):
            sent = await client.post(f"/jobs/{name}/start", json={"sources": [{"type": "markdown", "path": "."}]})
            runs[name] = sent.json()["id"]
            if name == "garden":
                await api.run(runs[name])
    return runs


def operations(running: Running) -> Iterator[Any]:
    schema = schemathesis.openapi.from_dict(running.document)
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path not in OF_OTHERS and not operation.path.startswith(THE_SAME):
            yield operation


def fuzzed(running: Running, operation: Any, mode: GenerationMode, checks: list[Any], *, known_ids: bool) -> None:
    with requests.Session() as session:

        @FEW
        @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        def ask(case: Any, data: Any) -> None:
            if known_ids:
                for name in case.path_parameters or {}:
                    case.path_parameters[name] = data.draw(st.sampled_from(running.ids[name]))
                for body in _with_workflows(case.body):
                    body["workflow"] = data.draw(st.sampled_from(["notes", "holds", "scans"]))
            response = case.call(base_url=running.url, session=session)
            case.validate_response(response, checks=checks)

        ask()


def _with_workflows(body: Any) -> Iterator[dict[str, Any]]:
    """The parts of a body that name a workflow: a random name is never one that is known."""
    if isinstance(body, dict):
        if "workflow" in body:
            yield body
        for value in body.values():
            yield from _with_workflows(value)
    elif isinstance(body, list):
        for value in body:
            yield from _with_workflows(value)


def test_what_the_document_allows_is_answered_as_it_says(running: Running) -> None:
    before = count(running)
    for operation in operations(running):
        fuzzed(running, operation, GenerationMode.POSITIVE, CHECKS, known_ids=True)
    assert count(running) > before, "nothing was stored: every request was refused at the door"


def count(running: Running) -> int:
    total: int = requests.get(f"{running.url}/api/v1/counts", timeout=30).json()["total"]
    return total


def test_what_the_document_forbids_is_refused_as_it_says(running: Running) -> None:
    for operation in operations(running):
        if operation.path.startswith("/health/"):
            continue
        fuzzed(running, operation, GenerationMode.NEGATIVE, [*CHECKS, negative_data_rejection], known_ids=False)


def test_ids_that_the_document_allows_and_nobody_has_are_not_found(running: Running) -> None:
    for operation in operations(running):
        if "{" in operation.path:
            fuzzed(running, operation, GenerationMode.POSITIVE, CHECKS, known_ids=False)
