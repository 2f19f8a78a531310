"""A Triton function as users write it: ``@triton.jit``, perhaps with ``@triton.heuristics`` and
``@triton.autotune``."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import triton.language as tl
from triton.runtime import Autotuner, Heuristics, JITFunction

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
DEFAULT_OPTIONS: Mapping[str, int] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}  # Triton's own, for NVIDIA GPUs


class NotATritonFunction(ValueError):
    """What was given cannot be tuned. The message is one line."""


@dataclass(frozen=True, eq=False)
class TritonFunction:
    """``run`` is called with a configuration; ``configs`` and ``keys`` are those of ``@triton.autotune``, if there are
    any.

    ``constexprs`` are the parameters that are compile-time constants, with their defaults (``inspect.Parameter.empty``
    where there is none). ``computed`` are those that heuristics compute.
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
        """Raise NotATritonFunction."""
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
        for wrapper in reversed(heuristics):  # without the autotuner between them
            run = Heuristics(run, wrapper.arg_names, wrapper.values)
        signature = inspect.signature(inner.fn)
        constexprs = {p.name: signature.parameters[p.name].default for p in inner.params if p.is_constexpr}
        computed = tuple(name for wrapper in heuristics for name in wrapper.values)
        parameters = tuple(inner.arg_names)
        return cls(inner.fn.__name__, run, inner, parameters, constexprs, computed, configs, reset, restore, keys)

    def computed_of(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with those that heuristics compute from them."""
        found = dict(arguments)
        wrapper = self.run
        while isinstance(wrapper, Heuristics):
            for name, compute in wrapper.values.items():
                found[name] = compute(dict(found))
            wrapper = wrapper.fn
        return found

    @property
    def source(self) -> str:
        return str(inspect.getsource(self.jit.fn))

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the function's text, of all that it calls, and of the constants that they read. Where they
        lie in which file is not a part of it."""
        return hashlib.sha256("\0".join(_texts(self.jit, set())).encode()).hexdigest()


def _texts(jit: Any, seen: set[Any]) -> Iterator[str]:
    if jit in seen:
        return
    seen.add(jit)
    yield inspect.getsource(jit.fn)
    for name in sorted(jit.fn.__code__.co_names):
        value = jit.fn.__globals__.get(name)
        if isinstance(value, JITFunction):
            yield from _texts(value, seen)
        elif isinstance(value, tl.constexpr | int | float | str):
            yield f"{name} = {getattr(value, 'value', value)!r}"
