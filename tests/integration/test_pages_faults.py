"""Every fault that the local Gemini knows, alone, at every operation it can hit: a whole run of the pages pipeline ends
with each page done, dead or behind a dead one, nothing is paid twice, and all counts agree.

The faults are read from the server's own table, so one that is added there is tested here without a word.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from penstock.gemini_local.faults import KINDS
from penstock.gemini_local.settings import Pace
from tests.support.pages import books_wrong
from tests.support.pages_town import Tempo, town_of

BOOKS = {"Alabama/Howard College/1849": [1, 2, 3, 7], "Ohio/Oberlin/1850": [14, 15], "Maine/Ob%er: x/1901": [1, 2]}
QUICK = Tempo(pace=Pace(pending_for=0.3, running_for=0.4, expires_after=20.0))

MET = ("upload_start", "upload_chunk", "create", "list", "get", "download", "file_get", "file_delete")
"""What a run asks of Gemini, after a crash or a lost answer too."""

SHORT: dict[str, dict[str, Any]] = {"get_404_for": {"seconds": 2.0}, "list_lag": {"seconds": 3.0}}

PATIENT = {"result_gone": 60.0}
"""Seconds between polls where a hundred of them must pass before a person is asked."""

NEVER_ENDS = {
    "unknown_state": "a state that nobody knows counts as running, for ever: a person cancels (test_pages_run)",
}
BELIEVED = {"swapped_rows": "answers under each other's keys cannot be told from right ones"}


def cases() -> Iterator[dict[str, Any]]:
    for name, kind in KINDS.items():
        if name in NEVER_ENDS:
            continue
        fault = {"kind": name, **SHORT.get(name, {})}
        if kind.scope == "request":
            for where in MET if kind.where == ("*",) else kind.where:
                yield {**fault, "where": where, "times": 2}
        else:
            yield {**fault, "times": 1}
            # What is gone for good takes a person's patience each time: once is enough.
            if name != "result_gone":
                yield fault


def name_of(fault: dict[str, Any]) -> str:
    return "-".join(str(value) for name, value in fault.items() if name in ("kind", "where")) + (
        "" if "times" in fault else "-always"
    )


def patience(faults: Sequence[dict[str, Any]]) -> float:
    """Seconds between polls."""
    return max((PATIENT.get(fault["kind"], 2.0) for fault in faults), default=2.0)


def tempo(every: float) -> Tempo:
    """Who polls seldom need not sweep often."""
    return Tempo(pace=QUICK.pace, lease=max(3.0, every), sweep_every=max(2.0, every))


def gone_well(*faults: dict[str, Any], **options: Any) -> None:
    every = patience(faults)
    gemini = {"poll_at_most": every}
    with town_of(BOOKS, faults=faults, tempo=tempo(every), gemini=gemini, **options) as (town, library):
        run = library.run(batch={"poll_interval_seconds": every})
        job = town.play(town.whole_run(run))
        believed = any(fault["kind"] in BELIEVED for fault in faults)
        wrong = town.play(books_wrong(town.app, run, library, swapped=believed))
        wrong += town.paid_twice() + town.differing_outputs()
        assert (job.status, wrong) == ("completed", []), (faults, options, job.error)


@pytest.mark.parametrize("fault", list(cases()), ids=name_of)
def test_every_fault_alone(fault: dict[str, Any]) -> None:
    gone_well(fault)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 408, 409, 429, 500])
def test_every_kind_of_refusal_while_a_batch_is_made_and_brought_home(code: int) -> None:
    gone_well(*({"kind": "error", "where": where, "code": code, "times": 1} for where in MET))


@pytest.mark.parametrize("seed", range(12))
def test_pairs_of_faults(seed: int) -> None:
    rng = random.Random(f"pages {seed}")
    gone_well(*rng.sample([fault for fault in cases() if "times" in fault], 2), seed=seed)


def test_every_fault_is_tried_or_left_out_for_a_reason() -> None:
    tried = {fault["kind"] for fault in cases()}
    assert tried | NEVER_ENDS.keys() == KINDS.keys()
    assert BELIEVED.keys() <= tried
