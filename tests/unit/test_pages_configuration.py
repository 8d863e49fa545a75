"""The file of a run: what is read, and what somebody is told whose file is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from penstock.engine.errors import InvalidConfiguration
from penstock.pipelines.pages.configuration import example_configuration, load_run, run_from_data
from penstock.pipelines.pages.generation import SETTINGS, THINKING
from penstock.pipelines.pages.model import Model, Run

PATHS = "paths: {label_source_dir: labels, image_source_dir: images, output_dir: out}\n"

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A file `run.yaml` in a folder with `labels` and `images`; messages name it as it was named."""
    (tmp_path / "labels").mkdir()
    (tmp_path / "images").mkdir()
    monkeypatch.chdir(tmp_path)

    def written(text: str | bytes) -> Path:
        Path("run.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return Path("run.yaml")

    return written


def told(path: Path) -> list[str]:
    with pytest.raises(InvalidConfiguration) as caught:
        load_run(path)
    return str(caught.value).splitlines()


def test_the_smallest_file_is_the_paths_and_all_else_is_default(write: Write, tmp_path: Path) -> None:
    run = load_run(write(PATHS))
    assert run == Run.model_validate(
        {
            "paths": {
                "label_source_dir": tmp_path / "labels",
                "image_source_dir": tmp_path / "images",
                "output_dir": tmp_path / "out",
            }
        }
    )
    assert Run.model_validate_json(run.model_dump_json()) == run


def test_the_example_has_every_key_with_its_default_and_loads(write: Write) -> None:
    run = load_run(write(example_configuration().replace("output_dir: output ", "output_dir: out ")))
    assert run == load_run(write(PATHS))

    def keys(held: Any) -> Any:
        return {name: keys(item) for name, item in held.items()} if isinstance(held, dict) else None

    assert keys(yaml.safe_load(example_configuration())) == keys(run.model_dump())


def test_folders_are_relative_to_the_file_and_a_tilde_is_home(write: Write, tmp_path: Path) -> None:
    write(PATHS.replace("out}", "~/out}"))
    run = load_run(Path("labels/../run.yaml"), environ={"HOME": str(tmp_path / "me")})
    assert run.paths.output_dir == tmp_path / "me" / "out"
    assert run.paths.label_source_dir == tmp_path / "labels"


def test_all_mistakes_are_told_at_once_with_line_and_field(write: Write, tmp_path: Path) -> None:
    lines = [
        "paths:",
        "  label_source_dir: labels",
        "  image_source_dir: nowhere",
        "filters:",
        "  target_states: Alabama",
        "  target_years: {start: 1900, end: 1800}",
        "execution:",
        "  max_retries: -1",
        "  batch_size_limit: yes",
        "  max_concurrent_batches: several",
        "  on_dead_page: jump",
        "  dry_run: maybe",
        "  max_retires: 3",
        "model: {generation_config: {responseSchema: {}}}",
        "batch: 20",
        "budget: {max_usd: .inf}",
        "prompt: {registry_dir: prompts}",
        "fils: {}",
    ]
    assert told(write("\n".join(lines))) == [
        "run.yaml:1: paths.output_dir: is missing",
        f"run.yaml:3: paths.image_source_dir: there is no folder {tmp_path / 'nowhere'}",
        "run.yaml:5: filters.target_states: must be a list, such as [Alabama, Georgia] (is 'Alabama')",
        "run.yaml:6: filters.target_years: start (1900) must not be after end (1800)",
        "run.yaml:8: execution.max_retries: must be 0 or more (is -1)",
        "run.yaml:9: execution.batch_size_limit: must be a number (is true)",
        "run.yaml:10: execution.max_concurrent_batches: must be a whole number (is 'several')",
        "run.yaml:11: execution.on_dead_page: must be 'block' or 'skip' (is 'jump')",
        "run.yaml:12: execution.dry_run: must be true or false (is 'maybe')",
        "run.yaml:13: execution.max_retires: there is no such key; did you mean execution.max_retries?",
        "run.yaml:14: model.generation_config.responseSchema: is decided by the prompt: leave it out",
        "run.yaml:15: batch: must have keys of its own: it holds poll_interval_seconds, poll_timeout_seconds, "
        "display_name_prefix",
        "run.yaml:16: budget.max_usd: must be a finite number (is inf)",
        f"run.yaml:17: prompt.registry_dir: there is no folder {tmp_path / 'prompts'}",
        "run.yaml:18: fils: there is no such key; did you mean files?",
    ]


def test_a_key_in_the_wrong_group_is_sent_to_its_own(write: Write) -> None:
    assert told(write(PATHS + "budget:\n  max_retries: 3\n")) == [
        "run.yaml:3: budget.max_retries: there is no such key; did you mean execution.max_retries?"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "run.yaml: is empty: it must at least say paths"),
        ("# nothing yet\n", "run.yaml: is empty"),
        ("- paths\n", "run.yaml:1: must hold keys with values"),
        ("paths:\n\tlabel_source_dir: labels\n", "run.yaml:2: is indented with a tab: use spaces"),
        ("paths: [\n", "run.yaml:2: is not YAML"),
        ("a: 1\n---\nb: 2\n", "run.yaml:2: is not YAML: expected a single document"),
        (b"a: b\nc: \xff\n", "run.yaml:2: is not UTF-8 text"),
        ("a: \x01\n", "run.yaml:1: is not YAML: special characters"),
        ("[" * 5000, "run.yaml: is nested too deeply"),
        ("paths: &a [*a]\n", "run.yaml: holds more than a configuration can"),
        (b"#" * 1_000_001, "run.yaml: is larger than 1 MB"),
        ("paths:\n", "run.yaml:1: paths: is missing: it holds label_source_dir, image_source_dir, output_dir"),
        (PATHS + PATHS, "run.yaml:1: paths: is written twice, and again in line 2"),
        (PATHS + "prefect:\n  <<: {}\n", "run.yaml:3: prefect.<<: keys cannot be merged in"),
        (PATHS + "model:\n  name: !!python/object:os.system x\n", "run.yaml:3: model.name: cannot be understood"),
        (PATHS + "model: {generation_config: {seed: 2020-01-01}}\n", "run.yaml:2: model.generation_config.seed: must"),
        (PATHS + 'model: {name: "\\ud800"}\n', "run.yaml:2: model.name: must be text of whole characters"),
        (PATHS + "filters: {target_states: [NO]}\n", "run.yaml:2: filters.target_states.0: must be text: put it in"),
        (PATHS + "filters: {target_states: []}\n", "run.yaml:2: filters.target_states: must name a state"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration_says_why(write: Write, text: str | bytes, message: str) -> None:
    assert told(write(text))[0].startswith(message)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("max_ouput_tokens: 3", "max_ouput_tokens: Gemini has no such setting; did you mean max_output_tokens?"),
        ("maxOuputTokens: 3", "maxOuputTokens: Gemini has no such setting; did you mean maxOutputTokens?"),
        ("creativity: 1", "creativity: Gemini has no such setting; there are temperature, max_output_tokens,"),
        ("temperature: 2.5", "temperature: must be a number from 0 to 2 (is 2.5)"),
        ("temperature: yes", "temperature: must be a number from 0 to 2 (is true)"),
        ("max_output_tokens: 0", "max_output_tokens: must be a whole number, 1 or more (is 0)"),
        ("stop_sequences: END", "stop_sequences: must be a list of texts"),
        ("top_k: 3, topK: 3", "topK: stands there twice, in both spellings"),
        ("thinking_config: 0", "thinking_config: must have keys of its own: includeThoughts, thinkingBudget"),
        ("thinkingConfig: {thinkLevel: x}", "thinkingConfig.thinkLevel: Gemini has no such setting; did you mean"),
        ("thinkingConfig: {thinking_budget: -2}", "thinkingConfig.thinking_budget: must be a whole number, -1 or more"),
        ("candidate_count: 2", "candidate_count: is decided by the prompt: leave it out"),
    ],
)  # fmt: skip
def test_a_setting_that_gemini_does_not_have_is_told_with_its_line(write: Write, config: str, message: str) -> None:
    (problem,) = told(write(PATHS + f"model:\n  generation_config:\n    {{{config}}}\n"))
    assert problem.startswith(f"run.yaml:4: model.generation_config.{message}")


