"""`penstock tokens` and `penstock audit`: who may use the service, and who did what."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.service.access.tokens import TokenDesk
from tests.support.cli import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def opens(cli: Cli, secret: str) -> str:
    """The name of the token that the secret is of, or why it opens nothing."""

    async def main() -> str:
        app = Penstock(store=f"sqlite:///{cli.file('.penstock/penstock.db')}")
        async with app:
            verdict = await TokenDesk().verify(app.engine, secret)
            return verdict.token.name if verdict.token else verdict.problem or ""

    return asyncio.run(main())


def test_a_secret_alone_goes_to_stdout(cli: Cli) -> None:
    said = cli("tokens", "create", "ci", "--scope", "operate", "--tenant", "acme")
    assert re.fullmatch(r"penstock_[A-Za-z0-9_-]{43}\n", said.out)
    assert said.err == "Made the token ci (operate; tenant acme). This is its secret; it is not shown again:\n"
    assert opens(cli, said.out.strip()) == "ci"
    quiet = cli("tokens", "create", "other", "--quiet")
    assert (quiet.err, opens(cli, quiet.out.strip())) == ("", "other")


def test_a_token_reads_everything_for_ever_unless_told(cli: Cli) -> None:
    token = cli.inside("tokens", "create", "watch", "--json").json["token"]
    assert (token["scopes"], token["tenant"], token["expires"], token["state"]) == (["read"], None, None, "usable")


def test_no_secret_and_no_hash_is_listed(cli: Cli) -> None:
    secret = cli.inside("tokens", "create", "ci", "--expires", "90d", "-s", "read", "-s", "admin", "--json").json[
        "secret"
    ]
    cli.inside("tokens", "create", "acme", "-t", "acme")
    cli.inside("tokens", "revoke", "acme")
    said = cli.inside("tokens", "list")
    head, *rows = [line.split() for line in said.out.splitlines()]
    assert head == ["NAME", "SCOPES", "TENANT", "STATE", "CREATED", "EXPIRES", "USED"]
    assert [row[:4] for row in rows] == [["acme", "read", "acme", "revoked"], ["ci", "read", "admin", "all"]]
    assert "in 90 d" in said.out
    told = said.out + cli.inside("tokens", "list", "--json").out + cli.inside("audit", "--json").out
    assert secret.removeprefix("penstock_") not in told
    assert "hash" not in told


def test_a_revoked_token_opens_nothing_and_its_name_stays_taken(cli: Cli) -> None:
    secret = cli.inside("tokens", "create", "ci").out.strip()
    assert cli.inside("tokens", "revoke", "ci").out == "The token ci opens nothing any more.\n"
    assert opens(cli, secret) == "the token ci is revoked"
    assert cli.inside("tokens", "create", "ci", code=2).sentence == (
        "there is or was a token named 'ci': choose another name"
    )
    cli.inside("tokens", "revoke", "ci")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["create", "a b"], "token 'a b' is not a valid name"),
        (["create", ""], "token '' is not a valid name"),
        (["create", "ci", "--scope", "write"], "'write' is not one of"),
        (["create", "ci", "--tenant", "a/b"], "tenant 'a/b' is not a valid name"),
        (["create", "ci", "--expires", "soon"], "'soon' must be a length of time"),
        (["create", "ci", "--expires", "0"], "a token must be good for more than 0 seconds"),
        (["create", "ci", "--expires", "99999d"], "at most 100 years"),
        (["revoke", "nobody"], "there is no token named 'nobody'"),
        (["create"], "Missing argument 'NAME'"),
    ],
    ids=" ".join,
)
def test_bad_input(cli: Cli, command: list[str], told: str) -> None:
    cli.inside("migrate")
    assert told in cli.inside("tokens", *command, code=2).sentence
    assert cli.inside("tokens", "list", "--json").json == {"tokens": []}
    assert cli.inside("audit", "--json").json == {"entries": [], "next": None}


def test_questions_make_no_store(cli: Cli) -> None:
    for command in (["tokens", "list"], ["tokens", "revoke", "ci"], ["audit"]):
        assert "there is no store" in cli.inside(*command, code=2).sentence
    assert not cli.file(".penstock").exists()


def test_who_made_and_revoked_a_token_is_in_the_audit_log(cli: Cli) -> None:
    cli.inside("tokens", "create", "ci", "--as", "ada", "-s", "operate", "--expires", "90d")
    cli.inside("tokens", "create", "acme", "--as", "bob", "-t", "acme")
    cli.inside("tokens", "revoke", "acme", "--as", "ada")
    rows = cli.inside("audit", "--json", "--as", "somebody").json["entries"]
    assert [(row["actor"], row["action"], row["target"], row["tenant"], row["via"], row["detail"]) for row in rows] == [
        ("ada", "token.revoke", "token:acme", "acme", "cli", None),
        ("bob", "token.create", "token:acme", "acme", "cli", "read; tenant acme"),
        ("ada", "token.create", "token:ci", None, "cli", "operate; all tenants; good for 90 d"),
    ]
    head, first, *_ = cli.inside("audit").out.splitlines()
    assert head.split() == ["AT", "ACTOR", "VIA", "ACTION", "TARGET", "TENANT", "DETAIL"]
    assert first.split()[1:] == ["ada", "cli", "token.revoke", "token:acme", "acme"]


def test_the_audit_log_is_filtered_and_paged(cli: Cli) -> None:
    for name in ("a", "b", "c"):
        cli.inside("tokens", "create", name, "--as", f"by-{name}", *(["-t", "acme"] if name == "c" else []))
    cli.inside("tokens", "revoke", "b", "--as", "by-a")

    def found(*options: str) -> list[tuple[str, str]]:
        rows = cli.inside("audit", "--json", *options).json["entries"]
        return [(row["action"].removeprefix("token."), row["target"].removeprefix("token:")) for row in rows]

    everything = [("revoke", "b"), ("create", "c"), ("create", "b"), ("create", "a")]
    assert found() == everything
    assert found("--actor", "by-a") == [("revoke", "b"), ("create", "a")]
    assert found("--action", "token.revoke") == [("revoke", "b")]
    assert found("--target", "token:b") == [("revoke", "b"), ("create", "b")]
    assert found("--tenant", "acme") == [("create", "c")]
    paged, before = [], []
    while True:
        page = cli.inside("audit", "--json", "--limit", "3", *before).json
        paged += [row["id"] for row in page["entries"]]
        if page["next"] is None:
            break
        before = ["--before", page["next"]]
    assert len(paged) == len(set(paged)) == len(everything)
    assert cli.inside("audit", "--limit", "3").err.startswith("There may be more: --before ")
    assert cli.inside("audit", "--actor", "nobody").out == "There are no such entries.\n"
