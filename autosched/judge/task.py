"""Tasks in two public forms: a KernelBench file (``Model``, ``get_inputs``), and a KernelBot ``task.yml``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_map

from measurements.files.bounded import read_bounded
from measurements.files.python_file import NotLoaded, load_module, run_as_module
from measurements.files.text import one_line

_MOST_BYTES = 1 << 24  # of a file of a task
_KERNELBENCH_TOLERANCE = 1e-2  # absolute and relative, of its own check


class TaskError(ValueError):
    """A task or a submission that is not of its form. The message is one line."""


@dataclass(frozen=True)
class Case:
    """One set of inputs by ``seed``, and what they must become.

    ``inputs`` makes the same ones again for the same seed. ``reference`` takes inputs, in float64 where it can.
    ``accepts`` is the task's own check of (inputs, output), None where it has none.
    """

    name: str
    inputs: Callable[[int], Any]
    reference: Callable[[Any], Any]
    accepts: Callable[[Any, Any, Any], bool] | None


@dataclass(frozen=True)
class Task:
    """``call`` makes of a loaded submission the function that is judged."""

    cases: tuple[Case, ...]
    call: Callable[[ModuleType], Callable[[Any], Any]]


def read_task(path: Path, sizes: Mapping[str, int], folder: Path) -> Task:
    """``sizes`` replace whole numbers of a KernelBench file, or entries of every test of a ``task.yml``. ``folder``
    is empty, for files that must lie together. Raises TaskError.
    """
    if path.suffix in (".yml", ".yaml"):
        return _kernelbot(path, sizes, folder)
    return _kernelbench(path, sizes)


def load(path: Path, name: str) -> ModuleType:
    """Return the module of a file, under a name of its own. Raises TaskError where there is none."""
    if not path.is_file():
        raise TaskError(f"{path}: no such file")
    return run_as_module(path, name)


def _load_task(path: Path, name: str) -> ModuleType:
    """As ``load``; a task that fails, or exits, is a TaskError."""
    if not path.is_file():
        raise TaskError(f"{path}: no such file")
    try:
        return load_module(path, name)
    except NotLoaded as error:
        raise TaskError(str(error)) from error


def as_float64(value: Any) -> Any:
    """Floating-point tensors in float64, everything else as it is."""

    def wide(leaf: Any) -> Any:
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return tree_map(wide, value)


def _kernelbench(path: Path, sizes: Mapping[str, int]) -> Task:
    module = _load_task(path, "autosched_task")
    missing = [n for n in ("Model", "get_inputs", "get_init_inputs") if not hasattr(module, n)]
    if missing:
        raise TaskError(f"{path}: a KernelBench task has Model, get_inputs and get_init_inputs; it lacks {missing[0]}")
    for name, value in sizes.items():
        if not isinstance(getattr(module, name, None), int):
            raise TaskError(f"{path}: {name} is no whole number of it")
        setattr(module, name, value)

    def made(kind: Any) -> Any:
        torch.manual_seed(0)  # so that both have the same weights
        return kind(*module.get_init_inputs())

    def inputs(seed: int) -> Any:
        torch.manual_seed(seed)
        return list(module.get_inputs())

    def accepts(_inputs: Any, output: Any, expected: Any) -> bool:
        close = torch.allclose
        return bool(close(output.double(), expected, atol=_KERNELBENCH_TOLERANCE, rtol=_KERNELBENCH_TOLERANCE))

    def call(submission: ModuleType) -> Callable[[Any], Any]:
        if not hasattr(submission, "ModelNew"):
            raise TaskError("the submission has no class ModelNew")
        model = made(submission.ModelNew)
        return lambda values: model(*values)

    def reference(values: Any) -> Any:
        model = made(module.Model)
        if any(isinstance(v, torch.Tensor) and v.dtype is torch.float64 for v in values):
            model = model.double()
        return model(*values)

    return Task((Case(path.stem, inputs, reference, accepts),), call)


def _kernelbot(path: Path, sizes: Mapping[str, int], folder: Path) -> Task:
    try:
        import yaml
    except ImportError as error:
        raise TaskError(f"{path}: reading it needs PyYAML: pip install pyyaml") from error
    try:
        document = yaml.safe_load(read_bounded(path, _MOST_BYTES).decode("utf-8"))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise TaskError(f"{path} cannot be read: {one_line(str(error))}") from None
    if not isinstance(document, dict) or not isinstance(document.get("tests"), list):
        raise TaskError(f"{path}: a KernelBot task has a list of tests")
    if document.get("lang", "py") != "py":
        raise TaskError(f"{path}: its language is {document['lang']}, and only py is judged")
    for file in document.get("files", ()):
        source = str(file.get("source", ""))
        if source != "@SUBMISSION@":
            (folder / Path(str(file["name"])).name).write_bytes(read_bounded(path.parent / source, _MOST_BYTES))
    sys.path.insert(0, str(folder))
    module = _load_task(folder / "reference.py", "reference")
    if not hasattr(module, "generate_input") or not hasattr(module, "ref_kernel"):
        raise TaskError(f"{path}: its reference.py has no generate_input and ref_kernel")
    own: Callable[[Any, Any], Any] | None = getattr(module, "check_implementation", None)

    def accepts(values: Any, output: Any, _expected: Any) -> bool:
        assert own is not None
        answer = own(values, output)
        return bool(answer[0]) if isinstance(answer, tuple) else not answer

    def case(test: Mapping[str, Any]) -> Case:
        given = {**test, **{k: v for k, v in sizes.items() if k in test}}
        name = " ".join(f"{k}={v}" for k, v in given.items())

        def inputs(seed: int) -> Any:
            return module.generate_input(**{**given, **({"seed": given["seed"] + seed} if "seed" in given else {})})

        return Case(name, inputs, module.ref_kernel, accepts if own is not None else None)

    def call(submission: ModuleType) -> Callable[[Any], Any]:
        if not hasattr(submission, "custom_kernel"):
            raise TaskError("the submission has no function custom_kernel")
        return lambda values: submission.custom_kernel(values)

    return Task(tuple(case(test) for test in document["tests"]), call)
