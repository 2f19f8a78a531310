"""Options of one launch are passed as an object or as keywords, and validated on construction."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched import EmulatedLaunchOptions, Order, emulate
from autosched.verify.launch_plan import PERTURBED, TWICE

SOURCE = """
__global__ void index(float* y) { y[threadIdx.x] = threadIdx.x; }
__global__ void increment(float* y) { y[threadIdx.x] += 1; }
"""


@needs_compiler
@needs_nvrtc
def test_options_are_one_value_that_keywords_override() -> None:
    array = np.zeros(32, np.float32)
    options = EmulatedLaunchOptions(kernel="increment", grid=1, block=32, order=Order("descending"), launches=3)
    emulation = emulate(SOURCE, [array], options)
    assert emulation.ok and (emulation.arrays[0] == 3).all() and emulation.orders == (Order("descending"),)
    keywords = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    np.testing.assert_array_equal(emulate(SOURCE, [array], **keywords).arrays[0], emulation.arrays[0])
    other = emulate(SOURCE, [array], options, kernel="index", outputs=(0,))
    np.testing.assert_array_equal(other.arrays[0], np.arange(32))
    assert other.orders == emulation.orders


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"launches": 0}, "launches"),
        ({"time_limit": 0}, "time_limit"),
        ({"shared_bytes": -1}, "shared_bytes"),
        ({"grid": (1, 1, 1, 1)}, "grid"),
        ({"block": ()}, "block"),
    ],
)
def test_options_are_validated_on_construction(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        EmulatedLaunchOptions(**options)
    assert "\n" not in str(error.value)


def test_options_define_the_plan_of_the_launch() -> None:
    plan = EmulatedLaunchOptions(time_limit=5, launches=2, perturb=True).plan
    assert (plan.time_limit, plan.launches, plan.perturb_all) == (5, 2, True)
    assert len(plan.runs) == 2
    full = {run.name for run in EmulatedLaunchOptions(full=True).plan.runs}
    assert {TWICE, PERTURBED} <= full
    orders = EmulatedLaunchOptions(full=True, order=Order("random", 7)).plan.orders
    assert orders[0] == Order("random", 7) and len(orders) == 5 and len(set(orders)) == 5
    assert EmulatedLaunchOptions(order=Order("random", 7)).plan.orders == orders[:1]


def test_unknown_options_and_other_types_are_rejected() -> None:
    with pytest.raises(TypeError, match="blocks"):
        emulate(SOURCE, [], grid=1, blocks=32)
    with pytest.raises(TypeError, match="base must be EmulatedLaunchOptions"):
        emulate(SOURCE, [], "index", grid=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"device": "h100"}, {"schedule": {"tile_m": 16}}, {"block": 32}])
def test_options_of_a_tile_program_and_a_missing_grid_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"device|schedule|grid"):
        emulate(SOURCE, [], **options)
