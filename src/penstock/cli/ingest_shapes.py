"""What programs read of knowledge bases: the values of `--json`, in the words of the HTTP API where it has the same."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.cli.ingest_told import BaseTold, RunTold, TakenOut
from penstock.pipelines.ingestion.answers import base_line, hit_line, status_line, verified_line
from penstock.pipelines.ingestion.searching import Hit
from penstock.pipelines.ingestion.verifying import Verified
from penstock.shapes import money
from penstock.times import utc


def run_shape(told: RunTold) -> dict[str, Any]:
    return {**status_line(told.status), **money("cost", told.cost)}


def base_shape(told: BaseTold) -> dict[str, Any]:
    schedule = told.schedule
    return {
        **base_line(told.line),
        "sources": [spec.model_dump(mode="json", exclude={"resolved"}) for spec in told.sources],
        "schedule": None if schedule is None else {"cron": schedule.cron, "next_due": utc(schedule.next_due)},
    }


def verified_shape(base: str, found: Verified) -> dict[str, Any]:
    """All of it was compared: there is nowhere to go on."""
    told = verified_line(base, found, None)
    del told["cursor"]
    return told


def hit_shape(hit: Hit) -> dict[str, Any]:
    told = hit_line(hit)
    del told["also_in"]
    return told


def taken_out_shape(gone: TakenOut) -> dict[str, Any]:
    return asdict(gone)
