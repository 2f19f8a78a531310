"""Findings with a known usual cause state the remedy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.cli.app import run
from autosched.user_kernels import KernelFileError
from autosched.user_kernels.entry import check_entry
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from search_spaces.hardware.devices import device

COUNTING = """
__global__ void count(unsigned* bins, const unsigned char* x, int n) {
  int i = blockIdx.x * block + threadIdx.x;
  if (i < n) UPDATE;
}
"""


def counting(update: str, **bins: Any) -> KernelSpec:
    return KernelSpec(
        COUNTING.replace("UPDATE", update),
        name="count",
        entry="count",
        parameters={"block": [32]},
        sizes={"n": 40},
        grid="ceil_div(n, block)",
        block="block",
        arguments=[
            {"name": "bins", "kind": "output", "dtype": "u32", "shape": 16, **bins},
            {"name": "x", "kind": "input", "dtype": "u8", "shape": "n"},
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
        reference=lambda x: np.bincount(x % 16, minlength=16),
    )


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("update", ["atomicAdd(AT, 1u)", "*(AT) += 1u", "atomicMax(AT, 1u)"])
def test_an_output_that_is_added_to_names_its_remedy(update: str) -> None:
    verdict = _verified(counting(update.replace("AT", "bins + x[i] % 16")))
    assert not verdict.ok
    assert "zeroed = true for the argument bins" in verdict.reason
    right = _verified(counting("atomicAdd(&bins[x[i] % 16], 1u)", zeroed=True))
    assert right.ok and "zeroed" not in right.reason


def _verified(kernel: KernelSpec) -> Verdict:
    problem = kernel.problem()
    (schedule,) = kernel.template.space(problem, device("a100")).sample(1, 0)
    return verify_one(kernel.template, problem, schedule, device("a100"))


@needs_compiler
@needs_nvrtc
def test_verify_of_one_launch_suggests_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "count.cu"
    source = COUNTING.replace("* block", "* 32").replace("UPDATE", "atomicAdd(&bins[x[i] % 16], 1u)")
    file.write_text(source)
    arguments = ["verify", str(file), "-a", "u8[40]", "-a", "40", "--grid", "2", "--block", "32"]
    assert run([*arguments[:2], "-a", "out u32[16]", *arguments[2:]]) == 1
    assert "zeros TYPE[SHAPE]" in capsys.readouterr().out
    assert run([*arguments[:2], "-a", "zeros u32[16]", *arguments[2:]]) == 0


@needs_nvrtc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("header", ["sys/param.h", pytest.param("thrust/complex.h", marks=pytest.mark.nightly)])
def test_a_header_only_found_by_nvcc_is_compiled_by_nvcc(header: str) -> None:
    def checked(header: str, **more: str) -> None:
        kernel = KernelSpec(
            f"#include <{header}>\n{COUNTING}".replace("UPDATE", "bins[i] = x[i]"),
            name="count",
            entry="count",
            parameters={"block": [32]},
            sizes={"n": 40},
            grid="ceil_div(n, block)",
            block="block",
            arguments=[
                {"name": "bins", "kind": "output", "dtype": "u32", "shape": "n"},
                {"name": "x", "kind": "input", "dtype": "u8", "shape": "n"},
                {"name": "n", "kind": "scalar", "value": "n"},
            ],
            reference=lambda x: x,
            **more,
        )
        problem = kernel.problem()
        check_entry(problem, kernel.template.space(problem, device("a100")).sample(1, 0), device("a100"))

    checked(header)
    checked(header, compiler="nvcc")
    with pytest.raises(KernelFileError, match='compiler = "nvcc"'):  # an explicitly chosen compiler is kept
        checked(header, compiler="nvrtc")
    checked("cuda_fp16.h")
    with pytest.raises(KernelFileError, match=r"nowhere\.h"):
        checked("nowhere.h")
