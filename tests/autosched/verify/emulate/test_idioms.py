"""About 110 typical faults in ordinary CUDA idioms each give a finding or wrong numbers."""

from __future__ import annotations

import pytest
from cases import representative
from idiom_faults import FAULTS, IDIOMS, Idiom, planted, source
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch

pytestmark = [needs_nvrtc, needs_compiler, needs_cuda_headers]

# These include libcu++ and take 3 to 15 s to compile. Other idioms take 0.2 s.
SLOW = ("async_bar", "cluster")
ALL = [(name, fault) for name, faults in FAULTS.items() for fault in faults]
# These faults are tested by default, all other faults nightly.
NOW = [(name, fault) for name, fault in ALL if name not in SLOW][::16]


def run(text: str, idiom: Idiom) -> EmulatedLaunch:
    return autosched.emulate(
        text,
        kernel="k",
        arguments=idiom.arguments(),
        grid=idiom.grid,
        block=idiom.block,
        outputs=idiom.outputs,
        time_limit=5,
    )


@pytest.mark.parametrize("name", representative(IDIOMS, "lastblock", "cpasync", "named_barrier_pc"))
def test_idioms_are_right_and_clean(name: str) -> None:
    emulation = run(source(name), IDIOMS[name])
    assert emulation.ok, emulation.reason
    assert IDIOMS[name].is_right(emulation.arrays)


def check(name: str, fault: tuple[str, str, str]) -> None:
    emulation = run(planted(name, fault), IDIOMS[name])
    assert emulation.status in ("ok", "findings", "timeout"), emulation.reason
    assert not emulation.ok or not IDIOMS[name].is_right(emulation.arrays)


@pytest.mark.parametrize(("name", "fault"), NOW, ids=[f"{name}: {fault[0]}" for name, fault in NOW])
def test_some_of_the_faults_are_found(name: str, fault: tuple[str, str, str]) -> None:
    check(name, fault)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "fault"), ALL, ids=[f"{name}: {fault[0]}" for name, fault in ALL])
def test_every_fault_is_found(name: str, fault: tuple[str, str, str]) -> None:
    check(name, fault)
