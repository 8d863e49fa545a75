"""What of the pipeline needs a person: open reviews and those past their deadline, and documents that failed. Each is
told once, with what was promised about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from penstock.config.settings import DocumentsSettings
from penstock.engine.engine import Engine
from penstock.engine.model import Job
from penstock.pipelines.documents import sla
from penstock.pipelines.documents.dashboard.places import DOCUMENTS, REVIEW, document_path
from penstock.pipelines.documents.measuring import episodes
from penstock.pipelines.documents.model import Upload
from penstock.pipelines.documents.sla import Episode
from penstock.pipelines.documents.workflow import documents
from penstock.service.dashboard.rendering import link
from penstock.service.dashboard.wording import many
from penstock.service.sections import Need
from penstock.times import length

MOST = 200
"""How far is counted: beyond it the words say so."""


async def needs(engine: Engine, tenant: str | None) -> Sequence[Need]:
    of, who = ("", {}) if tenant is None else (" AND tenant = :tenant", {"tenant": tenant})
    told = list[Need]()
    overdue = await _count(
        engine,
        f"SELECT 1 FROM review_items WHERE status IN ('pending', 'in_review') AND deadline <= :now{of}",
        {"now": engine.clock.now(), **who},
    )
    rows = await engine.read((f"SELECT COUNT(*) FROM review_items WHERE status IN ('pending', 'in_review'){of}", who))
    if waiting := int(rows[0][0]):
        told.append(_reviews(waiting, overdue, DocumentsSettings().sla_depth))
    # What is promised holds for all tenants together, so it is told to those who see all of them.
    broken = {each.rule: each for each in await episodes(engine) if each.rule != "depth"} if tenant is None else {}
    failed = await _count(
        engine,
        "SELECT 1 FROM jobs j JOIN documents d ON d.job = j.key AND d.tenant = j.tenant WHERE j.status = 'failed'"
        f" AND j.workflow = '{documents.name}'{of.replace('tenant =', 'j.tenant =')} AND NOT EXISTS (SELECT 1 FROM"
        " jobs n WHERE n.tenant = j.tenant AND n.workflow = j.workflow AND n.key = j.key AND n.run > j.run)",
        who,
    )
    now = engine.clock.now()
    if failed:
        words = "Each says why; most need another file."
        need = Need(f"{_many(failed, 'document')} failed", words, link(DOCUMENTS, status="failed"), grave=False)
        if (rate := broken.pop("error_rate", None)) is not None:
            promise = _broken(rate, now)
            need = replace(promise, words=f"{need.title}. {promise.words}", path=need.path)
        told.append(replace(need, dead_letters=failed))
    return [*told, *(_broken(each, now) for each in broken.values())]


def _reviews(waiting: int, overdue: int, longest: int) -> Need:
    many_open = f"{many(waiting, 'review')} open"
    if overdue:
        words = f"{many_open}; the most urgent stand first in the queue."
        return Need(f"{_many(overdue, 'review')} overdue", words, link(REVIEW, sort="deadline"))
    words = "Documents wait for somebody to approve, correct or reject them."
    if waiting > longest:
        words = f"More than the {longest:,} that the queue should hold: assign them, or approve what is sure."
    return Need(many_open, words, REVIEW, grave=False)


def _broken(episode: Episode, now: float) -> Need:
    words = sla.words(episode.rule, episode.value, episode.bound)
    path = REVIEW if episode.rule == "breach_rate" else DOCUMENTS
    told = f"{words[0].upper()}{words[1:]}. Since {length(now - episode.began)}."
    return Need(sla.TITLES[episode.rule], told, path, grave=episode.severity == "critical")


async def _count(engine: Engine, statement: str, values: Mapping[str, Any]) -> int:
    """No further than `MOST` and one."""
    rows = await engine.read((f"SELECT COUNT(*) FROM ({statement} LIMIT {MOST + 1}) AS found", dict(values)))
    return int(rows[0][0])


def _many(count: int, thing: str) -> str:
    return f"More than {MOST} {thing}s" if count > MOST else many(count, thing)


def link_of(job: Job) -> str | None:
    """The document that a job works on; a user's own workflow may be called `documents`, too."""
    if job.workflow != documents.name or not isinstance(job.payload, dict):
        return None
    try:
        # What the later steps are told holds what the first was told.
        return document_path(Upload.model_validate(job.payload.get("upload", job.payload)).document_id)
    except ValidationError:
        return None
