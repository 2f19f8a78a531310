"""Features of compiled code, of our kernels and of Triton's, and the benchmark that learns from them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from triton_recording import recording

from benchmarks.cost_model import compiled_triton, zero_shot
from benchmarks.cost_model.autoheuristic import TritonConfig, read
from benchmarks.cost_model.compiled_code import GROUPS, NAMES, features, registers
from benchmarks.cost_model.compiled_triton import Build, all_features, build_of, builds, columns, folder_of
from benchmarks.cost_model.sass import read as read_case
from measurements.compiler.disassembly import DisassemblerMissing, nvdisasm
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.compiler.pool import CompileFailure, CompilePool
from search_spaces.hardware.devices import device, occupancy

SASS = Path(__file__).parents[2] / "golden" / "sass"


def needs_disassembler() -> None:
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))


def test_what_the_code_of_our_kernel_says() -> None:
    needs_disassembler()
    try:
        toolchain_version()
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
    case = read_case(SASS / "matmul_f16_128x128x32.json")
    with CompilePool() as pool:
        ((_, result),) = pool.compile_many([case.kernel], case.arch)
    assert not isinstance(result, CompileFailure)
    assert registers(result.cubin) == result.resources.registers
    threads, chip = 128, device("a100")  # 2 x 2 warps
    shared = result.resources.static_shared_bytes + result.resources.dynamic_shared_bytes
    found = features(result.cubin, result.entry, chip, threads, shared)
    assert tuple(found) == NAMES
    assert found["turn.flops"] == 4096 * found["turn.tensor"]  # mma.sync m16n8k16
    assert found["work.tensor"] == 1 and found["work.all"] > 1
    assert found["turn.all"] == sum(found[f"turn.{group}"] for group in GROUPS)
    assert found["sm.blocks"] == occupancy(chip, threads, result.resources.registers, shared)
    assert found["sm.bytes_in_flight"] > 0 and found["turn.async_copy"] > 0


def test_what_the_code_of_a_triton_kernel_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs_disassembler()
    pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    config = TritonConfig(64, 64, 32, 3, 4)
    found = compiled_triton.compiled_features(Build(90, "f16", True, config))
    flops = 2 * config.block_m * config.block_n * config.block_k / config.warps
    assert found["turn.flops"] == flops
    copied = 2 * config.block_k * (config.block_m + config.block_n)
    assert found["turn.flops_per_byte"] == flops * config.warps / copied
    assert found["block.shared_bytes"] == 3 * copied
    assert found["sm.blocks"] is not None and found["sm.bytes_in_flight"] == found["sm.blocks"] * 2 * copied
    assert found["turn.wait"] and found["turn.barrier"] and not found["turn.shared_store"]


def renamed(folder: Path, name: str, capability: tuple[int, int], m: int) -> Path:
    path = recording(folder, capability=capability)
    path.write_text(path.read_text().replace("\n4096,", f"\n{m},").replace("\n2048,", f"\n{m // 2},"))
    return path.rename(folder / name)


def test_kept_features_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_triton.metadata, "version", lambda _: "0")
    (problem, _) = read(recording(tmp_path))
    kept = {b: dict.fromkeys(NAMES, float(i)) for i, b in enumerate(builds([problem], most=3))}
    folder_of(tmp_path).mkdir()
    for build, values in kept.items():
        (folder_of(tmp_path) / build.file_name).write_text(json.dumps({**values, "turn.flops": None}))
    known = all_features(kept, tmp_path, workers=1)
    made = columns(problem, known)
    where = {build_of(problem, config): i for i, config in enumerate(problem.configs)}
    for i, build in enumerate(kept):
        row = made[where[build]]
        assert np.isnan(row[NAMES.index("turn.flops")]) and set(row[~np.isnan(row)]) == {i}
    assert np.isnan(made).all(axis=1).sum() == 1  # the fourth configuration


def test_all_models_are_judged_on_the_same_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed(tmp_path, "a100_mm.txt", (8, 0), 4096)
    renamed(tmp_path, "h100_mm.txt", (9, 0), 8192)
    renamed(tmp_path, "a100_other_mm.txt", (8, 0), 1024)
    monkeypatch.setattr(zero_shot, "order", lambda: None)
    monkeypatch.setattr(zero_shot, "installed", lambda: True)
    best = TritonConfig(128, 128, 64, 3, 8)  # of every recorded matmul

    def code(wanted: list[Build], root: Path, workers: int) -> dict[Build, dict[str, float | None]]:
        return {build: dict.fromkeys(NAMES, float(build.config == best)) for build in wanted}

    monkeypatch.setattr(zero_shot, "all_features", code)
    assert zero_shot.main([str(tmp_path), "--rounds", "20"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| a100_other_mm | 2 |")]
    assert len(rows) == 5
    assert "compiled code, time over the best" in rows[3] and "| 0.0% | 0.0% |" in rows[3]
    monkeypatch.setattr(zero_shot, "installed", lambda: False)
    assert zero_shot.main([str(tmp_path), "--rounds", "2"]) == 0
    said = capsys.readouterr().out
    assert "Triton is not installed" in said and said.count("| a100_other_mm |") == 3
