"""Courses by rules: which heading names a department, a class or a term, and how an entry below it is taken apart. What
the rules cannot tell stays empty."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from penstock.pipelines.pages.prompts.catalogue import Course

Kind = Literal["department", "level", "term"]

_WHICH = r"first|second|third|fourth|fifth|1st|2d|2nd|3d|3rd|4th"
_TERM = re.compile(
    rf"\b(?:{_WHICH}|fall|autumn|winter|spring|summer)\s+(?:term|session|semester|quarter|half[- ]year)\b", re.I
)
_LEVEL = re.compile(
    r"\b(?:sub-?freshman|freshman|sophomore|junior|senior|preparatory|middle)\s+(?:class|year|department|course)\b"
    rf"|\b(?:{_WHICH})\s+(?:year|class)\b",
    re.I,
)
_DEPARTMENT = re.compile(r"^(?:department|school|chair|division|college)\s+of\b|\bdepartment$", re.I)
_STUDIES = re.compile(r"\b(?:courses?|plan|branches)\s+of\s+(?:study|studies|instruction)\b|\bcourses?$", re.I)
_PERSON = re.compile(r"^(?:prof|professor|dr|rev|mr|mrs|miss|president|instructor|tutor|lecturer)\b", re.I)
_HOURS = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|\d{1,2})\s+"
    r"(?:hours?|recitations?|lectures?|exercises?|lessons?)(?:\s+(?:a|per|each|every)\s+(?:week|day|term)|\s+weekly)?\b",
    re.I,
)
_BOOKS = re.compile(r"(?i:\btext-?\s?books?)\s?[,:.\u2014]\s?((?:[^.]|\.(?=\s?[a-z,;]))+)")
_NUMBERED = re.compile(r"(?:Course\s+)?(\d{1,3}|[IVX]{1,5}|[A-Z])[.)]{1,2}\s+(\S.*)", re.S)
_NAME_END = re.compile(r"\s*(?:[.:,]?\s?[\u2014\u2013]|\.(?=\s|$)|:(?=\s))\s*")

_LONGEST_NAME = 90
_MOST_WORDS = 10


@dataclass
class Standing:
    """The headings that hold now, the outermost first: one of a kind ends those that stand within it."""

    held: list[tuple[Kind, str]] = field(default_factory=list)
    studies: bool = False
    """Whether what stands here is taught."""

    def of(self, kind: Kind) -> str | None:
        return next((text for held, text in self.held if held == kind), None)

    def hold(self, kind: Kind, text: str) -> None:
        kinds = [held for held, _ in self.held]
        if kind in kinds:
            del self.held[kinds.index(kind) :]
        elif kind == "level" and "term" in kinds:
            del self.held[kinds.index("term") :]
        self.held.append((kind, text))
        self.studies = True

    def heading(self, text: str) -> None:
        """Follow a heading. One that says nothing about studies ends what held before it."""
        found = heading_kinds(text)
        for kind, words in found:
            self.hold(kind, words)
        if found or _PERSON.match(text) or not any(letter.isalpha() for letter in text):
            return
        self.held.clear()
        self.studies = bool(_STUDIES.search(_bare(text)))


def heading_kinds(text: str) -> list[tuple[Kind, str]]:
    """What a heading names, as printed: `JUNIOR CLASS. First Term.` is two."""
    found: list[tuple[Kind, str]] = []
    for part in re.split(r"(?<=[A-Za-z])[.,:;\u2014]+\s*", text):
        words = _bare(part)
        if not words or len(words) > _LONGEST_NAME:
            continue
        if _TERM.search(words):
            found.append(("term", words))
        elif _LEVEL.search(words):
            found.append(("level", words))
        elif _DEPARTMENT.search(words):
            found.append(("department", words))
    return found


def only_a_heading(entry: str) -> bool:
    """Whether an entry of a list is nothing but the name of a department, class or term."""
    parts = [words for part in re.split(r"[.,:;\u2014]+\s*", entry) if (words := _bare(part))]
    return bool(parts) and all(
        _TERM.fullmatch(part) or _LEVEL.fullmatch(part) or _DEPARTMENT.search(part) for part in parts
    )


def listed(entry: str, standing: Standing) -> list[Course]:
    """The courses of an entry in a list: `Rhetoric—Pell's Elements.`, `Rhetoric (Pell), two hours a week.`, or several
    names in one line."""
    if not (standing.of("level") or standing.of("term") or (standing.of("department") and standing.studies)):
        return []
    text, hours = _without_hours(entry)
    books: list[str] = []
    if named := re.match(r"([^()]+)\(([^()]+)\)?(.*)$", text, re.S):
        text, books = f"{named[1].strip()} {named[3].strip(' .,;')}".strip(), _several_books(named[2])
    else:
        parts = re.split(r"\s*[.,:]?\s?[\u2014\u2013]\s?|:\s+", text, maxsplit=1)
        if len(parts) == 2:
            text, books = parts[0], _several_books(parts[1])
    names = [text] if books or hours else _several_names(text)
    return [
        _course(name, None, standing, hours=hours, textbooks=books)
        for name in map(_bare, names)
        if _looks_like_a_name(name)
    ]


def described(paragraph: str, standing: Standing) -> Course | None:
    """The course of a numbered paragraph: `3. Optics.—Lectures upon light. Two hours a week.`"""
    numbered = _NUMBERED.match(paragraph)
    if not numbered or not (standing.held or standing.studies):
        return None
    end = _NAME_END.search(numbered[2])
    name = _bare(numbered[2][: end.start()] if end else numbered[2])
    if not _looks_like_a_name(name) or not _is_title(name):
        return None
    said = numbered[2][end.end() :].strip() if end else ""
    books = [book for found in _BOOKS.finditer(said) for book in _several_books(found[1])]
    level, term, hours = (_only(pattern, said) for pattern in (_LEVEL, _TERM, _HOURS))
    return _course(name, numbered[1], standing, hours=hours, textbooks=books, said=said, level=level, term=term)


def _course(
    name: str,
    number: str | None,
    standing: Standing,
    *,
    hours: str | None,
    textbooks: list[str],
    said: str = "",
    level: str | None = None,
    term: str | None = None,
) -> Course:
    return Course(
        name=name,
        number=number,
        department=standing.of("department"),
        level=level or standing.of("level"),
        term=term or standing.of("term"),
        hours=hours,
        textbooks=textbooks,
        description=said or None,
    )


def _bare(text: str) -> str:
    return text.strip(" \t\n.,:;\u2014\u2013-*").lstrip("'\"\u2018\u201c")


def _only(pattern: re.Pattern[str], text: str) -> str | None:
    """What is said once; of two, neither is certain."""
    found = [match[0] for match in pattern.finditer(text)]
    return found[0] if len(found) == 1 else None


def _without_hours(entry: str) -> tuple[str, str | None]:
    found = list(_HOURS.finditer(entry))
    if len(found) != 1:
        return entry, None
    start, end = found[0].span()
    return f"{entry[:start].rstrip(' ,;(')}{entry[end:]}", found[0][0]


def _several_books(text: str) -> list[str]:
    return [book for part in text.split(";") if len(book := _bare(part)) > 1]


def _several_names(text: str) -> list[str]:
    """`Latin, Greek, and Algebra` is three; `History, ancient` is one."""
    parts = [re.sub(r"^and\s+", "", part) for part in re.split(r"\s*[,;]\s*", _bare(text))]
    return parts if all(part[:1].isupper() for part in parts) else [text]


def _looks_like_a_name(name: str) -> bool:
    letters = sum(letter.isalpha() for letter in name)
    return (
        letters >= 3
        and letters * 2 > len(name)
        and name[0].isupper()
        and len(name) <= _LONGEST_NAME
        and len(name.split()) <= _MOST_WORDS
    )


def _is_title(name: str) -> bool:
    """Whether the long words begin with capitals, as those of a title do and those of a sentence do not."""
    long = [word for word in name.split() if len(word) > 4]
    return not long or sum(word[0].isupper() for word in long) * 2 >= len(long) + 1
