"""Many plausible Markdown files in little time, for measuring and for tests that crash: all different, each with
headings, a list and sentences that are put together by chance. The same arguments give the same files."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.ingestion.samples.sites import MADE

IN_A_FOLDER = 250

_WHO = (
    "the night shift", "a grower", "the controller", "every second house", "the eastern pump", "an apprentice",
    "the old boiler", "our neighbour", "the packing hall", "a careful owner", "the weather mast", "the foreman",
    "the seed bank", "a visitor", "the water board", "the north gate", "a spare valve", "the harvest crew",
    "the morning report", "one of the vans", "the cold store", "a young vine", "the test bed", "the bookkeeper",
)  # fmt: skip
_DOES = (
    "keeps a record of", "has to wait for", "is checked against", "pays little heed to", "was built before",
    "cannot do without", "warns in time of", "is moved along with", "takes the place of", "depends upon",
    "has been measured beside", "gives way to", "stands behind", "was repaired after", "quietly replaces",
    "is counted together with", "costs less than", "arrives ahead of", "makes room for", "is watched by",
)  # fmt: skip
_WHAT = (
    "the second watering", "a change of wind", "the drain scale", "three crates of seedlings", "the winter ledger",
    "a blocked strainer", "the humidity of the roof", "an unpaid invoice", "the length of the day", "a broken pane",
    "the summer holidays", "a delivery of peat", "the price of gas", "two kilometres of pipe", "a label in another row",
    "the first frost", "an open side vent", "the soil of bed nine", "a borrowed ladder", "the taste of the tomatoes",
    "the report for the bank", "a swarm of bees", "the key to the store", "an afternoon of rain",
)  # fmt: skip
_WHEN = (
    "as long as the light lasts", "before anybody has had breakfast", "in the weeks around midsummer",
    "unless the wind turns", "when the river is high", "for reasons that nobody wrote down", "twice in a good year",
    "after the clocks have changed", "without a word of thanks", "until the tank is empty", "since the fire",
    "on the last working day of the month", "whatever the almanac says", "while the radio plays",
    "because the plan demands it", "within sight of the road", "at the expense of the lettuce", "by a narrow margin",
    "now that the bridge is closed", "to the surprise of the inspector",
)  # fmt: skip
_SUBJECTS = (
    "Watering", "Heating", "Vents", "Seedlings", "Harvest", "Accounts", "Visitors", "Repairs", "Weather", "Transport",
    "Storage", "Staff", "Soil", "Pests", "Light", "Safety", "Energy", "Suppliers", "Customers", "Planning",
)  # fmt: skip
_ASPECTS = (
    "in spring", "in dry years", "for beginners", "by night", "under glass", "in the north houses", "during harvest",
    "after a storm", "in small houses", "with old pipes", "at the weekend", "in the open field", "on a budget",
    "by the book", "in the first year", "with many hands", "near the river", "in short", "from afar", "step by step",
)  # fmt: skip

_BEGINNINGS = tuple(f"{who[0].upper()}{who[1:]} {does}" for who, does in product(_WHO, _DOES))
_ENDS = tuple(f"{what} {when}" for what, when in product(_WHAT, _WHEN))
_LONG = 13
"""Words of a sentence, about."""


def make_corpus(folder: Path, *, documents: int, seed: int = 7, words: int = 300) -> list[Path]:
    """So many files of about so many words, in folders of a few hundred. The first of many are those of a few."""
    if documents < 0 or words < 1:
        raise InvalidRequest(f"documents must not be negative, and words at least 1: {documents}, {words}")
    paths: list[Path] = []
    for place in range(documents):
        folder_of = folder / f"{place // IN_A_FOLDER:04d}"
        if place % IN_A_FOLDER == 0:
            folder_of.mkdir(parents=True, exist_ok=True)
        name, text = _document(random.Random(f"{seed}:{place}"), place, words)
        path = folder_of / f"{name}.md"
        # Not moved into place, and not synced: there are many, and they can be made again.
        path.write_bytes(text.encode())
        os.utime(path, (MADE, MADE + place))
        paths.append(path)
    return paths


def _document(rng: random.Random, place: int, words: int) -> tuple[str, str]:
    subject, aspect = rng.choice(_SUBJECTS), rng.choice(_ASPECTS)
    title = f"{subject} {aspect}, note {place + 1}"
    count = max(1, words // _LONG)
    pairs = zip(rng.choices(_BEGINNINGS, k=count), rng.choices(_ENDS, k=count), strict=True)
    sentences = [f"{beginning} {end}." for beginning, end in pairs]
    sentences[0] = f"Note {place + 1} was written for house {rng.randint(1, 99)}. {sentences[0]}"
    parts = [f"---\ntitle: {title}\ntags: [{subject.lower()}, notes]\n---\n\n# {title}\n"]
    for number, at in enumerate(range(0, count, 24)):
        if number:
            parts.append(f"## {_heading(rng)} ({place + 1}.{number})\n")
        parts += _section(sentences[at : at + 24], number)
    return f"{place:06d}-{subject.lower()}-{aspect.replace(' ', '-')}", "\n".join(parts)


def _section(sentences: Sequence[str], number: int) -> list[str]:
    """Paragraphs of some sentences; now and then the last few are a list."""
    listed = sentences[-3:] if number % 3 == 1 and len(sentences) > 8 else ()
    told = sentences[: len(sentences) - len(listed)]
    parts = [" ".join(told[at : at + 6]) + "\n" for at in range(0, len(told), 6)]
    return [*parts, *([*(f"- {each}" for each in listed), ""] if listed else ())]


def _heading(rng: random.Random) -> str:
    return f"{rng.choice(_SUBJECTS)} {rng.choice(_ASPECTS)}"
