"""What things are called in Prefect, and where Prefect is. Imports nothing of Prefect's until it is asked to."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from pathlib import Path

from penstock.engine.errors import InvalidConfiguration
from penstock.engine.model import JobRow

DEPLOYMENT = "penstock"
"""The name of every deployment; those of different workflows differ by their flow."""

FLOWS = {"pages": "orchestrate_gemini_batch"}
"""Flows with a name of their own."""

QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
}
"""What keeps Prefect from telling its makers about its use; read when Prefect is imported."""


def flow_name(workflow: str) -> str:
    return FLOWS.get(workflow, f"penstock-{workflow}")


def file_deployment(file: Path) -> str:
    """The deployment that starts what a file describes. Two files with one name, in two folders, are two."""
    stem = re.sub(r"[^\w.-]+", "-", file.stem).strip("-") or "file"
    return f"{stem[:80]}-{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}"


def run_key(job: JobRow, event: int) -> str:
    """One for each time that a job becomes ready: nobody starts a second flow run for it."""
    return f"penstock:{job.id}:{job.epoch}:{event}"


def require_prefect() -> None:
    """Say what is missing, and see to it that what is imported from now on stays quiet."""
    if importlib.util.find_spec("prefect") is None:
        raise InvalidConfiguration(
            "delivery: prefect needs Prefect, which is not installed: pip install 'penstock[prefect]'"
        )
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def api_url() -> str:
    """Where Prefect's API is. Without an address Prefect would start a server of its own in this process."""
    require_prefect()
    from prefect.settings import get_current_settings

    url = get_current_settings().api.url
    if not url:
        raise InvalidConfiguration(
            "delivery: prefect needs the address of Prefect's API: start one with `prefect server start`, "
            "then set PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    return url
