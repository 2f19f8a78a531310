"""``autosched.Kernel``: one's own kernel from Python, without files; and from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from autosched.user_kernels.document import Places
from autosched.user_kernels.kernel_file import KernelFile
from autosched.user_kernels.problem import KernelProblem, problem_type
from autosched.user_kernels.reading import read_document, read_file, read_t1
from autosched.user_kernels.template import operator, template
from search_spaces.catalogue import register
from search_spaces.operators.operator import Operator
from search_spaces.templates.template import KernelTemplate

Texts = str | int | Sequence[str | int]


class Kernel:
    """A user's own kernel: what is to be tuned, how it is launched, what it must compute.

    Two are equal if they say the same. ``file`` is the description, ``operator`` and ``template`` are what the
    catalogue registers.
    """

    def __init__(
        self,
        source: str | Path,
        entry: str,
        *,
        parameters: Mapping[str, Any],
        arguments: Sequence[Mapping[str, Any]],
        block: Texts = (),
        grid: Texts = (),
        problem_size: Texts = (),
        grid_div_x: Texts | None = None,
        grid_div_y: Texts | None = None,
        grid_div_z: Texts | None = None,
        cluster: Texts = (),
        shared_bytes: str | int = 0,
        sizes: Mapping[str, int] | None = None,
        problems: Sequence[Mapping[str, int]] = (),
        attributes: Mapping[str, str] | None = None,
        rules: Sequence[str | tuple[str, str] | Mapping[str, str]] = (),
        reference: Callable[..., Any] | Mapping[str, Any] | None = None,
        verify: Callable[..., Any] | None = None,
        tolerance: Mapping[str, Any] | None = None,
        metrics: Mapping[str, str] | None = None,
        cost: Mapping[str, str] | None = None,
        proxy: Mapping[str, str | int] | None = None,
        defines: Mapping[str, str | int | float] | None = None,
        parameters_as: str = "",
        options: Sequence[str] = (),
        include: Sequence[str] = (),
        name: str = "",
        summary: str = "",
    ) -> None:
        """``source`` is CUDA C++, or the path of a file of it. Everything else is spelled as in a kernel file: a rule
        is an expression, or one with its reason; ``reference`` is a function that computes the outputs, or the table
        of a kernel file; ``verify`` in its place one that is given inputs and outputs by name, and says whether the
        outputs are right: True or None, or False or a text of what is wrong.

        Raises KernelFileError, one line that names the argument, for whatever is wrong with it.
        """
        is_path = isinstance(source, Path) or ("\n" not in source and "{" not in source)
        name = name or entry.partition("<")[0].rpartition("::")[2].strip()
        launch = {"block": block, "grid": grid, "problem_size": problem_size, "cluster": cluster}
        divisors = {"grid_div_x": grid_div_x, "grid_div_y": grid_div_y, "grid_div_z": grid_div_z}
        kernel = {"name": name, "entry": entry, "options": list(options), "include": list(include)}
        given = {"source": str(source) if is_path else "", "parameters_as": parameters_as, "summary": summary}
        document: dict[str, Any] = {
            "kernel": kernel | {key: value for key, value in given.items() if value},
            "sizes": sizes or {},
            "problem": list(problems),
            "parameters": parameters,
            "attributes": attributes or {},
            "defines": defines or {},
            "rule": [_rule(rule) for rule in rules],
            "launch": {"shared_bytes": shared_bytes}
            | {key: value for key, value in launch.items() if value}
            | {key: value for key, value in divisors.items() if value is not None},
            "argument": list(arguments),
            "tolerance": tolerance or {},
            "reference": {} if reference is None or callable(reference) else reference,
            "metrics": metrics or {},
            "cost": cost or {},
            "proxy": proxy or {},
        }
        self.file = read_document(
            document,
            Places(f"Kernel {name}"),
            Path(),
            source=None if is_path else str(source),
            reference=reference if callable(reference) else None,
            judge=verify,
        )

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """The kernel of a TOML file, or of a T1 file of Kernel Tuner's (``.json``). Raises KernelFileError."""
        return cls.of(read_t1(path) if Path(path).suffix == ".json" else read_file(path))

    @classmethod
    def of(cls, file: KernelFile) -> Self:
        made = cls.__new__(cls)
        made.file = file
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and self.file == other.file

    def __hash__(self) -> int:
        return hash(self.file)

    def __repr__(self) -> str:
        return f"Kernel({self.file.name})"

    @property
    def operator(self) -> Operator:
        return operator(self.file)

    @property
    def template(self) -> KernelTemplate:
        return template(self.file)

    def register(self) -> None:
        """Make it known to the catalogue of this process, instead of an earlier one of its name.

        Raises ValueError where an operator of ours, or of an installed package, has that name.
        """
        register(self.operator, self.template, replace=True)

    def problem(self, **sizes: int) -> KernelProblem:
        """The problem of these sizes, and the kernel's own for those not given: what ``tune``, ``Database.kernel`` and
        the rest take. Registers the kernel. Raises ValueError."""
        self.register()
        return problem_type(self.file).of(sizes)

    @property
    def problems(self) -> tuple[KernelProblem, ...]:
        """The problems that the file lists; that of its sizes where it lists none."""
        return tuple(self.problem(**dict(sizes)) for sizes in self.file.problems)


def _rule(rule: str | tuple[str, str] | Mapping[str, str]) -> Any:
    if isinstance(rule, str):
        return {"expr": rule}
    return dict(zip(("expr", "reason"), rule, strict=False)) if isinstance(rule, tuple) else rule
