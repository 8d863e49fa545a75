"""Templates that cannot do harm: text with values put in, `if`, `for`, `set` and a few filters.

Jinja's sandbox keeps a template from our objects, but not from our time and memory: a loop in a loop, or a string
doubled thirty times, is enough. So what could grow without bound is refused when the template is read, and what
loops and filters do is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, nodes, pass_context
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from penstock.engine.errors import InvalidConfiguration

LONGEST = 200_000
"""Characters of a rendered prompt, and of any value on the way."""

MOST_ROUNDS = 100_000
"""Rounds of all loops of one rendering together."""

MOST_WORK = 20_000_000
"""Characters that all filters of one rendering look at together."""

FILTERS = frozenset(
    ("capitalize", "count", "d", "default", "first", "int", "join", "last", "length", "list", "lower", "replace",
     "reverse", "sort", "string", "title", "tojson", "trim", "truncate", "unique", "upper", "wordcount")
)  # fmt: skip

_REFUSED: tuple[tuple[type[nodes.Node] | tuple[type[nodes.Node], ...], str], ...] = (
    ((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends), "other templates cannot be used"),
    ((nodes.Macro, nodes.CallBlock, nodes.Block), "macros, calls and blocks cannot be used"),
    ((nodes.AssignBlock, nodes.FilterBlock), "a block of text cannot be kept or filtered as a whole"),
    (nodes.Call, "nothing can be called; values are changed with filters, such as {{ page.state | upper }}"),
    ((nodes.Mul, nodes.Pow, nodes.Mod), "*, ** and % cannot be used"),
)

# Spelled so that no template can name them.
_SPENT, _COUNTED, _BOUNDED, _JOINED = "spent ", "counted ", "bounded ", "joined "


class TooMuch(TemplateError):
    """The template would make or do more than it may."""


class PromptTemplate:
    """A template that was found harmless. `name` is what messages call it."""

    def __init__(self, source: str, name: str) -> None:
        self._name = name
        try:
            self._template = _compiled(source)
        except TemplateSyntaxError as error:
            raise InvalidConfiguration(f"{name}:{error.lineno}: {error.message}") from error
        except (TemplateError, SyntaxError, RecursionError, MemoryError, ValueError) as error:
            raise InvalidConfiguration(f"{name} is no template that can be used: {error}") from error

    def render(self, values: Mapping[str, Any]) -> str:
        parts: list[str] = []
        length = 0
        try:
            for part in self._template.generate({**values, _SPENT: [0, 0]}):
                length += len(part)
                if length > LONGEST:
                    raise TooMuch(f"the prompt becomes longer than {LONGEST} characters")
                parts.append(part)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            there = ", ".join(values)
            raise InvalidConfiguration(f"{self._name} cannot be filled in: {error} (it is given {there})") from error
        return "".join(parts).strip()


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+",))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _bounded(context, super().call_binop(context, operator, left, right))


def _compiled(source: str) -> Template:
    environment = _Environment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, finalize=_printed
    )
    environment.globals.clear()
    for name in [name for name in environment.filters if name not in FILTERS]:
        del environment.filters[name]
    ours = {"join": _joined, "replace": _replaced, "tojson": _as_json}
    environment.filters |= ours | {_COUNTED: _counted, _BOUNDED: _bounded, _JOINED: _joined}
    tree = environment.parse(source)
    for kinds, reason in _REFUSED:
        for node in tree.find_all(kinds):
            raise TemplateSyntaxError(reason, node.lineno)
    _watch(tree)
    return environment.from_string(tree)


def _watch(tree: nodes.Template) -> None:
    """Let every loop, filter and variable be counted. `a ~ b` makes no value that a filter would see, so it becomes
    one."""
    for filtered in list(tree.find_all(nodes.Filter)):
        if filtered.node is not None:
            filtered.node = _through(_BOUNDED, filtered.node)
    for concat in list(tree.find_all(nodes.Concat)):
        concat.nodes = [_through(_JOINED, nodes.List(concat.nodes, lineno=concat.lineno))]
    for loop in list(tree.find_all(nodes.For)):
        if loop.recursive:
            raise TemplateSyntaxError("a loop cannot be recursive", loop.lineno)
        loop.iter = _through(_COUNTED, loop.iter)
    for kept in list(tree.find_all(nodes.Assign)):
        kept.node = _through(_BOUNDED, kept.node)
    for scope in list(tree.find_all(nodes.With)):
        scope.values = [_through(_BOUNDED, value) for value in scope.values]


def _through(name: str, value: nodes.Node) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)


@pass_context
def _counted(context: Context, values: Iterable[Any]) -> Iterator[Any]:
    spent = context[_SPENT]
    for value in values:
        spent[0] += 1
        if spent[0] > MOST_ROUNDS:
            raise TooMuch(f"its loops go round more than {MOST_ROUNDS} times")
        yield value


@pass_context
def _bounded(context: Context, value: Any) -> Any:
    size = _size(value)
    spent = context[_SPENT]
    spent[1] += size
    if size > LONGEST:
        raise TooMuch(f"a value becomes longer than {LONGEST} characters")
    if spent[1] > MOST_WORK:
        raise TooMuch("its loops and filters do more than a template may")
    return value


def _size(value: Any, enough: int = LONGEST) -> int:
    """How long it is when written, counted no further than needed: a list that holds another many times, and that one
    a third, is small in memory and endless on paper."""
    if isinstance(value, str):
        return len(value)
    size = 1
    if isinstance(value, list | tuple | dict):
        for item in value.items() if isinstance(value, dict) else value:
            size += _size(item, enough - size) + 1
            if size > enough:
                break
    return size


def _printed(value: Any) -> Any:
    if _size(value) > LONGEST:
        raise TooMuch(f"a value becomes longer than {LONGEST} characters")
    return value


def _joined(values: Iterable[Any], separator: str = "") -> str:
    parts: list[str] = []
    length = 0
    for value in values:
        if isinstance(value, Undefined):
            str(value)  # raises, as a value that is not there does everywhere
        parts.append(str(_printed(value)))
        length += len(parts[-1]) + len(separator)
        if length > LONGEST:
            raise TooMuch(f"what is joined becomes longer than {LONGEST} characters")
    return separator.join(parts)


def _replaced(value: Any, old: str, new: str) -> str:
    text = str(value)
    if not (isinstance(old, str) and isinstance(new, str)):
        raise TooMuch("replace takes two texts")
    if len(text) + text.count(old) * len(new) > LONGEST:
        raise TooMuch(f"what is replaced becomes longer than {LONGEST} characters")
    return text.replace(old, new)


def _as_json(value: Any) -> str:
    """JSON as it is, without the escapes that HTML needs."""
    if isinstance(value, Undefined):
        str(value)
    return json.dumps(value, ensure_ascii=False)
