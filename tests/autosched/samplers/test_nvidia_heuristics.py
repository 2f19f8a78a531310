"""If nvMatmulHeuristics is installed, it proposes some of a matmul's first trials. These trials are marked."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs_nvrtc

from autosched.reporting import formatting
from autosched.samplers.first_choices import nvidia_heuristics
from autosched.samplers.first_choices.nvidia_heuristics import (
    NAME,
    Configuration,
    HeuristicsFailed,
    advice,
    configurations,
    nearest,
)
from autosched.tuning.tune import tune
from cost_models.estimates import AnalyticEstimates
from measurements.store.store import Store
from measurements.trials.measurement import Provenance
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import all_devices, device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.search_task import SearchTask
from search_spaces.templates.template import TemplateSet

H200, A100 = device("h200"), device("a100")
LARGE = Matmul(4096, 4096, 4096)
REAL = importlib.util.find_spec(NAME) is not None

# Source of a fake package. It defines the functions of the library that the child process calls. The fake writes the
# arguments to the file STUB_ASKED.
STUB = """
import enum, json, os, types
class NvMatmulHeuristicsTarget(enum.IntEnum): CUTLASS3 = 4
class NvMatmulHeuristicsFlags(enum.IntEnum): PERF_MODEL_BASED_AUTO_TUNING = 8
class NvMatmulHeuristicsMatmulLayout(enum.IntEnum): NN_ROW_MAJOR = 0; NT_ROW_MAJOR = 1; TN_ROW_MAJOR = 2
class NvMatmulHeuristicsNvidiaGpu(enum.IntEnum): H200_SXM = 9003; A100_SXM_80GB = 8000
class NvMatmulHeuristicsInterface:
    def __init__(self, backend, precision, flags): self.said = {"precision": precision}
    def createHardwareDescriptor(self): return "chip"
    def setHardwarePredefinedGpu(self, chip, gpu): self.said["gpu"] = gpu.name
    def loadInternalDiscoverySet(self, layout, chip): self.loaded = layout; return True
    def makeNvMatmulHeuristicsProblem(self, m, n, k, layout, batch): return [m, n, k, layout.name, batch]
    def get(self, problem, count, chip):
        assert self.loaded.name == problem[3] and chip == "chip"
        with open(os.environ["STUB_ASKED"], "w") as file: json.dump({**self.said, "problem": problem}, file)
        rows = json.loads(os.environ["STUB_ROWS"])[:count]
        return [{"runtime": 1e-5, "kernel": types.SimpleNamespace(**row)} for row in rows]
"""


def row(
    tile: tuple[int, int, int], warp: tuple[int, int, int], instruction_m: int = 16, **options: int
) -> dict[str, Any]:
    return {
        **{f"cta_tile_{axis}": size for axis, size in zip("mnk", tile, strict=True)},
        **{f"warp_tile_{axis}": size for axis, size in zip("mnk", warp, strict=True)},
        **{"instr_tile_m": instruction_m, "stages": 3, "split_k": 1, "cluster_m": 1, "cluster_n": 1},
        **{"swizzle_factor": 1, "cta_order": 0, **options},
    }


def configuration(tile: tuple[int, int, int], warp: tuple[int, int, int], instruction_m: int = 16) -> Configuration:
    return Configuration(tile, warp, instruction_m, 3, 1, (1, 1), 1, False, 1e-5)


SMALL = Matmul(256, 256, 256)
ROWS = [row((64, 64, 64), (32, 32, 64)), row((64, 64, 64), (32, 32, 64)), row((128, 64, 32), (64, 32, 32), stages=4)]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a fake of the package that returns ROWS, and return the file that records its arguments."""
    package = tmp_path / "site"
    package.mkdir()
    (package / f"{NAME}.py").write_text(STUB)
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("STUB_ASKED", str(tmp_path / "asked.json"))
    monkeypatch.setenv("STUB_ROWS", json.dumps(ROWS))
    return tmp_path / "asked.json"


