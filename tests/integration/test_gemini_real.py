"""One tiny batch on the real Gemini, made by a job, where there is a key for it. It costs a small part of a cent."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from penstock import Again, Context, Penstock, Permanent, Workflow
from penstock.gemini import BatchRequest, BatchRow, generate_request, read_rows

PATIENCE = 3600.0

needs_key = pytest.mark.skipif(
    not os.environ.get("GEMINI_API_KEY"), reason="needs GEMINI_API_KEY: runs one tiny batch on the real Gemini"
)


@needs_key
@pytest.mark.timeout(PATIENCE + 60)
def test_a_tiny_batch_on_the_real_gemini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_GEMINI__OVERDUE_AFTER", f"{PATIENCE:g}")
    words = Workflow("words", payload=list[str])
    costs: list[int] = []

    @words.step(timeout=PATIENCE)
    async def say(asked: list[str], ctx: Context) -> Again | list[str]:
        rows = tuple(
            BatchRow(key=word, request=generate_request(f"Say only the word {word}.", max_output_tokens=200))
            for word in asked
        )
        request = BatchRequest(model="gemini-3.1-flash-lite", mode="file", requests=rows)
        call = await ctx.call("gemini.batch", "words", request)
        if call.state == "overdue":
            await ctx.cancel_call(call)
        if not call.ended:
            return Again(asked, until=call, after=60)
        if not call.ok:
            raise Permanent(f"{call.state}: {call.error}")
        costs.append(call.cost)
        rows_home = read_rows(ctx.folder_of(call) / call.result["file"])
        return sorted(row.key or "" for row in rows_home if row.outcome == "ok")

    job = Penstock(workflows=[words]).run(words, ["red", "green"], key=secrets.token_hex(8))
    if job.status == "failed" and "cancelled" in str(job.error):
        pytest.skip(f"the batch was still running after {PATIENCE:g} s, and was cancelled")
    assert job.result == ["green", "red"], job
    assert costs[0] > 0
