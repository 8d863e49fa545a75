"""What the sample PDFs say: a service manual, a staff handbook and an annual report, all invented. `{name}` in a text
is a fact that the seed decides; every page has a question of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Sheet:
    """A page: its heading, its paragraphs, and the question that it answers."""

    heading: str
    paragraphs: tuple[str, ...]
    asks: tuple[str, str]


@dataclass(frozen=True)
class Paper:
    """A document. `names` are those it may go by, `facts` what each `{fact}` may be."""

    title: str
    names: tuple[str, ...]
    facts: Mapping[str, tuple[str, ...]]
    sheets: tuple[Sheet, ...]


PAPERS = (
    Paper(
        "Service manual for the {name} pump",
        ("Tarnbeck 40", "Oxley 12", "Merewater 7", "Stonecrop 88", "Hollin 31", "Brackwell 5"),
        {
            "pressure": ("6.5", "7.2", "8.4", "9.1"), "oil": ("0.35", "0.6", "0.85"), "hours": ("1,200", "1,800"),
            "gap": ("0.15", "0.25", "0.4"), "crane": ("two", "three"), "warm": ("62", "68", "74"),
        },
        (
            Sheet(
                "Before you begin",
                (
                    "This manual is for people who look after the {name}. It is written to be read beside the pump,"
                    " with wet hands, so every page stands by itself.",
                    "The pump weighs more than it seems to. Lift it with a belt through both eyes, and with {crane}"
                    " people at the rope. Never lift it by the motor's cable.",
                    "Close both gate valves and let the pressure off at the small tap before you loosen anything. The"
                    " housing is tested for {pressure} bar, and a bolt that flies off at that pressure goes through a"
                    " door.",
                ),
                ("For which pressure is the housing of the {name} tested?", "{pressure} bar"),
            ),
            Sheet(
                "Oil and bearings",
                (
                    "The bearings run in oil. Look through the glass once a week: the oil should stand at the upper"
                    " ring and be as clear as honey. Milky oil has water in it, and the seal on the wet side is worn.",
                    "Change the oil after {hours} hours of work, or each spring, whichever comes first. The housing"
                    " takes {oil} litres. Fill it while the pump is level and cold, and turn the shaft by hand a few"
                    " times before you look again.",
                ),
                ("After how many hours is the oil of the {name} changed?", "{hours} hours"),
            ),
            Sheet(
                "The impeller",
                (
                    "An impeller that touches its ring sings. Stop the pump and measure the gap all round with a"
                    " feeler: it is {gap} mm on a new {name}, and may grow to three times that.",
                    "To set it, loosen the four screws of the bearing cap by one turn, push the shaft forward until it"
                    " touches, and bring it back with the fine thread. Tighten the screws crosswise.",
                    "Stones come through a torn strainer. If the impeller has lost a tooth, look at the strainer"
                    " before you order a new one.",
                ),
                ("How wide is the gap around the impeller of a new {name}?", "{gap} mm"),
            ),
            Sheet(
                "When the motor stops by itself",
                (
                    "A switch inside the winding opens at {warm} degrees and closes again when the motor has cooled. It"
                    " protects the motor from the weather and from you: do not bridge it.",
                    "If the motor of the {name} stops every afternoon, look for a closed valve, a blocked strainer or a"
                    " wasps' nest in the fan, in this order.",
                ),
                ("At which temperature does the switch in the winding of the {name} open?", "{warm} degrees"),
            ),
        ),
    ),
    Paper(
        "Staff handbook of {name}",
        ("Hollowfield Growers", "Larch & Daughters", "Weirside Nurseries", "Quillmoor Farms", "Aldergate Seeds"),
        {
            "leave": ("24", "26", "27", "29"), "shoes": ("80", "95", "110"), "bell": ("6:45", "7:10", "7:30"),
            "trial": ("three", "four", "five"), "bread": ("Tuesdays", "Wednesdays", "Fridays"), "km": ("0.31", "0.36"),
        },
        (
            Sheet(
                "Welcome",
                (
                    "Welcome to {name}. Nobody here expects you to know everything in the first week. Ask early, ask"
                    " twice, and write down what you were told.",
                    "The first {trial} months are a trial for both sides. In that time either of us can end the"
                    " contract with a fortnight's notice, in writing, without giving a reason.",
                ),
                ("How many months does the trial period at {name} last?", "{trial} months"),
            ),
            Sheet(
                "Hours and leave",
                (
                    "Work begins at {bell}, when the bell in the packing hall rings. In the weeks of the main harvest"
                    " it may begin earlier; the plan hangs beside the time clock a week ahead.",
                    "Everybody has {leave} days of leave a year. Take at least ten of them in one piece. Leave that is"
                    " not taken by the end of March goes to the sick fund, where it helps somebody else.",
                ),
                ("How many days of leave do people at {name} have in a year?", "{leave} days"),
            ),
            Sheet(
                "Clothes and tools",
                (
                    "Gloves, knives and rain clothes are given out at the store, and changed when they are worn. Knives"
                    " are signed for, and stay here overnight.",
                    "Boots are a matter of taste, so you buy your own: {name} pays up to {shoes} crowns for a pair each"
                    " year against the receipt.",
                ),
                ("How much does {name} pay for a pair of boots?", "{shoes} crowns"),
            ),
            Sheet(
                "On the road",
                (
                    "Who drives their own car for {name} gets {km} crowns for a kilometre. Fill in the sheet on the"
                    " day; nobody remembers in March where they were in May.",
                    "The van is for plants first. Who takes it home must bring it back before the bell, with the tank"
                    " at least half full.",
                ),
                ("What does {name} pay for a kilometre in one's own car?", "{km} crowns"),
            ),
            Sheet(
                "Eating together",
                (
                    "Lunch is cooked on the premises and costs less than it should. On {bread} the oven is hot anyway,"
                    " and everybody may bring dough.",
                    "Who wants to know what is in the soup asks the cook, and gets a list. There is always one pot"
                    " without meat.",
                ),
                ("On which day may people at {name} bring their own dough?", "{bread}"),
            ),
        ),
    ),
    Paper(
        "Annual report of the {name} water board",
        ("Weir Valley", "Lower Ashmere", "Three Brooks", "Saltmarsh", "Fenwright Dale"),
        {
            "rain": ("612", "684", "731", "805"), "loss": ("9.4", "11.2", "12.7"), "pipes": ("4.8", "6.3", "7.9"),
            "members": ("1,148", "1,306", "1,577"), "levy": ("14", "17", "21"), "trout": ("nine", "eleven", "thirteen"),
        },
        (
            Sheet(
                "The year in brief",
                (
                    "The rain gauge at the weir house measured {rain} millimetres, most of it in a wet June that"
                    " nobody had asked for. The reservoir was full from the tenth of July until the leaves fell.",
                    "The board of {name} has {members} members, who met twice, once by candlelight.",
                ),
                ("How much rain fell in the area of the {name} water board?", "{rain} millimetres"),
            ),
            Sheet(
                "Pipes and losses",
                (
                    "Of the water that left the works, {loss} percent did not arrive. Most of that is lost in the cast"
                    " iron of the old town, where joints move with every frost.",
                    "During the year {pipes} kilometres of pipe were laid anew in the area of {name}. The old pipes"
                    " were left in the ground where digging them up would have cost more than they are worth.",
                ),
                ("Which share of its water did the {name} board lose on the way?", "{loss} percent"),
            ),
            Sheet(
                "Money",
                (
                    "The levy stays at {levy} crowns for each member and quarter. The board has no debts, and sets"
                    " aside a tenth of what comes in for the dam.",
                    "Interest was small. The sale of the old pump house brought more than expected, since a painter"
                    " and a baker both wanted it.",
                ),
                ("How high is the levy of the {name} water board for a quarter?", "{levy} crowns"),
            ),
            Sheet(
                "The river",
                (
                    "Trout were counted on one day in October, by people standing in the water. There were {trout} to"
                    " each hundred paces, which is more than in any year since counting began.",
                    "Below the mill the bank was planted with willow. Cattle drink from troughs now, and the river of"
                    " {name} runs clear a day earlier after a storm.",
                ),
                ("How many trout were counted to each hundred paces in {name}?", "{trout}"),
            ),
        ),
    ),
)  # fmt: skip
