"""AutoHeuristic's recordings of Triton matmuls (torch.mm on A100 and H100, 2024-08), read and counted.

The files are ``*_mm.txt`` of https://github.com/AlnisM/autoheuristic-datasets. They come without a licence, so neither
they nor copies of them are part of this repository; figures computed from them are.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from cost_models.features import FEATURES, Batch, FeatureTable
from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.devices import Device, device, occupancy
from search_spaces.operators.matmul import Matmul

LIBRARY = "extern_mm"  # cuBLAS; every other choice is a Triton configuration
_CONFIG = re.compile(r"type=triton_BLOCK-M=(\d+)_BLOCK-K=(\d+)_BLOCK-N=(\d+)_numstages=(\d+)_numwarps=(\d+)$")
_DTYPES = {"torch.float16": "f16", "torch.bfloat16": "bf16", "torch.float32": "f32"}
_BAND = 8  # GROUP_M of torch's template
_L2_SHARE = 0.4  # of L2 that operands can count on: fitted to the *_mm files
# Times that blocks which share SMs read a panel again, for a flop/s of the chip's tensor cores to a byte of L2: the
# same delay is more of a panel where blocks walk faster, and L2 holds less of it where it is smaller. Fitted to the
# *_mm files.
_DRIFT = 1.35e-7
# No matmul of h100_mm moves more than 2.40 TB/s, those of a100_mm up to 1.73 TB/s, 85% of the data sheet: the
# H100 was not one of 3.35 TB/s. 2.5 TB/s suits its recordings best.
_DRAM_BANDWIDTH = {"h100": 2.5e12}
_LINE = 128  # bytes of a line of L2
# Bytes of an operand's line from which halves of L2's lines begin to cost more, and with which they cost all.
_LONG_LINES = 24 << 10, 88 << 10
_WGMMA_ROWS, _WARPGROUP = 64, 4  # the least rows of a tile and warps of a block for which Triton emits wgmma


class NotARecording(ValueError):
    """A file that is not a recording of AutoHeuristic. One line says why."""


@dataclass(frozen=True)
class TritonConfig:
    """What torch's template of a matmul is compiled with."""

    block_m: int
    block_n: int
    block_k: int
    stages: int
    warps: int


@dataclass(frozen=True)
class Recorded:
    """One matmul on one device: median ``seconds`` of each of ``configs``, and of cuBLAS, None where that is missing.

    ``strides`` are those of both operands; ``choices`` are the names the file gives to ``configs``.
    """

    problem: Matmul
    device: Device
    strides: tuple[int, int, int, int]
    configs: tuple[TritonConfig, ...]
    choices: tuple[str, ...]
    seconds: tuple[float, ...]
    library: float | None
    row: tuple[tuple[str, str], ...]  # of the file, without choice and time

    @cached_property
    def alignment(self) -> tuple[int, int]:
        """Bytes up to 16 to which the contiguous lines of a and of b are aligned: the widest copy of each."""
        element = self.problem.input_dtype.bytes
        widths = []
        for strides in (self.strides[:2], self.strides[2:]):
            width, line = 16, max(strides) * element
            while line % width:
                width //= 2
            widths.append(width)
        return widths[0], widths[1]


def read(path: Path) -> list[Recorded]:
    """The matmuls of one file, in its order. Raises NotARecording, and OSError."""
    with path.open(encoding="utf-8", newline="") as file:
        try:
            about = json.loads(file.readline())
            major, minor = about["device_capa"]
            chip = _device({80: "a100", 90: "h100"}[10 * major + minor])
        except (ValueError, KeyError, TypeError) as error:
            raise NotARecording(f"{path} does not begin with a header of AutoHeuristic") from error
        rows = csv.reader(file)
        names = next(rows, [])
        if names[-2:] != ["choice", "feedback"]:
            raise NotARecording(f"{path} has no columns choice and feedback")
        times: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise NotARecording(f"{path} is cut short")
            milliseconds = float(row[-1])
            if 0 < milliseconds < float("inf"):
                times[tuple(row[:-2])][row[-2]].append(milliseconds * 1e-3)
    found = (_recorded(dict(zip(names[:-2], key, strict=True)), chip, choices) for key, choices in times.items())
    return [recorded for recorded in found if recorded is not None]