def advice_for(problem: Matmul | Copy, chip: Any = A100) -> nvidia_heuristics.Advice:
    templates = templates_for(problem, chip)
    task = SearchTask(problem, chip, templates, templates.space(problem, chip))
    return advice(task, AnalyticEstimates(problem, templates, chip))


def near(configuration: Configuration, problem: Matmul, chip: Any) -> dict[str, Any]:
    templates = templates_for(problem, chip)
    schedule = nearest(configuration, templates, problem, chip, AnalyticEstimates(problem, templates, chip))
    assert schedule is not None and schedule in templates.space(problem, chip)
    return {"template": schedule.template, **schedule.values}


class TestNearest:
    def test_every_decision_that_the_rules_allow_is_kept(self) -> None:
        proposal = dataclasses.replace(
            configuration((256, 128, 64), (64, 64, 64), 64), stages=4, cluster=(1, 2), by_columns=True
        )
        values = near(proposal, LARGE, H200)
        assert values["template"] == "wgmma_matmul"
        assert [values[f"tile_{axis}"] for axis in "mnk"] == [256, 128, 64]
        assert (values["consumer_warpgroups"], values["stages"], values["split_k"]) == (2, 4, 1)
        assert (values["cluster_m"], values["cluster_n"], values["raster"]) == (1, 2, "column")

    def test_tiles_of_warps_become_the_map_of_subgroups(self) -> None:
        values = near(dataclasses.replace(configuration((256, 128, 32), (64, 64, 32)), swizzle=8), LARGE, A100)
        assert values["template"] == "matmul" and values["intrinsic"] == "mma_m16n8k16_f16"
        assert [values[f"subgroups_{axis}"] for axis in "mn"] == [4, 2]
        assert [values[f"sg_data_{axis}"] for axis in "mn"] == [64, 64]
        assert (values["stages"], values["raster"]) == (3, "grouped_8")

    def test_values_outside_the_space_become_the_nearest_allowed_ones(self) -> None:
        values = near(configuration((128, 80, 64), (64, 40, 64)), LARGE, A100)
        assert values["tile_m"] == 128 and values["tile_n"] in (64, 96)
        assert values["tile_k"] == 64

    def test_the_model_replaces_illegal_decisions_but_keeps_the_tile(self) -> None:
        proposal = dataclasses.replace(configuration((128, 128, 64), (64, 64, 64), 64), stages=8, cluster=(4, 4))
        values = near(proposal, LARGE, H200)  # 8 stages do not fit, and 16 blocks per cluster are too many
        assert [values[f"tile_{axis}"] for axis in "mnk"] == [128, 128, 64]
        assert (values["cluster_m"], values["cluster_n"]) == (4, 1) and values["stages"] < 8

    def test_mma_sync_uses_the_tiles_of_wgmma_if_wgmma_is_not_searched(self) -> None:
        templates = TemplateSet([template("matmul")])
        of_wgmma = configuration((128, 128, 64), (64, 64, 64), 64)
        schedule = nearest(of_wgmma, templates, LARGE, H200, AnalyticEstimates(LARGE, templates, H200))
        assert schedule is not None and schedule.template == "matmul"
        assert schedule["tile_m"] == schedule["tile_n"] == 128

    def test_templates_without_the_instruction_get_no_advice(self) -> None:
        templates = TemplateSet([template("matmul")])
        fp8 = Matmul(512, 512, 512, a="e4m3")  # sm_80 has no mma.sync of this type
        of_mma, estimates = configuration((64, 64, 64), (32, 32, 64)), AnalyticEstimates(fp8, templates, A100)
        assert nearest(of_mma, templates, fp8, A100, estimates) is None
        assert not nvidia_heuristics.knows("f32", "ieee")


