"""The models the local Gemini says it has. What answers is the backend, whatever the name."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.gemini_local.errors import not_found
from penstock.gemini_local.wire import Json

GENERATING = ("generateContent", "countTokens", "createCachedContent", "batchGenerateContent")
EMBEDDING = ("embedContent", "countTextTokens", "countTokens", "asyncBatchEmbedContent")


@dataclass(slots=True, frozen=True)
class Model:
    id: str
    title: str
    embeds: bool = False
    input_limit: int = 1_048_576
    output_limit: int = 65_536
    thinks: bool = True

    def view(self) -> Json:
        view: Json = {
            "name": f"models/{self.id}",
            "version": "001",
            "displayName": self.title,
            "description": f"{self.title}, answered on this machine",
            "inputTokenLimit": self.input_limit,
            "outputTokenLimit": self.output_limit,
            "supportedGenerationMethods": list(EMBEDDING if self.embeds else GENERATING),
        }
        if not self.embeds:
            view |= {"temperature": 1, "topP": 0.95, "topK": 64, "maxTemperature": 2, "thinking": self.thinks}
        return view


MODELS = {
    model.id: model
    for model in (
        Model("gemini-2.5-flash", "Gemini 2.5 Flash"),
        Model("gemini-2.5-flash-lite", "Gemini 2.5 Flash-Lite"),
        Model("gemini-2.5-pro", "Gemini 2.5 Pro"),
        Model("gemini-3-flash-preview", "Gemini 3 Flash Preview"),
        Model("gemini-3.1-flash-lite", "Gemini 3.1 Flash-Lite"),
        Model("gemini-3.1-pro-preview", "Gemini 3.1 Pro Preview"),
        Model("gemini-3.5-flash", "Gemini 3.5 Flash"),
        Model("gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite"),
        Model("gemini-3.6-flash", "Gemini 3.6 Flash"),
        Model("gemini-3.7-flash", "Gemini 3.7 Flash"),
        Model("gemini-3.8-flash", "Gemini 3.8 Flash"),
        Model("gemini-4-argon", "Gemini 4 Argon"),
        Model("gemini-embedding-001", "Gemini Embedding 001", embeds=True, input_limit=2048, output_limit=1),
        Model("gemini-embedding-2", "Gemini Embedding 2", embeds=True, input_limit=8192, output_limit=1),
    )
}


def find_model(name: str, *, any_model: bool, version: str = "v1beta") -> Model:
    """The model behind `models/…`. With `any_model` every name is one, and those with "embed" in them embed."""
    id = name.removeprefix("models/")
    if (model := MODELS.get(id)) is not None:
        return model
    if any_model:
        return Model(id, id, embeds="embed" in id)
    raise not_found(
        f"models/{id[:100]} is not found for API version {version}, or is not supported for this method. Call "
        "ListModels to see the list of available models and their supported methods. (The local Gemini knows "
        f"{', '.join(MODELS)}; `penstock gemini serve --any-model` lets any name pass.)"
    )
