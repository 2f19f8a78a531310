"""Read tasks in two public formats: a KernelBench file (``Model``, ``get_inputs``), and KernelBot's ``task.yml``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from measurements.files.bounded import read_bounded
from measurements.files.python_file import NotLoaded, load_module, run_as_module
from measurements.files.text import one_line

_MOST_BYTES = 1 << 24  # maximum bytes of each file of a task
_KERNELBENCH_TOLERANCE = 1e-2  # absolute and relative tolerance of KernelBench's own check


class TaskError(ValueError):
    """The task or the submission is invalid. The message is one line."""


@dataclass(frozen=True)
class Case:
    """A case of a task: inputs for each seed, and how to get and check the output.

    ``inputs`` returns the same inputs for the same seed. ``reference`` is called with the inputs, which are converted
    to float64 if ``reference`` supports float64. ``accepts`` is the task's own check of (inputs, output), or None.
    ``prepare`` is called before the other functions, and before the submission is created. ``uneven`` is True if the
    case has odd sizes in place of the task's even sizes.
    """

    name: str
    inputs: Callable[[int], Any]
    reference: Callable[[Any], Any]
    accepts: Callable[[Any, Any, Any], bool] | None
    prepare: Callable[[], None] = lambda: None
    uneven: bool = False


@dataclass(frozen=True)
class Task:
    """A task, with its cases. ``call`` takes the imported submission and returns the function to judge."""

    cases: tuple[Case, ...]
    call: Callable[[ModuleType], Callable[[Any], Any]]


def read_task(path: Path, sizes: Mapping[str, int], folder: Path, *, uneven: bool = True) -> Task:
    """Read a task in one of two public formats. Tasks may create tensors on a GPU, so torch must report one.

    Args:
        path: A KernelBench file, or a ``task.yml``.
        sizes: Values that replace whole numbers of a KernelBench file, or entries of every test of a ``task.yml``.
        folder: An empty folder, to which the files of a KernelBot task are copied.
        uneven: If True, add a case with an uneven size if the task's sizes are even, the reference supports it, and no
            ``sizes`` are given.

    Returns:
        The task. Its own cases come before the additional uneven case.

    Raises:
        TaskError: The file is not a task, or the task's own code fails.
    """
    uneven = uneven and not sizes
    if path.suffix in (".yml", ".yaml"):
        return _kernelbot(path, sizes, folder, uneven)
    return _kernelbench(path, sizes, uneven)


_SMALL = 8  # smallest number that counts as a size; smaller numbers are probably counts of heads or layers


def _uneven_sizes(sizes: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Yield variants with uneven sizes: first all even sizes reduced by one, then each even size reduced alone."""
    even = {name: n - 1 for name, n in sizes.items() if type(n) is int and n >= _SMALL and n % 2 == 0}
    if even:
        yield even
    if len(even) > 1:
        yield from ({name: n} for name, n in even.items())


def _takes(case: Case, task_case: Case) -> bool:
    """Return True if the reference accepts a case whose input shapes differ from the task's own case."""

    def shapes() -> list[Any]:
        return [t.shape for t in tree_leaves(values) if isinstance(t, torch.Tensor)]

    try:
        with torch.no_grad():
            task_case.prepare()
            values = task_case.inputs(1)
            before = shapes()
            case.prepare()
            values = case.inputs(1)
            changed = shapes() != before
            case.reference(values)
    except Exception:
        return False
    finally:
        task_case.prepare()
    return changed


def _with_uneven(task_cases: tuple[Case, ...], candidates: Iterable[Case]) -> tuple[Case, ...]:
    """Append to the task's own cases the first candidate that the reference supports."""
    return (*task_cases, *itertools.islice((case for case in candidates if _takes(case, task_cases[0])), 1))


def load(path: Path, name: str) -> ModuleType:
    """Import a file as a module with a unique name. Raises TaskError if it does not exist."""
    if not path.is_file():
        raise TaskError(f"{path}: no such file")
    return run_as_module(path, name)


def _load_task(path: Path, name: str) -> ModuleType:
    """Import a task, as ``load`` does, but also raise TaskError if the task raises an error or exits."""
    if not path.is_file():
        raise TaskError(f"{path}: no such file")
    try:
        return load_module(path, name)
    except NotLoaded as error:
        raise TaskError(str(error)) from error


def as_float64(value: Any) -> Any:
    """Convert floating-point tensors to float64; other values are unchanged."""

    def wide(leaf: Any) -> Any:
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return tree_map(wide, value)


def _on_gpu(value: Any) -> Any:
    """Move all tensors to the GPU, as KernelBench does."""
    return tree_map(lambda leaf: leaf.cuda() if isinstance(leaf, torch.Tensor) else leaf, value)


