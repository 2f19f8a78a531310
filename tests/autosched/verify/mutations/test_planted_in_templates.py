"""Verification reports every fault planted in matmul templates of Hopper and Blackwell, and accepts correct kernels."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tcgen05_planted
import tma_planted
import wgmma_planted
from cases import representative
from mutation_testing import reported_by_verification
from needs import needs_compiler, needs_nvrtc
from wgmma_cases import H200

from autosched.verify.schedules import Depth
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device

pytestmark = [needs_compiler, needs_nvrtc]
TCGEN05, TMA, WGMMA = tcgen05_planted.PLANTED, tma_planted.PLANTED, wgmma_planted.PLANTED
DEPTHS: dict[str, tuple[Depth, ...]] = {"tcgen05": ("quick", "full"), "tma": ("quick",), "wgmma": ("quick", "full")}

# Faults with this name cause a race in which the value is read by a copy between memories, not by a load into a
# register.
BY_COPY = tuple(p for p in TCGEN05 if p.name == "a store does not wait for the other lanes")
TCGEN05_BY_DAY, TMA_BY_DAY, WGMMA_BY_DAY = (*TCGEN05[::12], *BY_COPY), TMA[::6], WGMMA[:4]


def params(name: str, planted: tuple[Any, ...]) -> list[Any]:
    """Return one test parameter for each planted fault of template ``name``."""
    return [pytest.param(name, p, id=f"{name}: {p.name}") for p in planted]


def cases(name: str, planted: tuple[Any, ...], by_day: tuple[Any, ...]) -> list[Any]:
    """Return a test parameter for each kernel with planted faults; nightly if none of its faults is in ``by_day``."""
    known_cases = {p.case for p in by_day}
    return [
        pytest.param(name, p, marks=[] if p.case in known_cases else [pytest.mark.nightly], id=f"{name}: {p.case}")
        for p in {p.case: p for p in planted}.values()
    ]


@pytest.mark.parametrize(
    ("name", "planted", "device"),
    [
        ("tcgen05_matmul", TCGEN05, tcgen05_planted.B200),
        pytest.param("wgmma_matmul", WGMMA, H200, marks=pytest.mark.nightly),
    ],
    ids=("tcgen05", "wgmma"),
)
def test_every_fault_is_planted_in_a_valid_schedule(name: str, planted: tuple[Any, ...], device: Device) -> None:
    for fault in planted:
        template(name).config(fault.problem(), fault.schedule(), device)
        assert fault.kernel() != fault.right_kernel()


@pytest.mark.parametrize(
    ("name", "planted"),
    params("tcgen05", TCGEN05_BY_DAY) + params("tma", TMA_BY_DAY) + params("wgmma", WGMMA_BY_DAY),
)
def test_a_planted_fault_is_reported(name: str, planted: Any) -> None:
    assert planted.finding in reported_by_verification(planted.problem(), planted.kernel(), DEPTHS[name])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "planted"), params("tcgen05", TCGEN05) + params("tma", TMA) + params("wgmma", WGMMA[4:])
)
def test_every_planted_fault_is_reported(name: str, planted: Any) -> None:
    assert planted.finding in reported_by_verification(planted.problem(), planted.kernel(), DEPTHS[name])


@pytest.mark.parametrize(
    ("name", "planted"),
    # By default, kernels with block scales are omitted because their verification takes long. wgmma is omitted because
    # other tests verify it.
    cases("tcgen05", TCGEN05, tuple(p for p in TCGEN05_BY_DAY if not re.match("mx|nv", p.case)))
    + cases("tma", TMA, TMA_BY_DAY)
    + cases("wgmma", WGMMA, ()),
)
def test_the_kernels_are_right(name: str, planted: Any) -> None:
    assert reported_by_verification(planted.problem(), planted.right_kernel(), DEPTHS[name]) == set()


@pytest.mark.parametrize(
    ("name", "planted"),
    representative(
        cases("tcgen05", tuple(p for p in TCGEN05 if re.match("mx|nv", p.case)), TCGEN05),
        "tcgen05: nvf4",
        "tcgen05: mxf8 of a pair",
    ),
)
def test_quick_verifications_of_block_scales_pass(name: str, planted: Any) -> None:
    assert reported_by_verification(planted.problem(), planted.right_kernel(), ("quick",)) == set()
