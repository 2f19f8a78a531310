"""Read AutoHeuristic's recordings of Triton matmuls (torch.mm on A100 and H100, 2024-08).

The files are ``*_mm.txt`` of https://github.com/AlnisM/autoheuristic-datasets. The files have no licence, so this
repository only contains figures that were computed from them.
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

from cost_models import triton_matmul
from cost_models.features import FEATURES, Batch, FeatureTable
from cost_models.triton_matmul import TritonConfig, uses_wgmma
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.matmul import Matmul

LIBRARY = "extern_mm"  # name of cuBLAS among the choices; every other choice is a Triton configuration
_CONFIG = re.compile(r"type=triton_BLOCK-M=(\d+)_BLOCK-K=(\d+)_BLOCK-N=(\d+)_numstages=(\d+)_numwarps=(\d+)$")
_DTYPES = {"torch.float16": "f16", "torch.bfloat16": "bf16", "torch.float32": "f32"}
# Bandwidths that differ from the data sheet. Matmuls of a100_mm reach up to 1.73 TB/s, 85% of the data sheet. Matmuls
# of h100_mm reach only 2.40 TB/s, so the H100 that was recorded must have had less than 3.35 TB/s. 2.5 TB/s fits best.
_DRAM_BANDWIDTH = {"h100": 2.5e12}


class NotARecording(ValueError):
    """A file is not a recording of AutoHeuristic. The message is one line."""


@dataclass(frozen=True)
class Recorded:
    """One matmul on one device, with the median ``seconds`` of each configuration, and of cuBLAS (None if missing).

    ``strides`` has the strides of both operands. ``choices`` has the names of ``configs`` in the file.
    """

    problem: Matmul
    device: Device
    strides: tuple[int, int, int, int]
    configs: tuple[TritonConfig, ...]
    choices: tuple[str, ...]
    seconds: tuple[float, ...]
    library: float | None
    row: tuple[tuple[str, str], ...]  # (name, value) of each column of the file except choice and time

    @cached_property
    def alignment(self) -> tuple[int, int]:
        """Alignment in bytes of the contiguous rows (or columns) of a and b; at most 16, the widest copy."""
        element = self.problem.input_dtype.bytes
        widths = []
        for strides in (self.strides[:2], self.strides[2:]):
            width, line = 16, max(strides) * element
            while line % width:
                width //= 2
            widths.append(width)
        return widths[0], widths[1]


def read(path: Path) -> list[Recorded]:
    """Return the matmuls of one file, in the order of the file. Raises NotARecording or OSError."""
    with path.open(encoding="utf-8", newline="") as file:
        try:
            about = json.loads(file.readline())
            major, minor = about["device_capa"]
            chip = _device({80: "a100", 90: "h100"}[10 * major + minor])
        except (ValueError, KeyError, TypeError) as error:
            raise NotARecording(
                f"{path} does not begin with a header of AutoHeuristic: name a file *_mm.txt of the data set"
            ) from error
        rows = csv.reader(file)
        names = next(rows, [])
        if names[-2:] != ["choice", "feedback"]:
            raise NotARecording(f'the last columns of {path} are not named "choice" and "feedback"')
        times: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise NotARecording(f"{path} is truncated")
            milliseconds = float(row[-1])
            if 0 < milliseconds < float("inf"):
                times[tuple(row[:-2])][row[-2]].append(milliseconds * 1e-3)
    problems = (_recorded(dict(zip(names[:-2], key, strict=True)), chip, choices) for key, choices in times.items())
    return [recorded for recorded in problems if recorded is not None]


def _device(name: str) -> Device:
    """Return the device row ``name`` with the DRAM bandwidth of the recording machine."""
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
    matches = {name: match for name in by_choice if (match := _CONFIG.match(name))}
    if len(matches) < 2:
        return None
    values = [tuple(map(int, match.groups())) for match in matches.values()]
    library = by_choice.get(LIBRARY)
    return Recorded(
        problem,
        chip,
        (strides[0], strides[1], strides[2], strides[3]),
        tuple(TritonConfig(bm, bn, bk, stages, warps) for bm, bk, bn, stages, warps in values),
        tuple(matches),
        tuple(statistics.median(by_choice[name]) for name in matches),
        None if library is None else statistics.median(library),
        tuple(row.items()),
    )


def table(recorded: Recorded) -> FeatureTable:
    """Return the features of every configuration: the features that AutoHeuristic documents, and the parameters."""
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


def counts(recorded: Recorded, config: TritonConfig, *, own_buffers: bool = False) -> CostCounts:
    """Return the work counts of torch's matmul template (``cost_models.triton_matmul``)."""
    return triton_matmul.counts(recorded.problem, recorded.device, recorded.alignment, config, own_buffers=own_buffers)


def files(folder: Path) -> Iterator[Path]:
    """Yield the recordings below a folder, sorted by name. Raises NotARecording if there are none."""
    paths = sorted(folder.rglob("*_mm.txt"))
    if not paths:
        raise NotARecording(f"{folder} has no *_mm.txt: unpack the data set's a100_mm.zip and h100_mm.zip there")
    yield from paths


def split(recorded: Sequence[Recorded], judged: Sequence[Recorded]) -> list[Recorded]:
    """Return the matmuls of ``judged`` whose sizes and types do not occur in ``recorded``."""
    known = {r.problem for r in recorded}
    return [r for r in judged if r.problem not in known]
