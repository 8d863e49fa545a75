"""What is kept beside jobs when several processes write it at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from penstock.app import Penstock
from penstock.engine.audit import entry
from penstock.engine.call import LIVE
from penstock.engine.context import Context
from penstock.engine.errors import CommitUnknown, Conflict, KeyReused
from penstock.engine.model import JobRow
from penstock.engine.workflow import Workflow
from penstock.store.conformance import ManualClock
from penstock.store.protocol import (
    AddMeters,
    Announce,
    Asked,
    AuditFilter,
    Beat,
    CallFilter,
    Claim,
    Intend,
    JobFilter,
    Once,
    Op,
    OpenBatch,
    PutSession,
    PutToken,
    RevokeToken,
    SessionRow,
    SetBudget,
    SetCursor,
    Submit,
    Tidy,
    TokenRow,
    TouchToken,
)
from penstock.store.sql.postgres import PostgresStore
from tests.contract.test_postgres_calls import ESTIMATE, _deadlocks, call
from tests.contract.test_postgres_store import Proxy, do, job, opened
from tests.support.postgres import PostgresServer

ONCE = Once("default submit", "one key", "digest")

draw = Workflow("draw", payload=int)


@draw.step
async def look(n: int, ctx: Context) -> int:
    return n


def asked(name: str, *, once: Once | None = ONCE) -> Asked:
    return Asked(Submit((job(name),)), audit=entry("ann", "job.submit", f"job:{name}"), once=once)


def token(name: str) -> TokenRow:
    return TokenRow(f"id of {name}", name, f"hash of {name}", "read", None)


def test_one_key_of_many_requests_of_two_engines_is_one_job(postgres_url: str) -> None:
    async def go() -> None:
        async with (
            Penstock(workflows=[draw], store=postgres_url) as ours,
            Penstock(workflows=[draw], store=postgres_url) as theirs,
        ):
            apps = [ours, theirs] * 25
            told = await asyncio.gather(*(app.submit(draw, 1, actor="ann", once=ONCE) for app in apps))
            assert len({one.job_id for one in told}) == 1
            assert all(one.created for one in told), "everybody is told what the first was told"
            [only] = await ours.engine.store.jobs(JobFilter())
            [audited] = await ours.engine.store.audit(AuditFilter())
            assert audited.target == f"job:{only.id}" == f"job:{told[0].job_id}"
            with pytest.raises(KeyReused):
                await theirs.submit(draw, 2, once=Once(ONCE.scope, ONCE.key, "another digest"))

    asyncio.run(go())


def test_requests_under_several_keys_never_wait_for_each_other_in_a_circle(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=4) as stores:
            await do(stores[0], OpenBatch("b", "default", "b"))
            keys = [Once("default submit", f"k{n}", "d") for n in range(30)]

            async def ask(n: int) -> list[str]:
                rng = random.Random(n)
                told: dict[str, str] = {}
                for turn in range(10):
                    chosen = rng.sample(keys, 6)
                    answers = await do(stores[n], *(asked(f"{n}.{turn}.{once.key}", once=once) for once in chosen))
                    for once, [submitted] in zip(chosen, answers, strict=True):
                        assert told.setdefault(once.key, submitted.job_id) == submitted.job_id
                return [f"{key}={job_id}" for key, job_id in told.items()]

            answered = Counter(line for told in await asyncio.gather(*map(ask, range(4))) for line in told)
            jobs = await stores[0].jobs(JobFilter(limit=1000))
            assert len(answered) == len(jobs) == len(await stores[0].audit(AuditFilter(limit=1000)))
        assert await _deadlocks(postgres_url) == 0

    asyncio.run(go())


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
def test_an_unknown_commit_leaves_one_job_one_answer_and_one_entry(
    postgres_server: PostgresServer, postgres_url: str, stored: bool
) -> None:
    async def go() -> None:
        name = postgres_url.split("/")[3].split("?")[0]
        async with (
            Proxy(postgres_server.port) as proxy,
            opened(postgres_server.tcp_url(name, port=proxy.port)) as [store],
        ):
            await do(store, AddMeters((("ticks", "{}", 1.0),)))
            put = Asked(PutToken(token("ci")), audit=entry("ann", "token.create", "token:ci"))
            ops: list[Op] = [asked("a"), put, AddMeters((("ticks", "{}", 1.0),))]
            proxy.cut_at, proxy.after = b"COMMIT\x00", stored
            with pytest.raises(CommitUnknown):
                await store.apply(ops)
            again = (await store.apply(ops, replay=True)).answers
            assert again[0][0].job_id == "a" and again[1].name == "ci"
            [client_asks_again] = await do(store, asked("b"))
            assert client_asks_again == again[0]
            assert [row.id for row in await store.jobs(JobFilter())] == ["a"]
            assert Counter(row.action for row in await store.audit(AuditFilter())) == {
                "job.submit": 1, "token.create": 1,
            }  # fmt: skip
            assert await store.meters() == [("ticks", "{}", 2.0 if stored else 1.0)], "never counted twice"

    asyncio.run(go())


def test_meters_that_many_add_to_at_once_lose_nothing(postgres_url: str) -> None:
    """In groups of any order, also several of one process, beside other rows that all of them write."""
    groups, meters = 60, [("ticks", "{}"), ("ticks", '{"a":1}'), ("calls", "{}"), ("Calls", "{}")]

    async def go() -> None:
        async with opened(postgres_url, many=4) as stores:
            await do(stores[0], *(PutToken(token(name)) for name in ("ci", "ops")))

            async def add(n: int) -> Counter[tuple[str, str]]:
                rng = random.Random(n)
                added: Counter[tuple[str, str]] = Counter()
                for _ in range(groups):
                    ops: list[Op] = [TouchToken("id of ci"), TouchToken("id of ops"), SetCursor("x", "1")]
                    ops.append(SetCursor("y", "2"))
                    for _ in range(rng.randint(1, 3)):
                        amounts = tuple((*rng.choice(meters), 1.0) for _ in range(rng.randint(1, 6)))
                        ops.append(AddMeters(amounts, amounts))
                        added.update((name, labels) for name, labels, _ in amounts)
                    rng.shuffle(ops)
                    await do(stores[n], *ops)
                return added

            added = sum(await asyncio.gather(*map(add, range(4))), Counter())
            assert {(name, labels): value for name, labels, value in await stores[0].meters()} == added
            by_minute: Counter[tuple[str, str]] = Counter()
            for _, name, labels, value in await stores[0].series(("ticks", "calls", "Calls"), 0.0):
                by_minute[name, labels] += int(value)
            assert by_minute == added
        assert await _deadlocks(postgres_url) == 0

    asyncio.run(go())


def test_no_session_is_of_use_after_its_token_was_revoked(postgres_url: str) -> None:
    """A login that is on its way while the token is revoked may leave a session behind; so whoever looks at a session
    must look at its token too, and finds it revoked."""

    async def go() -> None:
        async with opened(postgres_url, many=3) as [ours, theirs, others]:
            for turn in range(30):
                row = token(f"t{turn}")
                await do(ours, PutToken(row), PutSession(SessionRow(f"before {turn}", row.id, "csrf"), 600))
                login = PutSession(SessionRow(f"during {turn}", row.id, "csrf"), 600)
                await asyncio.gather(do(ours, login), do(theirs, RevokeToken(row.name)), do(others, TouchToken(row.id)))
                assert await ours.session(f"before {turn}") is None
                [kept] = await ours.tokens(id=row.id)
                assert kept.revoked is not None and kept.used is not None
                left = await ours.session(f"during {turn}")
                assert left is None or left.token == kept.id

    asyncio.run(go())


def test_a_name_that_many_want_for_a_token_at_once_is_given_once(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=5) as stores:
            wanted = [TokenRow(f"t{n}", "ci", f"hash {n}", "read", None) for n in range(5)]
            told = await asyncio.gather(*(s.apply([PutToken(t)]) for s, t in zip(stores, wanted, strict=True)))
            answers = [applied.answers[0] for applied in told]
            assert sum(isinstance(answer, TokenRow) for answer in answers) == 1
            assert sum(isinstance(answer, Conflict) for answer in answers) == 4

    asyncio.run(go())


def test_what_many_announce_at_once_is_told_once(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=4) as stores:
            await do(stores[0], Submit(tuple(job(f"j{n}") for n in range(10))))
            lines = [Announce(f"j{n}", "sla breached") for n in range(10)]
            told = await asyncio.gather(*(do(store, *lines) for store in stores))
            assert [sum(each) for each in zip(*told, strict=True)] == [1] * 10
            assert Counter(change.event.job for change in await stores[0].changes(0)) == {f"j{n}": 1 for n in range(10)}

    asyncio.run(go())


def test_many_that_drop_the_same_old_rows_at_once_do_not_wait_for_each_other(postgres_url: str) -> None:
    async def go() -> None:
        clock = ManualClock()
        stores = [PostgresStore(postgres_url, clock=clock) for _ in range(4)]
        try:
            for store in stores:
                await store.open()
            await do(stores[0], PutToken(token("ci")))
            for n in range(20):
                sessions = [PutSession(SessionRow(f"{n}.{m}", "id of ci", "csrf"), 9.0 - m % 3) for m in range(10)]
                requests = [asked(f"{n}.{m}", once=Once("s", f"{n}.{m}", "d")) for m in range(5)]
                await do(stores[0], *sessions, *requests, AddMeters((), (("ticks", "{}", 1.0),)))
                clock.advance(60.0)
            clock.advance(30 * 86_400.0)
            tidy = Tidy(keep_audit=0.0)
            await asyncio.gather(*(do(store, tidy) for store in stores[:3]), do(stores[3], RevokeToken("ci")))
            await do(stores[0], tidy)
            assert await stores[0].audit(AuditFilter()) == [] == await stores[0].series(("ticks",), 0.0)
            [[again]] = await do(stores[0], asked("later", once=Once("s", "0.0", "another")))
            assert again.job_id == "later"
        finally:
            for store in stores:
                await store.close()
        assert await _deadlocks(postgres_url) == 0

    asyncio.run(go())


def test_a_budget_that_somebody_answers_for_knows_all_calls_too(postgres_url: str) -> None:
    """It is set alone, as one is that nobody is named for."""

    async def go() -> None:
        async with opened(postgres_url, many=3) as [ours, theirs, others]:
            await do(ours, Beat("w", 600, first=True), Submit(tuple(job(f"j{n:02}") for n in range(60))))
            [claimed] = await do(ours, Claim("w", "default", ("draw",), room=60))

            async def send(store: PostgresStore, rows: list[JobRow]) -> None:
                for row in rows:
                    await do(store, Intend(row.id, row.epoch, call(estimate=ESTIMATE)))

            async def reset() -> None:
                for most in (*(10**6, None) * 20, 10**6):
                    audit = entry("ann", "budget.set", "budget:tenant:default")
                    await do(others, Asked(SetBudget("tenant:default", most), audit=audit))

            await asyncio.gather(send(ours, claimed.rows[:30]), send(theirs, claimed.rows[30:]), reset())
            live = await ours.calls(CallFilter(state=tuple(LIVE), limit=100))
            [budget] = await ours.budgets()
            assert (len(live), budget.reserved) == (60, 60 * ESTIMATE)

    asyncio.run(go())
