"""What faults do to answers and to results. Pure: the same fault bends the same thing in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from penstock.gemini_local.backend import Answer
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.wire import Json

UNKNOWN_KEY, NO_KEY = -1, -2


class SpoiltRow(Exception):
    """Instead of an answer the row gets this error, under this name."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.option("message"))
        self.code = int(fault.option("code"))
        self.under = str(fault.option("under"))
        self.error: Json = {"code": self.code, "message": fault.option("message")}
        if fault.option("details") is not None:
            self.error["details"] = fault.option("details")


def spoil(faults: Sequence[Fault]) -> None:
    for fault in faults:
        if fault.kind == "row_error":
            raise SpoiltRow(fault)


def bend(answer: Answer, faults: Sequence[Fault]) -> Answer:
    for fault in faults:
        answer = _bend(answer, fault)
    return answer


def _bend(answer: Answer, fault: Fault) -> Answer:
    text = answer.text
    match fault.kind:
        case "truncate":
            return replace(answer, text=text[: int(len(text) * float(fault.option("fraction")))], finish="MAX_TOKENS")
        case "block":
            return replace(answer, text="", blocked=str(fault.option("reason")))
        case "invalid_json":
            return replace(answer, text=f'{{"result": {text},,')
        case "wrong_mime":
            return replace(answer, text=f"Here is the JSON you asked for:\n```json\n{text}\n```")
        case "empty_answer":
            return replace(answer, text="")
    return answer


@dataclass(slots=True, frozen=True)
class Line:
    """A line of a result: the row whose key it carries (or UNKNOWN_KEY, NO_KEY) and the row it took its answer from."""

    key: int
    answer: int


def arrange(rows: int, keys: Sequence[str], faults: Sequence[Fault], seed: str) -> list[Line]:
    """The lines of a result, in their order. `keys` may be empty where no fault looks at them."""
    lines = [Line(row, row) for row in range(rows)]
    for fault in faults:
        if fault.scope != "result":
            continue
        rng = Random(f"{seed}:{fault.kind}")
        if fault.kind == "shuffle":
            rng.shuffle(lines)
            continue
        if fault.kind == "unknown_rows":
            lines += [Line(UNKNOWN_KEY, rng.randrange(rows)) for _ in range(int(fault.option("count")))]
            continue
        if fault.kind == "cut_result":
            continue
        hit = _hit(lines, keys, fault, seed, rng)
        if fault.kind == "missing_rows":
            lines = [line for place, line in enumerate(lines) if place not in hit]
        elif fault.kind == "duplicate_rows":
            lines += [lines[place] for place in sorted(hit)]
        elif fault.kind == "keyless_rows":
            lines = [Line(NO_KEY, line.answer) if place in hit else line for place, line in enumerate(lines)]
        elif fault.kind == "swapped_rows":
            places = sorted(hit)
            moved = {place: lines[other].answer for place, other in zip(places, places[1:] + places[:1], strict=True)}
            lines = [Line(line.key, moved.get(place, line.answer)) for place, line in enumerate(lines)]
    return lines


def _hit(lines: Sequence[Line], keys: Sequence[str], fault: Fault, seed: str, rng: Random) -> set[int]:
    """Places in `lines` the fault is for: those it chooses, or so many of them."""
    places = [
        place
        for place, line in enumerate(lines)
        if line.key >= 0 and fault.chooses(seed, line.key, keys[line.key] if keys else "")
    ]
    count = fault.option("count")
    if count is not None and fault.rate >= 1 and len(places) > int(count):
        places = rng.sample(places, int(count))
    return set(places)


def relabel(row: dict[str, Any], key: int, seed: str, inline: bool) -> dict[str, Any]:
    """The row with a key nobody gave, or with none."""
    holder = "metadata" if inline else "key"
    if key == NO_KEY:
        return {name: value for name, value in row.items() if name != holder}
    strange = f"unknown-{Random(seed).randrange(10**9)}"
    return {**row, holder: {"key": strange} if inline else strange}
