"""Who takes part: the script that measures it, the packages and servers it needs, and how much it is given to do.

The amounts follow each contestant's speed, so that every one is busy for a few seconds and none for minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Part(StrEnum):
    """A script's functions; each is run in a process of its own."""

    SPEED = "speed"
    COLD = "cold"
    """For engines inside the application's process: start, do one job, say so."""
    WAITING = "waiting"
    CLAIMS = "claims"


class Server(StrEnum):
    POSTGRES = "postgres"
    REDIS = "redis"
    REDIS_SAFE = "redis-safe"


@dataclass(frozen=True)
class Contestant:
    name: str
    module: str
    parts: tuple[Part, ...]
    mode: str = ""
    requirements: tuple[str, ...] | None = None
    """None runs with the repository's own interpreter."""
    server: Server | None = None
    jobs: int = 1000
    workflows: int = 200
    latencies: int = 100
    every_round: bool = True
    """False for one that takes longer than all others together: it has one round, the first."""

    def shortened(self) -> Contestant:
        """The same with less to do, for `--quick`."""
        return replace(
            self,
            jobs=max(20, self.jobs // 4),
            workflows=max(5, self.workflows // 4),
            latencies=max(20, self.latencies // 3),
        )


INSIDE = (Part.SPEED, Part.COLD)

OURS = (
    Contestant(
        "penstock, SQLite",
        "bench.engine.ours",
        (*INSIDE, Part.WAITING, Part.CLAIMS),
        mode="sqlite",
        jobs=20_000,
        workflows=6_000,
        latencies=200,
    ),
    Contestant(
        "penstock, PostgreSQL",
        "bench.engine.ours",
        (*INSIDE, Part.WAITING, Part.CLAIMS),
        mode="postgres",
        server=Server.POSTGRES,
        jobs=15_000,
        workflows=4_000,
        latencies=200,
    ),
)

LIMITS = (
    Contestant(
        "limit: group commit, SQLite",
        "bench.engine.limits.sqlite",
        (*INSIDE, Part.CLAIMS),
        jobs=30_000,
        workflows=10_000,
        latencies=200,
    ),
    Contestant(
        "limit: group commit, PostgreSQL",
        "bench.engine.limits.postgres",
        (*INSIDE, Part.CLAIMS),
        requirements=("asyncpg",),
        server=Server.POSTGRES,
        jobs=20_000,
        workflows=6_000,
        latencies=200,
    ),
    Contestant("plain ORDER BY aged priority, SQLite", "bench.engine.limits.plain_claim", (Part.CLAIMS,)),
)

PEERS = (
    Contestant(
        "dbos, SQLite with WAL",
        "bench.engine.peers.dbos",
        INSIDE,
        mode="sqlite",
        requirements=("dbos",),
        jobs=300,
        workflows=60,
    ),
    Contestant(
        "dbos, PostgreSQL",
        "bench.engine.peers.dbos",
        INSIDE,
        mode="postgres",
        requirements=("dbos",),
        server=Server.POSTGRES,
        jobs=300,
        workflows=60,
    ),
    Contestant(
        "absurd, PostgreSQL, 4 workers",
        "bench.engine.peers.absurd",
        (Part.SPEED, Part.CLAIMS),
        requirements=("absurd-sdk", "absurdctl"),
        server=Server.POSTGRES,
        jobs=2_000,
        workflows=400,
    ),
    Contestant(
        "huey, SQLite",
        "bench.engine.peers.huey",
        (Part.SPEED, Part.WAITING),
        requirements=("huey",),
        jobs=1_500,
        workflows=250,
    ),
    Contestant(
        "celery, Redis",
        "bench.engine.peers.celery",
        (Part.SPEED,),
        mode="default",
        requirements=("celery[redis]",),
        server=Server.REDIS,
        jobs=1_200,
        workflows=150,
    ),
    Contestant(
        "celery, Redis, late ack, AOF",
        "bench.engine.peers.celery",
        (Part.SPEED,),
        mode="late-ack",
        requirements=("celery[redis]",),
        server=Server.REDIS_SAFE,
        jobs=700,
        workflows=100,
    ),
    Contestant(
        "dramatiq, Redis",
        "bench.engine.peers.dramatiq",
        (Part.SPEED, Part.WAITING),
        requirements=("dramatiq[redis]",),
        server=Server.REDIS,
        jobs=3_000,
        workflows=400,
    ),
    Contestant(
        "dramatiq, Redis, AOF",
        "bench.engine.peers.dramatiq",
        (Part.SPEED,),
        requirements=("dramatiq[redis]",),
        server=Server.REDIS_SAFE,
        jobs=1_500,
        workflows=250,
    ),
    Contestant(
        "rq, Redis, no fork",
        "bench.engine.peers.rq",
        (Part.SPEED,),
        requirements=("rq",),
        server=Server.REDIS,
        jobs=800,
        workflows=80,
    ),
    Contestant(
        "taskiq, Redis stream",
        "bench.engine.peers.taskiq",
        (Part.SPEED,),
        requirements=("taskiq", "taskiq-redis"),
        server=Server.REDIS,
        jobs=2_500,
    ),
    Contestant(
        "procrastinate, PostgreSQL",
        "bench.engine.peers.procrastinate",
        (Part.SPEED, Part.WAITING, Part.CLAIMS),
        requirements=("procrastinate", "psycopg[binary,pool]"),
        server=Server.POSTGRES,
        jobs=800,
    ),
    Contestant(
        "prefect, server with SQLite",
        "bench.engine.peers.prefect",
        (Part.SPEED,),
        # Without the cap pip takes a FastAPI with which Prefect's server does not start.
        requirements=("prefect==3.8.8", "fastapi<0.151"),
        jobs=40,
        workflows=10,
        latencies=30,
        every_round=False,
    ),
)

ALL = (*LIMITS, *OURS, *PEERS)
