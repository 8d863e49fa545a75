"""What filling a knowledge base would come to, and invented documents to try it with. A plan makes no store: where
there is none, it is reckoned in a folder that is gone afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.command import Invocation
from penstock.cli.ingest_asked import Asked, asked_of, looking, unknown
from penstock.cli.ingest_live import working
from penstock.cli.ingest_options import Given, configuration, kept_of
from penstock.cli.ingest_told import sources_text
from penstock.cli.ingest_views import show_plan
from penstock.cli.output import counted
from penstock.cli.schema_state import schema_state
from penstock.engine.errors import StoreReadOnly
from penstock.pipelines.ingestion import bases, control, planning
from penstock.pipelines.ingestion.answers import plan_line

QUESTIONS = "questions.jsonl"


def plan(call: Invocation, kb: str, said: Given, sources: list[dict[str, Any]], *, rebuild: bool, tenant: str) -> int:
    asked = asked_of(call, tenant)
    control.checked_base(kb)

    async def main() -> int:
        async with _reckoning(asked, kb, bare=bool(sources)) as app:
            found = await bases.find_base(app.engine, tenant, kb)
            if found is None and not sources:
                raise await unknown(app, asked, kb, "knowledge base", making=True)
            kept = kept_of(found, rebuild=rebuild)
            config = configuration(said, sources, kept) or kept
            assert config is not None
            with working(call.out, "reading and cutting"):
                made = await planning.plan(app, kb, config, rebuild=rebuild, tenant=tenant)
            call.out.data({"kb_id": kb, **plan_line(made)})
            if call.json:
                return 0
            show_plan(call.out, kb, made, config.embedder.name, sources_text(config.sources))
            again = " --rebuild" if rebuild else ""
            call.out.remark(f"Next: {asked.command(f'start {shlex.quote(kb)}{said.words()}{again} --wait')}")
            return 0

    return sessions.run(main())


@contextlib.asynccontextmanager
async def _reckoning(asked: Asked, kb: str, *, bare: bool) -> AsyncIterator[Penstock]:
    """The store that is there; for what needs none, an empty one that nobody keeps."""
    url = asked.settings.store
    if not bare or (not url.startswith("memory:") and (await schema_state(url)).current):
        async with looking(asked, kb) as app:
            yield app
        return
    with tempfile.TemporaryDirectory(prefix="penstock-plan-") as folder:
        update = {"home": Path(folder), "store": f"sqlite:///{folder}/plan.db", "app": None}
        aside = dataclasses.replace(asked, settings=asked.settings.model_copy(update=update))
        async with sessions.opened(aside.settings) as app:
            yield app


def samples(call: Invocation, folder: str, *, pages: int, pdfs: int, seed: int) -> None:
    from penstock.pipelines.ingestion.samples import make_pdfs, make_site

    place = Path(folder)
    try:
        site = make_site(place / "site", pages=pages, seed=seed)
        papers = make_pdfs(place / "pdfs", count=pdfs, seed=seed)
        asked: list[dict[str, Any]] = [
            {"question": each.text, "answer": each.answer, "source": each.page} for each in site.questions
        ]
        asked += [
            {"question": each.text, "answer": each.answer, "source": paper.path.name, "page": each.page}
            for paper in papers
            for each in paper.questions
        ]
        lines = [json.dumps({"id": f"q{number}", **each}, ensure_ascii=False) for number, each in enumerate(asked, 1)]
        (place / QUESTIONS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreReadOnly(f"{folder} cannot be written: {(error.strerror or str(error)).lower()}") from error
    made: dict[str, Any] = {"pages": len(site.pages), "pdfs": len(papers), "questions": len(asked)}
    call.out.data({"folder": folder, **made, "questions_file": str(place / QUESTIONS)})
    call.out.tell(f"Made a site of {counted(len(site.pages), 'page')} and {counted(len(papers), 'PDF')} in {folder}.")
    call.out.tell(f"{QUESTIONS} there has {len(asked)} questions with their answers.")
    there = shlex.quote(f"{folder}/site"), shlex.quote(f"{folder}/pdfs")
    call.out.tell(f"Now try: penstock ingest start docs --markdown {there[0]} --pdf {there[1]} --wait")
    call.out.tell(f'Then ask: penstock ingest search docs "{asked[0]["question"]}"')
