"""Golden verdicts on schedules of templates, tile programs and users' kernels, and on databases of such schedules."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from header_edits import edited
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched import KernelSpec
from autosched.programs.loading import load_program
from autosched.programs.loading import problem as program_problem
from autosched.regression.check import CheckOptions, check_database
from autosched.regression.static import StaticOptions
from autosched.verify import blocks_on_inputs
from autosched.verify.schedules import verify_one
from measurements.compiler.pool import CompilePool
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.programs.template import template as program_template
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate

pytestmark = [needs_nvrtc, needs_compiler]

Golden = Callable[..., None]
H200 = device("h200")
SMALL, LARGE = Matmul(m=64, n=64, k=64), Matmul(m=4096, n=4096, k=4096)
GEMM = str(Path(__file__).parents[4] / "examples" / "programs" / "gemm_relu.py")
REFUSED = ("wrong_result", "findings", "crashed", "device_limit", "compile_error")
MATMUL = "autosched/kernels/matmul.cuh"
SUM_ENDS = (
    "(int left = tiles; left > 0; --left) {\n      const Words next = scales.take();\n      Loader",
    "(int left = tiles > 2 ? 2 : tiles; left > 0; --left) {\n      auto next = scales.take();\n      Loader",
)


def compared(golden: Golden, name: str, result: Any) -> None:
    """Compare a verdict with the golden verdict, without line numbers, since every edit of a header changes these."""
    verdict = "accepted" if result.ok else "refused" if result.status in REFUSED else "uncertain"
    kinds = {str(f.kind) for f in result.findings if f.is_fault}
    golden(name, verdict, why=kinds if result.ok else {*kinds, result.status})


def first(kernel_template: KernelTemplate, problem: Problem, **values: Any) -> Schedule:
    samples = kernel_template.space(problem, H200).sample(400, 1)
    return next(s for s in samples if all(s.values[name] == value for name, value in values.items()))


def broken(kernel_template: KernelTemplate, header: str, old: str, new: str) -> KernelTemplate:
    """Return a template whose kernels have ``new`` instead of ``old`` in a header."""
    lower = kernel_template.lower

    def faulty(problem: Problem, config: Any, row: Any) -> Any:
        lowered = lower(problem, config, row)
        return replace(lowered, headers=edited(lowered.headers, header, old, new))

    return replace(kernel_template, lower=faulty)


def test_schedules_of_templates(golden: Golden) -> None:
    matmul, softmax, rows = template("matmul"), template("row_reduction"), Softmax(rows=9, columns=300)
    schedule = first(matmul, LARGE, stream_k=0, split_k=1)
    compared(golden, "schedule: sound", verify_one(matmul, SMALL, first(matmul, SMALL), H200))
    compared(golden, "schedule: sound, cut", verify_one(matmul, LARGE, schedule, H200))
    compared(golden, "schedule: sound, full", verify_one(softmax, rows, first(softmax, rows), H200, depth="full"))
    compared(golden, "schedule: sum ends", verify_one(broken(matmul, MATMUL, *SUM_ENDS), LARGE, schedule, H200))
    does_not = broken(matmul, MATMUL, SUM_ENDS[0], SUM_ENDS[0] + " moon")
    compared(golden, "schedule: does not compile", verify_one(does_not, LARGE, schedule, H200))
    endless = broken(matmul, MATMUL, SUM_ENDS[0], SUM_ENDS[0].replace("left > 0; --left", "left > 0; ++left"))
    compared(golden, "schedule: no end", verify_one(endless, LARGE, schedule, H200, time_limit=1.0))


def test_a_launch_that_a_device_rejects(golden: Golden) -> None:
    matmul = template("matmul")
    lower = matmul.lower
    large = replace(matmul, lower=lambda p, c, d: replace(lower(p, c, d), dynamic_shared_bytes=300_000))
    compared(golden, "schedule: too much shared memory", verify_one(large, SMALL, first(matmul, SMALL), H200))


def test_tile_programs(golden: Golden) -> None:
    program, rng = load_program(GEMM), np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype("f2") for shape in ((70, 32), (32, 40)))
    arguments = [a, b, rng.standard_normal(40).astype("f4"), np.zeros((70, 40), "f2")]
    compared(golden, "program: sound on arrays", autosched.emulate(program, arguments=arguments, device="a100"))
    kernel_template, problem = program_template(program), program_problem(program, m=70, n=40, k=32)
    schedule = kernel_template.space(problem, H200).sample(1, 3)[0]
    compared(golden, "program: sound", verify_one(kernel_template, problem, schedule, H200))
    lower = kernel_template.lower

    def without(text: str, instead: str) -> KernelTemplate:
        def lowered(problem: Problem, config: Any, row: Any) -> Any:
            kernel = lower(problem, config, row)
            assert text in kernel.source
            return replace(kernel, source=kernel.source.replace(text, instead))

        return replace(kernel_template, lower=lowered)

    compared(golden, "program: no barriers", verify_one(without("ptx::barrier_sync();", ""), problem, schedule, H200))
    compared(
        golden,
        "program: wrong maximum",
        verify_one(without("tile::maximum(", "tile::minimum("), problem, schedule, H200),
    )


BLUR = """
#define SIDE 256
__global__ void blur(float* out, const float* in) {
  int x = blockIdx.x * block_x + threadIdx.x, y = blockIdx.y;
  float sum = 0;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) sum += in[(y + i) * (SIDE + 2) + x + j];
  THEN
  out[y * SIDE + x] = sum;
}
"""
ADD = """
__global__ void vector_add(float *c, const float *a, const float *b, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
"""


def array(name: str, kind: str, *shape: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "dtype": "f32", "shape": list(shape)}


def blurred(**arrays: Any) -> Any:
    return sum(arrays["in"][i : i + 256, j : j + 256] for i in range(3) for j in range(3))


def blur(then: str = "") -> KernelSpec:
    return KernelSpec(
        BLUR.replace("THEN", then),
        "blur",
        parameters={"block_x": [64]},
        sizes={"n": 256},
        grid=["n // block_x", "n"],
        block="block_x",
        arguments=[array("out", "output", "n", "n"), array("in", "input", "n + 2", "n + 2")],
        reference=blurred,
    )


def of_kernel(kernel: KernelSpec, **how: Any) -> Any:
    problem = kernel.problem()
    (schedule,) = kernel.template.space(problem, H200).sample(1, 0)
    return verify_one(kernel.template, problem, schedule, H200, **how)


def test_some_blocks_of_users_kernels(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_on_inputs, "WHOLE_SECONDS", -1.0)
    monkeypatch.setattr(blocks_on_inputs, "_SMALL_THREADS", 0)
    compared(golden, "kernel: some blocks, sound", of_kernel(blur(), depth="full"))
    compared(golden, "kernel: some blocks, wrong", of_kernel(blur("if (blockIdx.y % 2) sum *= 1.01f;")))
    far = "if (y == 255) { volatile float far = in[(SIDE + 2) * (SIDE + 2)]; }"
    compared(golden, "kernel: some blocks, out of bounds", of_kernel(blur(far)))


def added(source: str = ADD, **more: Any) -> KernelSpec:
    a, b = (np.random.default_rng(i).standard_normal(1000).astype(np.float32) for i in (0, 1))
    arguments = [np.zeros(1000, np.float32), a, b, np.int32(1000)]
    return KernelSpec.from_arrays("vector_add", source, 1000, arguments, {"block_size_x": [128]}, **more)


def test_kernels_from_arrays(golden: Golden) -> None:
    a, b = (np.random.default_rng(i).standard_normal(1000).astype(np.float32) for i in (0, 1))
    right = [a + b, None, None, None]
    compared(golden, "arrays: sound", of_kernel(added(answer=right)))
    compared(golden, "arrays: wrong", of_kernel(added(answer=[a - b, None, None, None])))
    compared(golden, "arrays: out of bounds", of_kernel(added(ADD.replace("i < n", "i <= n"), answer=right)))
    compared(golden, "arrays: refused by a function", of_kernel(added(verify=lambda expected, result: False)))
    compared(golden, "arrays: accepted by a function", of_kernel(added(verify=lambda expected, result: True)))


@pytest.fixture(scope="module")
def compiled() -> Any:
    """Return a function that compiles a schedule and makes a trial with the result."""
    with CompilePool(workers=1) as pool:

        def make_trial(kernel_template: KernelTemplate, problem: Problem, schedule: Schedule, **more: Any) -> Trial:
            kernel = kernel_template.kernel(problem, schedule, H200)
            program: Any = pool.compile(kernel, H200.arch)
            measurement = Measurement(
                Status.OK, more.pop("provenance", Provenance.MEASURED), timing=Timing(2e-6, 2e-6, 2e-6, 9), error=0.1,
                resources=program.resources, code=program.code,
            )  # fmt: skip
            trial = Trial(
                problem_key=problem.key(), schedule=schedule, device="h200", fingerprint="{}",
                template_version=kernel_template.version, space_version="s", kernel_digest=kernel.digest,
                measurement=measurement, toolchain=program.toolchain, driver="", autosched_version="0.1.0",
                created=datetime(2026, 11, 22, tzinfo=UTC), sampler="random", seed=0,
            )  # fmt: skip
            return replace(trial, **more)

        yield make_trial


def test_databases(compiled: Any, golden: Golden, tmp_path: Path) -> None:
    matmul = template("matmul")
    schedule = first(matmul, SMALL)
    verified = verify_one(matmul, SMALL, schedule, H200).stored()

    def checked(name: str, emulate: bool = True, **more: Any) -> None:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        with Store.open(path) as store:
            store.append(compiled(matmul, SMALL, schedule, **more))
        compare_check(golden, name, path, emulate)

    estimated = {"provenance": Provenance.ESTIMATED, "emulate": False}
    checked("check: verified now")
    checked("check: measured, without verification", emulate=False)
    checked("check: estimated, without verification", **estimated)
    checked("check: estimated, verified", **estimated, verification=json.dumps(verified))
    checked("check: by another emulator", **estimated, verification=json.dumps({**verified, "emulator": "0" * 64}))
    checked("check: of other PTX", **estimated, verification=json.dumps({**verified, "ptx": "0" * 64}))
    invalid = Schedule("matmul", tuple((n, 999 if n == "tile_m" else v) for n, v in schedule.items))
    with Store.open(tmp_path / "invalid.db") as store:
        store.append(replace(compiled(matmul, SMALL, schedule), schedule=invalid))
    compare_check(golden, "check: no longer valid", tmp_path / "invalid.db", True)


def test_a_database_of_a_users_kernel(compiled: Any, golden: Golden, tmp_path: Path) -> None:
    a, b = (np.random.default_rng(i).standard_normal(1000).astype(np.float32) for i in (0, 1))
    for name, expected in (("check: kernel, sound", a + b), ("check: kernel, wrong", a - b)):
        kernel = added(answer=[expected, None, None, None], name=f"golden_{len(list(tmp_path.iterdir()))}")
        kernel.register()
        problem = kernel.problem()
        (schedule,) = kernel.template.space(problem, H200).sample(1, 0)
        path = tmp_path / f"{kernel.file.name}.db"
        with Store.open(path) as store:
            store.append(compiled(kernel.template, problem, schedule))
        compare_check(golden, name, path, True)


def compare_check(golden: Golden, name: str, path: Path, emulate: bool) -> None:
    (finding,) = check_database(path, CheckOptions(static=StaticOptions(emulate=emulate)), static=True).findings
    verdict = "refused" if finding.verdict.fails else "accepted" if finding.verdict.judged else "uncertain"
    reason = "wrong_result" if finding.verdict == "wrong" else str(finding.verdict)
    golden(name, verdict, why=[] if verdict == "accepted" else [reason])
