"""What makes vectors of texts. Each kind is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.pipelines.ingestion.plugins import Embedder, EmbedderFactory, from_packages

if TYPE_CHECKING:
    from penstock.config import Settings

EMBEDDERS = {
    "local": "penstock.pipelines.ingestion.embedders.local:local",
    "gemini": "penstock.pipelines.ingestion.embedders.gemini:gemini",
    "openai": "penstock.pipelines.ingestion.embedders.openai:openai",
}
"""Those that come with Penstock, as `module:factory`; others by entry points of the group `penstock.embedders`."""


def make_embedder(spec: EmbedderSpec, settings: Settings) -> Embedder:
    """Nothing is loaded or asked yet: its model and its dimension are known all the same. Questions are remembered by
    the embedder that answered them, so it is worth keeping. `InvalidRequest` where there is no such embedder, or it
    cannot do what the spec says."""
    factory: EmbedderFactory
    if spec.name in EMBEDDERS:
        module, name = EMBEDDERS[spec.name].split(":")
        factory = getattr(import_module(module), name)
    else:
        factory = from_packages("penstock.embedders", spec.name, list(EMBEDDERS))
    return factory(spec, settings)
