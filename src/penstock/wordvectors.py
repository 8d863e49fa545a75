"""Vectors for texts, offline: the sum of the word vectors that come with wordllama, in no time.

The model's tokens never reach across the beginning of a word, so a text is cut into words first, and what a word
consists of is remembered: most of a text is looked up. The model's numbers are of half precision, so their sums in
double precision are exact: a text has the same vector on every machine, whatever is asked with it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAME = "wordllama-l2-supercat-256"
DIMENSIONS = 256

LONGEST = 1_000_000
"""Characters of one text; more than a long novel makes no meaningful mean. Those who embed refuse what is longer."""

_MOST_WORDS = 65_536
_LONGEST_WORD = 64
"""What is remembered: so many words, of at most so many characters. About 15 MB."""

_CHARACTERS_AT_ONCE = 10_000
"""Of a word; no real one is as long. What is longer is cut, or it would take hundreds of bytes a character."""

_TOKENS_AT_ONCE = 4096
"""Rows of the table that are taken out at once: 4 MB."""

_BLANK = "▁"
"""What the model has in place of a space. Before a text stands one more."""

_BLANKS = re.compile(" {2,}")
_ACROSS = re.compile(f"[^{_BLANK}]{_BLANK}|.\n|\n.", re.DOTALL)
_MARK = re.compile("(</?s>|<unk>)")
"""Tokens of their own, wherever they stand in a text."""

Totals = NDArray[np.float64]


class WordVectors:
    """Safe to use from several threads. Blocking."""

    def __init__(self, tokenizer: Any, table: NDArray[np.float32]) -> None:
        self._tokenizer = tokenizer
        self._words = tokenizer.model
        self.table = table
        self._known: dict[str, bytes] = {}
        self._cuts = not any(map(_ACROSS.search, tokenizer.get_vocab()))

    def totals(self, texts: Sequence[str]) -> Totals:
        """One row for each text: the sum of its tokens' vectors. An empty text has zeros."""
        rows = np.zeros((len(texts), self.table.shape[1]))
        for row, text in zip(rows, texts, strict=True):
            if text:
                self._add(self.tokens(text), row)
        return rows

    def _add(self, tokens: NDArray[np.uint16], row: Totals) -> None:
        """Each token's vector once, times how often it occurs: memory stays bounded however long the text is."""
        distinct, counts = np.unique(tokens, return_counts=True)
        weights = counts.astype(np.float64)
        for start in range(0, len(distinct), _TOKENS_AT_ONCE):
            some = slice(start, start + _TOKENS_AT_ONCE)
            row += np.einsum("i,ij->j", weights[some], self.table[distinct[some]], dtype=np.float64)

    def tokens(self, text: str) -> NDArray[np.uint16]:
        if not text.isascii():
            text = text.encode(errors="replace").decode()
        if not self._cuts:
            return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.uint16)
        words = _words(text) if _MARK.search(text) is None else _words_and_marks(text)
        found: list[bytes | None] = list(map(self._known.get, words))
        if None in found:
            found = [self._learned(word) if known is None else known for word, known in zip(words, found, strict=True)]
        return np.frombuffer(b"".join(found), dtype=np.uint16)  # type: ignore[arg-type]

    def _learned(self, word: str) -> bytes:
        known = self._known.get(word)
        if known is not None:
            return known
        tokens = np.array(self._spelled(word), dtype=np.uint16).tobytes()
        if len(word) <= _LONGEST_WORD:
            if len(self._known) >= _MOST_WORDS:
                self._known.clear()
            self._known[word] = tokens
        return tokens

    def _spelled(self, word: str) -> list[int]:
        if _MARK.fullmatch(word):
            return [self._tokenizer.token_to_id(word)]
        written = word if word.startswith("\n") else _BLANK + word
        pieces = (written[at : at + _CHARACTERS_AT_ONCE] for at in range(0, len(written), _CHARACTERS_AT_ONCE))
        return [token.id for piece in pieces for token in self._words.tokenize(piece)]


def _words(text: str) -> list[str]:
    """The text in pieces that no token reaches across: each begins with a blank, which is left out here, or with a line
    feed. Of several blanks in a row the others belong to the piece that they begin."""
    if _BLANK in text:
        text = text.replace(_BLANK, " ")
    if "  " in text or text.startswith(" "):
        text = _BLANKS.sub(_all_but_one, " " + text)[1:]
    return text.replace("\n", " \n").split(" ")


def _words_and_marks(text: str) -> list[str]:
    """What stands between two marks is a text of its own."""
    words: list[str] = []
    for part in _MARK.split(text):
        words += [part] if _MARK.fullmatch(part) else _words(part) if part else []
    return words


def _all_but_one(blanks: re.Match[str]) -> str:
    return " " + _BLANK * (len(blanks[0]) - 1)


def of_unit_length(totals: Totals, dimension: int = DIMENSIONS) -> Totals:
    """Cut to so many dimensions, and brought to unit length. Zeros stay zeros."""
    cut = totals[:, :dimension]
    lengths = np.sqrt(np.square(cut).sum(axis=1, keepdims=True))
    units: Totals = np.divide(cut, lengths, out=np.zeros_like(cut), where=lengths > 0)
    return units


_loading = threading.Lock()
_loaded: list[WordVectors] = []


def word_vectors() -> WordVectors:
    """The one of this process, loaded when it is first asked for: 32 MB, a third of a second. Blocking."""
    with _loading:
        if not _loaded:
            _loaded.append(_load())
        return _loaded[0]


def _load() -> WordVectors:
    """From the installed package's own files; nothing is downloaded. Importing wordllama sets up the root logger, which
    is not its to set up: that is undone."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    try:
        import wordllama  # type: ignore[import-untyped]
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return WordVectors(model.tokenizer, model.embedding)
