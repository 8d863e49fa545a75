"""A step that blocks its process and swallows every interrupt: its worker gives everything back and is replaced."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from penstock import Penstock

FLOW = """
import asyncio, time
from penstock import Context, Penstock, Retry, Workflow

stuck = Workflow("stuck", payload=int)

@stuck.step(hard_timeout=0.5, retry=Retry(attempts=1))
async def block(n: int, ctx: Context) -> None:
    await asyncio.sleep(0.5)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

innocent = Workflow("innocent", payload=int)

@innocent.step
async def wait(n: int, ctx: Context) -> int:
    while not ctx.halted and n == 0 and ctx.job.attempt < 2 and not (await asyncio.sleep(0.05)):
        if ctx.now() - ctx.job.created > 6:
            break
    return n

app = Penstock(workflows=[stuck, innocent], store="sqlite:///jobs.db", outputs="out")
"""


def test_the_guilty_job_is_blamed_the_innocent_go_on_and_the_process_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    command = [str(Path(sys.executable).with_name("penstock")), "worker", "--app", "flow:app"]
    worker = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    async def main() -> None:
        async with Penstock(store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path) as app:
            namespace: dict[str, object] = {}
            exec(FLOW, namespace)
            for name in ("stuck", "innocent"):
                app.add(namespace[name])  # type: ignore[arg-type]
            innocent = (await app.submit("innocent", 0)).job_id
            guilty = (await app.submit("stuck", 0)).job_id
            async with asyncio.timeout(60):
                while "crash" not in [event.kind for event in await app.history(guilty)]:
                    await asyncio.sleep(0.05)
            done = await app.wait(innocent, timeout=60)
            assert done.status == "completed"
            assert "crash" not in [event.kind for event in await app.history(innocent)], "it was handed back unharmed"

    try:
        asyncio.run(main())
    finally:
        worker.send_signal(signal.SIGKILL)
        told = worker.communicate()[1]
    assert "starting another" in told, f"the process was replaced:\n{told}"
