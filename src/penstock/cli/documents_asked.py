"""What the commands of `penstock documents` and `penstock review` share: the app that knows the pipeline, ids as people
have them at hand, and the words for work that nobody is there to do."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import AsyncIterator

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.command import Invocation
from penstock.config import Settings
from penstock.engine.errors import InvalidConfiguration, NotFound
from penstock.pipelines.documents import reading
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.service.beginning import same_flags

PIPELINE = (documents, export, many)


def check_pipeline(app: Penstock) -> None:
    for workflow in PIPELINE:
        if app.workflows.get(workflow.name) is not workflow:
            raise InvalidConfiguration(
                f"the app has a workflow of its own named {workflow.name!r}, which is the name of Penstock's pipeline: "
                "rename it, or use these commands with another configuration (--config) that does not name the app"
            )


@contextlib.asynccontextmanager
async def acting(settings: Settings, *, must_exist: bool = True) -> AsyncIterator[Penstock]:
    """The store, and the pipeline that jobs are made for."""
    async with sessions.opened(settings, with_app=True, must_exist=must_exist) as app:
        check_pipeline(app)
        yield app


async def item_of(app: Penstock, given: str) -> str:
    """The id of a review item: as it is given, or of the document that is given."""
    with contextlib.suppress(NotFound):
        return (await reading.queue_item(app.engine, given)).id
    try:
        found = (await reading.document(app.engine, given)).document
    except NotFound:
        raise NotFound(f"there is no review item {given[:80]}, and no document of that id") from None
    if found.review_item is None:
        raise NotFound(f"document {given} is {found.status}, and there is no review of it yet")
    return found.review_item


async def document_of(app: Penstock, given: str) -> str:
    """The id of a document: as it is given, or of the review item that is given."""
    with contextlib.suppress(NotFound):
        return (await reading.document(app.engine, given)).document.id
    try:
        return (await reading.queue_item(app.engine, given)).document
    except NotFound:
        raise NotFound(f"there is no document {given[:80]}, and no review item of that id") from None


def command(call: Invocation, settings: Settings, words: str) -> str:
    """Another command on the same store."""
    config = f" --config {shlex.quote(call.config)}" if call.config else ""
    return f"penstock {words}{config}{same_flags(settings)}"


def worker(settings: Settings) -> str:
    """What starts a worker that would do this work: the pipeline needs no app."""
    own = settings.delivery == "embedded"
    return f"penstock {'up' if own else f'worker --delivery {settings.delivery}'}{same_flags(settings)}"


async def nobody_there(app: Penstock) -> str | None:
    """The words for it where no worker would take up the pipeline's jobs."""
    return await sessions.lack(app, documents.name, documents.queue)
