"""Emulate some blocks of a launch that is too large to be emulated as a whole.

Arrays are reserved in full, so that every address is the same as on a device, but only touched pages occupy memory. An
input element is a function of the seed and the element's index. The runner generates the element when it is read, and
``generated`` computes the same value for the reference. The elements that the blocks have written are returned with
their positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from measurements.emulator.effect import time_limit_of, without_harmless
from measurements.emulator.emulator import machine_failures, run_job
from measurements.emulator.findings import Emulation, WrittenElements
from measurements.emulator.inputs_file import InputsFile
from measurements.emulator.memory import PLAIN_MEMORY, Memory
from measurements.emulator.order import ASCENDING, Order
from measurements.emulator.ptx.build import CompiledBytecode, KernelCompileError, compile_to_bytecode, ptx_to_bytecode
from measurements.emulator.runner_files import RunSettings, job_text
from measurements.files.work_folders import temporary_folder
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand

Indices = npt.NDArray[np.int64]

_NOBODY = 2**32 - 1
_CHUNK = 1 << 15  # number of elements that are generated at a time; they fit a CPU cache
_CONTENT = {name: name for name in ("f16", "bf16", "f32", "e4m3", "e5m2")} | {
    name: "bits" for name in ("i8", "i32", "u8", "u16", "u32")
}


def generated(dtype: DType, seed: int, positions: Indices) -> Array:
    """Return the elements at ``positions`` of an input of type ``dtype``: booleans, or integers 1 to 3 of either sign.

    An element depends only on ``seed`` and its position. runtime/memory/global/buffers.cpp generates the same elements
    with the integer hash lowbias32 (Wellons, "Prospecting for Hash Functions").
    """
    flat = positions.reshape(-1)
    array: Array = np.empty(flat.size, dtype.storage)
    for start in range(0, flat.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        array[part] = _generated(dtype, seed, flat[part])
    return array.reshape(positions.shape)


def _generated(dtype: DType, seed: int, positions: Indices) -> Array:
    low, high = positions.astype(np.uint32), positions >> 32
    far = high if high.any() else np.zeros(1, np.int64)
    salt = _hashed((seed + 0x9E3779B9 * far & 0xFFFFFFFF).astype(np.uint32))
    low ^= salt
    x = _hashed(low)
    if _CONTENT[dtype.name] == "bits":
        ones = np.uint32(2**dtype.bits - 1)
        x &= ones
        x[x == ones] = 0
        return x
    signed: Array = _signed_integers(dtype)[x >> np.uint32(15)]
    return signed


def _hashed(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    x = x ^ (x >> np.uint32(16))
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x


@lru_cache(maxsize=8)
def _signed_integers(dtype: DType) -> Array:
    """Return a table that maps a random 17-bit index to an element. The index's highest bit is the sign."""
    size = (1 + (3 * np.arange(2**16) >> 16)).astype(np.float64)
    return dtype.store(np.concatenate((size, -size)))


def can_generate(kernel: GeneratedKernel) -> bool:
    """Return True if ``generated`` supports the types of all inputs of ``kernel``."""
    return all(o.dtype.name in _CONTENT and o.role != "inout" for o in kernel.operands)


def seeds_of(kernel: GeneratedKernel, seed: int) -> dict[str, int]:
    """Return the seed of each input. All seeds differ."""
    names = [o.name for o in kernel.operands if o.role == "input"]
    return {name: 1 + seed * len(names) + i for i, name in enumerate(names)}


def emulate_blocks(
    kernel: GeneratedKernel,
    blocks: Sequence[int],
    *,
    seed: int = 0,
    order: Order = ASCENDING,
    time_limit: float = 60.0,
    inputs: InputsFile | None = None,
    check: bool = True,
    count: bool = False,
) -> Emulation:
    """Compile ``kernel`` and run only some blocks of the grid. Operands may be larger than this machine's memory.

    Args:
        kernel: Source, launch and operands.
        blocks: Numbers of the grid's blocks to run.
        seed: Random seed of generated inputs.
        order: Order of blocks and threads.
        time_limit: CPU seconds of the launch.
        inputs: A file with the inputs; None to generate them.
        check: If True, races are detected, and ``elements`` are recorded.
        count: If True, executed instructions are counted.

    Returns:
        The emulation. If the launch ended, its ``elements`` are the written elements.

    Raises:
        ValueError: For blocks outside of the grid, or inputs that cannot be generated.
        HostFailure: If this machine is the problem.
    """
    if inputs is not None:
        contents = _in_file(inputs)
    elif can_generate(kernel):
        seeds = seeds_of(kernel, seed)
        contents = {o.name: f"{_CONTENT[o.dtype.name]} {seeds[o.name]}" for o in kernel.operands if o.name in seeds}
    else:
        raise ValueError(f"running only some blocks of a grid requires arrays of these types: {', '.join(_CONTENT)}")
    compile_it = partial(compile_to_bytecode, kernel)
    settings = RunSettings(
        time_limit=time_limit, check=check, order=order, count=count, contents=contents, inputs=inputs
    )
    return _emulate_blocks(kernel, compile_it, blocks, settings)


