"""Kernels of the benchmark hub as their users would write them for autosched, and the recordings of their spaces.

Neither sources nor recordings are part of this repository: ``hub`` is a clone of AutoTuningAssociation/benchmark_hub.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosched import Kernel

Recording = Mapping[tuple[int, ...], float]


def _convolution(
    hub: Path, source: str = "kernels/convolution_milo.cu", name: str = "hub_convolution", **parameters: Any
) -> Kernel:
    text = (hub / source).read_text()
    return Kernel(
        text,
        "convolution_kernel",
        name=name,
        parameters=parameters
        or {
            "block_size_x": [16 * i for i in range(1, 17)],
            "block_size_y": [2**i for i in range(5)],
            "tile_size_x": [1, 2, 3, 4],
            "tile_size_y": [1, 2, 3, 4],
            "read_only": [0, 1],
            "use_padding": [0, 1],
            "use_shmem": [1],
            "use_cmem": [1],
            "filter_height": [15],
            "filter_width": [15],
        },
        sizes={"width": 4096, "height": 4096, "side": 15},
        problem_size=["width", "height"],
        grid_div_x=["block_size_x", "tile_size_x"],
        grid_div_y=["block_size_y", "tile_size_y"],
        arguments=[
            {"name": "output", "kind": "output", "dtype": "f32", "shape": ["height", "width"]},
            {"name": "input", "kind": "input", "dtype": "f32", "shape": ["height + side - 1", "width + side - 1"]},
            {"name": "filter", "kind": "input", "dtype": "f32", "shape": ["side", "side"]},
            {"name": "d_filter", "kind": "constant", "dtype": "f32", "shape": ["side", "side"]},
        ],
        rules=[
            "use_padding == 0 or block_size_x % 32 != 0",
            "block_size_x * block_size_y <= 1024",
        ],
    )


def _shifts(channels: int) -> Any:
    """Delays in samples per unit of dispersion measure: they fall with the square of the frequency."""
    inverse = 1.0 / (1425.0 + np.arange(channels) * (300.0 / channels)) ** 2
    return 15.8 * (inverse - inverse[-1]) / (inverse[0] - inverse[-1])


def _dedispersion(hub: Path) -> Kernel:
    folder = hub / "kernels/dedisp_milo"
    text = (
        (folder / "dedispersion.cu")
        .read_text()
        .replace('#include "dedispersion.h"', (folder / "dedispersion.h").read_text())
    )

    return Kernel(
        text,
        "dedispersion_kernel",
        name="hub_dedispersion",
        parameters={
            "block_size_x": [1, 2, 4, 8, 16, 32],
            "block_size_y": [8 * i for i in range(4, 33)],
            "block_size_z": [1],
            "tile_size_x": [1, 2, 3, 4],
            "tile_size_y": list(range(1, 9)),
            "tile_stride_x": [0, 1],
            "tile_stride_y": [0, 1],
            "loop_unroll_factor_channel": [0],
        },
        sizes={"samples": 25000, "dms": 2048, "channels": 1536, "per_channel": 25650},
        problem_size=["samples", "dms"],
        grid_div_x=["block_size_x", "tile_size_x"],
        grid_div_y=["block_size_y", "tile_size_y"],
        arguments=[
            {"name": "input", "kind": "input", "dtype": "u8", "shape": ["channels", "per_channel"]},
            {"name": "output", "kind": "output", "dtype": "f32", "shape": ["dms", "samples"]},
            {"name": "shifts", "kind": "input", "dtype": "f32", "shape": ["channels"], "fill": {"python": _shifts}},
        ],
        rules=[
            "32 <= block_size_x * block_size_y <= 1024",
            "tile_size_x > 1 or tile_stride_x == 0",
            "tile_size_y > 1 or tile_stride_y == 0",
        ],
    )


def _gemm(hub: Path) -> Kernel:
    folder = hub / "kernels/gemm_milo"
    parts = ["cl_to_cuda.h", "common.opencl", *(f"xgemm_part{i}.opencl" for i in (1, 2, 3, 4))]
    text = "".join((folder / part).read_text() for part in parts)
    # Recorded under OpenCL, whose vectors are aligned to their size (OpenCL C 6.1.5) and loaded as a whole; the header
    # that makes CUDA of it has structs of eight and sixteen floats without an alignment, which are loaded one by one.
    for bytes_, name in ((32, "float8"), (64, "float16")):
        start = text.rindex("typedef struct", 0, text.index(f"}} {name};"))
        text = text[:start] + text[start:].replace("typedef struct", f"typedef struct __align__({bytes_})", 1)
    matrix = {"dtype": "f32", "shape": ["k", "m"]}
    return Kernel(
        text,
        "Xgemm",
        name="hub_gemm",
        parameters={
            "MWG": [16, 32, 64, 128],
            "NWG": [16, 32, 64, 128],
            "KWG": [32],
            "MDIMC": [8, 16, 32],
            "NDIMC": [8, 16, 32],
            "MDIMA": [8, 16, 32],
            "NDIMB": [8, 16, 32],
            "KWI": [2],
            "VWM": [1, 2, 4, 8],
            "VWN": [1, 2, 4, 8],
            "STRM": [0],
            "STRN": [0],
            "SA": [0, 1],
            "SB": [0, 1],
            "PRECISION": [32],
        },
        sizes={"m": 4096, "n": 4096, "k": 4096},
        grid=["m // MWG", "n // NWG"],
        block=["MDIMC", "NDIMC"],
        arguments=[
            {"name": "m", "kind": "scalar", "value": "m"},
            {"name": "n", "kind": "scalar", "value": "n"},
            {"name": "k", "kind": "scalar", "value": "k"},
            {"name": "alpha", "kind": "scalar", "value": 1.0},
            {"name": "beta", "kind": "scalar", "value": 1.0},
            {"name": "a", "kind": "input", **matrix},
            {"name": "b", "kind": "input", "dtype": "f32", "shape": ["k", "n"]},
            {"name": "c", "kind": "inout", "dtype": "f32", "shape": ["n", "m"], "fill": "zeros"},
            {"name": "b_offset", "kind": "scalar", "dtype": "i32", "value": 0},
            {"name": "c_offset", "kind": "scalar", "dtype": "i32", "value": 0},
        ],
        rules=[
            "KWG % KWI == 0",
            "MWG % (MDIMC * VWM) == 0",
            "NWG % (NDIMC * VWN) == 0",
            "MWG % (MDIMA * VWM) == 0",
            "NWG % (NDIMB * VWN) == 0",
            "KWG % ((MDIMC * NDIMC) / MDIMA) == 0",
            "KWG % ((MDIMC * NDIMC) / NDIMB) == 0",
        ],
    )


def _pnpoly(hub: Path) -> Kernel:
    text = (hub / "currently_unused/kernels/pnpoly.cu").read_text()
    start, end = text.index("#ifndef block_size_x"), text.index("The naive implementation")
    source = (
        "#define VERTICES 600\n__constant__ float2 d_vertices[VERTICES];\n" + text[start : text.rindex("/*", 0, end)]
    )

    def vertices() -> Any:
        angle = np.linspace(0, 2 * np.pi, 600, endpoint=False)
        radius = 1 + 0.3 * np.sin(7 * angle)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)

    return Kernel(
        source,
        "cn_pnpoly",
        name="hub_pnpoly",
        parameters={
            "between_method": [0, 1, 2, 3],
            "block_size_x": [32 * i for i in range(1, 32)],
            "tile_size": [1] + [2 * i for i in range(1, 11)],
            "use_method": [0, 1, 2],
        },
        sizes={"n": 20_000_000},
        problem_size="n",
        grid_div_x=["block_size_x", "tile_size"],
        arguments=[
            {"name": "bitmap", "kind": "output", "dtype": "i32", "shape": ["n"]},
            {"name": "points", "kind": "input", "dtype": "f32", "shape": ["n", 2]},
            {"name": "n", "kind": "scalar", "value": "n"},
            {"name": "d_vertices", "kind": "constant", "dtype": "f32", "shape": [600, 2], "fill": {"python": vertices}},
        ],
    )


def _old_convolution(hub: Path) -> Kernel:
    return _convolution(
        hub,
        "kernels/convolution_milo.cu",
        "hub_convolution_2",
        block_size_x=[1, 2, 4, 8, 16, 32, 48, 64, 96, 112, 128],
        block_size_y=[1, 2, 4, 8, 16, 32],
        filter_height=[15],
        filter_width=[15],
        read_only=[0, 1],
        tile_size_x=list(range(1, 9)),
        tile_size_y=list(range(1, 9)),
        use_padding=[0, 1],
    )


@dataclass(frozen=True)
class Case:
    """A kernel, and recordings by the device row that they are of; paths are relative to the hub."""

    name: str
    kernel: Callable[[Path], Kernel]
    recordings: Mapping[str, str]


_OLD = "currently_unused/cachefiles"
CASES = (
    Case(
        "convolution",
        _convolution,
        {
            "a100_40gb_pcie": "cachefiles/convolution_milo/A100.json.gz",
            "a4000": "cachefiles/convolution_milo/A4000.json.gz",
            "a6000": "cachefiles/convolution_milo/A6000.json.gz",
        },
    ),
    Case(
        "dedispersion",
        _dedispersion,
        {
            "a100_40gb_pcie": "cachefiles/dedispersion_milo/A100.json.gz",
            "a4000": "cachefiles/dedispersion_milo/A4000.json.gz",
            "a6000": "cachefiles/dedispersion_milo/A6000.json.gz",
        },
    ),
    Case(
        "gemm",
        _gemm,
        {
            "rtx3090": f"{_OLD}/KernelTuner data/gemm/RTX_3090.json.gz",
            "titan_rtx": f"{_OLD}/KernelTuner data/gemm/RTX_Titan.json.gz",
        },
    ),
    Case(
        "pnpoly",
        _pnpoly,
        {
            "rtx3090": f"{_OLD}/pnpoly/RTX_3090.json.gz",
            "rtx2080ti": f"{_OLD}/pnpoly/RTX_2080_Ti.json.gz",
        },
    ),
    Case(
        "convolution of 2020",
        _old_convolution,
        {
            "rtx3090": f"{_OLD}/convolution/RTX_3090.json.gz",
            "rtx2080ti": f"{_OLD}/convolution/RTX_2080_Ti.json.gz",
        },
    ),
)


def read_recording(path: Path) -> tuple[tuple[str, ...], Recording]:
    """Return the parameters' names, and seconds by their values; failures are left out."""
    with gzip.open(path, "rt") as file:
        text = file.read()
    try:
        data = json.loads(text)
    except ValueError:  # a cache that its tuner left open
        data = json.loads(text.rstrip().rstrip(",") + "}}")
    names = tuple(data["tune_params_keys"])
    times = {
        tuple(int(entry[name]) for name in names): entry["time"] * 1e-3
        for entry in data["cache"].values()
        if isinstance(entry["time"], (int, float)) and 0 < entry["time"] < 1e6
    }
    return names, times
