"""Every setting of the OpenAI remote, with its type, bounds and default. One flat group: `openai:` in the file,
`PENSTOCK_OPENAI__BASE_URL` in the environment."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator

from penstock.remote.address import checked_key, checked_url, on_loopback
from penstock.remote.gemini.settings import Seconds

OPENAI = "https://api.openai.com/v1"
KEY_VARIABLES = ("OPENAI_API_KEY",)
BASE_URL_VARIABLE = "OPENAI_BASE_URL"

MOST_TEXTS = 2048
"""Of one request, by OpenAI's own rule."""


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


class OpenAISettings(BaseModel):
    """`at_once` is the texts in one request; together they should be far below the 300,000 tokens that OpenAI takes."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    api_key: SecretStr | None = None
    base_url: str = OPENAI
    embedding_model: Annotated[str, Field(min_length=1)] = "text-embedding-3-small"
    timeout: Seconds = 60.0
    at_once: Annotated[int, Field(ge=1, le=MOST_TEXTS), BeforeValidator(_number)] = 64

    @field_validator("api_key")
    @classmethod
    def _fits_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        return checked_key(key)

    @field_validator("base_url")
    @classmethod
    def _sound_url(cls, url: str) -> str:
        return checked_url(url, setting="openai.api_key", example=f"{OPENAI} or http://127.0.0.1:11434/v1")

    @property
    def on_loopback(self) -> bool:
        return on_loopback(self.base_url)