def _device(name: str) -> Device:
    """The row called ``name`` with the DRAM of the machine that recorded."""
    row = device(name)
    return dataclasses.replace(row, dram_bandwidth=_DRAM_BANDWIDTH.get(name, row.dram_bandwidth))


def _recorded(row: dict[str, str], chip: Device, by_choice: dict[str, list[float]]) -> Recorded | None:
    dtype = _DTYPES.get(row["mat1_dtype"])
    if dtype is None or row["mat2_dtype"] != row["mat1_dtype"]:
        return None
    precision = "tf32" if row["using_tf32"] in ("True", "not_float_32") else "ieee"
    sizes = {name: int(row[name]) for name in ("m", "n", "k")}
    strides = [int(row[f"mat{i}_stride_{j}"]) for i in (1, 2) for j in (0, 1)]
    orders = ["row" if s[1] == 1 else "col" for s in (strides[:2], strides[2:])]
    problem = Matmul(**sizes, a=dtype, b=dtype, out=dtype, order_a=orders[0], order_b=orders[1], precision=precision)
    found = {name: match for name in by_choice if (match := _CONFIG.match(name))}
    if len(found) < 2:
        return None
    values = [tuple(map(int, match.groups())) for match in found.values()]
    library = by_choice.get(LIBRARY)
    return Recorded(
        problem,
        chip,
        (strides[0], strides[1], strides[2], strides[3]),
        tuple(TritonConfig(bm, bn, bk, stages, warps) for bm, bk, bn, stages, warps in values),
        tuple(found),
        tuple(statistics.median(by_choice[name]) for name in found),
        None if library is None else statistics.median(library),
        tuple(row.items()),
    )


