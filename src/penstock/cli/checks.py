"""The doctor's examinations. Each answers one `Check`; none changes anything."""

from __future__ import annotations

import platform
import shutil
import sqlite3
import sys
import tempfile
import time
import zoneinfo
from importlib import metadata
from pathlib import Path

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.check import Check
from penstock.cli.command import Invocation
from penstock.cli.gemini_checks import gemini_checks
from penstock.cli.output import counted, without_password
from penstock.cli.schema_state import schema_state
from penstock.cli.service_state import is_taken, readiness, url_of
from penstock.config import Settings
from penstock.delivery.celery.naming import checked_broker
from penstock.engine.call import LIVE
from penstock.engine.errors import PenstockError
from penstock.engine.machine import is_internal
from penstock.service.notices import WEBHOOK_WORKFLOW
from penstock.store import migrations

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35, 0)
PACKAGES = ("pydantic", "sqlalchemy", "alembic", "click", "rich")
LITTLE_SPACE, TOO_LITTLE_SPACE = 1 << 30, 64 << 20
MOST_COUNTED = 1000
AT_HAND = ("queued", "running", "waiting", "canceling")
LARGE_WAL = 256 << 20
SHARED_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "glusterfs", "ceph"}


async def examine(call: Invocation) -> list[Check]:
    """All checks that can be made: without a sound configuration there is no store to look at."""
    checks = [_python(), _packages(), _sqlite(), _time_zones()]
    try:
        settings = call.settings()
    except PenstockError as error:
        return [*checks, Check("configuration", "fail", str(error), "correct it there")]
    checks += [_configuration(settings), _app(settings), _home(settings), _disk(settings), _service(settings)]
    if settings.delivery == "celery":
        checks.append(_broker(settings))
    return [*checks, *gemini_checks(settings), *await _store(settings)]


def _python() -> Check:
    found = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return Check("python", "fail", f"{found} is too old", "install Python 3.11 or newer")
    return Check("python", "ok", f"{found} on {platform.system()} {platform.machine()}")


