"""Pages of which a site can have many: a crop, a sensor, an error code each. They resemble one another, as such pages
do, and differ in what a question is asked for."""

from __future__ import annotations

import random
from itertools import zip_longest

from penstock.pipelines.ingestion.samples.topics import Topic

CROPS = (
    ("Tomato", "vine"), ("Cucumber", "vine"), ("Sweet pepper", "bush"), ("Aubergine", "bush"), ("Lettuce", "leaf"),
    ("Basil", "herb"), ("Strawberry", "bench"), ("Radish", "root"), ("Spinach", "leaf"), ("Chard", "leaf"),
    ("Coriander", "herb"), ("Melon", "vine"), ("Climbing bean", "vine"), ("Kohlrabi", "root"), ("Parsley", "herb"),
    ("Fennel", "root"), ("Rocket", "leaf"), ("Chilli", "bush"), ("Physalis", "bush"), ("Lamb's lettuce", "leaf"),
    ("Pak choi", "leaf"), ("Okra", "bush"), ("Courgette", "vine"), ("Mint", "herb"),
)  # fmt: skip

HABITS = {
    "vine": "It climbs, and wants a string for every stem and its side shoots taken out each week.",
    "bush": "It stands by itself until the fruit gets heavy; then a second wire along the row saves it.",
    "leaf": "It is quick and shallow, and a dry hour at noon is enough to make it bitter.",
    "herb": "It is sold alive, in its pot, so what counts is how it looks on Friday.",
    "root": "It is judged by what nobody sees, and cracks when water comes unevenly.",
    "bench": "It grows at the height of a table, and its runners hang in the path.",
}

PESTS = (
    "whitefly", "red spider mite", "grey mould", "thrips", "downy mildew", "leaf miners", "aphids", "root rot",
    "fungus gnats", "blossom end rot", "powdery mildew", "slugs",
)  # fmt: skip

SENSORS = (
    ("Leaf wetness sensor", "LW", "a sheet of gold wires that feels dew"),
    ("Soil moisture probe", "SM", "two steel forks in the root zone"),
    ("Drain scale", "DS", "a tray that weighs what runs out of a bed"),
    ("Canopy thermometer", "CT", "an eye that sees how warm the leaves are"),
    ("Wind vane", "WV", "an arm on the ridge that knows where the wind is from"),
    ("Rain tipper", "RT", "a spoon that tips with every drop or two"),
    ("Light globe", "LG", "a white ball that counts the light of a day"),
    ("Door switch", "DW", "a magnet that tells an open door from a cold night"),
    ("Pipe thermometer", "PT", "a clip on the heating pipe"),
    ("Tank float", "TF", "a float that says how much water is left"),
    ("Gas nose", "GN", "a small chamber that breathes the air of the house"),
    ("Feed conductivity cell", "FC", "two plates in the dosing line"),
)  # fmt: skip

FAULTS = (
    ("valve does not close", "a grain of sand sits on its seat"),
    ("clock has no time", "the battery beside the display is empty"),
    ("two sensors contradict each other", "one of them hangs in the sun"),
    ("pump runs dry", "the float in the tank is stuck"),
    ("vent does not reach its end", "a tendril has grown into the rack"),
    ("card cannot be written", "its little slider is at lock"),
    ("heating answers too late", "air has gathered in the pipe"),
    ("doser overshoots", "the acid is stronger than the label says"),
    ("screen hangs on one side", "a cable has jumped off its drum"),
    ("relay line drops every hour", "the firewall closes quiet lines"),
    ("journal has a gap", "the supply was off, or somebody pulled the plug"),
    ("key is not known", "it was made for another controller"),
    ("earth fault on a port", "water has come into a cable joint"),
    ("rain is reported under a clear sky", "a bird uses the tipper for a bath"),
    ("display stays dark", "the dimmer is at its lowest step"),
    ("fan draws too much current", "its belt is too tight"),
)


