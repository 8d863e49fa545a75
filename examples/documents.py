"""Invoices to data, reviewed: three invented ones are taken in, extracted and checked, one is corrected, all exported.

Without a key the Gemini on this machine reads what does not carry its own data. The third invoice says one thing in its
e-invoice and another on its page: that is found, and a person decides.
"""

import asyncio
import csv
import json
import logging
import subprocess
import sys
from pathlib import Path

from penstock import Penstock
from penstock.documents import PIPELINE, add_files, claim, document, exported, make_samples, queue, records, submit

app = Penstock(workflows=PIPELINE)


async def extract(paths: list[Path]) -> None:
    added = await add_files(app, paths)
    for each in added.documents:
        await app.wait(each.job_id)
    for each in added.documents:
        found = (await document(app.engine, each.document_id)).document
        assert found.data is not None
        print(f"{found.data.vendor}: {found.data.total} {found.data.currency}, {found.confidence} sure")


async def correct(total: str) -> None:
    item = (await queue(app.engine, limit=1))[0]  # the most urgent one now
    known = await document(app.engine, item.document)
    assert known.result is not None
    print(known.result.findings[-1])
    await claim(app.engine, item.id, actor="anna")
    await submit(app.engine, item.id, "correct", actor="anna", corrections={"total": total})
    for job in await app.jobs(workflow="documents.export"):
        await app.wait(job.id)  # the files are written anew
    file = await app.outputs.shown(f"data/json/{known.document.folder}/{item.document}.json")
    told = json.loads(file.read_text())
    print(f"its file says {told['invoice_data']['total']}, {told['review_status']}, {told['locked_fields']} locked")


async def main() -> None:
    made = make_samples(Path("inbox"), count=3, kinds=["facturx", "pdf", "facturx_conflict"])
    async with app, app.worker():
        await extract([sample.path for sample in made])
        await correct(str(made[2].truth.total))
        table = b"".join([piece async for piece in exported("csv", records(app.engine))])
    for row in csv.DictReader(table.decode().splitlines()):
        print(f"{row['filename']}: {row['total']} {row['currency']}, {row['review_status']}")


if __name__ == "__main__":
    logging.getLogger("penstock").setLevel(logging.ERROR)  # a contradiction is a warning; here it is expected
    asyncio.run(main())
    subprocess.run([Path(sys.executable).with_name("penstock"), "gemini", "stop", "--quiet"], check=True)