def _packages() -> Check:
    from penstock import __version__

    versions = [f"penstock {__version__}"]
    for name in (*PACKAGES, "asyncpg"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            if name != "asyncpg":
                return Check("packages", "fail", f"{name} is not installed", f"pip install {name}")
            versions.append("no asyncpg (PostgreSQL needs it)")
    return Check("packages", "ok", ", ".join(versions))


def _sqlite() -> Check:
    found = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Check("sqlite", "fail", f"{found} is too old", "use a Python with SQLite 3.35 or newer")
    return Check("sqlite", "ok", found)


def _time_zones() -> Check:
    try:
        zoneinfo.ZoneInfo("Europe/Berlin")
    except zoneinfo.ZoneInfoNotFoundError:
        return Check("time zones", "fail", "there is no time zone database", "pip install tzdata")
    return Check("time zones", "ok", f"known; local time is {time.strftime('%Z (UTC%z)')}")


def _configuration(settings: Settings) -> Check:
    sources = sorted({source for key in type(settings).model_fields if (source := settings.source(key))})
    return Check("configuration", "ok", f"from {', '.join(sources)}" if sources else "all defaults")


def _app(settings: Settings) -> Check:
    if settings.app is None:
        known = ", ".join(sorted(sessions.load_app(settings).workflows))
        own = f"for workflows of your own {sessions.HOW_TO_NAME_IT}"
        return Check("app", "ok", f"none is named, and Penstock's own pipelines need none ({known}); {own}")
    try:
        app = sessions.load_app(settings)
    except PenstockError as error:
        return Check("app", "fail", str(error), "correct the name or the module")
    return Check("app", "ok", f"{settings.app}, workflows: {', '.join(sorted(app.workflows)) or 'none'}")


def _home(settings: Settings) -> Check:
    home = settings.home.absolute()
    folder = _nearest(home)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        mend = f"make {folder} writable for this user, or set another home (--home, PENSTOCK_HOME)"
        return Check("home", "fail", f"{folder} cannot be written: {reason}", mend)
    return Check("home", "ok", str(home) if folder == home else f"{home} is made when it is needed")


def _nearest(path: Path) -> Path:
    """The path itself, or the nearest one above it that is there (and may be a file, which is wrong)."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _disk(settings: Settings) -> Check:
    try:
        usage = shutil.disk_usage(_nearest(settings.home.absolute()))
    except OSError as error:
        return Check("disk", "fail", str(error), "see the home above")
    detail = f"{_size(usage.free)} free of {_size(usage.total)}"
    if usage.free < TOO_LITTLE_SPACE:
        return Check("disk", "fail", detail, "free some space: a full disk stops all work (and loses none)")
    if usage.free < LITTLE_SPACE:
        return Check("disk", "warn", detail, "free some space before it runs out")
    return Check("disk", "ok", detail)


def _service(settings: Settings) -> Check:
    host, port = settings.service.host, settings.service.port
    url = url_of(host, port)
    if port == 0:
        return Check("service", "ok", "takes any port that is free, so it is not looked for")
    reasons = readiness(host, port)
    if reasons:
        return Check("service", "warn", f"{url} is not ready: {'; '.join(reasons)}", "see its log")
    if reasons is not None:
        return Check("service", "ok", f"{url} is ready")
    if is_taken(host, port):
        mend = "stop that program, or set another port (`service.port`, PENSTOCK_SERVICE__PORT)"
        return Check("service", "warn", f"another program listens on {host}:{port}", mend)
    return Check("service", "ok", f"not running; `penstock up` would serve {url}")


def _broker(settings: Settings) -> Check:
    try:
        url = checked_broker(settings.celery.broker_url)
    except PenstockError as error:
        return Check("broker", "fail", str(error), "see what the message says")
    from penstock.delivery.celery.application import make_celery
    from penstock.delivery.celery.hints import connect

    try:
        connect(make_celery(settings.celery)).release()
    except Exception as error:
        mend = "start it, or set celery.broker_url to where it is; until then workers wait, and submits are kept"
        return Check("broker", "fail", f"{without_password(url)} does not answer: {error}", mend)
    return Check("broker", "ok", f"{without_password(url)} answers")


async def _store(settings: Settings) -> list[Check]:
    url, head = settings.store, migrations.HEAD
    try:
        state = await schema_state(url)
        if not state.exists:
            return [Check("store", "ok", f"{url} is made when the first job is submitted")]
        if state.revision is not None and state.revision not in migrations.REVISIONS:
            migrations.check(state.revision, url)
        if state.revision is None:
            return [Check("store", "ok", f"{url} is empty; its tables are made when it is first used")]
        if not state.current:
            told = f"{url} has schema {state.revision}, this Penstock needs {head}"
            return [Check("store", "warn", told, "run `penstock migrate`")]
        plain = settings.model_copy(update={"limits": None})
        app = await Penstock(store=url).open(settings=plain)
    except PenstockError as error:
        return [Check("store", "fail", str(error), "see what the message says; --store names another")]
    try:
        checks = [Check("store", "ok", f"{url}, schema {head}"), await _clock(app)]
        checks += await _work(app, settings)
    except PenstockError as error:
        checks = [Check("store", "fail", str(error), "see what the message says")]
    finally:
        await app.close()
    path = sessions.sqlite_path(url)
    return checks if path is None else [*checks, _wal(path), _file_system(path)]


async def _clock(app: Penstock) -> Check:
    before = time.time()
    ahead = await app.engine.store.now() - (before + time.time()) / 2
    detail = f"the store's clock and this machine's differ by {abs(ahead):.2f} s"
    if abs(ahead) > 5:
        return Check("clock", "warn", detail, "set both machines' clocks by NTP; leases go by the store's")
    return Check("clock", "ok", detail)


async def _work(app: Penstock, settings: Settings) -> list[Check]:
    found_jobs = await app.counts()
    workers, dead = await sessions.alive(app), await sessions.gone(app)
    # A running service carries its notices itself: they need no worker.
    carried = {WEBHOOK_WORKFLOW} if await sessions.alive(app, WEBHOOK_WORKFLOW) else set()
    at_hand = sum(n for (name, status), n in found_jobs.items() if status in AT_HAND and name not in carried)
    checks = []
    died = sum(not is_internal(worker) for worker in dead)
    found = f"{len(workers) or 'none'} alive" + (f", {died} dead" if died else "")
    found += f", {counted(at_hand, 'unfinished job')}"
    unfinished = len(await app.calls(state=sorted(LIVE - {"quarantined"}), limit=MOST_COUNTED))
    if unfinished:
        found += f", {_at_most(unfinished, 'unfinished call')}"
    if workers or not (at_hand or unfinished):
        checks.append(Check("workers", "ok", found))
    else:
        checks.append(Check("workers", "warn", found, f"start one: `{sessions.how_to_start(settings)}`"))
    held = sum(worker.holds for worker in dead)
    if held:
        holders = counted(sum(worker.holds > 0 for worker in dead), "dead worker")
        mend = "the next worker takes them over by itself"
        checks.append(Check("stuck jobs", "warn", f"{held} held by {holders}", mend))
    else:
        checks.append(Check("stuck jobs", "ok", "none"))
    doubted = len(await app.calls(state=["quarantined"], limit=MOST_COUNTED))
    wrong, mends = [], []
    if doubted:
        wrong.append(f"{_at_most(doubted, 'call')} in quarantine")
        mends.append("see `penstock calls list --state quarantined`, then decide")
    if unfinished and not workers:
        them = "it" if unfinished == 1 else "them"
        wrong.append(f"{_at_most(unfinished, 'unfinished call')} and nobody looks after {them}")
        mends.append(f"start a worker: `{sessions.how_to_start(settings)}`")
    if wrong:
        checks.append(Check("remote calls", "warn", "; ".join(wrong), "; ".join(mends)))
    else:
        checks.append(Check("remote calls", "ok", "none in quarantine"))
    paused = sum(n for (_, status), n in found_jobs.items() if status == "paused")
    failed = len(await app.jobs(dead=True, limit=MOST_COUNTED))
    not_retried = f"{failed}{' or more' if failed == MOST_COUNTED else ''} that nobody has retried"
    amounts = (("paused", paused, str(paused), "resume"), ("failed", failed, not_retried, "retry"))
    for name, count, told, mend in amounts:
        how = f"see `penstock jobs list --status {name}`, then `penstock jobs {mend} ID`"
        checks.append(Check(f"{name} jobs", "warn", told, how) if count else Check(f"{name} jobs", "ok", "none"))
    return checks


def _at_most(amount: int, noun: str) -> str:
    return f"{amount} or more {noun}s" if amount == MOST_COUNTED else counted(amount, noun)


def _wal(path: Path) -> Check:
    wal = path.with_name(f"{path.name}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > LARGE_WAL:
        mend = "a reader that never ends keeps it from shrinking: end old processes, or restart the workers"
        return Check("write-ahead log", "warn", _size(size), mend)
    return Check("write-ahead log", "ok", _size(size))


def _file_system(path: Path) -> Check:
    """SQLite's write-ahead log needs memory that all processes share, which file systems over a network do not give."""
    kind = _mounted(path.absolute())
    if kind in SHARED_FILE_SYSTEMS:
        mend = "keep the file on a local disk, or use PostgreSQL"
        return Check("file system", "warn", f"{kind}: a SQLite file may break there with several machines", mend)
    return Check("file system", "ok", kind or "unknown")


def _mounted(path: Path) -> str | None:
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return None
    found, kind = "", None
    for line in mounts.read_text(errors="replace").splitlines():
        _, point, name, *_ = line.split(" ")
        if path.is_relative_to(point) and len(point) >= len(found):
            found, kind = point, name
    return kind


def _size(amount: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if amount < 1024 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError
