"""Starts tracing if the configuration says where traces go; nothing of OpenTelemetry is imported otherwise."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.engine.errors import InvalidConfiguration

if TYPE_CHECKING:
    from penstock.config.settings import OtelSettings
    from penstock.telemetry.otel import OtelTracer

NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")


def start_tracing(settings: OtelSettings) -> OtelTracer | None:
    if settings.endpoint is None:
        return None
    if not all(map(_installed, NEEDED)):
        raise InvalidConfiguration(
            f"otel.endpoint is {settings.endpoint}, but OpenTelemetry is not installed: pip install 'penstock[otel]'"
        )
    from penstock.telemetry.otel import OtelTracer

    return OtelTracer(settings.endpoint, settings.service_name)


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
