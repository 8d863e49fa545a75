"""What the engine and the service do, as spans sent to a collector by OTLP over HTTP.

All ticks of a job are one trace, whichever process runs them: its id, and that of the span of the whole job, come from
the job's id (`engine/tracing.py`). The job's own span is sent when a tick brings the job to its end. Spans leave in
batches, from a thread of their own; a collector that is away costs spans, never work.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.metadata import version

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock.engine.call import CallRow
from penstock.engine.model import JobRow
from penstock.engine.tracing import root_span_of, trace_id_of

EXPORT_TIMEOUT = 5.0
LAST_FLUSH = 5.0
"""Seconds that a process that ends gives its last spans."""

_root: ContextVar[tuple[int, int] | None] = ContextVar("penstock_root_span", default=None)


class _Ids(IdGenerator):
    """Random, but for the span of a whole job, whose ids everybody must be able to derive."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        given = _root.get()
        return self._random.generate_trace_id() if given is None else given[0]

    def generate_span_id(self) -> int:
        given = _root.get()
        return self._random.generate_span_id() if given is None else given[1]


class OtelTracer:
    """One for each open `Penstock`. Uses no global provider: an app may have one of its own."""

    def __init__(self, endpoint: str, service_name: str) -> None:
        resource = Resource.create({"service.name": service_name, "service.version": version("penstock")})
        self._provider = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=_traces_at(endpoint), timeout=EXPORT_TIMEOUT)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("penstock", version("penstock"))
        self._propagator = TraceContextTextMapPropagator()

    def tick(self, row: JobRow) -> TickSpan:
        span = self._tracer.start_span(
            f"{row.workflow}/{row.step}",
            context=trace.set_span_in_context(NonRecordingSpan(_job_context(row.id))),
            kind=SpanKind.CONSUMER,
            attributes={
                "penstock.job": row.id,
                "penstock.workflow": row.workflow,
                "penstock.step": row.step,
                "penstock.attempt": row.attempt,
                "penstock.tenant": row.tenant,
                "penstock.worker": row.worker or "",
            },
        )
        return TickSpan(self, span)

    @contextmanager
    def call(self, row: CallRow, what: str) -> Iterator[None]:
        above = trace.get_current_span()
        parent = None
        if above.get_span_context().trace_id != _job_context(row.job).trace_id:
            parent = trace.set_span_in_context(NonRecordingSpan(_job_context(row.job)))
        attributes: dict[str, str | int] = {
            "penstock.job": row.job,
            "penstock.tenant": row.tenant,
            "penstock.call": row.id,
            "penstock.call.key": row.key,
            "penstock.call.attempt": row.attempt,
            "penstock.remote": row.remote,
            "penstock.model": row.model,
        }
        with self._tracer.start_as_current_span(
            f"{row.remote} {what}", context=parent, kind=SpanKind.CLIENT, attributes=attributes
        ):
            yield

    def submitted(self, jobs: Iterable[str]) -> None:
        span = trace.get_current_span()
        if span.is_recording():
            for job in jobs:
                span.add_link(_job_context(job), {"penstock.job": job})

    @contextmanager
    def request(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> Iterator[RequestSpan]:
        """A request to the service, below the span that its `traceparent` names."""
        carrier = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        parent = self._propagator.extract(_trace_headers(carrier), context=otel_context.Context())
        with self._tracer.start_as_current_span(
            method, context=parent, kind=SpanKind.SERVER, attributes={"http.request.method": method}
        ) as span:
            yield RequestSpan(span, method)

    def job_ended(self, row: JobRow) -> None:
        """The span of the whole job, from its submit to its end."""
        job = _job_context(row.id)
        token = _root.set((job.trace_id, job.span_id))
        try:
            span = self._tracer.start_span(
                row.workflow,
                context=otel_context.Context(),
                kind=SpanKind.INTERNAL,
                start_time=_nanoseconds(row.created),
                attributes={
                    "penstock.job": row.id,
                    "penstock.workflow": row.workflow,
                    "penstock.key": row.key,
                    "penstock.run": row.run,
                    "penstock.tenant": row.tenant,
                    "penstock.status": row.status,
                },
            )
        finally:
            _root.reset(token)
        if row.status == "failed":
            span.set_status(Status(StatusCode.ERROR, row.error or ""))
        span.end(_nanoseconds(row.finished or row.created))

    async def stop(self) -> None:
        """Send what is left; a collector that does not answer in time gets it no more."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stopped.set)

        # A thread that nobody waits for: the executor's would be joined when the interpreter ends.
        threading.Thread(target=stop, name="penstock-last-spans", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_FLUSH):
                await stopped.wait()


class TickSpan:
    """A tick under way; what runs in it is below it."""

    def __init__(self, tracer: OtelTracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span
        self._token = otel_context.attach(trace.set_span_in_context(span))
        self._task = asyncio.current_task()

    @property
    def id(self) -> str:
        return trace.format_span_id(self._span.get_span_context().span_id)

    def end(self, outcome: str, *, error: str | None = None, after: JobRow | None = None) -> None:
        if not self._span.is_recording():
            return
        self._span.set_attribute("penstock.outcome", outcome)
        if error is not None:
            kind, _, message = error.partition(": ")
            self._span.add_event("exception", {"exception.type": kind, "exception.message": message})
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()
        if asyncio.current_task() is self._task:
            # A tick past its hard limit is ended from elsewhere.
            otel_context.detach(self._token)
        if after is not None and after.finished is not None:
            self._tracer.job_ended(after)


class RequestSpan:
    def __init__(self, span: trace.Span, method: str) -> None:
        self._span = span
        self._method = method

    @property
    def ids(self) -> dict[str, str]:
        """For log lines."""
        context = self._span.get_span_context()
        return {
            "trace_id": trace.format_trace_id(context.trace_id),
            "span_id": trace.format_span_id(context.span_id),
        }

    def answered(self, route: str, status: int) -> None:
        self._span.update_name(f"{self._method} {route}")
        self._span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))


def _job_context(job: str) -> SpanContext:
    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace_id_of(job), 16), int(root_span_of(job), 16), is_remote=True, trace_flags=sampled)


def _traces_at(endpoint: str) -> str:
    """A collector is named by its address; the path is the protocol's, unless it is said."""
    endpoint = endpoint.rstrip("/")
    return endpoint if endpoint.endswith("/v1/traces") else f"{endpoint}/v1/traces"


def _trace_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000) * 1000
