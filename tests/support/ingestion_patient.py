"""What the service of `ingestion_show` runs. Imported there only: here the local embedder is another one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from penstock import Context, Penstock
from penstock.config import Settings
from penstock.pipelines.ingestion import embedders
from penstock.pipelines.ingestion.embedders.local import LocalEmbedder
from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.pipelines.ingestion.plugins import Vectors
from tests.support.ingestion_hold import HOLD

app = Penstock()
"""What such a service runs: nothing but the pipelines that come with Penstock."""

embedders.EMBEDDERS["local"] = "tests.support.ingestion_patient:patient"
_passed: Counter[str] = Counter()


def patient(spec: EmbedderSpec, settings: Settings) -> Patient:
    return Patient()


class Patient(LocalEmbedder):
    """The local embedder, but it waits while it is told to, so that a run stands still where a test wants it."""

    async def embed(self, texts: Sequence[str], ctx: Context, key: str) -> Vectors:
        while (told := await asyncio.to_thread(_told)) and _passed[told] >= int(told.split()[-1]):
            await asyncio.sleep(0.02)
        if told:
            _passed[told] += len(texts)
        return await super().embed(texts, ctx, key)


def _told() -> str:
    hold = Path(HOLD)
    return hold.read_text() if hold.exists() else ""
