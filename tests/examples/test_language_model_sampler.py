"""``examples/language_model_sampler`` with scripted answers instead of a language model."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import autosched.samplers
from autosched.testing import SAMPLER_SPACES, SamplerContract
from autosched.testing.samplers import TOY, everything, ok, outcome, run
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.union_space import UnionSpace

FOLDER = Path(__file__).parents[2] / "examples" / "language_model_sampler"


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("language_model_sampler", FOLDER / "language_model_sampler.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


example = loaded()
SPACE = UnionSpace([TOY])
BEST = {"template": "toy", "x": 8, "y": 32, "letter": "b"}


class Scripted:
    """Fake model that returns scripted answers in order, and records the prompts."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers, self.prompts = list(answers), list[str]()

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        answer = self.answers.pop(0) if self.answers else ""
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("space", SAMPLER_SPACES.values(), ids=SAMPLER_SPACES)
@pytest.mark.parametrize(
    "make",
    [
        lambda space, seed: example.LanguageModelSampler(space, seed, lambda prompt: ""),
        lambda space, seed: example.LanguageModelSampler(space, seed, lambda prompt: f"[{json.dumps(BEST)}]"),
    ],
    ids=["silent", "one answer"],
)
class TestLanguageModelSampler(SamplerContract):
    pass


def started(ask: Scripted, space: Any = SPACE) -> Any:
    """Return a sampler that has enough results to call the language model for its next proposal."""
    sampler = example.LanguageModelSampler(space, 1, ask)
    run(sampler, 1, example.FIRST)
    assert not ask.prompts
    return sampler


def test_an_answer_is_proposed_and_the_prompt_contains_measurements() -> None:
    ask = Scripted(f"Here you are:\n```json\n[{json.dumps(BEST)}]\n```")
    sampler = started(ask)
    (schedule,) = sampler.ask(1)
    assert schedule.to_json() == {"x": 8, "y": 32, "letter": "b"}
    (prompt,) = ask.prompts
    assert '"letter"' in prompt
    assert "microseconds" in prompt


def test_omitted_parameters_are_taken_from_the_fastest_schedule() -> None:
    sampler = example.LanguageModelSampler(SPACE, 1, Scripted('[{"letter": "b"}]'))
    for schedule in SPACE.sample(example.FIRST, 3):
        sampler.tell(schedule, ok(1.0))
    sampler.tell(Schedule.from_json("toy", {"x": 8, "y": 32, "letter": "c"}), ok(1e-6))
    assert sampler.ask(1)[0].to_json() == {"x": 8, "y": 32, "letter": "b"}


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot help with that.",
        "[" * 50_000,
        '[{"template": "toy", "x": 8',
        '{"template": "other", "x": 8, "y": 32, "letter": "b"}',
        '[{"template": ["toy"], "x": 8}]',
        '[{"template": "toy", "x": 32, "y": 8, "letter": "b"}]',
        '[{"template": "toy", "x": true, "y": 32, "letter": "b"}]',
        '[{"template": "toy", "x": 8.0, "y": NaN, "letter": null}]',
        '[{"template": "toy", "x": 9, "y": 32, "letter": "b"}]',
        '[{"template": "toy", "x": 8, "y": 32, "letter": "b", "os.system": "id"}]',
        '[1, null, [[]], "toy"]',
        RuntimeError("the service is down"),
    ],
)
def test_a_useless_answer_is_replaced_by_a_random_schedule(answer: str | Exception) -> None:
    ask = Scripted(*[answer] * 100)
    sampler = started(ask)
    proposals = sampler.ask(4)
    assert len(proposals) == 4
    assert all(schedule in SPACE for schedule in proposals)
    while batch := sampler.ask(16):  # even without usable answers, every schedule is proposed once
        for schedule in batch:
            sampler.tell(schedule, outcome(schedule))
        proposals += batch
    assert len({s.key() for s in proposals}) == len(everything(SPACE)) - example.FIRST
    assert len(ask.prompts) == example.PATIENCE


def test_the_entry_point_makes_it_with_the_function_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "my_model.py").write_text(f"def ask(prompt):\n    return '''[{json.dumps(BEST)}]'''\n")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("language_model", "language_model_sampler:from_environment", autosched.samplers.ENTRY_POINTS)
    assert f'{point.name} = "{point.value}"' in (FOLDER / "pyproject.toml").read_text()
    monkeypatch.setattr(autosched.samplers, "_offered", lambda: {point.name: point})
    monkeypatch.setenv(example.ASK, "my_model:ask")
    assert isinstance(autosched.samplers.sampler(point.name, SPACE, seed=1), example.LanguageModelSampler)
    monkeypatch.setenv(example.ASK, "no_such_module:ask")
    with pytest.raises(ValueError, match=example.ASK):
        autosched.samplers.sampler(point.name, SPACE, seed=1)