class TestAdvice:
    def test_heuristics_run_for_this_problem_and_device_in_a_child_process(self, stub: Path) -> None:
        advice = advice_for(dataclasses.replace(SMALL, order_b="col", a="bf16", b="bf16", out="bf16"))
        request = json.loads(stub.read_text())
        assert request == {"precision": "TST", "gpu": "A100_SXM_80GB", "problem": [256, 256, 256, "NT_ROW_MAJOR", 1]}
        assert NAME not in sys.modules
        assert [s["tile_m"] for s in advice.schedules] == [64, 128]  # two rows are equal and give one proposal
        assert advice.line == f"2 of the first trials are the schedules nearest to proposals of {NAME}"

    def test_unsupported_problems_and_gpus_get_no_advice(self, stub: Path) -> None:
        unknown_gpu = dataclasses.replace(A100, name="mine")
        assert advice_for(Copy(256, 256)) == advice_for(SMALL, unknown_gpu) == nvidia_heuristics.Advice()
        assert not stub.exists()

    def test_no_process_is_started_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("a process was started")

        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        monkeypatch.setattr(subprocess, "run", refuse)
        assert advice_for(SMALL) == nvidia_heuristics.Advice()

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            ("raise ImportError('no libcudart.so')", "ImportError: no libcudart.so"),
            ("import os; os.kill(os.getpid(), 11)", "exit status -11"),
            ("import os; print('hello', flush=True); os._exit(0)", "unexpected format"),
            ("import os; print('[{}]', flush=True); os._exit(0)", "unexpected format"),
            ("class NvMatmulHeuristicsTarget: pass", "has no attribute"),
        ],
    )
    def test_a_broken_package_is_reported_in_one_line(self, stub: Path, code: str, why: str) -> None:
        (stub.parent / "site" / f"{NAME}.py").write_text(code)
        advice = advice_for(SMALL)
        assert advice.schedules == ()
        assert advice.line.startswith(f"{NAME} is not used: ") and why in advice.line and "\n" not in advice.line
        with pytest.raises(HeuristicsFailed, match=why):
            configurations(SMALL, "A100_SXM_80GB", 3)

    def test_an_empty_tile_is_rejected(self, stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STUB_ROWS", json.dumps([row((0, 64, 64), (32, 32, 64))]))
        assert "0x64" in advice_for(SMALL).line


@needs_nvrtc
def test_its_choices_are_first_trials_and_recorded_as_such(stub: Path, tmp_path: Path) -> None:
    database = tmp_path / "best.db"
    result = tune(SMALL, trials=3, database=database, device="a100", backend="estimate", verify=False, workers=1)
    assert sum(NAME in line for line in result.lines) == 1
    assert sorted(trial.sampler for trial in result.trials) == ["bayes", NAME, NAME]
    with Store.open(database) as store:
        stored = store.trials(SMALL, "a100", Provenance.ESTIMATED)
    proposed = {trial.schedule["tile_m"]: trial for trial in stored if trial.sampler == NAME}
    assert set(proposed) == {64, 128} and all(trial.ok for trial in stored)
    assert proposed[64].to_json()["sampler"] == NAME
    assert f"proposed by {NAME}, seed 0" in dict(formatting.trial_facts(SMALL, proposed[64]))["found"]
    assert "bayes sampler, seed 0" in dict(formatting.trial_facts(SMALL, stored[0]))["found"]


@pytest.mark.skipif(not REAL, reason=f"{NAME} is not installed")
def test_the_library_itself() -> None:
    for chip in (row for row in all_devices() if row.name in nvidia_heuristics.GPUS):
        proposals = configurations(LARGE, nvidia_heuristics.GPUS[chip.name], 4)
        assert proposals and all(c.seconds > 0 and c.warps >= 1 for c in proposals)
        assert {c.instruction_m for c in proposals} == {64 if chip.sm == 90 else 16}
    for problem in (Matmul(16, 4096, 4096, a="e4m3"), Matmul(512, 512, 512, a="i8"), Matmul(512, 512, 512, a="f32")):
        assert advice_for(problem, H200).schedules
