"""A sampler, installed as a plug-in, that asks a language model which schedules to try.

The sampler depends on no model or service: you provide a function ``ask(prompt) -> text``. Install the package, name
the function, and tune:

    pip install ./examples/language_model_sampler
    export LANGUAGE_MODEL_ASK=my_module:ask
    autosched tune matmul -m 4096 -n 4096 -k 4096 --db best.db --sampler language_model

The model's answer is treated as data. It is parsed as JSON, and only legal schedules of the space are tried. Anything
else in the answer is ignored, and random schedules are proposed instead.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from autosched.plugins import Sampler, Schedule, UnvisitedPool

ASK = "LANGUAGE_MODEL_ASK"  # environment variable with the function to ask, as module:function
FIRST = 8  # random schedules before the first question, so that the prompt has results
ANSWERS = 8  # number of schedules that each prompt asks the model for
SHOWN = 16  # number of fastest schedules in a prompt, and number of latest failures
PATIENCE = 3  # consecutive answers without a new legal schedule before the sampler stops asking
MOST_CHARACTERS = 100_000  # maximum length of an answer
MOST_STARTS = 256  # maximum number of positions in an answer at which parsing of JSON is tried


class LanguageModelSampler(Sampler):
    """Propose schedules from a language model's answers. If an answer has none, propose random schedules.

    Args:
        space: Schedules to propose.
        seed: Random seed.
        ask: Function that returns the model's answer to a prompt. The same answers give the same proposals.
    """

    name = "language_model"

    def __init__(self, space: Any, seed: int, ask: Callable[[str], str]) -> None:
        self._space = space
        self._ask = ask
        self._pool = UnvisitedPool(space, seed)
        self._results: dict[Schedule, Any] = {}
        self._answered: list[Schedule] = []
        self._num_useless = 0

    def ask(self, n: int) -> list[Schedule]:
        self._pool.check(n)
        proposals: list[Schedule] = []
        while len(proposals) < n:
            if not self._answered and len(self._results) >= FIRST and self._num_useless < PATIENCE:
                self._answered = self._new_answers()
                self._num_useless = 0 if self._answered else self._num_useless + 1
                continue
            if not self._answered:
                return [*proposals, *self._pool.draw(n - len(proposals))]
            schedule = self._answered.pop(0)
            if schedule in self._pool:
                self._pool.remove(schedule)
                proposals.append(schedule)
        return proposals

    def tell(self, schedule: Schedule, measurement: Any) -> None:
        self._pool.remove(schedule)
        self._results[schedule] = measurement

    def _new_answers(self) -> list[Schedule]:
        """Ask the model and return the legal, untried schedules of its answer."""
        try:
            text = self._ask(self.prompt())
        except Exception as error:  # an unavailable service must not end the search
            print(f"language_model: the model did not answer ({error or type(error).__name__})")
            return []
        if not isinstance(text, str):
            return []
        schedules = (self._schedule(item) for item in objects(text[:MOST_CHARACTERS]))
        return [s for s in dict.fromkeys(s for s in schedules if s is not None) if s in self._pool]

    def _schedule(self, item: dict[str, Any]) -> Schedule | None:
        """Return the legal schedule that a JSON object of the answer describes; None if the schedule is not legal.

        Missing parameters get the values of the fastest schedule of the same template.
        """
        template = item.get("template", next(iter(self._space.members)))
        member = self._space.members.get(template) if isinstance(template, str) else None
        if member is None:
            return None
        fastest = next((s for s, _ in self._fastest() if s.template == template), None)
        values = {} if fastest is None else dict(fastest.items)
        values.update({name: value for name, value in item.items() if name != "template"})
        names = [parameter.name for parameter in member.parameters]
        if set(values) != set(names):
            return None
        try:
            schedule = Schedule.from_json(template, {name: values[name] for name in names})
            return schedule if schedule in self._space else None
        except (ValueError, TypeError):
            return None

    def _fastest(self) -> list[tuple[Schedule, float]]:
        timed = [(s, m.timing.median) for s, m in self._results.items() if m.timing is not None]
        return sorted(timed, key=lambda pair: pair[1])

    def prompt(self) -> str:
        """Return the text of a question, with the values of each parameter and the measurements so far."""
        lines = ["Choose configurations of a GPU kernel that run fast. Parameters and their values:"]
        for template, member in self._space.members.items():
            lines.append(f'template "{template}":')
            lines += [f"  {p.name}: {json.dumps(list(p.values))}" for p in member.parameters]
        lines.append("Some combinations are not legal. Fastest so far (microseconds, configuration):")
        lines += [f"  {1e6 * seconds:.4g} {_text(schedule)}" for schedule, seconds in self._fastest()[:SHOWN]]
        failed = [(s, m) for s, m in self._results.items() if m.timing is None][-SHOWN:]
        if failed:
            lines.append("Failed:")
            lines += [f"  {m.status} {_text(schedule)}" for schedule, m in failed]
        lines.append(
            f"Answer with one JSON array of {ANSWERS} other objects, each with a template and the values that differ "
            "from the fastest configuration of that template. Give no other text."
        )
        return "\n".join(lines)


def _text(schedule: Schedule) -> str:
    return json.dumps({"template": schedule.template, **schedule.to_json()})


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text, including those in arrays. Other text is ignored."""
    decoder, at = json.JSONDecoder(), 0
    for _ in range(MOST_STARTS):
        starts = [i for i in (text.find("[", at), text.find("{", at)) if i >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict))


def from_environment(space: Any, *, seed: int, estimates: Any = None, threads: int = 1) -> LanguageModelSampler:
    """Create the sampler with the function that LANGUAGE_MODEL_ASK names. This is the package's entry point.

    Raises:
        ValueError: The variable is not set, or its function cannot be imported.
    """
    reference = os.environ.get(ASK, "")
    module, _, function = reference.partition(":")
    try:
        ask = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{ASK} is {reference!r} ({error}): set it to module:function") from error
    return LanguageModelSampler(space, seed, ask)
