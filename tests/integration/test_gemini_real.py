"""One tiny batch on the real Gemini, where there is a key for it. It costs a small part of a cent."""

from __future__ import annotations

import asyncio
import os
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.clock import SystemClock
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.requests import generate_request
from penstock.remote.gemini.results import read_rows
from penstock.remote.gemini.settings import from_environment
from penstock.remote.protocol import Order

PATIENCE = 3600.0

needs_key = pytest.mark.skipif(
    not os.environ.get("GEMINI_API_KEY"), reason="needs GEMINI_API_KEY: runs one tiny batch on the real Gemini"
)


@needs_key
@pytest.mark.timeout(PATIENCE + 60)
def test_a_tiny_batch_on_the_real_gemini(tmp_path: Path) -> None:
    async def main() -> None:
        clock = SystemClock()
        client = GeminiClient(from_environment(model="gemini-3.1-flash-lite"), clock=clock)
        remote = GeminiBatch(client)
        rows = [
            {"key": word, "request": generate_request(f"Say only the word {word}.", max_output_tokens=200)}
            for word in ("red", "green")
        ]
        label = f"penstock-test-{secrets.token_hex(8)}"
        order = Order(label, "test", "job", "key", 1, {"mode": "file", "requests": rows}, tmp_path)
        order = replace(order, prepared=(await remote.prepare(order)).prepared)
        try:
            sent = await remote.submit(order)
            end = clock.monotonic() + PATIENCE
            while (polled := await remote.poll(order, sent.provider_id)).state in ("running", "unknown"):
                if clock.monotonic() > end:
                    await remote.cancel(order, sent.provider_id)
                    pytest.skip(f"the batch was still {polled.state} after {PATIENCE:g} s, and was cancelled")
                await clock.sleep(15)
            assert polled.state == "succeeded", polled
            assert sent.provider_id in (await remote.find(order)).provider_ids
            collected = await remote.collect(order, sent.provider_id)
            assert collected.result["rows"]["ok"] == 2, collected
            assert {row.key for row in read_rows(tmp_path / "rows.jsonl")} == {"red", "green"}
        finally:
            await remote.tidy(order, None)
            await remote.close()

    asyncio.run(main())
