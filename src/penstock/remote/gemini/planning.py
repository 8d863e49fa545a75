"""Everything about a batch that is free: its rows are checked and counted, its files uploaded, its limits held against
what the project may have, and its price estimated. Safe to do again: what is there already is used again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from google.genai import types
from pydantic_core import to_json

from penstock.engine.call import Hold, Usage
from penstock.engine.errors import InvalidRequest, Permanent, Transient
from penstock.outputs.files import atomic_write
from penstock.remote.gemini.batch_input import BatchRequest, Counted, Scan, Writing
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.errors import translated
from penstock.remote.gemini.limits import BATCHES_LIVE_FOR, FILE_BYTES, INLINE_BYTES, enqueued_tokens
from penstock.remote.gemini.lines import in_slices, whole
from penstock.remote.gemini.requests import checked
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.gemini.shelf import Shelf, Wanted
from penstock.remote.gemini.tokens import input_tokens
from penstock.remote.gemini.upload import Uploaded
from penstock.remote.prices import Prices, plain_name, rounded_up
from penstock.remote.protocol import Order, Plan

log = logging.getLogger("penstock.remote.gemini")

INPUT, KEYS, SCHEMA, PLAN = "input.jsonl", "keys.jsonl", "schema.json", "plan.json"

_JSONL = "application/jsonl"
_LEAST_WINDOW = 900.0
"""Seconds in which a batch can be begun with files that will live just long enough."""


class Planning:
    def __init__(self, client: GeminiClient, prices: Prices) -> None:
        self._client = client
        self._prices = prices

    async def plan(self, order: Order) -> Plan:
        request = checked(BatchRequest, order.request)
        digest: str | None = await self._client.in_thread(_digest, request, self._client.settings, self._client.account)
        shelf = Shelf(self._client, order.folder, tenant=order.tenant, transfers=request.transfers)
        await shelf.open()
        kept: Plan | None = await self._client.in_thread(_kept_plan, order.folder, digest)
        if kept is not None and self._stands(kept, shelf):
            return kept
        settings = self._client.settings
        default = settings.embedding_model if request.kind == "embed" else settings.model
        model = plain_name(request.model or default)
        counted = await self._counted(request, model)
        cap = self._checked_cap(model, counted.usage.input)
        files = await shelf.have_all(counted.wanted.items())
        size = await self._written(request, order.folder, files)
        mode = self._mode(request, counted, size)
        prepared: dict[str, Any] = {
            "model": model,
            "kind": request.kind,
            "mode": mode,
            "rows": counted.rows,
            "tokens": counted.usage.input,
            "account": self._client.account,
            **request.kept_options(),
        }
        if "poll_every" in prepared:
            # A Gemini on this machine is asked as often as suits it.
            prepared["poll_every"] = min(prepared["poll_every"], settings.poll_at_most)
        used = [*files.values()]
        if mode == "file":
            uploaded = await shelf.have(Wanted(order.folder / INPUT, _JSONL), title=order.label)
            prepared["input"] = uploaded.name
            used.append(uploaded)
        if used:
            # A file must outlive the batch: from some moment on it is too late to begin one with these.
            soonest = self._client.clock.now() + _LEAST_WINDOW
            prepared["submit_before"] = max(soonest, min(file.expires for file in used) - settings.files_live_for)
            prepared["uploaded"] = min(file.uploaded for file in used)
        plan = Plan(
            model=model,
            estimate=rounded_up(counted.charge),
            priced=self._prices.is_priced(model, "batch", self._client.clock.now()),
            usage=counted.usage,
            holds=(
                Hold("gemini.batch-jobs", 1, settings.batch_jobs),
                Hold(f"gemini.batch-tokens:{model}", counted.usage.input, cap),
            ),
            prepared=prepared,
        )
        await self._client.in_thread(_keep_plan, order.folder, digest, plan)
        await shelf.drop_replaced(used)
        return plan

    def _stands(self, plan: Plan, shelf: Shelf) -> bool:
        """A plan made before, while the files it uploaded are there, young enough, and will live long enough."""
        before = plan.prepared.get("submit_before")
        if before is None:
            return True
        young = shelf.young(plan.prepared.get("uploaded", 0.0))
        return shelf.stocked and young and self._client.clock.now() < before - _LEAST_WINDOW / 2

    async def _counted(self, request: BatchRequest, model: str) -> Counted:
        now, settings = self._client.clock.now(), self._client.settings
        scan = Scan(
            request,
            model=model,
            most_output=settings.max_output_tokens,
            price=self._prices.dearest(model, "batch", now, within=timedelta(seconds=BATCHES_LIVE_FOR)),
            sample=settings.count_sample if request.kind == "generate" else 0,
        )
        await in_slices(scan.step, self._client.in_thread)
        counted = scan.counted
        told = [await self._told_tokens(row, model) for row in counted.sample]
        ours = sum(
            input_tokens({"contents": row["contents"]}, model)
            for row, count in zip(counted.sample, told, strict=True)
            if count
        )
        if ours:
            # Our own count, corrected by how Gemini counted a few of the rows.
            theirs = sum(told)
            counted.usage = dataclasses.replace(counted.usage, input=-(-counted.usage.input * theirs // ours))
            counted.charge = -(-counted.charge * max(ours, theirs) // ours)
        return counted

    async def _told_tokens(self, request: Mapping[str, Any], model: str) -> int:
        """Gemini's count of one row's contents; 0 where it cannot be had, which is no reason to fail."""
        options = self._client.options(self._client.settings.request_timeout)
        try:
            with translated("count tokens"):
                answer = await self._client.sdk.models.count_tokens(
                    model=model, contents=request["contents"], config=types.CountTokensConfig(http_options=options)
                )
        except (Transient, Permanent) as error:
            log.info("%s", error)
            return 0
        return answer.total_tokens or 0

    def _checked_cap(self, model: str, tokens: int) -> int | None:
        settings = self._client.settings
        cap = enqueued_tokens(model, settings.tier, settings.enqueued_tokens)
        if cap is not None and tokens > cap:
            raise InvalidRequest(
                f"about {tokens} input tokens, and tier {settings.tier} may have {cap} of {model} enqueued: split the"
                " batch, or set gemini.tier or gemini.enqueued_tokens if your project may have more"
            )
        return cap

    async def _written(self, request: BatchRequest, folder: Path, files: Mapping[str, Uploaded]) -> int:
        """`input.jsonl` and `keys.jsonl`, and the schema the answers are held against; the input's size."""
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


