"""Configuration: which source wins, and what a wrong value is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock import InvalidConfiguration
from penstock.config import load
from penstock.config.duration import seconds
from penstock.config.settings import Settings


def test_without_any_source_everything_is_a_default(tmp_path: Path) -> None:
    settings = load(cwd=tmp_path, environ={})
    assert settings.home == tmp_path / ".penstock"
    assert settings.store == f"sqlite:///{tmp_path}/.penstock/penstock.db"
    assert (settings.app, settings.queues, settings.limits) == (None, None, None)
    assert settings.source("store") is None


def test_the_store_follows_the_home(tmp_path: Path) -> None:
    assert load(cwd=tmp_path, environ={"PENSTOCK_HOME": "/srv/p"}).store == "sqlite:////srv/p/penstock.db"


def test_sources_are_stronger_from_file_to_dotenv_to_environment_to_flags(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("concurrency: 1\ngrace: 1\nlease: 1\nfair_share: 0.1\n")
    (tmp_path / ".env").write_text("PENSTOCK_GRACE=2\nPENSTOCK_LEASE=2\nPENSTOCK_FAIR_SHARE=0.2\nOTHER=x\n")
    environ = {"PENSTOCK_LEASE": "3", "PENSTOCK_FAIR_SHARE": "0.3"}
    settings = load(cwd=tmp_path, environ=environ, overrides={"fair_share": 0.4, "store": None})
    assert (settings.concurrency, settings.grace, settings.lease, settings.fair_share) == (1, 2.0, 3.0, 0.4)
    assert settings.source("concurrency") == f"{tmp_path}/penstock.yaml line 1"
    assert settings.source("grace") == ".env line 1"


def test_nested_keys_in_every_source(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("retention:\n  completed_days: 1\nlog:\n  level: debug\n")
    environ = {"PENSTOCK_RETENTION__FAILED_DAYS": "never", "PENSTOCK_LOG__FORMAT": "JSON"}
    settings = load(cwd=tmp_path, environ=environ)
    assert (settings.retention.completed_days, settings.retention.failed_days) == (1.0, None)
    assert (settings.log.level, settings.log.format) == ("debug", "json")


def test_lists_and_limits_as_the_environment_writes_them(tmp_path: Path) -> None:
    environ = {"PENSTOCK_QUEUES": "fast, slow", "PENSTOCK_LIMITS": "workflow:pages=4, tenant:*=2"}
    settings = load(cwd=tmp_path, environ=environ)
    assert settings.queues == ("fast", "slow")
    assert settings.limits == {"workflow:pages": 4, "tenant:*": 2}


def test_webhooks_as_the_environment_writes_them(tmp_path: Path) -> None:
    environ = {"PENSTOCK_WEBHOOKS": '{"pager": {"url": "https://example.com", "secret": "sixteen characters"}}'}
    assert load(cwd=tmp_path, environ=environ).webhooks["pager"].url == "https://example.com"


@pytest.mark.parametrize(
    "told", ["hush-hush", '{"pager": {"secret": "hush-hush"}}', '{"a": {"url": "http://b", "secret": "hush-hush"}}']
)
def test_a_wrong_webhook_shows_no_secret(tmp_path: Path, told: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"^webhooks") as refused:
        load(cwd=tmp_path, environ={"PENSTOCK_WEBHOOKS": told})
    assert "hush" not in str(refused.value)


def test_another_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("concurrency: 7\n")
    assert load("other.yaml", cwd=tmp_path, environ={}).concurrency == 7
    assert load(cwd=tmp_path, environ={"PENSTOCK_CONFIG": "other.yaml"}).concurrency == 7
    with pytest.raises(InvalidConfiguration, match=r"there is no configuration file missing\.yaml"):
        load("missing.yaml", cwd=tmp_path, environ={})


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("retention:\n  failed_days: -1", 2, "retention.failed_days: must be greater than or equal to 0, not -1"),
        ("home: x\nconcurrency: many", 2, "concurrency: must be a valid integer, not 'many'"),
        ("concurrency: yes", 1, "concurrency: must be a number"),
        ("lease: soon", 1, "lease: must be a length of time: seconds, or a number with ms, s, m, h or d"),
        ("retension:\n  failed_days: 1", 1, "retension: there is no such setting; did you mean retention?"),
        ("log:\n  levels: 1", 2, "log.levels: there is no such setting; did you mean log.level?"),
        ("stor: x", 1, "stor: there is no such setting; did you mean store?"),
        ("retention: 5", 1, "retention: must hold keys of its own, completed_days, failed_days, audit_days"),
        ("limits:\n  x: 3", 1, "limits: limit 'x' must be workflow:NAME, resource:NAME, tenant:NAME or tenant:*"),
        ("app: flow", 1, "app: must be module:object, such as flow:app, not 'flow'"),
    ],
)
def test_a_wrong_value_names_its_field_and_the_line(tmp_path: Path, text: str, line: int, told: str) -> None:
    assert refusal(tmp_path, text) == f"{told} (from {tmp_path}/penstock.yaml line {line})"


def test_a_file_that_cannot_be_understood(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    assert refusal(tmp_path, "home: [").startswith(f"{file} line 1 is not YAML: ")
    assert refusal(tmp_path, "- home") == f"{file} must hold keys with values, such as `home: .penstock`"
    assert refusal(tmp_path, "grace: 1\ngrace: 2") == f"grace: is written twice ({file} line 1 and {file} line 2)"


def test_a_refused_store_shows_no_password(tmp_path: Path) -> None:
    told = refusal(tmp_path, "store: mysql://me:secret@host/name")
    assert told.startswith("store: must be a URL like sqlite:///work.db")
    assert "secret" not in told


def refusal(folder: Path, text: str) -> str:
    (folder / "penstock.yaml").write_text(text)
    with pytest.raises(InvalidConfiguration) as refused:
        load(cwd=folder, environ={})
    return str(refused.value)


def test_a_wrong_variable_names_itself(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"lease: .*\(from the environment, PENSTOCK_LEASE\)"):
        load(cwd=tmp_path, environ={"PENSTOCK_LEASE": "0"})
    (tmp_path / ".env").write_text("# ours\nPENSTOCK_CONCURENCY=5\n")
    with pytest.raises(InvalidConfiguration, match=r"did you mean PENSTOCK_CONCURRENCY\? \(from \.env line 2\)"):
        load(cwd=tmp_path, environ={})


def test_variables_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    """Kubernetes sets these for a service named penstock."""
    environ = {"PENSTOCK_PORT": "tcp://10.0.0.1:80", "PENSTOCK_SERVICE_HOST": "10.0.0.1", "PENSTOCK_DEBUG": "1"}
    environ |= {"PENSTOCK_SERVICE_PORT": "80", "PENSTOCK_SERVICE_PORT_HTTP": "80", "PENSTOCK_PORT_80_TCP_PORT": "80"}
    assert load(cwd=tmp_path, environ=environ) == load(cwd=tmp_path, environ={})


def test_a_flag_names_itself(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"queues: .* \(from --queue\)"):
        load(cwd=tmp_path, environ={}, overrides={"queues": ["no spaces"]})


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().home = Path("x")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("written", "length"), [("500ms", 0.5), ("1.5s", 1.5), (" 5 m", 300.0), ("2h", 7200.0), (3, 3.0)]
)
def test_lengths_of_time(written: object, length: float) -> None:
    assert seconds(written) == length


@pytest.mark.parametrize("written", ["", "s", "-1", "1 week", True, None, "inf", "nan"])
def test_what_is_no_length_of_time(written: object) -> None:
    with pytest.raises(ValueError, match="length of time"):
        seconds(written)


def test_loading_imports_nothing_heavy(tmp_path: Path) -> None:
    program = "import sys; from penstock.config import load; load(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not {"yaml", "dotenv", "sqlalchemy", "alembic", "rich", "click"} & set(loaded.stdout.split())
