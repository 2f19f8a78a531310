"""Fixtures with which the emulator's tests run small kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from measurements.emulator import Emulation, emulate
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.launches.operand import Operand

KERNELS = Path(__file__).parent / "kernels"
INCLUDE = Path(__file__).parents[3] / "autosched" / "include"

RunKernel = Callable[..., Emulation]


@cache
def headers() -> Headers:
    """Return the headers that test kernels include. The result is cached, since computing the digest takes 10 ms."""
    return Headers.from_folder(INCLUDE) | Headers.from_folder(KERNELS)


def make_kernel(
    source: str,
    arguments: Sequence[Operand],
    *,
    grid: int | tuple[int, int, int] = 1,
    block: int | tuple[int, int, int] = 32,
    shared: int = 0,
    launches: int = 1,
) -> GeneratedKernel:
    def three(size: int | tuple[int, int, int]) -> tuple[int, int, int]:
        return (size, 1, 1) if isinstance(size, int) else size

    return GeneratedKernel(
        entry="kernel",
        source=source,
        headers=headers(),
        arguments=tuple(arguments),
        grid=three(grid),
        block=three(block),
        dynamic_shared_bytes=shared,
        launches=launches,
    )


def run_kernel(
    source: str,
    arguments: Sequence[Operand],
    inputs: Mapping[str, Array],
    *,
    time_limit: float = 20.0,
    check: bool = True,
    **launch: int | tuple[int, int, int],
) -> Emulation:
    kernel = make_kernel(source, arguments, **launch)
    return emulate(kernel, inputs, time_limit=time_limit, check=check)


@pytest.fixture(scope="session")
def run() -> RunKernel:
    """Return ``run(source, arguments, inputs, grid=, block=, shared=, launches=)``, which emulates ``kernel``."""
    return run_kernel


@pytest.fixture(scope="session")
def kernel_of() -> Callable[..., GeneratedKernel]:
    """Return ``kernel_of(source, arguments, grid=, block=, shared=, launches=)``, which makes a kernel to run later."""
    return make_kernel


@pytest.fixture(scope="session")
def test_kernel() -> Callable[[str], str]:
    """Return a function that returns the source of a kernel in ``kernels/``."""
    return lambda name: (KERNELS / f"{name}.cu").read_text()
