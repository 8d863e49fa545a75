"""A long job that can be paused, resumed and cancelled, and that leaves nothing behind when it is cancelled.

`ctx.halted` turns true when somebody asks for a pause or a cancel; `Again` keeps what was done so far. The clean-up
step runs before a cancelled job is final, with the payload the job had.
"""

import asyncio
from pathlib import Path

from pydantic import BaseModel

from penstock import Again, Context, Penstock, Workflow


class Export(BaseModel):
    path: Path
    rows: int
    written: int = 0


exports = Workflow("exports", payload=Export)


@exports.step
async def write(export: Export, ctx: Context) -> Again | str:
    if export.written == 0:
        export.path.unlink(missing_ok=True)
    for row in range(export.written, export.rows):
        if ctx.halted:
            return Again(export)
        await asyncio.sleep(0.02)
        with export.path.open("a") as file:
            file.write(f"row {row}\n")
        export.written = row + 1
        ctx.progress(export.written, export.rows, "rows")
    return f"{export.written} rows in {export.path}"


@exports.cleanup
async def remove(export: Export, ctx: Context) -> None:
    export.path.unlink(missing_ok=True)


app = Penstock(workflows=[exports])


def lines(path: str) -> int:
    return len(Path(path).read_text().splitlines()) if Path(path).exists() else 0


async def until_paused(job_id: str) -> None:
    job = await app.job(job_id)
    while job.status != "paused":
        await asyncio.sleep(0.05)
        job = await app.job(job_id)


async def main() -> None:
    async with app, app.worker():
        kept = await app.submit(exports, Export(path=Path("kept.txt"), rows=60))
        dropped = await app.submit(exports, Export(path=Path("dropped.txt"), rows=5000))
        await asyncio.sleep(0.7)
        await app.pause(kept.job_id, reason="lunch")
        await until_paused(kept.job_id)
        print("the first export is paused half way" if 0 < lines("kept.txt") < 60 else "the pause came too late")
        await app.cancel(dropped.job_id)
        await app.wait(dropped.job_id)
        print(f"the second is cancelled, and {lines('dropped.txt')} lines are left of it")
        await app.resume(kept.job_id)
        print((await app.wait(kept.job_id)).result)
        print(f"the file has {lines('kept.txt')} lines")


if __name__ == "__main__":
    asyncio.run(main())