def test_settings_are_taken_in_either_spelling(write: Write) -> None:
    config = "{max_output_tokens: 9, topP: 0.5, seed: null, thinking_config: {thinking_budget: 0}}"
    run = load_run(write(PATHS + f"model: {{generation_config: {config}}}\n"))
    expected = {"maxOutputTokens": 9, "topP": 0.5, "thinkingConfig": {"thinkingBudget": 0}}
    assert run.model.generation_config == expected
    with pytest.raises(ValueError, match=r"max_tokens: Gemini has no such setting; did you mean max_output_tokens\?"):
        Model(generation_config={"max_tokens": 9})


def test_the_settings_are_those_of_googles_library() -> None:
    from google.genai import types

    def names(model: type[BaseModel]) -> set[str]:
        return {field.alias or name for name, field in model.model_fields.items()}

    assert set(SETTINGS) == names(types.GenerationConfig)
    assert set(THINKING) == names(types.ThinkingConfig)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("name: minuets", "run.yaml:4: prompt.name: there is no prompt 'minuets' version '1'; there are: course_cat"),
        ('version: "9"', "run.yaml:3: prompt.name: there is no prompt 'course_catalogue' version '9'; there are: cou"),
        ("version: ../x", "run.yaml:4: prompt.version: must be letters, digits"),
    ],
)
def test_a_prompt_that_is_not_there_is_told_with_its_line(write: Write, prompt: str, message: str) -> None:
    (problem,) = told(write(PATHS + f"# which\nprompt:\n  {prompt}\n"))
    assert problem.startswith(message)


