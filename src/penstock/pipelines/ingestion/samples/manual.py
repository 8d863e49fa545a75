"""What the sample site says, second part: reference, operation, and what there is to say about the makers; as in
`guides.py`."""

from __future__ import annotations

from penstock.pipelines.ingestion.samples.topics import Topic

MANUAL = (
    Topic(
        "reference/command-line.md",
        "The command line",
        ("reference",),
        {"timeout": ("12", "18", "25", "40"), "code": ("3", "4", "5", "7")},
        (
            ("Which exit code does the larkmill command give when a controller does not answer?", "exit code {code}"),
            ("How many seconds does a command wait for a controller unless told otherwise?", "{timeout} seconds"),
        ),
        """\
`larkmill` talks to the controllers of your network. Every command takes `--json` and `--house`.

| command | what it does |
|---|---|
| `larkmill discover` | finds controllers |
| `larkmill status` | what every house is doing |
| `larkmill journal --since 1d` | what was decided, and why |
| `larkmill hold north --for 2h` | leaves a house alone for a while |

## Waiting and exit codes

A command waits {timeout} seconds for a controller; `--wait` changes it. It ends with exit code 0 when all is well, 2
when it was called wrongly, and exit code {code} when a controller does not answer.

```console
$ larkmill status --json | jq '.houses[].temperature'
21.4
19.8
```
""",
    ),
    Topic(
        "reference/configuration.md",
        "Settings of a house",
        ("reference",),
        {"sample": ("20", "30", "45", "75"), "keep": ("18", "24", "36", "60"), "units": ("metric", "imperial")},
        (
            ("How often are the sensors read by default?", "every {sample} seconds"),
            ("For how many months are sensor readings kept?", "{keep} months"),
        ),
        """\
Settings are one file for each house, `house.yaml`. The controller reads it again when it changes, and keeps the old
one if the new one is wrong.

| setting | default | meaning |
|---|---|---|
| `sample` | every {sample} seconds | how often sensors are read |
| `keep` | {keep} months | how long readings are kept |
| `units` | {units} | what people see; files are always metric |
| `mode` | advisory | `advisory`, `assist` or `full` |

## Wrong settings

```text
house.yaml:14: draw_above: 9000 is more than the sun gives; between 200 and 1200
```

A message names the line and what would be right. Nothing is applied in part.
""",
    ),
    Topic(
        "reference/http-api.md",
        "The HTTP interface",
        ("reference", "network"),
        {"rate": ("40", "75", "90", "150"), "page": ("125", "250", "400"), "header": ("X-Mill-Key", "X-House-Key")},
        (
            ("How many requests per minute does the HTTP interface allow?", "{rate} requests per minute"),
            ("Which header carries the key in requests to the HTTP interface?", "{header}"),
        ),
        """\
What the telephone can do, a program can do: everything goes through one interface, with JSON both ways.

```python
import httpx

mill = httpx.Client(base_url="http://controller.local", headers={{"{header}": "..."}})
for house in mill.get("/v2/houses").json():
    print(house["name"], house["temperature"])
```

The key goes into the header `{header}`. A client may make {rate} requests per minute; what is more gets status 429,
with the seconds to wait.

## Lists

Lists come in pages of {page} entries. `next` is the address of the following page, and is missing on the last one.
Times are UTC.
""",
    ),
    Topic(
        "reference/valve-ports.md",
        "Valve ports",
        ("reference", "hardware"),
        {"ports": ("14", "18", "22", "28"), "amps": ("0.6", "0.8", "1.2"), "spare": ("13", "17", "21")},
        (
            ("How many valve ports does a controller have?", "{ports} ports"),
            ("How much current may one valve port give?", "{amps} ampere"),
        ),
        """\
The valves are wired to the lower row of terminals. A controller has {ports} ports; each gives 24 volts and up to
{amps} ampere, and is protected by a fuse that mends itself.

## Numbering

Ports are counted from the left. Odd numbers are in front, even numbers behind. Port {spare} is the master valve in new
installations: it opens before any other, and closes last.

## Long cables

| length | wire |
|---|---|
| up to 60 m | 0.75 mm² |
| up to 150 m | 1.5 mm² |
| more | use a relay box beside the valve |
""",
    ),
    Topic(
        "operations/updates.md",
        "Updates",
        ("operations",),
        {"day": ("Tuesday", "Wednesday", "Thursday"), "back": ("ten", "fourteen", "twenty"), "years": ("six", "nine")},
        (
            ("On which day of the week are new versions published?", "{day}"),
            ("For how many days can an update be undone?", "{back} days"),
        ),
        """\
New versions come on the first {day} of a month. Nothing is installed by itself: a greenhouse is no place for
surprises.

## Installing

```console
$ larkmill update check
$ larkmill update install --house north --at 13:00
```

The valves stay as they are while the controller starts again, which takes less than a minute.

## Going back

For {back} days the old version stays beside the new one: `larkmill update undo` brings it back, with the settings it
had. Every controller gets updates for {years} years from the day it was made.
""",
    ),
    Topic(
        "operations/new-controller.md",
        "Moving to a new controller",
        ("operations", "hardware"),
        {"cable": ("orange", "yellow", "striped"), "serial": ("underside", "left side", "inside of the lid")},
        (
            ("Which cable connects the old controller with the new one during the move?", "{cable} cable"),
            ("Where is the serial number of a controller printed?", "{serial}"),
        ),
        """\
A controller that is replaced hands over everything it knows. Do it at noon, when the house forgives a mistake.

1. Hang the new box beside the old one and connect both with the {cable} cable.
2. Enter the serial number of the old box; it is printed on the {serial}.
3. Wait for the long tone, then move the valve wires over, one row at a time.

The licence moves along. The old box forgets its keys, and can be given away.

If the old one is dead, take [the last backup](../guides/backups.md) instead.
""",
    ),
    Topic(
        "operations/journal-and-metrics.md",
        "Journal and metrics",
        ("operations", "data"),
        {"path": ("/mill/metrics", "/v2/metrics", "/export/metrics"), "size": ("350", "500", "800")},
        (
            ("Under which path does a controller offer metrics?", "{path}"),
            ("How large may the journal of one house grow?", "{size} MB"),
        ),
        """\
The journal says what the controller decided, and why. Read it before you change anything.

```text
06:31 bed 4: 18 l (soil 41 %, aim 55 %)
06:44 bed 5: skipped, wet
07:02 roof east: 10 % (24.6 °C, aim 23 °C)
```

The journal of one house grows to {size} MB; then the oldest day goes.

## Metrics

Counters and gauges are at `{path}`, in the text format that most monitoring programs read. `mill_vent_moves_total`
is worth a graph: a house whose vents never rest has a sensor in a draught.
""",
    ),
    Topic(
        "about/data-protection.md",
        "Data protection",
        ("about",),
        {"country": ("Norland", "Estmark", "Valdria"), "month": ("13", "15", "18")},
        (
            ("In which country are the relay's servers?", "{country}"),
            ("After how many months are relay logs deleted?", "{month} months"),
        ),
        """\
What a house measures stays in the house, unless you ask for it from elsewhere.

- The relay passes on what your telephone asks for. It keeps no readings.
- The relay's servers are in {country}. Its logs hold times and keys, no contents, and are deleted after {month}
  months.
- Support sees a controller only while you hold the key beside the display.

You can have everything that is kept about you, as a file: `larkmill account export`.
""",
    ),
    Topic(
        "about/licence-and-support.md",
        "Licence and support",
        ("about", "people"),
        {"houses": ("3", "4", "6", "8"), "hours": ("seven", "nine", "eleven"), "ticket": ("one", "two", "three")},
        (
            ("How many houses does the small licence cover?", "{houses} houses"),
            ("Within how many working days does support answer?", "{ticket} working days"),
        ),
        """\
A controller works without a licence for ever, in advisory mode. A licence lets it act.

| licence | for |
|---|---|
| small | up to {houses} houses of one owner |
| estate | as many houses as there are |
| school | teaching, free of charge |

## Support

Write to us, with the output of `larkmill report`. You get an answer within {ticket} working days. The telephone is
answered for {hours} hours a day in the months of frost, because plants do not wait.
""",
    ),
)  # fmt: skip
