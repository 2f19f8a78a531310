"""``autosched.KernelSpec``: a user's own kernel, from Python or from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from autosched.user_kernels import KernelFileError, from_arrays
from autosched.user_kernels.c_header import c_header
from autosched.user_kernels.document import KeyPositions
from autosched.user_kernels.expressions import suggestion
from autosched.user_kernels.function_traits import function_text
from autosched.user_kernels.kernel_file import KernelFile, UserFunction, launch_macros
from autosched.user_kernels.kernel_options import KernelOptions, plain_values
from autosched.user_kernels.problem import KernelProblem, problem_type
from autosched.user_kernels.reading.kernel_files import read_document, read_file, read_t1
from autosched.user_kernels.template import operator, template
from search_spaces.catalogue import register
from search_spaces.gathered import gathered
from search_spaces.operators.operator import Operator
from search_spaces.templates.template import KernelTemplate


class KernelSpec:
    """A user's own kernel, with parameters, launch, and the reference that it must match.

    Two kernels with equal descriptions (``file``) are equal. ``register`` adds ``operator`` and ``template`` to the
    catalogue.
    """

    def __init__(self, source: str | Path, entry: str = "", base: KernelOptions | None = None, **keywords: Any) -> None:
        """Describe a kernel as in a kernel file, with Python values instead of TOML.

        Args:
            source: CUDA C++, or the path of a source file.
            entry: Name of the function, with any template arguments; "" with ``steps``.
            base: Options of the kernel. ``keywords`` replace single fields of ``base``. Default: only ``keywords``.
            keywords: Fields of ``KernelOptions`` by name; ``parameters`` and ``arguments`` must be given.

        Raises:
            KernelFileError: An argument is invalid; the message is one line that names the argument.
            TypeError: An option is missing or unknown.
        """
        options = gathered(KernelOptions, "base", base, keywords)
        is_path = isinstance(source, Path) or ("\n" not in source and "{" not in source)
        self.file = read_document(
            options.document(entry, str(source) if is_path else ""),
            KeyPositions(f"Kernel {options.name_of(entry)}"),
            Path(),
            source=None if is_path else str(source),
            reference=options.reference_function,
            check=options.verify,
        )

    @classmethod
    def from_arrays(
        cls,
        kernel_name: str,
        kernel_source: Any,
        problem_size: Any,
        arguments: Sequence[Any],
        tune_params: Mapping[str, Any],
        *,
        grid_div_x: Any = None,
        grid_div_y: Any = None,
        grid_div_z: Any = None,
        restrictions: Any = (),
        answer: Sequence[Any] | None = None,
        atol: float = 1e-6,
        verify: Callable[..., Any] | None = None,
        smem_args: Mapping[str, Any] | None = None,
        cmem_args: Mapping[str, Any] | None = None,
        compiler_options: Sequence[str] = (),
        compiler: str = "",
        compile_time_limit: float = 0.0,
        compile_memory_limit: float = 0.0,
        defines: Mapping[str, Any] | None = None,
        block_size_names: Sequence[str] = (),
        metrics: Mapping[str, Any] | None = None,
        outputs: Sequence[int] | None = None,
        name: str = "",
    ) -> Self:
        """Return the kernel that arguments of ``kernel_tuner.tune_kernel`` describe.

        The parameters have the same names and meanings as those of ``tune_kernel``, so a call of ``tune_kernel`` can be
        replaced.

        Args:
            kernel_name: Name of the function, with any template arguments.
            kernel_source: A text, a file, a list of files, or a function of the parameters' values.
            problem_size: Up to three numbers or texts (one per axis), or a function of the parameters' values.
            arguments: Numbers, arrays, and structs of numpy or ctypes. Contents of arrays are restored before each
                launch. Complex numbers, and structs in arrays, become numbers along an additional axis; in ``answer``
                and ``verify``, they keep their types.
            tune_params: Values of each parameter.
            grid_div_x: Divisors of ``problem_size`` along x: texts, or a function of the parameters' values. Default:
                the block's size.
            grid_div_y: Divisors of ``problem_size`` along y.
            grid_div_z: Divisors of ``problem_size`` along z.
            restrictions: Conditions on the values: texts, or functions.
            answer: Expected contents of each argument after a launch (None: not checked). Without ``answer`` and
                ``verify``, the reference is the kernel itself at its defaults.
            atol: Absolute tolerance.
            verify: Function ``verify(answer, result, atol)`` that replaces the comparison of outputs with ``answer``.
            smem_args: ``{"size": ...}``, dynamic shared memory in bytes, or a function of the values.
            cmem_args: Arrays of constant memory, by symbol.
            compiler_options: Compiler options.
            compiler: "nvrtc" or "nvcc". Default: NVRTC, or nvcc if NVRTC does not find a header.
            compile_time_limit: Limit of one compilation in CPU seconds; 0 for the default.
            compile_memory_limit: Limit of one compilation in GiB of memory; 0 for the default.
            defines: Macros by name.
            block_size_names: Names of the parameters that are the extents of a block; empty for block_size_x,
                block_size_y and block_size_z.
            metrics: Texts, or functions of the values, by name.
            outputs: Positions of the outputs. None: the arrays in ``answer``, or else all arrays whose parameters are
                not pointers to const.
            name: Name of the operator; "" for the name of the function.

        Returns:
            The kernel.

        Raises:
            KernelFileError: An argument is invalid; the message is one line.
        """
        name = name or kernel_name.partition("<")[0].strip()
        usual = {n: next(iter(v)) for n, v in tune_params.items()}
        text, file = from_arrays.text_of(kernel_source, usual)
        tables = from_arrays.arguments_of(kernel_name, text, arguments, answer, outputs, cmem_args or {})
        grid_divisors = {"grid_div_x": grid_div_x, "grid_div_y": grid_div_y, "grid_div_z": grid_div_z}
        divisors = {
            key: [value] if callable(value) else value for key, value in grid_divisors.items() if value is not None
        }
        launch = from_arrays.launch_of(problem_size, tune_params, block_size_names, divisors)
        rules = [restrictions] if callable(restrictions) or isinstance(restrictions, str) else list(restrictions)
        reference = None if verify is not None else from_arrays.answers(tables, answer)
        compilation = {
            "compiler": "nvcc" if Path(compiler).name == "nvcc" else compiler,
            "compile_time_limit": compile_time_limit,
            "compile_memory_limit": compile_memory_limit,
        }
        document: dict[str, Any] = {
            "kernel": {
                "name": name,
                "entry": kernel_name,
                "options": list(compiler_options),
            }
            | {key: value for key, value in compilation.items() if value},
            "parameters": {n: plain_values(v) for n, v in tune_params.items()},
            "rule": [{"expr": rule} for rule in rules],
            "launch": launch | {"shared_bytes": (smem_args or {}).get("size", 0)},
            "argument": tables,
            "defines": {**launch_macros(tune_params), "kernel_tuner": 1, **(defines or {})},
            "tolerance": {"atol": atol} if reference is not None else {},
            "metrics": metrics or {},
        }
        folder = Path(file).parent if file else Path()
        check = None if verify is None else from_arrays.output_check(tables, verify, answer, atol, arguments)
        kernel_file = read_document(
            document, KeyPositions(f"Kernel {name}"), folder, source=text, reference=reference, check=check
        )
        if callable(kernel_source):
            kernel_file = replace(kernel_file, generator=UserFunction(name, callable_object=kernel_source))
            kernel_file = replace(kernel_file, source=f"// {function_text(kernel_source)}\n{text}")
        return cls.of(kernel_file)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Return the kernel of a TOML file, or of Kernel Tuner's T1 file (``.json``). Raises KernelFileError."""
        return cls.of(read_t1(path) if Path(path).suffix == ".json" else read_file(path))

    @classmethod
    def of(cls, file: KernelFile) -> Self:
        """Return the kernel of a kernel file that has been read."""
        spec = cls.__new__(cls)
        spec.file = file
        return spec

    def c_header(self, targets: Mapping[str, Mapping[str, Any]]) -> str:
        """Return a C header with parameter values. Example of ``targets``: ``{"a100": result.best.schedule.values}``.

        Raises:
            ValueError: ``targets`` is empty.
        """
        return c_header(self.file, targets)

    def pinned(self, **values: Any) -> Self:
        """Return the same kernel with some parameters fixed to one value. Its trials count as trials of the original.

        Raises KernelFileError for an unknown parameter or value.
        """
        by_name = {p.name: p for p in self.file.parameters}
        parameters = []
        for name, value in values.items():
            if name not in by_name:
                raise KernelFileError(f"{self.file.name} has no parameter {name!r}: {suggestion(name, by_name)}")
            spelled = {str(v): v for v in by_name[name].values}
            text = repr(float(value)) if name in self.file.floats else str(value)
            if text not in spelled:
                raise KernelFileError(f"{name} cannot be {value}: use one of {', '.join(spelled)}")
            parameters.append((name, spelled[text]))
        return self.of(replace(self.file, pinned=tuple(parameters)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelSpec) and self.file == other.file

    def __hash__(self) -> int:
        return hash(self.file)

    def __repr__(self) -> str:
        return f"KernelSpec({self.file.name})"

    @property
    def operator(self) -> Operator:
        """Operator of the kernel's problems."""
        return operator(self.file)

    @property
    def template(self) -> KernelTemplate:
        """Kernel template of the kernel."""
        return template(self.file)

    def register(self) -> None:
        """Register the kernel in the catalogue of this process, replacing a user's kernel of the same name.

        Raises ValueError if an operator of autosched, or of an installed package, has that name.
        """
        try:
            register(self.operator, self.template, replace=True)
        except ValueError as error:
            raise KernelFileError(f'{error}: give the kernel another name with [kernel] name = "..."') from None

    def problem(self, **sizes: int) -> KernelProblem:
        """Register the kernel, and return the problem with these sizes; omitted sizes keep the kernel's values.

        ``tune``, ``Database.kernel`` and other functions accept the problem. Raises ValueError for an unknown or
        invalid size.
        """
        self.register()
        return problem_type(self.file).of(sizes)

    @property
    def problems(self) -> tuple[KernelProblem, ...]:
        """Problems listed in the file. If it lists none, the problem with the file's sizes."""
        return tuple(self.problem(**dict(sizes)) for sizes in self.file.problems)
