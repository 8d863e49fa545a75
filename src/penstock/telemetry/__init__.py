"""Traces for OpenTelemetry, where the configuration asks for them (`otel.endpoint`)."""
