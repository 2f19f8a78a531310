"""A user's Triton function, decorated with ``@triton.jit``, and optionally with Triton's heuristics and autotuner."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.runtime import Autotuner, Heuristics, JITFunction

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
DEFAULT_OPTIONS: Mapping[str, int] = {
    "num_warps": 4,
    "num_stages": 3,
    "num_ctas": 1,
}  # names of Triton's launch options for NVIDIA GPUs


class NotATritonFunction(ValueError):
    """An object that cannot be tuned. The message is one line."""


@dataclass(frozen=True, eq=False)
class TritonFunction:
    """A Triton function.

    ``run`` launches it with a configuration. ``configs`` and ``keys`` are the arguments of ``@triton.autotune``, if
    present.

    ``constexprs`` are the compile-time constants with their defaults (``inspect.Parameter.empty`` for no default).
    ``computed`` names the constants that heuristics compute.
    """

    name: str
    run: Any
    jit: Any
    parameters: tuple[str, ...]
    constexprs: Mapping[str, Any]
    computed: tuple[str, ...] = ()
    configs: tuple[Any, ...] = ()
    reset_to_zero: tuple[str, ...] = ()
    restore_value: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, function: Any) -> TritonFunction:
        """Return the Triton function of a decorated object. Raises NotATritonFunction."""
        configs: tuple[Any, ...] = ()
        reset: tuple[str, ...] = ()
        restore: tuple[str, ...] = ()
        keys: tuple[str, ...] = ()
        heuristics: list[Any] = []
        inner = function
        while not isinstance(inner, JITFunction):
            if isinstance(inner, Autotuner):
                configs, reset, restore = tuple(inner.configs), tuple(inner.reset_to_zero), tuple(inner.restore_value)
                keys = tuple(inner.keys)
            elif isinstance(inner, Heuristics):
                heuristics.append(inner)
            else:
                raise NotATritonFunction(
                    f"{getattr(inner, '__name__', inner)!s} is not a Triton kernel: decorate it with @triton.jit"
                )
            inner = inner.fn
        run = inner
        for wrapper in reversed(heuristics):  # apply the heuristics, but not the autotuner
            run = Heuristics(run, wrapper.arg_names, wrapper.values)
        signature = inspect.signature(inner.fn)
        constexprs = {p.name: signature.parameters[p.name].default for p in inner.params if p.is_constexpr}
        computed = tuple(name for wrapper in heuristics for name in wrapper.values)
        parameters = tuple(inner.arg_names)
        return cls(inner.fn.__name__, run, inner, parameters, constexprs, computed, configs, reset, restore, keys)

    def computed_of(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, including the constants that heuristics compute."""
        values = dict(arguments)
        wrapper = self.run
        while isinstance(wrapper, Heuristics):
            for name, compute in wrapper.values.items():
                values[name] = compute(dict(values))
            wrapper = wrapper.fn
        return values

    @property
    def source(self) -> str:
        """Python source of the function."""
        return str(inspect.getsource(self.jit.fn))

    @property
    def digest(self) -> str:
        """Return the SHA-256 (hex) of the function's text, of all its callees, and of the constants that they read.

        The digest does not change if the function moves within its file or to another file.
        """
        return hashlib.sha256("\0".join(_texts(self.jit, set())).encode()).hexdigest()


def _texts(jit: Any, seen: set[int]) -> Iterator[str]:
    if id(jit) in seen:  # Triton computes the hash from the parsed source
        return
    seen.add(id(jit))
    yield str(jit.src)
    for name, value in sorted(_named(jit.fn), key=lambda item: item[0]):
        if isinstance(value, JITFunction):
            yield from _texts(value, seen)
        elif isinstance(value, tl.constexpr | int | float | str):
            yield f"{name} = {getattr(value, 'value', value)!r}"


def _named(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that a function refers to: globals, variables of enclosing functions, module members."""
    code = function.__code__
    for name in code.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and not value.__name__.startswith("triton."):
            yield from ((f"{name}.{member}", getattr(value, member, None)) for member in code.co_names)
        else:
            yield name, value
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a variable of an enclosing function that is not assigned yet
            yield name, None
