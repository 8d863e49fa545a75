"""The one error of files that cannot be read, whatever they are."""

from __future__ import annotations

from penstock.engine.errors import Permanent


class Unreadable(Permanent):
    """The file is damaged, locked, too large, or not of a kind that is read here. The message is for its owner."""
