"""One HTTP client for everything that goes to Gemini: Google's SDK sends through it, and so does our own code where the
SDK drops something (the raw operation, listings, resumable uploads, streamed downloads).

What bounds the waits: connecting and each read or write by the HTTP client's timeouts; a whole exchange, however slowly
its bytes drip, by the injected clock. Nothing here follows a redirect (the key would go along) or retries a create.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
from google import genai
from google.genai import errors as sdk_errors
from google.genai import types

from penstock.engine.clock import Clock
from penstock.engine.errors import InvalidConfiguration, PenstockError, RateLimited, Transient
from penstock.engine.retry import Retry
from penstock.remote.address import no_tls
from penstock.remote.gemini.errors import refusal, translated
from penstock.remote.gemini.lines import InThread
from penstock.remote.gemini.settings import KEY_VARIABLES, MOST_PARALLEL, GeminiSettings

T = TypeVar("T")

LOCAL_KEY = "local"
"""The SDK wants a key; a Gemini on our own machine does not."""


class GeminiClient:
    """The connection, its settings, and the means every part needs: a clock, chance, and a place for blocking reads."""

    def __init__(
        self,
        settings: GeminiSettings,
        *,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None = None,
        rng: random.Random | None = None,
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.rng = rng or random.Random()
        self.in_thread = in_thread
        self._key = _key(settings)
        self.account = _account(self._key)
        # Marked "experimental" by the SDK, and the only way to embed in batches.
        warnings.filterwarnings("ignore", category=sdk_errors.ExperimentalWarning, module=r"penstock\.remote\.gemini")
        tls = no_tls(settings.base_url)
        self.http = BoundedClient(
            clock=clock,
            connect_timeout=settings.connect_timeout,
            transport=transport,
            trust_env=not settings.on_loopback,
            timeout=settings.request_timeout,
            follow_redirects=False,
            verify=tls or True,
            limits=httpx2.Limits(max_connections=MOST_PARALLEL + 32, keepalive_expiry=5.0),
        )
        self.sdk = _sdk(settings, self._key, self.http, tls).aio

    def options(self, timeout: float, body: Mapping[str, Any] | None = None) -> types.HttpOptions:
        """Options of one SDK call: milliseconds, one attempt, and `body` laid over what the SDK makes of its types."""
        return types.HttpOptions(
            timeout=int(timeout * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
            extra_body=None if body is None else dict(body),
        )

    def url(self, path: str, *, area: str = "") -> str:
        """`area`: `upload`, for the address of uploads."""
        prefix = f"{self.settings.base_url}/{area}/" if area else f"{self.settings.base_url}/"
        return f"{prefix}{self.settings.api_version}/{quote(path, safe='/:')}"

    @property
    def headers(self) -> dict[str, str]:
        return {"x-goog-api-key": self._key}

    async def ask(
        self, method: str, path: str, what: str, *, params: Mapping[str, str] | None = None, attempts: int = 3
    ) -> dict[str, Any]:
        """An answer in JSON to a question that may be asked again."""

        async def once() -> dict[str, Any]:
            with translated(what):
                response = await self.http.request(
                    method, self.url(path), params=params, headers=self.headers, timeout=self.settings.request_timeout
                )
                if response.status_code != 200:
                    raise refusal(response.status_code, _body(response), response.headers, what)
                answer = response.json()
            if not isinstance(answer, dict):
                raise Transient(f"{what}: the answer is no JSON object")
            return answer

        return await self.patiently(once, attempts=attempts)

    @asynccontextmanager
    async def stream(self, url: str, what: str, headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        """An answer whose body the caller reads. Its status is the caller's to judge."""
        with translated(what):
            request = self.http.build_request(
                "GET", url, headers={**self.headers, **headers}, timeout=self.settings.request_timeout
            )
            response = await self.http.send(request, stream=True)
            try:
                yield response
            finally:
                await response.aclose()

    async def patiently(
        self, attempt: Callable[[], Awaitable[T]], *, attempts: int | None = None, backoff: float | None = None
    ) -> T:
        """Try until it works, `attempts` times at most, waiting `backoff` seconds and longer each time; never for a
        create."""
        most = attempts or self.settings.attempts
        for failure in range(1, most + 1):
            try:
                return await attempt()
            except Transient as error:
                if failure == most or not await self.backed_off(failure, error, backoff=backoff):
                    raise
        raise AssertionError("unreachable")

    async def backed_off(self, failure: int, error: Transient, *, backoff: float | None = None) -> bool:
        """Wait after the n-th failure in a row. False: Gemini asks for more patience than is left here."""
        base = backoff or self.settings.retry_base
        policy = Retry(base=base, factor=2, cap=max(30.0, base), jitter=0.5)
        told = error.retry_after or 0.0 if isinstance(error, RateLimited) else 0.0
        if told > policy.cap:
            return False
        await self.clock.sleep(max(told, policy.delay(failure, self.rng)))
        return True

    def token(self) -> str:
        """Keeps apart two who write the same file."""
        return f"{self.rng.getrandbits(64):016x}"

    async def close(self) -> None:
        await self.http.aclose()


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client whose every exchange ends: `timeout` bounds all of it, not just each read. The SDK, too, comes
    through `send`."""

    def __init__(self, *, clock: Clock, connect_timeout: float, **options: Any) -> None:
        super().__init__(**options)
        self._clock = clock
        self._connect_timeout = connect_timeout

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        allowed: dict[str, float | None] = dict(request.extensions.get("timeout") or self.timeout.as_dict())
        most = allowed.get("read")
        if most is None:
            raise InvalidConfiguration("a request without a timeout")
        for phase in ("connect", "pool"):
            allowed[phase] = min(most, self._connect_timeout)
        request.extensions = {**request.extensions, "timeout": allowed}
        return await self._within(most, super().send(request, **options), request)

    async def _within(self, seconds: float, work: Any, request: httpx2.Request) -> httpx2.Response:
        exchange = asyncio.ensure_future(work)
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({exchange, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if exchange.done():
                answer: httpx2.Response = exchange.result()
                return answer
            raise httpx2.ReadTimeout(f"no whole answer within {seconds:g} s", request=request)
        finally:
            alarm.cancel()
            exchange.cancel()
            await asyncio.gather(exchange, alarm, return_exceptions=True)


def _key(settings: GeminiSettings) -> str:
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    if settings.on_loopback or settings.vertex:
        return LOCAL_KEY
    raise InvalidConfiguration(
        f"gemini.api_key: there is no key for {settings.base_url}; set {' or '.join(KEY_VARIABLES)}"
    )


def _account(key: str) -> str:
    """Tells keys apart and tells nothing of them: another key may see other batches."""
    return hashlib.sha256(f"penstock gemini account {key}".encode()).hexdigest()[:12]


def _sdk(settings: GeminiSettings, key: str, http: httpx2.AsyncClient, tls: ssl.SSLContext | None) -> genai.Client:
    """The SDK over our client: never aiohttp, never its own, never whatever the environment says about Vertex AI."""
    options = types.HttpOptions(
        base_url=None if settings.vertex else f"{settings.base_url}/",
        api_version=None if settings.vertex else settings.api_version,
        timeout=int(settings.request_timeout * 1000),
        retry_options=types.HttpRetryOptions(attempts=1),
        httpx_async_client=http,
        async_client_args=None if tls is None else {"ssl": tls},
        httpx_client=httpx2.Client(transport=httpx2.MockTransport(_nothing_blocks), trust_env=False),
    )
    try:
        if settings.vertex:
            return genai.Client(
                vertexai=True, project=settings.vertex_project, location=settings.vertex_location, http_options=options
            )
        return genai.Client(vertexai=False, api_key=key, http_options=options)
    except (ImportError, ValueError) as error:
        raise InvalidConfiguration(f"Google's SDK refuses the settings: {error}") from error


def _nothing_blocks(request: httpx2.Request) -> httpx2.Response:
    raise PenstockError(f"a blocking call to {request.url.path}: the event loop would stand still")


def _body(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text[:500]


def failed(response: httpx2.Response, what: str) -> PenstockError:
    """The error of an answer that was read whole and is no success."""
    return refusal(response.status_code, _body(response), response.headers, what)