def table(recorded: Recorded) -> FeatureTable:
    """The documented features of every configuration, and those of the configuration itself."""
    chip, configs = recorded.device, recorded.configs
    batch = Batch(recorded.problem, chip, tuple(counts(recorded, config) for config in configs))
    fixed = np.array([feature.of(batch) * np.ones(len(configs)) for feature in FEATURES], dtype=np.float32).T
    wgmma = np.array([uses_wgmma(chip, config) for config in configs])
    own = {
        **{
            f"triton.{f.name}": [np.log2(getattr(c, f.name)) for c in configs] for f in dataclasses.fields(TritonConfig)
        },
        "triton.tile": [np.log2(c.block_m * c.block_n / c.warps / 32) for c in configs],
        "triton.wgmma": wgmma,
        "triton.tiles_m": [np.log2(-(-recorded.problem.m // c.block_m)) for c in configs],
        "triton.tiles_n": [np.log2(-(-recorded.problem.n // c.block_n)) for c in configs],
        "triton.k_rest": [recorded.problem.k % c.block_k == 0 for c in configs],
        **{f"problem.{s}": [np.log2(getattr(recorded.problem, s))] * len(configs) for s in ("m", "n", "k")},
        **{f"problem.aligned_{s}": [np.log2(w)] * len(configs) for s, w in zip("ab", recorded.alignment, strict=True)},
        "problem.bytes": [recorded.problem.input_dtype.bytes] * len(configs),
        "problem.order_a": [recorded.problem.order_a == "row"] * len(configs),
        "problem.order_b": [recorded.problem.order_b == "row"] * len(configs),
    }
    values = np.array(list(own.values()), dtype=np.float32).T
    return FeatureTable((*(f.name for f in FEATURES), *own), np.concatenate([fixed, values], axis=1))


def uses_wgmma(chip: Device, config: TritonConfig) -> bool:
    return chip.sm == 90 and config.block_m >= _WGMMA_ROWS and config.warps % _WARPGROUP == 0


def counts(recorded: Recorded, config: TritonConfig, *, own_buffers: bool = False) -> CostCounts:
    """What torch's template demands of the machine: tiles of a and b go to shared memory by cp.async, ``stages`` of
    them in flight, and from there to ldmatrix and mma.sync, or to wgmma; blocks walk in bands of 8 rows of tiles.

    With ``own_buffers`` each stage has a buffer of its own and loads need not wait for the arithmetic of their step,
    as in CUTLASS's kernels; Triton's loop of mma.sync has a buffer less."""
    problem, chip = recorded.problem, recorded.device
    element, ieee = problem.input_dtype.bytes, problem.a == "f32" and problem.precision == "ieee"
    m, n, k, warps = config.block_m, config.block_n, config.block_k, config.warps
    threads, tile, wgmma = 32 * warps, m * n, uses_wgmma(chip, config)
    tiles_m, tiles_n, steps = -(-problem.m // m), -(-problem.n // n), -(-problem.k // k)
    buffers = max(1, config.stages - (0 if wgmma or own_buffers else 1))
    copied = element * k * (m + n)
    requests = sum(element * k * side / width / 32 for side, width in zip((m, n), recorded.alignment, strict=True))
    # On Ampere a line of 128 bytes is a cycle of L1, however little of it a copy of 16 bytes a lane takes; the shorter
    # lines of Hopper's tiles cost half of one, as they are recorded.
    least = 0.5 if wgmma else 1.0
    copied_lines = m * max(least, element * k / 128) + k * max(least, element * n / 128)
    read = _wgmma_bytes(config, element) if wgmma else _fragment_bytes(config, element)
    multiplies = tile * k / 32 if ieee else tile * k * element / (16 * 8 * 32) / (8 if wgmma else 1)
    warps_m, warps_n = _warps(config)
    accumulators = tile // threads
    fragments = 0 if wgmma else (m // warps_m + n // warps_n) * min(k, 16) // 32
    loaded = 0.0 if wgmma else read / 512
    # Warpgroups of a block wait for each other where a tile has arrived and where its place is free, and the tensor
    # cores for the last of them. CUTLASS's wait each for itself.
    together = wgmma and warps > _WARPGROUP and not own_buffers
    work = CostCounts(
        blocks=tiles_m * tiles_n,
        threads=threads,
        shared_bytes=min(buffers * copied, chip.shared_per_block),
        registers=max(24, min(40 + accumulators + fragments, 255)),  # fitted to the *_mm files
        unit="fma" if ieee else "wgmma" if wgmma else "mma",
        operand_dtype=problem.a if problem.a != "f32" else ("f32" if ieee else "tf32"),
        flops=2.0 * tile * k * steps,
        instructions=(multiplies + loaded + 2 * requests + 12 * warps) * steps + 4.0 * tile / 32,
        shared_wavefronts=(read / 128 + copied_lines) * steps,
        load_bytes=element * k * (m * _lines(problem, "a", k) + n * _lines(problem, "b", k)) * steps,
        store_bytes=float(tile * problem.out_dtype.bytes),
        dram_bytes=0.0,
        iterations=steps,
        stages=config.stages,
        barriers_per_iteration=1 if config.stages > 1 and not together else 2,
        # The next load takes the place of the tile that was multiplied last. With wgmma one multiplication stays in
        # flight over the barrier, and there is a buffer more; the load waits for the one before it.
        refills=not wgmma or together,
        copies_behind=not own_buffers and config.stages > 1,
        run_bytes=CostCounts.run_bytes if own_buffers else _run_bytes(problem, chip, config),
    )
    return dataclasses.replace(work, dram_bytes=_dram_bytes(problem, chip, config, work))


def _lines(problem: Matmul, side: str, k: int) -> float:
    """What L2 moves of an operand over what a step takes of it: a step that takes half a line of 128 bytes costs as
    much as the whole line where the operand's lines are long. So it is recorded on A100: steps of 64 bytes take 1.3
    times as long as steps of 128 where k is 50,000 and one operand lies along k, 1.6 times where both do, and as long
    where none does. Why it depends on k is not known."""
    along_k = problem.order_a == "row" if side == "a" else problem.order_b == "col"
    element = problem.input_dtype.bytes
    least, most = _LONG_LINES
    far = min(1.0, max(0.0, (problem.k * element - least) / (most - least)))
    return 1 + far * (max(1.0, _LINE / (element * k)) - 1) if along_k else 1.0


def _run_bytes(problem: Matmul, chip: Device, config: TritonConfig) -> float:
    """Bytes that a step reads of DRAM in one piece: the harmonic mean of both operands, by their sizes. On A100 the
    rule of ``_lines`` says what short pieces cost, and its recordings show no more."""
    if chip.sm < 90:
        return CostCounts.run_bytes
    element = problem.input_dtype.bytes
    a = element * (config.block_k if problem.order_a == "row" else config.block_m)
    b = element * (config.block_n if problem.order_b == "row" else config.block_k)
    return (problem.m + problem.n) / (problem.m / a + problem.n / b)


def _warps(config: TritonConfig) -> tuple[int, int]:
    """Warps along m and n of a tile multiplied by mma.sync."""
    m, n, warps = config.block_m, config.block_n, config.warps
    along_n = min(warps, max(1, n // 8 if m <= 16 else int(np.sqrt(warps * n / m)) or 1))
    return max(1, warps // along_n), along_n


def _fragment_bytes(config: TritonConfig, element: int) -> float:
    """Bytes that all warps read from shared memory in a step."""
    warps_m, warps_n = _warps(config)
    return float(element * config.block_k * (config.block_m * warps_n + config.block_n * warps_m))


def _wgmma_bytes(config: TritonConfig, element: int) -> float:
    """Bytes that the multiplications of a step read: 64 rows of a, and all columns of b that their warpgroup has."""
    warpgroups = config.warps // _WARPGROUP
    along_n = max(1, warpgroups // max(1, min(warpgroups, config.block_m // _WGMMA_ROWS)))
    rows = config.block_m / _WGMMA_ROWS
    return rows * config.block_k * element * (_WGMMA_ROWS * along_n + config.block_n)


def _dram_bytes(problem: Matmul, chip: Device, config: TritonConfig, work: CostCounts) -> float:
    """A wave of blocks reads the panels of its band once. L2 keeps a's band for the next wave, and b for the next band,
    as far as it has room. Blocks that share an SM drift apart after the first wave and read panels again that L2 has no
    room for: once for each that shares it at most, and never more often than tiles need the panel."""
    element, tiles_m, tiles_n = (
        problem.input_dtype.bytes,
        -(-problem.m // config.block_m),
        -(-problem.n // config.block_n),
    )
    resident = min(occupancy(chip, work.threads, work.registers, work.shared_bytes), -(-work.blocks // chip.sm_count))
    wave = min(resident * chip.sm_count, work.blocks)
    band = min(_BAND, tiles_m)
    rows = min(band * max(1.0, wave / (band * tiles_n)), tiles_m)
    columns = min(wave / band, float(tiles_n))
    panel_a, panel_b = (element * problem.k * side for side in (config.block_m, config.block_n))
    room = _L2_SHARE * chip.l2_bytes
    kept = min(1.0, room / (rows * panel_a + columns * panel_b))
    kept_b = min(1.0, room / (rows * panel_a + tiles_n * panel_b))
    pace = chip.sm_count * chip.tensor_clock_hz * chip.tensor_rate("f16") / chip.l2_bytes  # flop/s for a byte of L2
    drift = min(_DRIFT * pace * (resident - 1) / resident, resident - 1.0)
    again = drift * (1 - kept) * (1 - min(1.0, resident * chip.sm_count / work.blocks))
    a = element * problem.m * problem.k * (1 + (max(1.0, tiles_n / columns) - 1) * (1 - kept))
    b = element * problem.n * problem.k * (1 + (max(1.0, tiles_m / rows) - 1) * (1 - kept_b))
    a *= min(1 + again, max(1.0, columns))
    b *= min(1 + again, max(1.0, rows))
    return a + b + problem.m * problem.n * problem.out_dtype.bytes


def files(folder: Path) -> Iterator[Path]:
    """The recordings below a folder, by name. Raises NotARecording where there is none."""
    found = sorted(folder.rglob("*_mm.txt"))
    if not found:
        raise NotARecording(f"{folder} holds no *_mm.txt: unpack a100_mm.zip and h100_mm.zip of the data set there")
    yield from found


def split(recorded: Sequence[Recorded], judged: Sequence[Recorded]) -> list[Recorded]:
    """Those of ``judged`` whose sizes and types are not among ``recorded``."""
    known = {r.problem for r in recorded}
    return [r for r in judged if r.problem not in known]
