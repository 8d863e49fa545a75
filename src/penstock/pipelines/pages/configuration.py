"""The YAML file of a run, or the same as data, made into a `Run`.

All that is wrong is told at once, each with the line, the field and what is allowed:
`runs/al.yaml:12: execution.max_retries: must be 0 or more (is -1)`. The reader of `penstock.yaml` is another: it stops
at the first mistake, and puts files, variables and flags one over the other, which a run's file is not.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from penstock.engine.errors import InvalidConfiguration
from penstock.pipelines.pages.generation import wrong_settings
from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.prompts.registry import load_prompt
from penstock.pipelines.pages.yaml_lines import Place, Problem, read_lines

DEEPEST = 32
MOST_TOLD = 50
LONGEST_SHOWN = 80

_PATHS: tuple[Place, ...] = (
    ("paths", "label_source_dir"), ("paths", "image_source_dir"), ("paths", "output_dir"), ("prompt", "registry_dir"),
)  # fmt: skip

_GENERATION: Place = ("model", "generation_config")


def load_run(path: Path, *, environ: Mapping[str, str] | None = None) -> Run:
    """The run that a file describes, its folders and its prompt checked. `environ` says where `~` is."""
    data, lines, problems = read_lines(path)
    if data is not None:
        run, problems = _checked(data, path.parent, os.environ if environ is None else environ, problems)
        if run is not None and not problems:
            problems = _prompt(run)
        if run is not None and not problems:
            return run
    raise InvalidConfiguration(_together(_in_order(path, problems, lines)))


def run_from_data(data: Mapping[str, Any], *, base: Path) -> Run:
    """The run that a request's body describes; folders are relative to `base`."""
    if not isinstance(data, Mapping):
        raise InvalidConfiguration("must be an object with keys, of which `paths` must be there")
    run, problems = _checked(data, base, os.environ, [])
    if run is None or problems:
        raise InvalidConfiguration(_together([f"{_dotted(place)}: {message}" for place, message in problems]))
    return run


def example_configuration() -> str:
    """A file with every key, its default and what it is for."""
    return Path(__file__).with_name("example.yaml").read_text(encoding="utf-8")


def _checked(
    data: Mapping[str, Any], base: Path, environ: Mapping[str, str], known: list[Problem]
) -> tuple[Run | None, list[Problem]]:
    """The run, if it is one, and all that is wrong; of a place that is `known` to be wrong nothing more is told."""
    problems = [*known, *_strange(data)]
    plain = _without_empty_groups(data, Run)
    problems += _resolve(plain, base, environ)
    wrong = {place for place, _ in problems}
    settings = _generation(plain)
    more = _no_numbers(plain, Run) + _filters(plain) + settings
    run = None
    try:
        run = Run.model_validate(plain)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            place = tuple(str(part) for part in one["loc"])
            if settings and place == _GENERATION:
                # Told already, each at its own line.
                continue
            more.append((place, _message(place, one)))
    more += _folders(plain)
    return run, list(dict.fromkeys(problems + [problem for problem in more if problem[0] not in wrong]))


