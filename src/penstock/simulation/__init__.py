"""Run workflows on the real engine and a real store, in virtual time, under crashes, zombies and lost answers.

    from penstock import Penstock, Workflow
    from penstock.simulation import World, effect, simulate, tally

    async def scenario(app: Penstock, world: World) -> None:
        for n in range(5):
            await app.submit(documents, Upload(page=n))

    for seed in range(1000):
        simulate([documents], scenario, seed=seed)      # raises Violation, and says how to see it again

Inside steps, `await effect("pay", key)` marks a place where the process may die before and after, `tally(ctx, pages=1)`
counts and lets the simulator check the count, `enter(ctx, lock)` says that the job is inside what a lock protects, and
`expect(holds, message)` states a rule of your own. Outside a simulation they cost nothing. A run depends on its seed
alone, so a failing seed fails again.
"""

from penstock.simulation.faults import RANGES
from penstock.simulation.run import Report, Scenario, simulate
from penstock.simulation.world import Violation, World, effect, enter, expect, tally

__all__ = ["RANGES", "Report", "Scenario", "Violation", "World", "effect", "enter", "expect", "simulate", "tally"]
