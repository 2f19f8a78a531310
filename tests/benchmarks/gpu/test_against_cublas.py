"""Which recorded cuBLAS times are compared with our estimates, and the summary of the comparison."""

from __future__ import annotations

from pathlib import Path

import pytest
from triton_recording import recording

from benchmarks.gpu.against_cublas import LEAST, compared, main, recorded, summary
from search_spaces.operators.matmul import Matmul


def test_large_transformer_and_square_matmuls_are_compared() -> None:
    transformers, general = Path("a100_hf_train_mm.txt"), Path("a100_mm.txt")
    assert compared(transformers, Matmul(LEAST, 8 * LEAST, LEAST))
    assert not compared(transformers, Matmul(LEAST // 2, LEAST, LEAST))
    assert compared(general, Matmul(2 * LEAST, LEAST, LEAST))
    assert not compared(general, Matmul(3 * LEAST, LEAST, LEAST))


def test_only_an_a100s_times_are_compared_and_each_problem_once(tmp_path: Path) -> None:
    ampere, hopper = tmp_path / "ampere", tmp_path / "hopper"
    for folder, capability in ((ampere, (8, 0)), (hopper, (9, 0))):
        folder.mkdir()
        recording(folder, capability=capability)
    records = list(recorded(tmp_path))
    assert records and {r.device.name for r in records} == {"a100"}
    assert len({r.problem for r in records}) == len(records) and all(r.library for r in records)


def test_the_summary_of_shares() -> None:
    assert summary("cuBLAS", [0.8, 0.9, 1.3]) == "- cuBLAS: 90% or more in 2 of 3; median 0.90, least 0.80"


def test_a_folder_without_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