def _strange(value: Any, place: Place = ()) -> Iterator[Problem]:
    """What JSON cannot say, so that it would be lost or refused when the run is stored."""
    if len(place) > DEEPEST:
        yield place[:4], "is nested too deeply"
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(name, str):
                yield from _strange(item, (*place, name))
            else:
                yield (*place, str(name)), "must have a name that is text: put it in quotes"
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _strange(item, (*place, str(number)))
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, f"must be a finite number (is {value})"
    elif isinstance(value, str) and (not _is_text(value) or "\x00" in value):
        yield place, f"must be text of whole characters (is {_shown(value)})"
    elif not (value is None or isinstance(value, str | int | float)):
        yield place, f"must be text or a number: put it in quotes (is {_shown(value)})"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_empty_groups(data: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """A group whose keys are all commented out says nothing; and a copy, since folders are put in it."""
    kept = dict(data)
    for name, group in _groups(model).items():
        if name in kept and kept[name] is None:
            del kept[name]
        elif isinstance(kept.get(name), Mapping):
            kept[name] = _without_empty_groups(kept[name], group)
    return kept


def _groups(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    kinds = {name: field.annotation for name, field in model.model_fields.items()}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}


def _resolve(data: dict[str, Any], base: Path, environ: Mapping[str, str]) -> list[Problem]:
    problems: list[Problem] = []
    for group, name in _PATHS:
        held = data.get(group)
        told = held.get(name) if isinstance(held, dict) else None
        if not isinstance(held, dict) or not isinstance(told, str) or "\x00" in told:
            continue
        if not told.strip():
            problems.append(((group, name), "must name a folder (is empty)"))
            continue
        try:
            held[name] = (base / _expanded(told, environ)).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            problems.append(((group, name), f"is no folder that can be found: {error} (is {_shown(told)})"))
    return problems


def _expanded(told: str, environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    if home and (told == "~" or told.startswith("~/")):
        return Path(home, told[2:])
    return Path(told).expanduser()


def _no_numbers(data: Mapping[str, Any], model: type[BaseModel], place: Place = ()) -> list[Problem]:
    """`max_retries: yes` would be read as 1."""
    problems: list[Problem] = []
    groups = _groups(model)
    for name, value in data.items():
        if name in groups and isinstance(value, Mapping):
            problems += _no_numbers(value, groups[name], (*place, name))
        elif isinstance(value, bool) and name in model.model_fields and _is_number(model, name):
            problems.append(((*place, name), f"must be a number (is {_shown(value)})"))
    return problems


def _is_number(model: type[BaseModel], name: str) -> bool:
    kinds: list[Any] = [model.model_fields[name].annotation]
    for kind in kinds:
        kinds += get_args(kind)
    return int in kinds or float in kinds


def _filters(data: Mapping[str, Any]) -> list[Problem]:
    filters = data.get("filters")
    if isinstance(filters, Mapping) and filters.get("target_states") == []:
        return [(("filters", "target_states"), "must name a state, or be left out for all of them (is an empty list)")]
    return []


def _prompt(run: Run) -> list[Problem]:
    """Whether there is such a prompt, and one that can be used."""
    try:
        load_prompt(run.prompt)
    except InvalidConfiguration as error:
        for key in ("name", "version", "registry_dir"):
            if str(error).startswith(f"prompt.{key}: "):
                return [(("prompt", key), str(error).removeprefix(f"prompt.{key}: "))]
        return [(("prompt", "name"), str(error))]
    return []


def _generation(data: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with Gemini's own settings, each at its line."""
    held = data.get("model")
    config = held.get("generation_config") if isinstance(held, Mapping) else None
    if not isinstance(config, Mapping):
        return []
    return [((*_GENERATION, *place), message) for place, message in wrong_settings(config)]


def _folders(data: Mapping[str, Any]) -> list[Problem]:
    """Whether the folders are there and apart, as far as they are told at all."""
    told = {
        place[1]: held[place[1]]
        for place in _PATHS
        if isinstance(held := data.get(place[0]), Mapping) and isinstance(held.get(place[1]), Path)
    }
    problems: list[Problem] = []
    for group, name in _PATHS:
        if name in told:
            check = _output_problem if name == "output_dir" else _source_problem
            problems += [((group, name), message) for message in _asked(check, told[name])]
    output = told.get("output_dir")
    for name in ("label_source_dir", "image_source_dir"):
        source = told.get(name)
        if output is None or source is None:
            continue
        how = (
            "be the same folder as" if output == source
            else "lie inside" if output.is_relative_to(source)
            else "contain" if source.is_relative_to(output)
            else None
        )  # fmt: skip
        if how is not None:
            message = f"must not {how} {name}, or outputs and sources would be taken for one another (is {output})"
            problems.append((("paths", "output_dir"), message))
    return problems


def _asked(check: Callable[[Path], str | None], folder: Path) -> Iterator[str]:
    try:
        if message := check(folder):
            yield message
    except OSError as error:
        yield f"cannot be looked at: {error.strerror or error} (is {_shown(str(folder))})"


def _source_problem(folder: Path) -> str | None:
    if not folder.exists():
        return f"there is no folder {folder}"
    if not folder.is_dir():
        return f"must be a folder, and {folder} is a file"
    return None if os.access(folder, os.R_OK | os.X_OK) else f"the folder {folder} may not be read"


def _output_problem(folder: Path) -> str | None:
    """It need not be there, if it can be made."""
    there = next(above for above in (folder, *folder.parents) if above.exists())
    if not there.is_dir():
        return f"must be a folder, and {there} is a file"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"nothing may be written in {there}"
    return None


_MESSAGES: dict[str, str] = {
    "greater_than_equal": "must be {ge} or more", "less_than_equal": "must be {le} or less",
    "greater_than": "must be more than {gt}", "less_than": "must be less than {lt}",
    "int_type": "must be a whole number", "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number", "int_parsing_size": "must be a smaller number",
    "float_type": "must be a number", "float_parsing": "must be a number",
    "bool_type": "must be true or false", "bool_parsing": "must be true or false",
    "string_type": "must be text: put it in quotes", "path_type": "must name a folder",
    "string_too_long": "must have at most {max_length} characters", "literal_error": "must be {expected}",
    "tuple_type": "must be a list, such as [Alabama, Georgia]", "list_type": "must be a list",
    "dict_type": "must hold keys with values", "string_pattern_mismatch": "must fit {pattern}",
}  # fmt: skip


def _message(place: Place, error: Any) -> str:
    kind = error["type"]
    context = {name: _plain(value) for name, value in error.get("ctx", {}).items()}
    if kind == "extra_forbidden":
        return _unknown(place)
    if kind in ("missing", "model_type"):
        model = _model_at(place)
        inside = "" if model is None else f": it holds {', '.join(model.model_fields)}"
        return f"{'is missing' if kind == 'missing' else 'must have keys of its own'}{inside}"
    if kind == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    known = _MESSAGES.get(kind)
    message = str(error["msg"]).replace("Input should be", "must be", 1) if known is None else known.format(**context)
    return f"{message} (is {_shown(error['input'])})"


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unknown(place: Place) -> str:
    *above, name = place
    model = _model_at(tuple(above))
    known = list(model.model_fields) if model is not None else []
    everywhere = {key.split(".")[-1]: key for key in _keys(Run)}
    if near := difflib.get_close_matches(name, known, n=1, cutoff=0.6):
        return f"there is no such key; did you mean {_dotted((*above, near[0]))}?"
    if near := difflib.get_close_matches(name, everywhere, n=1, cutoff=0.8):
        return f"there is no such key; did you mean {everywhere[near[0]]}?"
    return f"there is no such key; there are {', '.join(known)}"


def _model_at(place: Place) -> type[BaseModel] | None:
    model: type[BaseModel] | None = Run
    for name in place:
        model = None if model is None else _groups(model).get(name)
    return model


def _keys(model: type[BaseModel], above: str = "") -> list[str]:
    keys = []
    groups = _groups(model)
    for name in model.model_fields:
        keys.append(f"{above}{name}")
        if name in groups:
            keys += _keys(groups[name], f"{above}{name}.")
    return keys


def _shown(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list | tuple):
        return "a list" if isinstance(value, list | tuple) else "keys with values"
    text = str(value).encode(errors="replace").decode()
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
    return repr(shown) if isinstance(value, str) else shown


def _dotted(place: Place) -> str:
    return ".".join(place)[:200]


def _together(told: list[str]) -> str:
    return "\n".join(told if len(told) <= MOST_TOLD else [*told[:MOST_TOLD], f"and {len(told) - MOST_TOLD} more"])


def _in_order(path: Path, problems: list[Problem], lines: Mapping[Place, int]) -> list[str]:
    """By line. What is missing is told at the line of the group it is missing from; what is wrong with the file as a
    whole (line 0) is told of the file."""

    def line(problem: Problem) -> int:
        place = problem[0]
        return next((lines[place[:n]] for n in range(len(place), -1, -1) if place[:n] in lines), 1)

    told = []
    for problem in sorted(problems, key=line):
        where = f"{path}:{line(problem)}" if line(problem) else str(path)
        told.append(": ".join(part for part in (where, _dotted(problem[0]), problem[1]) if part))
    return told
