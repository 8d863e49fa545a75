"""Gemini's batches as a remote: half the price, within a day, found again by our label in the display name.

Creating one is not idempotent, so it is done once and never repeated in here. Everything before it (checking, counting,
uploading) is free and remembered in the call's folder; everything after it needs only that folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

from google.genai import types
from pydantic import ValidationError
from pydantic_core import to_json

from penstock.engine.call import Hold, Usage
from penstock.engine.errors import Ambiguous, InvalidConfiguration, InvalidPayload, InvalidRequest, Permanent, Transient
from penstock.outputs.files import atomic_write
from penstock.remote.gemini.batch_input import BatchRequest, Counted, Scan, Writing
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.download import Downloaded, download
from penstock.remote.gemini.errors import Refused, translated
from penstock.remote.gemini.limits import BATCHES_LIVE_FOR, FILE_BYTES, INLINE_BYTES, enqueued_tokens
from penstock.remote.gemini.lines import decoded, encoded, in_slices, lines, whole
from penstock.remote.gemini.operation import Operation, read_operation
from penstock.remote.gemini.results import Sorting
from penstock.remote.gemini.shelf import Shelf, Wanted, delete_file
from penstock.remote.prices import Prices, load_prices, plain_name, rounded_up
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Plan, Polled

log = logging.getLogger("penstock.remote.gemini")

INPUT, KEYS, SCHEMA, PLAN = "input.jsonl", "keys.jsonl", "schema.json", "plan.json"
RESULT, ROWS, BROUGHT = "result.jsonl", "rows.jsonl", "brought.json"

_JSONL = "application/jsonl"
_MOST_PAGES = 10_000
_SUBMIT_SLACK = 15.0
_LEAST_WINDOW = 900.0


class GeminiBatch:
    """`order.request` is a `BatchRequest`. The result names `rows.jsonl` in the order's folder (`results.read_rows`)."""

    name = "gemini.batch"
    guarantee: Guarantee = "findable"

    def __init__(self, client: GeminiClient, *, prices: Prices | None = None) -> None:
        settings = client.settings
        if settings.vertex:
            raise InvalidConfiguration(
                "gemini.vertex_project: batches on Vertex AI read and write Cloud Storage, which Penstock does not do;"
                " use an API key for batches, Vertex AI serves single calls only"
            )
        self._client = client
        self._prices = prices or load_prices(settings.prices)
        self.submit_timeout = settings.create_timeout + _SUBMIT_SLACK
        self.listing_margin = settings.listing_margin
        self.poll_every = settings.poll_every
        self.poll_at_most = settings.poll_at_most
        self.overdue_after = settings.overdue_after

    async def prepare(self, order: Order) -> Plan:
        request = checked_request(order.request)
        digest = hashlib.sha256(to_json(request)).hexdigest()
        kept: Plan | None = await self._client.in_thread(self._kept_plan, order.folder, digest)
        if kept is not None:
            return kept
        model = plain_name(request.model or self._default_model(request))
        counted = await self._counted(request, model)
        shelf = Shelf(self._client, order.folder, label=order.label, tenant=order.tenant)
        await shelf.open()
        files = await shelf.have_all(counted.wanted.items())
        size = await self._written(request, order.folder, files)
        mode = self._mode(request, counted, size)
        expires = [file.expires for file in files.values()]
        prepared: dict[str, Any] = {"model": model, "kind": request.kind, "mode": mode, "rows": counted.rows}
        prepared["tokens"] = counted.usage.input
        if mode == "file":
            uploaded = await shelf.have(Wanted(order.folder / INPUT, _JSONL), title=order.label)
            prepared["input"] = uploaded.name
            expires.append(uploaded.expires)
        if expires:
            # A file must outlive the batch: from some moment on it is too late to begin one with these.
            now = self._client.clock.now()
            prepared["submit_before"] = max(now + _LEAST_WINDOW, min(expires) - self._client.settings.files_live_for)
        plan = self._plan(model, counted, prepared)
        await self._client.in_thread(_keep_plan, order.folder, digest, plan)
        return plan

    async def submit(self, order: Order) -> Accepted:
        prepared, settings = order.prepared, self._client.settings
        before = prepared.get("submit_before")
        if before is not None and self._client.clock.now() > before:
            raise Transient("the uploaded files would be deleted before the batch has read them: prepare it again")
        body = await self._client.in_thread(_inline_body, order.folder) if prepared["mode"] == "inline" else None
        options = self._client.options(settings.create_timeout, body)
        create = self._embedding if prepared["kind"] == "embed" else self._generating
        with translated("create the batch", stake="work"):
            job = await create(prepared["model"], prepared.get("input"), order.label, options)
            if not job.name:
                raise Ambiguous("create the batch: Gemini took it and did not say under which name")
            return Accepted(job.name)

    async def find(self, order: Order) -> Found:
        """Every page there is, to the end: the listing cannot be asked for a name."""
        found: list[Operation] = []
        token, tokens = "", set[str]()
        for _ in range(_MOST_PAGES):
            params = {"pageSize": "100"} | ({"pageToken": token} if token else {})
            try:
                page = await self._client.ask("GET", "batches", "list batches", params=params)
            except Transient:
                if found:
                    return _found(found, complete=False)
                raise
            operations = page.get("operations") or ()
            found += [operation for operation in map(read_operation, operations) if operation.label == order.label]
            token = str(page.get("nextPageToken") or "")
            if not token:
                return _found(found, complete=True)
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
        folder = order.folder
        brought: dict[str, Any] | None = await self._client.in_thread(_brought, folder, provider_id)
        if brought is None:
            brought = await self._bring(folder, provider_id)
        sorting = await self._sorted(order, brought)
        usage, charge = sorting.usage, sorting.charge
        result: dict[str, Any] = {
            "file": ROWS,
            "raw": RESULT,
            "sha256": brought["sha256"],
            "size": brought["size"],
            "rows": sorting.tally(),
            "conflicts": sorting.conflicts,
        }
        model, tier = order.prepared["model"], "batch"
        price = self._prices.price_of(model, "batch", brought["ended"])
        if usage == Usage() and sorting.counts["ok"]:
            # Some answers come without a count: then what was counted here is the best there is.
            usage, result["estimated"] = Usage(input=order.prepared["tokens"]), True
            charge = price.charge(usage) if price else 0
        if price is None:
            result["unpriced"] = f"{model} ({tier})"
        return Collected(result=result, usage=usage, cost=rounded_up(charge))

    async def cancel(self, order: Order, provider_id: str) -> None:
        try:
            await self._client.ask("POST", f"{provider_id}:cancel", f"cancel {provider_id}")
        except Refused as error:
            if error.code not in (400, 404, 409):
                raise

    async def tidy(self, order: Order, provider_id: str | None) -> None:
        shelf = Shelf(self._client, order.folder, label=order.label, tenant=order.tenant)
        await shelf.clear()
        if order.prepared.get("input"):
            await delete_file(self._client, order.prepared["input"])
        brought = await self._client.in_thread(_brought, order.folder, provider_id)
        if brought is not None and brought.get("file"):
            await delete_file(self._client, brought["file"])
        await self._client.in_thread(_forget, order.folder)

    async def close(self) -> None:
        await self._client.close()

    def _default_model(self, request: BatchRequest) -> str:
        settings = self._client.settings
        return settings.embedding_model if request.kind == "embed" else settings.model

    async def _counted(self, request: BatchRequest, model: str) -> Counted:
        now, settings = self._client.clock.now(), self._client.settings
        price = self._prices.dearest(model, "batch", now, within=timedelta(seconds=BATCHES_LIVE_FOR))
        scan = Scan(
            request,
            model=model,
            most_output=settings.max_output_tokens,
            price=price,
            sample=settings.count_sample if request.kind == "generate" else 0,
        )
        await in_slices(scan.step, self._client.in_thread)
        return await self._corrected(scan.counted, model) if scan.counted.sample else scan.counted

    async def _corrected(self, counted: Counted, model: str) -> Counted:
        """Our own count, held against Gemini's for a few rows. A sample that cannot be counted changes nothing."""
        from penstock.remote.gemini.tokens import input_tokens

        ours = theirs = 0
        for request in counted.sample:
            try:
                with translated("count tokens"):
                    told = await self._client.sdk.models.count_tokens(
                        model=model,
                        contents=request["contents"],
                        config=types.CountTokensConfig(
                            http_options=self._client.options(self._client.settings.request_timeout)
                        ),
                    )
            except (Transient, Permanent) as error:
                log.info("%s", error)
                continue
            ours += input_tokens({"contents": request["contents"]}, model)
            theirs += told.total_tokens or 0
        if not ours or not theirs:
            return counted
        usage = dataclasses.replace(counted.usage, input=-(-counted.usage.input * theirs // ours))
        return dataclasses.replace(counted, usage=usage)

    async def _written(self, request: BatchRequest, folder: Path, files: Any) -> int:
        """`input.jsonl` and `keys.jsonl`, and the schema the answers are held against."""
        token, in_thread = self._client.token(), self._client.in_thread
        async with whole(folder / INPUT, token, in_thread) as rows, whole(folder / KEYS, token, in_thread) as keys:
            writing = Writing(request, files, rows, keys)
            await in_slices(writing.step, in_thread)
        if request.json_schema is not None:
            await in_thread(atomic_write, folder / SCHEMA, to_json(request.json_schema))
        if writing.size > FILE_BYTES:
            raise InvalidRequest(f"the batch has {writing.size} bytes, and Gemini takes {FILE_BYTES} at most: split it")
        return writing.size

    def _mode(self, request: BatchRequest, counted: Counted, size: int) -> str:
        settings = self._client.settings
        if request.mode == "inline" and size >= INLINE_BYTES * 0.9:
            raise InvalidRequest(f"{size} bytes are too many to send inline: use mode file")
        small = counted.rows <= settings.inline_rows and size <= settings.inline_bytes
        return ("inline" if small else "file") if request.mode == "auto" else request.mode

    def _plan(self, model: str, counted: Counted, prepared: dict[str, Any]) -> Plan:
        settings = self._client.settings
        tokens = counted.usage.input
        cap = enqueued_tokens(model, settings.tier, settings.enqueued_tokens)
        if cap is not None and tokens > cap:
            raise InvalidRequest(
                f"about {tokens} input tokens, and tier {settings.tier} may have {cap} of {model} enqueued: split the"
                " batch, or set gemini.tier or gemini.enqueued_tokens if your project may have more"
            )
        return Plan(
            model=model,
            estimate=rounded_up(counted.charge),
            usage=counted.usage,
            holds=(
                Hold("gemini.batch-jobs", 1, settings.batch_jobs),
                Hold(f"gemini.batch-tokens:{model}", tokens, cap),
            ),
            prepared=prepared,
        )

    def _kept_plan(self, folder: Path, digest: str) -> Plan | None:
        """The plan of the same request, while its uploads are good."""
        try:
            kept = json.loads((folder / PLAN).read_bytes())
        except (OSError, ValueError):
            return None
        before = kept["plan"]["prepared"].get("submit_before")
        late = before is not None and self._client.clock.now() > before - _LEAST_WINDOW
        if kept["digest"] != digest or late or not (folder / KEYS).exists():
            return None
        plan = kept["plan"]
        return Plan(
            model=plan["model"],
            estimate=plan["estimate"],
            usage=Usage(**plan["usage"]),
            holds=tuple(Hold(**hold) for hold in plan["holds"]),
            prepared=plan["prepared"],
        )

    async def _generating(self, model: str, file: str | None, label: str, options: types.HttpOptions) -> types.BatchJob:
        # Inline rows are laid over this one by `options`: raw REST, which the SDK's types would lose parts of.
        stand_in = types.BatchJobSource(inlined_requests=[types.InlinedRequest(contents="-")])
        return await self._client.sdk.batches.create(
            model=model,
            src=stand_in if file is None else file,
            config=types.CreateBatchJobConfig(display_name=label, http_options=options),
        )

    async def _embedding(self, model: str, file: str | None, label: str, options: types.HttpOptions) -> types.BatchJob:
        # The SDK's own inline form has no room for keys.
        stand_in = types.EmbeddingsBatchJobSource(inlined_requests=types.EmbedContentBatch(contents="-"))
        return await self._client.sdk.batches.create_embeddings(
            model=model,
            src=stand_in if file is None else types.EmbeddingsBatchJobSource(file_name=file),
            config=types.CreateEmbeddingsBatchJobConfig(display_name=label, http_options=options),
        )

    async def _operation(self, provider_id: str) -> Operation | None:
        if not provider_id.startswith("batches/") or "/" in provider_id.removeprefix("batches/"):
            raise InvalidRequest(f"{provider_id!r} is no name of a batch")
        try:
            return read_operation(await self._client.ask("GET", provider_id, f"look at {provider_id}"))
        except Refused as error:
            if error.code == 404:
                return None
            raise

    async def _bring(self, folder: Path, provider_id: str) -> dict[str, Any]:
        """The result as it is, on our disk, before anything is made of it."""
        operation = await self._operation(provider_id)
        if operation is None:
            raise Permanent(f"Gemini knows no {provider_id} any more: its result is lost")
        if operation.file is not None:
            got = await download(self._client, operation.file, folder / RESULT)
        elif operation.inlined is not None:
            got = await self._write_inlined(operation.inlined, folder / RESULT)
        elif operation.state in ("failed", "cancelled", "expired"):
            raise Permanent(f"{provider_id} has no result: {operation.error or operation.state}")
        else:
            raise Transient(f"{provider_id} has no result yet")
        brought = {
            "provider_id": provider_id,
            "file": operation.file,
            "ended": operation.ended or self._client.clock.now(),
            **dataclasses.asdict(got),
        }
        await self._client.in_thread(atomic_write, folder / BROUGHT, to_json(brought))
        return brought

    async def _write_inlined(self, rows: list[dict[str, Any]], target: Path) -> Downloaded:
        """Inlined responses in the form of a result's lines."""
        content = b"".join(encoded({"key": (row.get("metadata") or {}).get("key"), **row}) for row in rows)
        await self._client.in_thread(atomic_write, target, content)
        return Downloaded(hashlib.sha256(content).hexdigest(), len(content), proved=True)

    async def _sorted(self, order: Order, brought: dict[str, Any]) -> Sorting:
        folder, in_thread = order.folder, self._client.in_thread
        try:
            keys = await in_thread((folder / KEYS).open, "rb")
        except OSError as error:
            raise Permanent(f"the keys of the batch are gone from {folder}; the raw result is there") from error
        with keys:
            result = await in_thread((folder / RESULT).open, "rb")
            async with whole(folder / ROWS, self._client.token(), in_thread) as rows:
                with result:
                    sorting = Sorting(
                        keys=keys,
                        result=result,
                        rows=rows,
                        kind=order.prepared["kind"],
                        schema=await in_thread(_schema, folder),
                        price=self._prices.price_of(order.prepared["model"], "batch", brought["ended"]),
                    )
                    await in_slices(sorting.read_keys, in_thread)
                    await in_slices(sorting.step, in_thread)
        if sorting.ends_broken and not brought["proved"]:
            await in_thread((folder / BROUGHT).unlink, True)
            raise Transient("the result breaks off, and Gemini did not say how long it is: it is fetched again")
        return sorting


def checked_request(request: Any) -> BatchRequest:
    try:
        return request if isinstance(request, BatchRequest) else BatchRequest.model_validate(request)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidPayload(f"no request for a batch: {place + ': ' if place else ''}{first['msg']}") from error


def _found(operations: list[Operation], *, complete: bool) -> Found:
    ordered = sorted(operations, key=lambda operation: (operation.created or 0.0, operation.name))
    return Found(tuple(dict.fromkeys(operation.name for operation in ordered)), complete)


def _inline_body(folder: Path) -> dict[str, Any]:
    with (folder / INPUT).open("rb") as file:
        rows = [decoded(line or b"")[0] for line in lines(file)]
    requests = [{"request": row["request"], "metadata": {"key": row["key"]}} for row in rows]
    return {"batch": {"inputConfig": {"requests": {"requests": requests}}}}


def _keep_plan(folder: Path, digest: str, plan: Plan) -> None:
    atomic_write(folder / PLAN, to_json({"digest": digest, "plan": dataclasses.asdict(plan)}))


def _brought(folder: Path, provider_id: str | None) -> dict[str, Any] | None:
    """What is known of a result that is on the disk whole."""
    try:
        brought: dict[str, Any] = json.loads((folder / BROUGHT).read_bytes())
        size = (folder / RESULT).stat().st_size
    except (OSError, ValueError):
        return None
    return brought if brought["provider_id"] == provider_id and brought["size"] == size else None


def _schema(folder: Path) -> dict[str, Any] | None:
    try:
        schema: dict[str, Any] = json.loads((folder / SCHEMA).read_bytes())
    except FileNotFoundError:
        return None
    return schema


def _forget(folder: Path) -> None:
    """What was uploaded is gone: the plan must not be used again."""
    (folder / PLAN).unlink(missing_ok=True)
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)