def _kernelbench(path: Path, sizes: Mapping[str, int], uneven: bool) -> Task:
    module = _load_task(path, "autosched_task")
    missing = [n for n in ("Model", "get_inputs", "get_init_inputs") if not hasattr(module, n)]
    if missing:
        raise TaskError(
            f"{path}: a KernelBench task needs Model, get_inputs and get_init_inputs: {missing[0]} is missing"
        )
    for name, value in sizes.items():
        if not isinstance(getattr(module, name, None), int):
            known = ", ".join(n for n, v in vars(module).items() if type(v) is int) or "no sizes"
            raise TaskError(f'invalid size "{name}": {path} has {known}')
        setattr(module, name, value)

    def instance(kind: Any) -> Any:
        torch.manual_seed(0)  # the submission must have the reference's weights
        model = kind(*_on_gpu(list(module.get_init_inputs())))
        return model.cuda() if isinstance(model, torch.nn.Module) else model

    def inputs(seed: int) -> Any:
        torch.manual_seed(seed)
        return _on_gpu(list(module.get_inputs()))

    def accepts(_inputs: Any, output: Any, expected: Any) -> bool:
        close = torch.allclose
        return bool(close(output.double(), expected, atol=_KERNELBENCH_TOLERANCE, rtol=_KERNELBENCH_TOLERANCE))

    def call(submission: ModuleType) -> Callable[[Any], Any]:
        if not hasattr(submission, "ModelNew"):
            raise TaskError("the submission has no class ModelNew")
        model = instance(submission.ModelNew)
        return lambda values: model(*values)

    def reference(values: Any) -> Any:
        model = instance(module.Model)
        if any(isinstance(v, torch.Tensor) and v.dtype is torch.float64 for v in values):
            model = model.double()
        return model(*values)

    def case(name: str, numbers: Mapping[str, int], is_uneven: bool) -> Case:
        return Case(name, inputs, reference, accepts, lambda: vars(module).update(numbers), is_uneven)

    numbers = {name: n for name, n in vars(module).items() if type(n) is int and not name.startswith("_")}
    task_cases = (case(path.stem, numbers, False),)
    if not uneven:
        return Task(task_cases, call)
    uneven_cases = (case(f"{path.stem}, {_named(less)}", {**numbers, **less}, True) for less in _uneven_sizes(numbers))
    return Task(_with_uneven(task_cases, uneven_cases), call)


def _named(sizes: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={n}" for name, n in sizes.items())


def _kernelbot(path: Path, sizes: Mapping[str, int], folder: Path, uneven: bool) -> Task:
    try:
        import yaml
    except ImportError as error:
        raise TaskError(f"{path}: PyYAML is needed to read this task: pip install pyyaml") from error
    try:
        document = yaml.safe_load(read_bounded(path, _MOST_BYTES).decode("utf-8"))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise TaskError(f"{path} cannot be read: {one_line(str(error))}") from None
    if not isinstance(document, dict) or not isinstance(document.get("tests"), list):
        raise TaskError(f"{path}: a KernelBot task needs a list of tests")
    if document.get("lang", "py") != "py":
        raise TaskError(f"{path}: its language is {document['lang']}, but only py is supported")
    for file in document.get("files", ()):
        source = str(file.get("source", ""))
        if source != "@SUBMISSION@":
            (folder / Path(str(file["name"])).name).write_bytes(read_bounded(path.parent / source, _MOST_BYTES))
    sys.path.insert(0, str(folder))
    module = _load_task(folder / "reference.py", "reference")
    if not hasattr(module, "generate_input") or not hasattr(module, "ref_kernel"):
        raise TaskError(f"{path}: its reference.py needs generate_input and ref_kernel")
    own_check: Callable[[Any, Any], Any] | None = getattr(module, "check_implementation", None)

    def accepts(values: Any, output: Any, _expected: Any) -> bool:
        assert own_check is not None
        answer = own_check(values, output)
        return bool(answer[0]) if isinstance(answer, tuple) else not answer

    def case(test: Mapping[str, Any], is_uneven: bool = False) -> Case:
        arguments = {**test, **{k: v for k, v in sizes.items() if k in test}}
        name = _named(arguments)

        def inputs(seed: int) -> Any:
            return module.generate_input(
                **{**arguments, **({"seed": arguments["seed"] + seed} if "seed" in arguments else {})}
            )

        return Case(name, inputs, module.ref_kernel, accepts if own_check is not None else None, uneven=is_uneven)

    def call(submission: ModuleType) -> Callable[[Any], Any]:
        if not hasattr(submission, "custom_kernel"):
            raise TaskError("the submission has no function custom_kernel")
        return lambda values: submission.custom_kernel(values)

    tests: list[dict[str, Any]] = document["tests"]
    cases = tuple(case(test) for test in tests)
    if not cases or not uneven:
        return Task(cases, call)
    first = {name: n for name, n in tests[0].items() if name != "seed"}
    return Task(_with_uneven(cases, (case({**tests[0], **less}, True) for less in _uneven_sizes(first))), call)