def _digest(request: BatchRequest, settings: GeminiSettings, account: str) -> str | None:
    """What a plan depends on: the request, the files it names as they are now, the settings, the account. None
    where that cannot be told without reading everything."""
    if request.uploads_folder is not None:
        return None
    named = [*request.uploads.values()] + ([request.file] if request.file is not None else [])
    try:
        seen = [(stat.st_size, stat.st_mtime_ns) for stat in (path.stat() for path in named)]
    except OSError:
        return None
    told = to_json([request, seen, settings.model_dump(mode="json", exclude={"api_key"}), account])
    return hashlib.sha256(told).hexdigest()


def _keep_plan(folder: Path, digest: str | None, plan: Plan) -> None:
    atomic_write(folder / PLAN, to_json({"digest": digest, **dataclasses.asdict(plan)}))


def _kept_plan(folder: Path, digest: str | None) -> Plan | None:
    """The plan of the same request, if one was made."""
    try:
        kept = json.loads((folder / PLAN).read_bytes())
    except (OSError, ValueError):
        return None
    whole = (folder / KEYS).exists() and (folder / INPUT).exists()
    if digest is None or kept["digest"] != digest or not whole:
        return None
    return Plan(
        model=kept["model"],
        estimate=kept["estimate"],
        priced=kept["priced"],
        usage=Usage(**kept["usage"]),
        holds=tuple(Hold(**hold) for hold in kept["holds"]),
        prepared=kept["prepared"],
    )
