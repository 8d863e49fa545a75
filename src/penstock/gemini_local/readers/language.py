"""Which of the languages we read a text is in, by its commonest words."""

from __future__ import annotations

import re
from collections import Counter

COMMON = {
    "en": "the of and to in that is was for with as his it be by are this not from which or have",
    "de": "der die und das den von zu ist mit des nicht ein eine auf für im dem sich als auch es an",
}

_word = re.compile(r"[^\W\d_]+")


def language(text: str) -> str:
    """`en`, `de`, or `und` (undetermined) where the text does not say."""
    words = Counter(_word.findall(text[:50_000].lower()))
    found = sorted(
        ((sum(words[word] for word in common.split()), name) for name, common in COMMON.items()), reverse=True
    )
    (most, name), (next_most, _) = found[0], found[1]
    return name if most >= 3 and most >= 2 * next_most else "und"
