"""From a question as people write it to the words and phrases that full text is asked for.

Nothing of a question is ever syntax: operators, quotes without a partner and whole pasted pages are words like any
other, or nothing. What stands in quotes is looked for as a phrase too. Words that are in every text are left out, by
the language that most of them belong to: `die` and `war` are such words in German only.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from penstock.pipelines.ingestion.index.common_words import LANGUAGES

LONGEST = 10_000
"""Characters of a question that are looked at: what comes after them in a pasted page adds nothing but time."""

MOST_TERMS = 64
MOST_PHRASES = 8
_LONGEST_WORD = 100

_QUOTED = re.compile(r'"([^"]*)"|“([^”„“]*)”|„([^“”]*)[“”]|«([^»]*)»')
_FEW = 2


@dataclass(slots=True, frozen=True)
class Asked:
    """What full text is asked for: any of these words, and the better the more of the phrases as they stand."""

    words: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words or self.phrases)


def asked(question: str) -> Asked:
    """The words and phrases of a question; neither, where it has none that mean anything."""
    text = unicodedata.normalize("NFC", question[:LONGEST].encode("utf-8", "replace").decode())
    quoted = [next(filter(None, match.groups()), "") for match in _QUOTED.finditer(text)]
    phrases = dict.fromkeys(phrase for each in quoted if len(phrase := tuple(_folded(words_of(each)))) > 1)
    return Asked(tuple(_meaning(words_of(text)))[:MOST_TERMS], tuple(phrases)[:MOST_PHRASES])


def words_of(text: str) -> list[str]:
    """Runs of letters, digits and the marks that belong to them, as they are written."""
    spaced = "".join(char if _in_word(char) else " " for char in text)
    return [word for word in spaced.split() if len(word) <= _LONGEST_WORD]


def _in_word(char: str) -> bool:
    return char.isalnum() or (char > "\x7f" and unicodedata.category(char)[0] == "M")


def _folded(words: list[str]) -> list[str]:
    return [word.lower() for word in words]


def _meaning(words: list[str]) -> list[str]:
    """Without the words of the question's language that every text has. One or two words alone are meant as they are
    written; a longer question of nothing else asks for nothing. Capitals (IT, vitamin D) are names, not such words."""
    folded = _folded(words)
    common = max(LANGUAGES, key=lambda language: sum(word in language for word in folded))
    shouted = all(word.isupper() or word.isdigit() for word in words)
    kept = [
        word.lower()
        for word in words
        if word.lower() not in common or (not shouted and word.isupper() and word not in ("A", "I"))
    ]
    if not kept and len(words) <= _FEW:
        kept = folded
    return list(dict.fromkeys(kept))


def fts5(what: Asked) -> str:
    """As an FTS5 expression. Every word and phrase is quoted, so that none is an operator; there are no quotes in
    them."""
    terms = [*((word,) for word in what.words), *what.phrases]
    return " OR ".join(f'"{" ".join(term)}"' for term in terms)


def plain(text: str) -> str:
    """A text for PostgreSQL's parser: lower case, without accents, and nothing but words, so that none is taken for an
    address, a file's name or a negative number. As SQLite's full text sees it."""
    if text.isascii():
        return _NOT_ASCII_WORD.sub(" ", text.lower())
    apart = unicodedata.normalize("NFKD", text.encode("utf-8", "replace").decode())
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFC", _ACCENTS.sub("", apart)).lower())


_ACCENTS = re.compile("[\u0300-\u036f]+")
_NOT_WORD = re.compile(r"[\W_]+")
_NOT_ASCII_WORD = re.compile(r"[^a-z0-9]+")
