"""Gemini's batches as a remote: half the price, within a day, found again by our label in the display name.

Creating one is not idempotent, so it is done once and never repeated in here. Everything before it (`planning.py`) is
free and remembered in the call's folder; everything after it (`collecting.py`) needs only that folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.genai import types

from penstock.engine.errors import Ambiguous, InvalidConfiguration, InvalidRequest, Permanent, Transient
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.collecting import Brought, Collecting, brought_already, has_keys
from penstock.remote.gemini.errors import Refused, translated
from penstock.remote.gemini.lines import decoded, lines
from penstock.remote.gemini.operation import Operation, read_operation
from penstock.remote.gemini.planning import INPUT, Planning
from penstock.remote.gemini.shelf import Shelf, delete_file
from penstock.remote.prices import Prices, load_prices
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Plan, Polled, ResultGone

_MOST_PAGES = 10_000
_SUBMIT_SLACK = 15.0


class GeminiBatch:
    """`order.request` is a `BatchRequest`; the result names `rows.jsonl` in the order's folder, for `read_rows`."""

    name = "gemini.batch"
    guarantee: Guarantee = "findable"
    keeps_files = True

    def __init__(self, client: GeminiClient, *, prices: Prices | None = None, identity: str | None = None) -> None:
        settings = client.settings
        if settings.vertex:
            raise InvalidConfiguration(
                "gemini.vertex_project: batches on Vertex AI read and write Cloud Storage, which Penstock does not do;"
                " use an API key for batches, Vertex AI serves single calls only"
            )
        prices = prices or load_prices(settings.prices)
        self._client = client
        self.identity = identity or settings.identity
        self._planning = Planning(client, prices)
        self._collecting = Collecting(client, prices)
        self.submit_timeout = settings.create_timeout + _SUBMIT_SLACK
        self.listing_margin = settings.listing_margin
        self.poll_every = settings.poll_every
        self.poll_at_most = settings.poll_at_most
        self.overdue_after = settings.overdue_after

    async def prepare(self, order: Order) -> Plan:
        return await self._planning.plan(order)

    async def submit(self, order: Order) -> Accepted:
        prepared = order.prepared
        before = prepared.get("submit_before")
        if before is not None and self._client.clock.now() > before:
            raise Transient("the uploaded files would be deleted before the batch has read them: prepare it again")
        body = await self._client.in_thread(_inline_body, order.folder) if prepared["mode"] == "inline" else None
        options = self._client.options(self._client.settings.create_timeout, body)
        create = self._create_embedding if prepared["kind"] == "embed" else self._create_generating
        with translated("create the batch", stake="work"):
            job = await create(prepared["model"], prepared.get("input"), _display_name(order), options)
            if not job.name:
                raise Ambiguous("create the batch: Gemini took it and did not say under which name")
            return Accepted(job.name)

    async def find(self, order: Order) -> Found:
        """Every page there is, to the end: the listing cannot be asked for a name. Nothing is proved by what another
        key does not see."""
        ours = order.prepared.get("account") == self._client.account
        name = _display_name(order)
        found: list[Operation] = []
        token, tokens = "", set[str]()
        for _ in range(_MOST_PAGES):
            params = {"pageSize": "100"} | ({"pageToken": token} if token else {})
            try:
                page = await self._client.ask("GET", "batches", "list batches", params=params)
            except Transient:
                if not found:
                    raise
                break
            operations = map(read_operation, page.get("operations") or ())
            found += [operation for operation in operations if operation.label == name]
            token = str(page.get("nextPageToken") or "")
            if not token:
                return _found(found, complete=ours)
            if token in tokens:
                break
            tokens.add(token)
        return _found(found, complete=False)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        operation = await self._operation(provider_id)
        if operation is None:
            return Polled(state="gone", error=f"Gemini knows no {provider_id}")
        return operation.polled(self._client.clock.now())

    async def collect(self, order: Order, provider_id: str) -> Collected:
        """Only the batch's own word ends it: a refusal (a key that was changed, a 404) may pass."""
        if not await self._client.in_thread(has_keys, order.folder):
            raise Transient(f"the keys of the batch are in another home, not in {order.folder}: nothing was fetched")
        try:
            return await self._collected(order, provider_id)
        except ResultGone:
            raise
        except Permanent as error:
            raise Transient(str(error)) from error

    async def _collected(self, order: Order, provider_id: str) -> Collected:
        brought: Brought | None = await self._client.in_thread(brought_already, order.folder, provider_id)
        if brought is None:
            operation = await self._operation(provider_id)
            if operation is None:
                raise Transient(f"Gemini knows no {provider_id} now: its result cannot be fetched")
            brought = await self._collecting.bring(order.folder, operation)
        return await self._collecting.collected(order, brought)

    async def cancel(self, order: Order, provider_id: str) -> None:
        try:
            await self._client.ask("POST", f"{_checked(provider_id)}:cancel", f"cancel {provider_id}")
        except Refused as error:
            # It is not there, or has ended.
            if error.code not in (400, 404, 409):
                raise

    async def tidy(self, order: Order, provider_id: str | None) -> None:
        await Shelf(self._client, order.folder, tenant=order.tenant).clear()
        brought = await self._client.in_thread(brought_already, order.folder, provider_id)
        if brought is not None and brought.file:
            await delete_file(self._client, brought.file)
        await self._client.in_thread(_sweep, order.folder)

    async def close(self) -> None:
        await self._client.close()

    async def _create_generating(
        self, model: str, file: str | None, label: str, options: types.HttpOptions
    ) -> types.BatchJob:
        # Inline rows are laid over this one by `options`: raw REST, which the SDK's types would lose parts of.
        stand_in = types.BatchJobSource(inlined_requests=[types.InlinedRequest(contents="-")])
        return await self._client.sdk.batches.create(
            model=model,
            src=stand_in if file is None else file,
            config=types.CreateBatchJobConfig(display_name=label, http_options=options),
        )

    async def _create_embedding(
        self, model: str, file: str | None, label: str, options: types.HttpOptions
    ) -> types.BatchJob:
        # The SDK's own inline form has no room for keys.
        stand_in = types.EmbeddingsBatchJobSource(inlined_requests=types.EmbedContentBatch(contents="-"))
        return await self._client.sdk.batches.create_embeddings(
            model=model,
            src=stand_in if file is None else types.EmbeddingsBatchJobSource(file_name=file),
            config=types.CreateEmbeddingsBatchJobConfig(display_name=label, http_options=options),
        )

    async def _operation(self, provider_id: str) -> Operation | None:
        """The batch as it is now; None where Gemini says that there is none."""
        try:
            return read_operation(await self._client.ask("GET", _checked(provider_id), f"look at {provider_id}"))
        except Refused as error:
            if error.code == 404:
                return None
            raise


def _display_name(order: Order) -> str:
    """Under which it is created, and found again."""
    return f"{order.prepared.get('display_prefix', '')}{order.label}"


def _checked(provider_id: str) -> str:
    if not provider_id.startswith("batches/") or "/" in provider_id.removeprefix("batches/"):
        raise InvalidRequest(f"{provider_id!r} is no name of a batch")
    return provider_id


def _found(operations: list[Operation], *, complete: bool) -> Found:
    """Oldest first. The listing is newest first, which decides between two of the same moment."""
    ordered = sorted(enumerate(operations), key=lambda item: (item[1].created or 0.0, -item[0]))
    return Found(tuple(dict.fromkeys(operation.name for _, operation in ordered)), complete)


def _inline_body(folder: Path) -> dict[str, Any]:
    try:
        with (folder / INPUT).open("rb") as file:
            rows = [decoded(line or b"")[0] for line in lines(file)]
    except OSError as error:
        raise Transient(f"the rows are gone from {folder}: prepare the batch again") from error
    requests = [{"request": row["request"], "metadata": {"key": row["key"]}} for row in rows]
    return {"batch": {"inputConfig": {"requests": {"requests": requests}}}}


def _sweep(folder: Path) -> None:
    """What an interrupted write left."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)