def emulate_ptx_blocks(
    text: str,
    launch: Launch,
    blocks: Sequence[int],
    inputs: InputsFile,
    *,
    order: Order = ASCENDING,
    time_limit: float = 60.0,
    check: bool = True,
    count: bool = False,
    memory: Memory = PLAIN_MEMORY,
) -> Emulation:
    """Run only some blocks of a launch of PTX text, like ``emulate_blocks``.

    Args:
        text: A PTX module.
        launch: Grid, block and operands.
        blocks: Indices of the grid's blocks to run.
        inputs: A file with the inputs.
        order: Order of blocks and threads.
        time_limit: CPU seconds of the launch.
        check: If True, races are detected, and ``elements`` are recorded.
        count: If True, executed instructions are counted.
        memory: As for ``emulate_ptx``, but without flags of undefined bytes.

    Returns:
        As ``emulate_blocks``.

    Raises:
        ValueError: For blocks outside of the grid or a ``memory`` with flags; also as ``emulate_ptx``.
        HostFailure: If this machine is the problem.
    """
    if memory.defined:
        raise ValueError("emulating a part of the grid does not support undefined bytes in memory: omit memory.defined")
    memory.check(launch)
    compile_it = partial(ptx_to_bytecode, text, launch.entry)
    settings = RunSettings(
        time_limit=time_limit,
        check=check,
        order=order,
        memory=memory,
        count=count,
        contents=_in_file(inputs),
        inputs=inputs,
    )
    return _emulate_blocks(launch, compile_it, blocks, settings)


def _in_file(inputs: InputsFile) -> dict[str, str]:
    return {name: f"file {offset}" for name, offset in inputs.offsets.items()}


def _emulate_blocks(
    launch: Launch, compile_it: Callable[[], CompiledBytecode], blocks: Sequence[int], settings: RunSettings
) -> Emulation:
    grid = math.prod(launch.grid)
    if not blocks or min(blocks) < 0 or max(blocks) >= grid or len(set(blocks)) < len(blocks):
        raise ValueError(f"blocks must be distinct numbers from 0 to {grid - 1}")
    settings = replace(settings, blocks=[int(blocks[i]) for i in settings.order.of(len(blocks))])
    with machine_failures(), temporary_folder() as folder:
        try:
            compiled = compile_it()
        except KernelCompileError as error:
            return error.emulation
        operands = settings.memory.operands(launch)

        def run(time_limit: float, poison: int = 0) -> Emulation:
            (folder / "data").write_bytes(b"")
            text = job_text(launch, replace(settings, time_limit=time_limit, poison=poison))
            emulation = run_job(compiled, text, folder, time_limit)
            done = emulation.status in ("ok", "findings")
            return replace(emulation, elements=_written(operands, folder / "data") if done else {})

        done = run(settings.time_limit)
        if not settings.check:
            return done

        def again(poison: int) -> Emulation:
            return run(time_limit_of(done, settings.time_limit), poison)

        return without_harmless(done, again, lambda one, other: _left_the_same(one.elements, other.elements))


def _left_the_same(written: Mapping[str, WrittenElements], other: Mapping[str, WrittenElements]) -> bool:
    """Return True if two runs of some blocks have written equal values to the same elements."""

    def same(a: WrittenElements, b: WrittenElements) -> bool:
        return np.array_equal(a.positions, b.positions) and a.values.tobytes() == b.values.tobytes()

    return all(same(of_array, other[name]) for name, of_array in written.items())


def _written(operands: Sequence[Operand], data: Path) -> dict[str, WrittenElements]:
    """Read the elements in a file that ``write_touched_outputs`` (runtime/memory/global/buffers.cpp) has written."""
    content = data.read_bytes()
    written: dict[int, WrittenElements] = {}
    at = 0

    def take(dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        nonlocal at
        elements = np.frombuffer(content, dtype, count, at)
        at += elements.nbytes
        return elements

    while at < len(content):
        number, stretches = take(np.int64, 2).tolist()
        firsts, counts = take(np.int64, stretches), take(np.int64, stretches)
        size = int(counts.sum())
        values, writers = take(operands[number].dtype.storage, size), take(np.uint32, size)
        # fast path for a single range, which is usual for a large output: avoids two further arrays of positions
        if stretches == 1:
            positions = np.arange(firsts[0], firsts[0] + size)
        else:
            positions = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
            positions += np.arange(size)
        if writers.max(initial=0) == _NOBODY:
            written_positions = np.flatnonzero(writers != _NOBODY)
            positions, values, writers = (
                positions[written_positions],
                values[written_positions],
                writers[written_positions],
            )
        written[number] = WrittenElements(positions, values, writers)
    blocks, positions = np.zeros(0, np.uint32), np.zeros(0, np.int64)
    return {
        operand.name: written.get(number, WrittenElements(positions, np.zeros(0, operand.dtype.storage), blocks))
        for number, operand in enumerate(operands)
        if operand.role in ("output", "inout")
    }
