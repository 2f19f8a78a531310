"""The page of estimates against recordings, without the recordings."""

from pathlib import Path

import pytest

from benchmarks.users_kernels.__main__ import Counted, decoded, encoded, page
from cost_models.launch_time import CompiledResources
from search_spaces.hardware.costs.launch_counts import LaunchCounts

IN_PTX = LaunchCounts(64, 128, 1, 10, (("fma.rn.f32", 1e4),), 1e4, *[100.0] * 7, 0.0, 1e6, 0, 10**6)
IN_CODE = LaunchCounts(64, 128, 1, 10, (("fma.rn.f32", 1e4),), 1e4, *[100.0] * 7, 0.0, 1e6, 0, 10**6, 12.0)
ROW = Counted("pnpoly", {"tile_size": 2}, IN_CODE, CompiledResources(40), 0.5, IN_PTX)


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_few_configurations_are_not_ranked(number: int, tmp_path: Path) -> None:
    said = page({"pnpoly": [ROW] * number}, tmp_path, {}, 0)
    assert said == "No kernel has 8 configurations that can be compared: give more --configurations."


def test_rows_of_counts_are_read_as_they_were_written() -> None:
    assert decoded(encoded(ROW)) == ROW
