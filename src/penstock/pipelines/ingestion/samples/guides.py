"""What the sample site says, first part: how an invented product, the Larkmill greenhouse controller, is put up and
used. `{name}` in a text is a fact that the seed decides; every question has its answer on one page only."""

from __future__ import annotations

from penstock.pipelines.ingestion.samples.topics import Topic

GUIDES = (
    Topic(
        "start/installation.md",
        "Install the controller",
        ("start", "hardware"),
        {"torque": ("4", "5", "6", "8"), "lamp": ("amber", "blue", "white", "violet"), "rail": ("35", "50", "75")},
        (
            ("How tight do the screws of the mounting rail have to be?", "{torque} Nm"),
            ("Which colour does the status lamp show once the controller is ready?", "{lamp}"),
        ),
        """\
A Larkmill controller is a grey box the size of a shoe carton. It hangs on a steel rail, out of the spray and out of
the sun, and needs one power supply and one network cable.

## Hang it up

Choose a wall that does not sweat in the morning. Drill for the {rail} mm rail, and fasten its screws with {torque} Nm:
less, and the box creeps; more, and the anchors turn in soft brick.

1. Hang the box on the rail and push until the catch clicks.
2. Connect the earth, then the supply.
3. Put the network cable into the left socket.

## Wake it

```console
$ larkmill discover
controller 7f21 at 10.0.0.40, not set up
$ larkmill setup --name "North house"
```

The status lamp blinks while the controller looks for its clock, and shows a steady {lamp} light when it is ready. If
it goes on blinking for more than a few minutes, write to [support](../about/licence-and-support.md).

Then go on with [your first season](first-season.md).
""",
    ),
    Topic(
        "start/first-season.md",
        "Your first season",
        ("start",),
        {"weeks": ("two", "three", "four", "five"), "share": ("10", "15", "20", "25")},
        (
            ("For how many weeks should a new house run in advisory mode?", "{weeks} weeks"),
            ("By how much may the first watering plan differ from what the grower did by hand?", "{share} percent"),
        ),
        """\
A controller that has never seen your house knows nothing about its shade, its leaks and its habits. Let it watch
before you let it act.

## Advisory mode

Leave the controller in advisory mode for {weeks} weeks. It writes down what it would have done, and touches no valve.

```yaml
mode: advisory
journal: every-hour
```

Each evening, compare its journal with what the grower did by hand. The first watering plan should not differ by more
than {share} percent; if it does, a sensor sits in the wrong place.

## Hand over

Give the controller one thing at a time: first [ventilation](../guides/ventilation.md), then [irrigation
schedules](../guides/irrigation-schedules.md), and heating last.
""",
    ),
    Topic(
        "guides/irrigation-schedules.md",
        "Irrigation schedules",
        ("guides", "water"),
        {"runs": ("6", "8", "10", "12"), "pause": ("7", "9", "11", "14"), "flow": ("40", "55", "65", "80")},
        (
            ("How many watering runs can one schedule have per day?", "at most {runs} runs"),
            ("How long is the soak pause between two runs of the same bed?", "{pause} minutes"),
        ),
        """\
A schedule says which beds are watered, when, and with how much. It is a list of runs; the controller puts them in an
order in which the main pipe can serve them.

## Runs

A schedule has at most {runs} runs per day. Between two runs of the same bed lies a soak pause of {pause} minutes, so
that the second one does not wash away what the first has left.

| field | meaning | usual |
|---|---|---|
| `bed` | the bed or bench | |
| `litres` | water for the run | 12 |
| `after` | earliest time of day | 06:00 |
| `skip_if_wet` | leave out when the soil is wet | yes |

## The main pipe

The pipe carries {flow} litres per minute. Runs that need more together are put one after the other, the thirstiest
crop first. What does not fit before noon is moved to the evening, and the journal says so.

```yaml
schedule: north-beds
runs:
  - bed: 4
    litres: 18
    after: "06:30"
```
""",
    ),
    Topic(
        "guides/frost-guard.md",
        "Frost guard",
        ("guides", "climate"),
        {"limit": ("2.5", "3.0", "3.5", "4.0"), "wait": ("45", "60", "90", "120"), "stages": ("two", "three", "four")},
        (
            ("At what temperature does the frost guard start?", "{limit} °C"),
            ("How many seconds does the frost guard wait before it closes the vents?", "{wait} seconds"),
        ),
        """\
The frost guard works when everything else has failed: it needs no schedule, no network and no clock.

## What it does

When the coldest sensor of a house falls to {limit} °C, the guard waits {wait} seconds, to be sure that it is not a
door, and closes all vents. Then it starts the heating in {stages} stages.

> The guard cannot be switched off from the telephone. Somebody has to stand before the box.

## Trying it

```console
$ larkmill frost-guard rehearse --house north
```

A rehearsal moves every vent once and lights no burner. Do it each autumn, before the first clear night, and write the
date on the card inside the lid.
""",
    ),
    Topic(
        "guides/ventilation.md",
        "Ventilation",
        ("guides", "climate"),
        {"gust": ("9", "11", "13", "15"), "step": ("5", "8", "10", "12"), "rain": ("20", "25", "30", "35")},
        (
            ("Above which wind speed are the roof vents closed?", "{gust} metres per second"),
            ("How far may a roof vent open while it rains?", "{rain} percent"),
        ),
        """\
Warm air leaves through the roof, and cool air comes in at the sides. The controller moves both together, a little at
a time.

## Steps

Vents move in steps of {step} percent. After each step the controller looks at the air for a while, since a house
answers slowly.

## Wind and rain

- With gusts above {gust} metres per second, roof vents on the windward side are closed.
- While it rains, a roof vent may open to {rain} percent, and no further.
- Side vents are moved in any weather, unless [the frost guard](frost-guard.md) says otherwise.

Insect nets halve the flow of air. Say `nets: yes` in the house's settings, or the house will be too warm by noon.
""",
    ),
    Topic(
        "guides/shade-screens.md",
        "Shade screens",
        ("guides", "light"),
        {"watts": ("520", "560", "610", "650"), "gap": ("3", "4", "6", "7"), "cloth": ("45", "55", "65")},
        (
            ("At how much sunlight are the shade screens drawn?", "{watts} watts per square metre"),
            ("How wide is the gap that a drawn screen leaves for the moist air?", "{gap} percent"),
        ),
        """\
Screens keep the noon sun from the leaves and the warmth of the night in the house. They wear out from being moved, so
the controller moves them seldom.

## By day

When the sun gives more than {watts} watts per square metre for a quarter of an hour, the screens are drawn. The usual
cloth takes away {cloth} percent of the light.

## By night

A drawn screen leaves a gap of {gap} percent, through which moist air can rise. Without the gap, water drips from the
cloth at dawn, and mildew follows.

```yaml
screens:
  draw_above: {watts}
  gap: {gap}
```
""",
    ),
    Topic(
        "guides/nutrient-dosing.md",
        "Nutrient dosing",
        ("guides", "water"),
        {"acid": ("5.4", "5.6", "5.8", "6.1"), "rinse": ("80", "110", "140", "170"), "half": ("half", "a third of")},
        (
            ("Which pH does the doser aim for when nothing is set?", "pH {acid}"),
            ("How long are the dosing lines rinsed after the last run?", "{rinse} seconds"),
        ),
        """\
The doser mixes feed from tanks A, B and C into the water on its way to the beds. Concentrates that would harden
together never meet undiluted.

## Aim and limits

Where nothing is set, the doser aims for pH {acid}. It measures after the mixing chamber, and stops when two readings
in a row are off by more than {half} a step.

## Rinsing

After the last run of a day the lines are rinsed for {rinse} seconds with plain water. Do not shorten it: dried feed
blocks the finest drippers first, and those are in the far beds.

| tank | content |
|---|---|
| A | calcium and iron |
| B | sulphates and phosphates |
| C | acid |
""",
    ),
    Topic(
        "guides/alarms.md",
        "Alarms and who gets them",
        ("guides", "people"),
        {"repeat": ("6", "8", "12"), "people": ("three", "four", "five"), "quiet": ("21:30", "22:15", "23:00")},
        (
            ("After how many minutes is an unanswered alarm sent to the next person?", "{repeat} minutes"),
            ("When do the quiet hours for minor alarms begin?", "{quiet}"),
        ),
        """\
An alarm is for somebody who can do something about it. All else is a note, and can wait for the morning.

## The chain

Write down up to {people} people for each house. An alarm goes to the first; when nobody has answered for {repeat}
minutes, it goes to the next as well. Answering is one key: the controller then stops calling the others.

## Quiet hours

Minor alarms are held back from {quiet} until six in the morning. Frost, fire and a pump that runs dry are never minor.

```console
$ larkmill alarms chain north --add "Ines, evenings"
$ larkmill alarms rehearse north
```
""",
    ),
    Topic(
        "guides/backups.md",
        "Backups of the controller",
        ("guides", "data"),
        {"copies": ("9", "14", "21", "30"), "hour": ("02:20", "03:10", "04:40"), "word": ("eight", "ten", "twelve")},
        (
            ("How many nightly backups does the controller keep?", "{copies} copies"),
            ("At what time is the nightly backup written?", "{hour}"),
        ),
        """\
Everything that took you years to find out is in the controller: schedules, limits, the journal. Keep it somewhere
else, too.

## Every night

At {hour} the controller writes a backup to the card, and to a folder on your network if you have named one. It keeps
{copies} copies and removes the oldest.

## Taking one back

```console
$ larkmill backup list
$ larkmill backup restore 2031-04-02 --only schedules
```

A backup is locked with a phrase of at least {word} words. Without the phrase nobody can open it: not you, and not our
support. See also [moving to a new controller](../operations/new-controller.md).
""",
    ),
    Topic(
        "guides/remote-access.md",
        "Remote access",
        ("guides", "network"),
        {"days": ("30", "60", "90", "120"), "port": ("7413", "7652", "8127", "9244")},
        (
            ("After how many days does a remote access key expire?", "{days} days"),
            ("Which network port does the relay use?", "port {port}"),
        ),
        """\
You can look after a house from afar without opening your network to the world: the controller calls out, and nobody
calls in.

## The relay

The controller holds one line to the relay, on port {port}. Give your firewall this one rule, outward only.

## Keys

Each telephone gets a key of its own. A key expires after {days} days without use; losing a telephone is no drama if
you take its key back the same day:

```console
$ larkmill keys list
$ larkmill keys revoke "old telephone"
```

Some things cannot be done from afar at all, such as switching off [the frost guard](frost-guard.md).
""",
    ),
    Topic(
        "guides/co2-enrichment.md",
        "Carbon dioxide enrichment",
        ("guides", "climate"),
        {"ppm": ("750", "820", "880", "940"), "alarm": ("3,500", "4,000", "4,500"), "lux": ("9", "12", "16")},
        (
            ("What is the default target for carbon dioxide by day?", "{ppm} ppm"),
            ("At which concentration of carbon dioxide must everybody leave the house?", "{alarm} ppm"),
        ),
        """\
Plants that have light and water may still starve for carbon dioxide. The controller can open a gas valve in the
hours in which it is of use.

## When gas flows

The target is {ppm} ppm by day. Gas flows only above {lux} kilolux, and never while a roof vent is open: it would be
money blown through the roof.

## Safety

At {alarm} ppm the horn sounds, the valve closes and the fans start. Everybody leaves the house. The valve stays
closed until somebody turns the key beside the door, from outside.
""",
    ),
)  # fmt: skip
