"""Searches for a user's kernel take the times of schedules from a Kernel Tuner cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autosched import KernelSpec
from autosched.cli import main
from autosched.tuning.tune import tune
from measurements.tables.reading import read_table
from measurements.tables.table import TableError
from measurements.trials.measurement import Provenance

SOURCE = """
__global__ void add(float* c, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) c[i] = 1;
}
"""
TOML = """
argument = [{ name = "c", kind = "output", dtype = "f32", shape = "n" }, { name = "n", kind = "scalar", value = "n" }]
kernel = { source = "add.cu", entry = "add", name = "add_of_a_file" }
sizes = { n = 1000 }
parameters = { block_size_x = [32, 64, 128, 256], tile = [1, 2, 4] }
launch = { problem_size = "n" }
"""
BLOCKS, TILES = [32, 64, 128, 256], [1, 2, 4]


def kernel(**parameters: Any) -> KernelSpec:
    return KernelSpec(
        SOURCE,
        "add",
        parameters=parameters or {"block_size_x": BLOCKS, "tile": TILES},
        sizes={"n": 1000},
        problem_size="n",
        arguments=[
            {"name": "c", "kind": "output", "dtype": "f32", "shape": "n"},
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
        rules=[("block_size_x < 256 or tile < 4", "too much")],
    )


def cache(path: Path, device: str = "NVIDIA A100-PCIE-40GB", **more: list[int]) -> Path:
    """Write a cache of a kernel.

    The fastest entry is 256 x 4, which the kernel's rule rejects. The second fastest entry is 64 x 2. The entry 32 x 1
    failed, and 512 is not in the parameter's domain.
    """
    names = ["block_size_x", "tile", *more]
    entries: dict[str, Any] = {}
    for block in (*BLOCKS, 512):
        for tile in TILES:
            for other_values in zip(*more.values(), strict=True) if more else [()]:
                time: Any = 1.0 + abs(block - 64) / 64 + abs(tile - 2)
                time = 0.5 if (block, tile) == (256, 4) else time
                time = "RuntimeFailedConfig" if (block, tile) == (32, 1) else time
                values = dict(zip(names, (block, tile, *other_values), strict=True))
                entries[",".join(map(str, values.values()))] = {**values, "time": time}
    path.write_text(
        json.dumps({"device_name": device, "kernel_name": "add", "tune_params_keys": names, "cache": entries})
    )
    return path


def replayed(tmp_path: Path, file: Path, trials: int = 30, spec: KernelSpec | None = None, **arguments: Any) -> Any:
    problem = (spec or kernel()).problem()
    options = {"trials": trials, "database": tmp_path / "a.db", "backend": "replay", "recording": file, **arguments}
    return tune(problem, sampler="random", **options)


def test_a_kernel_tuner_cache_is_searched_for_a_user_kernel(tmp_path: Path) -> None:
    result = replayed(tmp_path, cache(tmp_path / "cache.json"))
    assert result.exhausted and result.provenance is Provenance.REPLAYED
    assert result.device.name == "a100_40gb_pcie", "the file names this device"
    assert len(result.trials) == len(BLOCKS) * len(TILES) - 1, "illegal schedules are not tried"
    assert result.best is not None and result.best.schedule.values == {"block_size_x": 64, "tile": 2}
    assert result.best.seconds == pytest.approx(1e-3), "milliseconds of the file are converted to seconds"
    assert [r.status.value for r in result.trials if not r.ok] == ["launch_error"]
    assert any("3 more configurations" in line for line in result.lines)


def test_a_recording_is_searched_for_other_objectives(tmp_path: Path) -> None:
    result = replayed(tmp_path, cache(tmp_path / "cache.json"), objective=["block_size_x:max", "seconds"])
    assert result.best is not None and result.best.schedule["block_size_x"] == 256
    assert [row["block_size_x"] for row in result.front] == [256, 128, 64]


def test_a_second_replay_continues_the_first(tmp_path: Path) -> None:
    file = cache(tmp_path / "cache.json")
    assert len(replayed(tmp_path, file, 4).trials) == 4
    assert len(replayed(tmp_path, file, 40).trials) == len(BLOCKS) * len(TILES) - 5


def test_t4_and_csv_hold_metrics_and_every_trial(tmp_path: Path) -> None:
    result = replayed(tmp_path, cache(tmp_path / "cache.json"))
    result.to_t4(tmp_path / "out.json")
    table = read_table(tmp_path / "out.json")
    assert table.best_seconds == result.best.seconds and len(table.measurements) == len(result.trials)
    result.to_csv(tmp_path / "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + len(result.trials)


@pytest.mark.parametrize(
    ("device", "more", "parameters", "message"),
    [
        ("A100", {}, None, "does not name a known GPU"),
        (
            "NVIDIA A100-PCIE-40GB",
            {"unroll": [0, 1]},
            None,
            "varies unroll, which is not a parameter of add",
        ),
        (
            "NVIDIA A100-PCIE-40GB",
            {},
            {"block_size_x": [32, 64], "t": [1, 2], "tile": [1]},
            "does not state the value of t",
        ),
        ("NVIDIA A100-PCIE-40GB", {}, {"block_size_x": [96], "tile": [1]}, "none of the 15 configurations"),
    ],
)
def test_a_file_of_another_kernel_is_rejected(
    tmp_path: Path, device: str, more: dict[str, list[int]], parameters: dict[str, list[int]] | None, message: str
) -> None:
    file = cache(tmp_path / "cache.json", device, **more)
    with pytest.raises(ValueError, match=message):
        replayed(tmp_path, file, spec=kernel(**parameters) if parameters else None)
    assert not (tmp_path / "a.db").exists()


def test_only_the_backend_replay_accepts_a_recording(tmp_path: Path) -> None:
    file = cache(tmp_path / "cache.json")
    with pytest.raises(ValueError, match="--backend replay"):
        tune(kernel().problem(), backend="estimate", recording=file, database=tmp_path / "a.db")
    with pytest.raises(ValueError, match="power cannot be measured"):
        replayed(tmp_path, file, objective="joules")
    with pytest.raises(TableError, match="cannot be read"):
        replayed(tmp_path, tmp_path / "missing.json")


def test_the_command_writes_its_results_to_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "add.cu").write_text(SOURCE)
    (tmp_path / "add.toml").write_text(TOML)
    file = cache(tmp_path / "cache.json")
    options = ["--kernel", str(tmp_path / "add.toml"), "--db", str(tmp_path / "a.db"), "--backend", "replay"]
    out = [f"--{format}={tmp_path / format}" for format in ("csv", "t4", "c-header")]
    objectives = ["--objective", "seconds", "--objective", "block_size_x:min", "--sampler", "brute_force", "--json"]
    assert main(["tune", *options, "--recording", str(file), *out, *objectives]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["objectives"] == {"seconds": "min", "block_size_x": "min"}
    assert [(row["block_size_x"], row["tile"]) for row in document["front"]] == [(256, 4), (64, 2), (32, 2)]
    assert "#define block_size_x 256" in (tmp_path / "c-header").read_text()
    assert len(read_table(tmp_path / "t4").measurements) == len(BLOCKS) * len(TILES)
    assert len((tmp_path / "csv").read_text().splitlines()) == 1 + len(BLOCKS) * len(TILES)
    builtin = ["tune", "matmul", "-m", "64", "-n", "64", "-k", "64", "--db", str(tmp_path / "b.db")]
    assert main([*builtin, "--c-header", str(tmp_path / "h")]) == 2
    assert "--kernel FILE" in capsys.readouterr().err and not (tmp_path / "b.db").exists()
