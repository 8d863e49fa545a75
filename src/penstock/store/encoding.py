"""Submitted jobs as JSON, for the rows that keep one for later: batches (their follow-up) and schedules."""

from __future__ import annotations

from dataclasses import asdict

from pydantic_core import from_json, to_json

from penstock.engine.model import NewJob


def dump(job: NewJob) -> str:
    return to_json(asdict(job)).decode()


def load(text: str) -> NewJob:
    return NewJob(**from_json(text))
