"""The OpenAPI document: complete, stable, and true to its own schemas."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from penstock import service
from penstock.service.api.problems import TITLES
from penstock.service.sections import found_sections
from tests.support.api import Document, serving
from tests.support.house import in_a_loop

OPERATIONS = {
    "adoptCall", "cancelCall", "cancelJob", "deleteBudget", "deleteSchedule", "discardCall", "getBatch", "getCall",
    "getCosts", "getCounts", "getJob", "getJobLogs", "getJobTimeline", "getLive", "getReady", "getWorkflow",
    "listAudit", "listBatchMembers", "listBatches", "listBudgets", "listCalls", "listDeadLetters", "listJobs",
    "listLocks", "listSchedules", "listTokens", "listWorkers", "listWorkflows", "openBatch", "pauseJob",
    "putBudget", "putSchedule", "resubmitCall", "resumeJob", "retryBatch", "retryDeadLetters", "retryJob",
    "sealBatch", "streamEvents", "submitJob", "submitJobs",
    "cancelPagesRun", "getPagesPage", "getPagesRun", "listPagesBatches", "listPagesBooks", "listPagesFailures",
    "listPagesRuns", "pausePagesRun", "rescanPages", "resumePagesRun", "retryPages", "startPagesRun",
    "autoAssign", "batchApprove", "claimItem", "deleteDocument", "downloadDocument", "exportDocuments", "getDocument",
    "getDocumentBatch", "getDocumentStats", "getQueueItem", "getReviewAudit", "listDocuments", "listQueue",
    "previewDocument", "reExtractDocument", "releaseItem", "submitReview", "unlockField", "uploadDocuments",
    "cancelIngestion", "cancelIngestionOf", "deleteKnowledgeBase", "getIngestionStatus", "getIngestionStatusOf",
    "getKnowledgeBase", "listKnowledgeBaseDocuments", "listKnowledgeBaseErrors", "listKnowledgeBaseRuns",
    "listKnowledgeBases", "pauseIngestion", "pauseIngestionOf", "planIngestion", "repairKnowledgeBase",
    "resumeIngestion", "resumeIngestionOf", "searchKnowledgeBase", "startIngestion", "startIngestionOf",
    "verifyKnowledgeBase",
}  # fmt: skip

OURS = ("/api/", "/pages/", "/jobs/", "/ingestion/", "/kb")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Document:
    made: list[Document] = []

    @in_a_loop
    async def make() -> None:
        async with serving(tmp_path_factory.mktemp("api"), sections=found_sections()) as api:
            made.append(api.document)

    make()
    return made[0]


def of_the_api(document: Document) -> dict[str, tuple[str, str, dict[str, Any]]]:
    return {name: told for name, told in document.operations().items() if told[1].startswith(OURS)}


def test_operations_keep_their_names(document: Document) -> None:
    own = {name for name, (_, path, _) in document.operations().items() if path.startswith((*OURS, "/health/"))}
    assert own == OPERATIONS


def test_every_operation_says_what_it_does(document: Document) -> None:
    for name, (_, _, told) in document.operations().items():
        if name in OPERATIONS:
            assert told["summary"] and told["description"] and told["tags"], name


def test_every_error_is_a_problem_with_an_example(document: Document) -> None:
    schema = {"$ref": "#/components/schemas/Problem", "components": document.document["components"]}
    for name, (_, path, told) in of_the_api(document).items():
        assert {"401", "403", "422", "429", "503"} <= told["responses"].keys(), name
        assert "{" not in path or "404" in told["responses"], name
        for status, answer in told["responses"].items():
            if int(status) < 400:
                continue
            (media, content), *more = answer["content"].items()
            assert media == "application/problem+json" and not more, (name, status)
            assert content["example"]["type"] == f"/problems/{TITLES[int(status)][0]}"
            Draft202012Validator(schema).validate(content["example"])


def test_what_changes_something_may_conflict_be_too_large_or_be_no_json(document: Document) -> None:
    for name, (method, _, told) in of_the_api(document).items():
        if method != "get":
            assert "415" in told["responses"], name
        if "requestBody" in told:
            assert "413" in told["responses"], name


def test_creates_take_an_idempotency_key(document: Document) -> None:
    keyed = {
        name
        for name, (_, _, told) in document.operations().items()
        if any(parameter["name"] == "Idempotency-Key" for parameter in told.get("parameters", ()))
    }
    assert keyed == {
        "submitJob", "submitJobs", "openBatch", "retryBatch", "startPagesRun", "uploadDocuments", "startIngestion",
        "startIngestionOf",
    }  # fmt: skip


def test_lists_are_paged(document: Document) -> None:
    for name, (_, _, told) in of_the_api(document).items():
        schema = told["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
        model = document.document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
        if "next" in model.get("properties", {}):
            names = {parameter["name"] for parameter in told["parameters"]}
            assert {"cursor", "limit"} <= names, name


def test_every_body_and_answer_has_an_example_that_fits(document: Document) -> None:
    components = document.document["components"]
    for name, (_, _, told) in document.operations().items():
        if name not in OPERATIONS:
            continue
        for body in (told.get("requestBody", {}), *told["responses"].values()):
            content = body.get("content", {}).get("application/json")
            if content is not None:
                assert "example" in content, name
                Draft202012Validator({**content["schema"], "components": components}).validate(content["example"])


def test_every_parameter_is_described(document: Document) -> None:
    for name, (_, _, told) in of_the_api(document).items():
        for parameter in told.get("parameters", ()):
            assert parameter.get("description"), f"{name}: {parameter['name']}"


def test_every_route_needs_a_token_but_health(document: Document) -> None:
    for name, (_, _, told) in of_the_api(document).items():
        assert told["security"], name


def test_the_document_is_served(tmp_path: Path) -> None:
    @in_a_loop
    async def check() -> None:
        async with serving(tmp_path) as api, api.client() as client:
            assert (await client.get("/openapi.json")).json() == api.document.document

    check()


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"


def test_the_reference_names_every_route_and_every_problem(document: Document) -> None:
    page = PAGE.read_text()
    named = set(re.findall(r"^\| `([A-Z]+ /\S+)`", page, re.MULTILINE))
    there = {
        f"{method.upper()} {path}" for name, (method, path, _) in document.operations().items() if name in OPERATIONS
    }
    assert named == there
    problems = set(re.findall(r"^\| (\d{3}) \| `/problems/([a-z-]+)`", page, re.MULTILINE))
    assert problems == {(str(status), slug) for status, (slug, _) in TITLES.items()} | named_in_code()


def named_in_code() -> set[tuple[str, str]]:
    """The status and the `slug` of every `Problem` in the service's code that has one of its own."""
    calls = [
        node
        for path in Path(service.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    found = set()
    for call in calls:
        for one in call.keywords:
            if one.arg == "slug":
                assert isinstance(one.value, ast.Constant), "a problem's type is written where it is raised"
                assert isinstance(call.args[0], ast.Constant)
                found.add((str(call.args[0].value), str(one.value.value)))
    return found