def crop(name: str, habit: str, rng: random.Random) -> Topic:
    day = rng.randint(16, 27)
    night, wet, rows = day - rng.randint(3, 8), rng.randint(52, 84), rng.randint(20, 60)
    weeks, pest, other = rng.randint(4, 19), *rng.sample(PESTS, 2)
    litres = rng.randint(3, 24) / 10
    what = name.lower()
    body = f"""\
{HABITS[habit]} This page has the settings with which growers of {what} begin; your house will want its own.

## Climate for {what}

| | aim |
|---|---|
| by day | {day} °C |
| by night | {night} °C |
| humidity | {wet} percent |

The night may be two degrees cooler at the end of the crop. Let the air move before sunrise: {pest} comes when wet
leaves meet still air.

## Water and space

Plant {what} {rows} cm apart in the row. A plant drinks {litres} litres on a bright day, in small runs; see [irrigation
schedules](../guides/irrigation-schedules.md).

```yaml
crop: {what.replace(" ", "-").replace("'", "")}
aim: {{day: {day}, night: {night}, humidity: {wet}}}
```

## From seed to sale

The first harvest of {what} is {weeks} weeks after planting. Watch for {pest}, and in the last weeks for {other}.
"""
    asks = (
        (f"How many weeks after planting is {what} harvested?", f"{weeks} weeks"),
        (f"How far apart is {what} planted in the row?", f"{rows} cm"),
    )
    return _page(f"crops/{_slug(name)}.md", f"Growing {what}", ("crops", habit), asks, body)


def sensor(name: str, code: str, what: str, rng: random.Random) -> Topic:
    number, years = f"{code}-{rng.randint(120, 980)}", rng.randint(2, 9)
    height, metres = rng.choice((10, 20, 40, 60, 90, 150, 180)), rng.choice((15, 25, 30, 45, 70, 90))
    thing = name.lower()
    body = f"""\
The {thing} ({number}) is {what}. The controller knows it by itself when it is plugged in.

## Place

Fix it {height} cm above the ground, away from doors and pipes. The cable may be {metres} m long.

```console
$ larkmill sensors add {number} --house north
```

## Care

Wipe the {thing} with soft water each month. It lasts {years} years; after that its readings drift, slowly enough that
nobody notices. The drift shows in [the journal](../operations/journal-and-metrics.md) before it shows in the crop.
"""
    asks = (
        (f"How many years does the {thing} last?", f"{years} years"),
        (f"How long may the cable of the {thing} be?", f"{metres} m"),
    )
    return _page(f"sensors/{_slug(name)}.md", name, ("sensors", "hardware"), asks, body)


def fault(what: str, why: str, rng: random.Random, number: int) -> Topic:
    code, tries, minutes = f"E-{number}", rng.randint(2, 9), rng.choice((5, 10, 15, 25, 40))
    body = f"""\
**{code}** on the display means: {what}.

## Why

Most often, {why}. The controller tries {tries} times before it says so, and leaves the house in its last good state.

## What to do

1. Look at the journal: `larkmill journal --code {code}`.
2. Mend the cause. Code {code} goes away by itself {minutes} minutes after the last time.
3. If it comes back within a day, write to [support](../about/licence-and-support.md).
"""
    asks = (
        (f"What does error {code} mean?", what),
        (f"After how many minutes does {code} go away by itself?", f"{minutes} minutes"),
    )
    return _page(f"troubleshooting/{code.lower()}.md", f"Error {code}", ("troubleshooting",), asks, body)


def families(rng: random.Random) -> list[Topic]:
    """All of them, in an order of chance, in turn of one kind and another."""
    numbers = rng.sample(range(101, 990), len(FAULTS))
    kinds = (
        [crop(*told, rng) for told in rng.sample(CROPS, len(CROPS))],
        [sensor(*told, rng) for told in rng.sample(SENSORS, len(SENSORS))],
        [fault(*told, rng, number) for told, number in zip(rng.sample(FAULTS, len(FAULTS)), numbers, strict=True)],
    )
    return [page for turn in zip_longest(*kinds) for page in turn if page is not None]


def _page(path: str, title: str, tags: tuple[str, ...], asks: tuple[tuple[str, str], ...], body: str) -> Topic:
    return Topic(path, title, tags, {}, asks, body)


def _slug(name: str) -> str:
    return name.lower().replace("'", "").replace(" ", "-")
