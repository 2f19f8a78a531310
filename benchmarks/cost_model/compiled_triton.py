"""Features of the compiled code of recorded Triton matmuls (``benchmarks/cost_model/compiled_code.py``), kept on disk.

Each configuration is compiled here, without a GPU, by the Triton that is installed: not by the one of the recordings,
which is not known. A build has a and b by rows, both aligned to 16 bytes. f16 stands for bf16, whose code differs in
the names of instructions alone. f32 without tensor cores is not compiled: no file that judges has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from importlib import import_module, metadata
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.cost_model.autoheuristic import Recorded, TritonConfig
from benchmarks.cost_model.compiled_code import NAMES, features
from cost_models.boosted import Matrix
from measurements.files.cache_folder import make_folder, publish
from search_spaces.hardware.devices import device

_VERSION = 1  # of what is kept
_CHIPS = {80: "a100", 90: "h100"}
COLUMNS = tuple(f"compiled.{name}" for name in NAMES)


@dataclass(frozen=True)
class Build:
    """One compilation; ``whole``: block_k divides k."""

    sm: int
    element: str
    whole: bool
    config: TritonConfig

    @property
    def file_name(self) -> str:
        sizes = "-".join(map(str, astuple(self.config)))
        return f"sm{self.sm}-{self.element}-{'whole' if self.whole else 'masked'}-{sizes}.json"


def installed() -> bool:
    """Whether Triton is."""
    try:
        import_module("triton")
    except ImportError:
        return False
    return True


def build_of(recorded: Recorded, config: TritonConfig) -> Build | None:
    """What a configuration of a problem is compiled as; None for f32 without tensor cores."""
    problem = recorded.problem
    if problem.a == "f32" and problem.precision == "ieee":
        return None
    element = "f32" if problem.a == "f32" else "f16"
    return Build(recorded.device.sm, element, problem.k % config.block_k == 0, config)


def compiled_features(build: Build) -> dict[str, float | None]:
    """Compile it; None for what the code does not say."""
    kernel = import_module("benchmarks.cost_model.triton_matmul").compiled(
        build.sm, build.element, "tf32", build.whole, build.config
    )
    cubin, shared = kernel.asm["cubin"], kernel.metadata.shared
    found = features(cubin, "matmul", device(_CHIPS[build.sm]), 32 * build.config.warps, shared)
    return {name: None if np.isnan(value) else value for name, value in found.items()}


def folder_of(root: Path) -> Path:
    """Where features are kept: one folder for each Triton and each kernel."""
    source = Path(__file__).with_name("triton_matmul.py").read_bytes() + str((_VERSION, NAMES)).encode()
    return root / f"triton-{metadata.version('triton')}-{hashlib.sha256(source).hexdigest()[:12]}"


def all_features(builds: Iterable[Build], root: Path, workers: int) -> dict[Build, dict[str, float | None]]:
    """Those of every build, from ``root`` where they are kept there. Raises CacheUnusable."""
    folder, wanted = folder_of(root), list(dict.fromkeys(builds))
    make_folder(folder)
    missing = [build for build in wanted if not (folder / build.file_name).exists()]
    if missing:
        with (
            tempfile.TemporaryDirectory(prefix="autosched-triton-") as scratch,
            ProcessPoolExecutor(workers, get_context("spawn"), _quiet, (scratch,)) as pool,
        ):
            for build, found in zip(missing, pool.map(compiled_features, missing, chunksize=4), strict=True):
                publish(folder / build.file_name, json.dumps(found).encode())
    return {build: json.loads((folder / build.file_name).read_text()) for build in wanted}


def _quiet(scratch: str) -> None:
    """A process's Triton keeps its cache in ``scratch``, and code has no lines: half of the time goes into these."""
    os.environ |= {"TRITON_CACHE_DIR": scratch, "TRITON_DISABLE_LINE_INFO": "1", "TRITON_DEFAULT_FP_FUSION": "1"}


def builds(recordings: Iterable[Recorded], most: int | None = None) -> list[Build]:
    """Those of all configurations, at most ``most``, the ones of most recorded times first."""
    found = Counter(b for r in recordings for config in r.configs if (b := build_of(r, config)) is not None)
    return [build for build, _ in found.most_common(most)]


def columns(recorded: Recorded, known: Mapping[Build, Mapping[str, float | None]]) -> Matrix:
    """[n, len(COLUMNS)]: of each configuration; NaN where it is not compiled or its code does not say."""
    rows = []
    for config in recorded.configs:
        build = build_of(recorded, config)
        found = {} if build is None else known.get(build, {})
        rows.append([np.nan if (value := found.get(name)) is None else value for name in NAMES])
    return np.array(rows, dtype=np.float32)
