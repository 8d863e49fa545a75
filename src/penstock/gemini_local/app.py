"""The local Gemini as an ASGI application.

Every request goes the same way: guards, faults, the call, the journal, the answer. Nothing is answered that the
journal does not know.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.engine.clock import Clock, SystemClock
from penstock.gemini_local.admin import Admin
from penstock.gemini_local.backend import Backend
from penstock.gemini_local.bending import SpoiltRow
from penstock.gemini_local.calls import CALLS
from penstock.gemini_local.calls.call import Call, error_reply, label, read_json, reply
from penstock.gemini_local.dropping import Drop, DropConnection, drop_connection, until_gone
from penstock.gemini_local.errors import INTERNAL, ApiError, error_body, exhausted, not_found, retry_info
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.guards import check_caller, check_key
from penstock.gemini_local.journal import Entry
from penstock.gemini_local.paging import decode_token, encode_token
from penstock.gemini_local.routes import WITH_BODY, Match, match
from penstock.gemini_local.services import Services, open_services
from penstock.gemini_local.settings import Settings
from penstock.gemini_local.uploads import InThread

log = logging.getLogger("penstock.gemini")


async def inline_call(call: Callable[..., Any], *args: Any) -> Any:
    """Instead of a thread, where there must be none."""
    return call(*args)


class LocalGemini:
    """An ASGI application. Without a server that speaks `lifespan`, call `start` and `stop` yourself."""

    def __init__(self, services: Services, *, instance: str, drop: DropConnection) -> None:
        self.services = services
        self.instance = instance
        self.last_request = services.clock.monotonic()
        self.under_way = 0
        self._drop = drop
        self._dead = False
        self._recent: deque[float] = deque()
        self._admin = Admin(services, instance)

    @property
    def idle_for(self) -> float:
        """Seconds since anybody asked, or any batch was unfinished."""
        if self.services.runner.busy:
            self.services.expire_batches()
        if self.under_way or self.services.runner.busy:
            self.last_request = self.services.clock.monotonic()
        return self.services.clock.monotonic() - self.last_request

    async def start(self) -> None:
        """Go on with the batches an earlier process left."""
        self._admin.resume()
        self.services.uploads.sweep()
        self.services.state.drop_orphans()
        self.services.expire_batches()
        self.services.runner.recover()

    async def stop(self) -> None:
        await self.services.runner.close()
        await self.services.backend.close()
        self.services.state.close()

    def abandon(self) -> None:
        """As if the process had died: the folder is free for another, nothing was tidied, and nobody gets an answer
        any more."""
        self._dead = True
        self.services.runner.abandon()
        self.services.state.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        self.under_way += 1
        try:
            if self._dead:
                raise Drop
            await self._answer(Request(scope, receive), scope, receive, send)
        except ClientDisconnect:
            pass
        except Drop:
            await self._drop(scope, receive)
        except sqlite3.ProgrammingError:
            if not self._dead:
                raise
            await self._drop(scope, receive)
        finally:
            self.under_way -= 1
            self.last_request = self.services.clock.monotonic()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            try:
                await (self.start() if message["type"] == "lifespan.startup" else self.stop())
            except Exception as error:
                await send({"type": f"{message['type']}.failed", "message": str(error)})
                raise
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _answer(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith("/_penstock/"):
            answer = await self._admin.answer(request)
        else:
            answer = await self._journaled(request, path, receive)
        await answer(scope, receive, send)

    async def _journaled(self, request: Request, path: str, receive: Receive) -> Response:
        found = match(request.method, path, request.headers, request.query_params)
        entry = Entry(self.services.clock.now(), request.method, path[:500], found.operation if found else "unknown")
        try:
            answer = await self._checked(Call(self.services, request, found or Match("unknown", ""), entry), receive)
            entry.status = answer.status_code
            return answer
        except BaseException:
            entry.status = None
            raise
        finally:
            self.services.journal.write(entry)

    async def _checked(self, call: Call, receive: Receive) -> Response:
        """The answer, errors included. Raises only what leaves the caller without one."""
        settings, headers = self.services.settings, call.request.headers
        try:
            check_caller(headers, settings)
            if call.match.operation not in CALLS:
                raise not_found(f"The requested URL {call.entry.path[:200]} was not found on this server.")
            if not (call.match.id and call.match.operation.startswith("upload_")):
                check_key(headers, call.query, settings)
            self._check_rate()
            if call.match.operation in WITH_BODY:
                call.body = await read_json(call, settings.quotas.body_bytes)
        except ApiError as error:
            return error_reply(error)
        call.entry.label = label(call)
        return await self._faulted(call, receive)

    async def _faulted(self, call: Call, receive: Receive) -> Response:
        call.faults = self.services.faults.take(call.match.operation, call.entry.label or "", ("request",))
        for fault in call.faults:
            call.entry.add_fault(fault.kind)
            if fault.kind == "delay":
                await self.services.clock.sleep(float(fault.option("seconds")))
        for fault in call.faults:
            if fault.kind == "drop_before":
                raise Drop
            if fault.kind == "empty_list_page_with_token":
                return _empty_page(call)
            if fault.kind in ("error", "not_json", "hang", "drop_after"):
                if fault.kind == "drop_after" or fault.option("done"):
                    await self._perform(call)
                if fault.kind == "drop_after":
                    raise Drop
                if fault.kind == "hang":
                    await self._hang(fault, call, receive)
                return _wrong_reply(fault)
        # What is left of them (half a download, a chunk without status) is up to the call.
        return await self._perform(call)

    async def _perform(self, call: Call) -> Response:
        try:
            return await CALLS[call.match.operation](call)
        except ApiError as error:
            return error_reply(error)
        except SpoiltRow as spoilt:
            return error_reply(ApiError(spoilt.code, str(spoilt)))
        except (ClientDisconnect, Drop):
            raise
        except Exception:
            if self._dead:
                raise Drop from None
            log.exception("%s %s failed", call.entry.method, call.entry.path)
            return error_reply(ApiError(INTERNAL, "Internal error encountered."))

    async def _hang(self, fault: Fault, call: Call, receive: Receive) -> None:
        call.entry.status = None
        self.services.journal.write(call.entry)
        if fault.option("seconds") is None:
            await until_gone(receive)
        else:
            await self.services.clock.sleep(float(fault.option("seconds")))
        raise Drop

    def _check_rate(self) -> None:
        most = self.services.settings.quotas.requests_per_minute
        if not most:
            return
        now = self.services.clock.now()
        while self._recent and self._recent[0] <= now - 60:
            self._recent.popleft()
        if len(self._recent) >= most:
            wait = self._recent[0] + 60 - now
            raise exhausted(
                f"You exceeded your current quota, please check your plan and billing details. Retry in {wait:g}s.",
                "generate_content_requests_per_minute",
                most,
                retry=wait,
            )
        self._recent.append(now)


def _wrong_reply(fault: Fault) -> Response:
    if fault.kind == "not_json":
        return Response(str(fault.option("body")), 200, media_type="text/html")
    code = int(fault.option("code"))
    headers = {} if fault.option("retry_after") is None else {"Retry-After": str(fault.option("retry_after"))}
    match fault.option("body"):
        case "none":
            return Response(b"", code, headers)
        case "html":
            return Response(f"<html><title>Error {code}</title></html>", code, headers, "text/html; charset=UTF-8")
    details = [] if fault.option("retry") is None else [retry_info(float(fault.option("retry")))]
    message = fault.option("message") or f"The local Gemini was told to answer {code}."
    return reply(error_body(code, message, fault.option("status"), details), code, headers)


def _empty_page(call: Call) -> Response:
    """Nothing, and a token that leads to what should have been here."""
    name = "operations" if call.match.operation == "list" else "files"
    try:
        before = decode_token(call.query.get("pageToken"))
    except ApiError as error:
        return error_reply(error)
    return reply({name: [], "nextPageToken": encode_token(before)})


def create_app(
    state_folder: Path,
    backend: Backend,
    *,
    clock: Clock | None = None,
    rng: Random | None = None,
    settings: Settings | None = None,
    in_thread: InThread = asyncio.to_thread,
    drop: DropConnection = drop_connection,
) -> LocalGemini:
    """A local Gemini with its state in `state_folder`. With a virtual clock, give `inline_call` as `in_thread`."""
    rng = rng or Random()
    services = open_services(
        state_folder,
        backend,
        clock=clock or SystemClock(),
        rng=rng,
        settings=settings or Settings(),
        in_thread=in_thread,
    )
    return LocalGemini(services, instance=f"{rng.getrandbits(64):016x}", drop=drop)