def test_aliases_that_would_fill_the_memory_are_refused(write: Write) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 20)]
    assert told(write("\n".join(lines))) == [
        "run.yaml: holds more than a configuration can, once its aliases are written out"
    ]


def test_aliases_may_be_used(write: Write) -> None:
    run = load_run(write(PATHS + "batch: {poll_interval_seconds: &s 7}\nfiles: {upload_retry_backoff_seconds: *s}\n"))
    assert run.files.upload_retry_backoff_seconds == 7


def test_a_file_that_is_not_there_or_is_a_folder(write: Write) -> None:
    assert told(Path("none.yaml")) == ["none.yaml: there is no such file"]
    assert told(Path("labels")) == ["labels: is no file"]


@pytest.mark.parametrize(
    ("output", "how"),
    [
        ("labels", "be the same folder as"),
        ("images/out", "lie inside"),
        (".", "contain"),
        ("labels/../images", "be the"),
    ],
)
def test_outputs_are_kept_apart_from_the_sources(write: Write, output: str, how: str) -> None:
    problems = told(write(PATHS.replace("output_dir: out", f"output_dir: {output}")))
    assert problems[0].startswith(f"run.yaml:1: paths.output_dir: must not {how}")


def test_an_output_folder_reached_by_a_link_is_the_folder_it_leads_to(write: Write, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "labels")
    assert "must not be the same folder as label_source_dir" in told(write(PATHS))[0]


def test_files_where_folders_should_be(write: Write, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    folders = "paths: {label_source_dir: file, image_source_dir: '', output_dir: file/out}\n"
    file = tmp_path / "file"
    assert told(write(folders)) == [
        "run.yaml:1: paths.image_source_dir: must name a folder (is empty)",
        f"run.yaml:1: paths.label_source_dir: must be a folder, and {file} is a file",
        f"run.yaml:1: paths.output_dir: must be a folder, and {file} is a file",
        "run.yaml:1: paths.output_dir: must not lie inside label_source_dir, or outputs and sources would be taken for "
        f"one another (is {file / 'out'})",
    ]


def test_data_is_read_as_a_file_is_and_mistakes_name_the_field(write: Write, tmp_path: Path) -> None:
    data: dict[str, Any] = yaml.safe_load(PATHS)
    assert run_from_data(data, base=tmp_path) == load_run(write(PATHS))
    assert data == yaml.safe_load(PATHS), "what the caller gave is left as it is"
    with pytest.raises(InvalidConfiguration) as caught:
        run_from_data({**data, "execution": {"max_retries": -1}, "batch": {"poll_interval_seconds": 0}}, base=tmp_path)
    assert str(caught.value).splitlines() == [
        "execution.max_retries: must be 0 or more (is -1)",
        "batch.poll_interval_seconds: must be more than 0 (is 0)",
    ]


@pytest.mark.parametrize("data", [[], "x", None, {3: 4}, {"paths": 5}, {"paths": {"label_source_dir": ["x"]}}])
def test_data_that_is_no_run_is_refused(data: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration):
        run_from_data(data, base=tmp_path)
