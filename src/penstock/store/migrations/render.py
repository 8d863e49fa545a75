"""Alembic, run offline: revisions become SQL text, which the store's own driver carries out in one transaction."""

from __future__ import annotations

import io
from pathlib import Path

from alembic import command
from alembic.config import Config

HERE = Path(__file__).parent


def config(dialect: str, output: io.StringIO) -> Config:
    settings = Config(output_buffer=output)
    settings.set_main_option("script_location", str(HERE))
    settings.set_main_option("sqlalchemy.url", f"{dialect}://")
    return settings


def render(dialect: str, revision: str | None = None, *, to: str = "head") -> str:
    """SQL from `revision` (None: an empty database) to another, usually the newest, without BEGIN and COMMIT."""
    output = io.StringIO()
    command.upgrade(config(dialect, output), f"{revision or 'base'}:{to}", sql=True)
    lines = (line.rstrip() for line in output.getvalue().splitlines())
    kept = [line for line in lines if line and not line.startswith("--") and line not in ("BEGIN;", "COMMIT;")]
    return "\n".join(kept) + "\n"
