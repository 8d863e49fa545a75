"""The pipelines that come with Penstock, and the remotes that every Penstock has, made from the configuration when they
are first asked for: Gemini (Google's, or Penstock's own where no key is set), a server that speaks OpenAI's protocol,
and a pool of processes; and those that other packages bring."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from penstock.engine.clock import Clock, SystemClock
from penstock.engine.errors import InvalidConfiguration
from penstock.engine.workflow import Workflow
from penstock.remote.desk import Factory
from penstock.remote.gemini.settings import GOOGLE
from penstock.remote.protocol import Remote

if TYPE_CHECKING:
    from penstock.config import Settings
    from penstock.remote.gemini.client import GeminiClient
    from penstock.remote.gemini.settings import GeminiSettings

log = logging.getLogger("penstock.remote")

LOCAL_PACE = {"create_timeout": 10.0, "listing_margin": 2.0, "poll_every": 0.2, "poll_at_most": 5.0}
"""Seconds that suit a Gemini on this machine, where the configuration says nothing else."""

Factories = dict[str, Factory]


def builtin_remotes(settings: Settings, clock: Clock | None = None) -> Factories:
    """Name → how to make it. Nothing is imported, started or asked for until then."""
    time = clock or SystemClock()
    client = cache(lambda: gemini_client(settings, time))
    where = gemini_place(settings)

    def batch() -> Remote:
        from penstock.remote.gemini.batch import GeminiBatch

        return GeminiBatch(client(), identity=where)

    def generate() -> Remote:
        from penstock.remote.gemini.single import GeminiGenerate

        return GeminiGenerate(client(), identity=where)

    def embed() -> Remote:
        from penstock.remote.gemini.single import GeminiEmbed

        return GeminiEmbed(client(), identity=where)

    def cached() -> Remote:
        from penstock.remote.gemini.caching import GeminiCache

        return GeminiCache(client(), identity=where)

    def openai() -> Remote:
        from penstock.remote.openai.embed import OpenAIEmbed
        from penstock.remote.prices import load_prices

        return OpenAIEmbed(settings.openai, clock=time, prices=load_prices(settings.gemini.prices))

    def pool() -> Remote:
        from penstock.remote.pool import PoolRemote, ProcessPool

        return PoolRemote(ProcessPool(settings.pool.workers))

    return {
        **_from_packages(settings),
        "gemini.batch": Factory(batch, where, keeps_files=True),
        "gemini.generate": Factory(generate, where),
        "gemini.embed": Factory(embed, where, keeps_files=True),
        "gemini.cache": Factory(cached, where),
        "openai.embed": Factory(openai, settings.openai.base_url, keeps_files=True),
        "pool": Factory(pool, keeps_files=True),
    }


BUILT_IN_WORKFLOWS: tuple[str, ...] = (
    "penstock.pipelines.pages.workflow:pages",
    "penstock.pipelines.documents.workflow:documents",
    "penstock.pipelines.documents.workflow:export",
    "penstock.pipelines.documents.workflow:many",
    "penstock.pipelines.documents.watching:watch",
    "penstock.pipelines.documents.watching:snapshot",
    "penstock.pipelines.ingestion.workflow:ingestion",
    "penstock.pipelines.ingestion.workflow:purge",
    "penstock.pipelines.ingestion.workflow:forget",
    "penstock.pipelines.ingestion.workflow:repair",
    "penstock.pipelines.ingestion.workflow:refresh",
    "penstock.pipelines.ingestion.workflow:optimize",
)
"""The pipelines that come with Penstock, as `module:name`."""


def installed_workflows() -> tuple[Workflow, ...]:
    """The workflows of the pipelines that come with Penstock, and of those that other packages bring: entry points of
    the group `penstock.pipelines`, each a `Workflow`."""
    own = [EntryPoint(name=spec, value=spec, group="penstock.pipelines") for spec in BUILT_IN_WORKFLOWS]
    found = []
    for point in (*own, *entry_points(group="penstock.pipelines")):
        try:
            workflow = point.load()
        except Exception as error:
            raise InvalidConfiguration(f"pipeline {point.name!r} ({point.value}) cannot be loaded: {error}") from error
        if not isinstance(workflow, Workflow):
            raise InvalidConfiguration(f"pipeline {point.name!r} ({point.value}) is no Workflow")
        found.append(workflow)
    return tuple(found)


def gemini_place(settings: Settings) -> str:
    """Which Gemini it is: our own must not answer for Google's. (Each home has its own, and calls know their home.)"""
    gemini = settings.gemini
    if uses_own_gemini(settings):
        return "own"
    return f"vertex:{gemini.vertex_project}/{gemini.vertex_location}" if gemini.vertex else gemini.base_url


def uses_own_gemini(settings: Settings) -> bool:
    """Whether Gemini is Penstock's own: told so, or no key and no other address is set."""
    wish, gemini = settings.local_gemini.use, settings.gemini
    if wish == "auto":
        return gemini.api_key is None and not gemini.vertex and gemini.base_url == GOOGLE
    return wish == "always"


def gemini_client(settings: Settings, clock: Clock) -> GeminiClient:
    from penstock.remote.gemini.client import GeminiClient

    if not uses_own_gemini(settings):
        near = settings.gemini.on_loopback
        return GeminiClient(_at_our_pace(settings) if near else settings.gemini, clock=clock)
    from penstock.gemini_local.launch import ensure_running
    from penstock.gemini_local.transport import PLACEHOLDER, OwnGemini

    local = settings.local_gemini

    def find() -> str:
        return ensure_running(settings.home, backend=local.backend, idle_stop=local.idle).base_url

    own = _at_our_pace(settings).model_copy(update={"base_url": PLACEHOLDER, "api_key": None})
    return GeminiClient(own, clock=clock, transport=OwnGemini(find))


def _at_our_pace(settings: Settings) -> GeminiSettings:
    unsaid = {key: value for key, value in LOCAL_PACE.items() if settings.source(f"gemini.{key}") is None}
    return settings.gemini.model_copy(update=unsaid)


def _from_packages(settings: Settings) -> Factories:
    """Entry points of the group `penstock.remotes`: each names a function that is given the settings."""
    return {point.name: _factory(point, settings) for point in entry_points(group="penstock.remotes")}


def _factory(point: EntryPoint, settings: Settings) -> Factory:
    def make() -> Remote:
        try:
            remote: Remote = point.load()(settings)
        except Exception as error:
            raise InvalidConfiguration(f"remote {point.name!r} ({point.value}) cannot be made: {error}") from error
        return remote

    return Factory(make, identity=None)
