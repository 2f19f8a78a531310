"""Pointers into arrays, arrays with unwritten bytes, and addresses stored in arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import ADD_ONE

from measurements.emulator import Emulation, FindingKind, Memory, StoredAddress, emulate_ptx
from measurements.emulator.host.build import runner
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand

pytestmark = needs_compiler

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
# o[t] = *p[t], of 32-bit words
FOLLOW = (
    HEAD
    + """
.visible .entry follow(.param .u64 p, .param .u64 o) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<7>;
  ld.param.u64 %rd1, [p];
  ld.param.u64 %rd2, [o];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 8;
  add.s64 %rd3, %rd1, %rd3;
  ld.global.u64 %rd4, [%rd3];
  ld.global.u32 %r2, [%rd4];
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd2, %rd5;
  st.global.u32 [%rd6], %r2;
  ret;
}
"""
)
U32, U64 = SCALAR_DTYPES["u32"], SCALAR_DTYPES["u64"]


def run(offsets: dict[int, int], defined: np.ndarray | None = None, threads: int = 4) -> Emulation:
    """Run ``add_one`` on pointers into an array of the words 0 to 15."""
    array = Operand("x", "inout", U32, (16,))
    launch = Launch(entry="add_one", arguments=(array, array), grid=(1, 1, 1), block=(threads, 1, 1))
    memory = Memory(offsets=offsets, defined={"x": np.ones(64, bool) if defined is None else defined})
    return emulate_ptx(ADD_ONE, launch, {"x": np.arange(16, dtype=np.uint32)}, memory=memory)


def test_pointers_into_one_array() -> None:
    done = run({0: 8, 1: 40})
    assert done.ok, done.reason
    assert done.outputs["x"].tolist() == [*range(10), 3, 4, 5, 6, 14, 15]
    assert np.flatnonzero(done.written["x"]).tolist() == list(range(40, 56))
    assert done.defined["x"].all()


def test_a_pointer_reaches_beyond_its_array() -> None:
    done = run({0: 0, 1: 56})
    assert [f.kind for f in done.findings] == [FindingKind.OUT_OF_BOUNDS_GLOBAL]
    assert "byte 64 of x, which has 64 bytes" in done.reason


def test_a_byte_without_a_value_is_read() -> None:
    defined = np.ones(64, bool)
    defined[13] = False
    done = run({0: 0, 1: 32}, defined)
    assert [f.kind for f in done.findings] == [FindingKind.UNINITIALIZED_GLOBAL_READ]
    assert "element 3 of x" in done.reason
    assert run({0: 16, 1: 32}, defined).ok


def test_written_elements_are_defined() -> None:
    defined = np.zeros(64, bool)
    defined[:16] = True
    done = run({0: 0, 1: 32}, defined)
    assert done.ok
    assert np.flatnonzero(done.defined["x"]).tolist() == [*range(16), *range(32, 48)]
    assert np.flatnonzero(done.written["x"]).tolist() == list(range(32, 48))


def follow(addresses: tuple[StoredAddress, ...]) -> Emulation:
    pointers, a, b = (
        Operand("p", "inout", U64, (2,)),
        Operand("a", "inout", U32, (4,)),
        Operand("b", "inout", U32, (4,)),
    )
    o = Operand("o", "output", U32, (2,))
    launch = Launch(entry="follow", arguments=(pointers, o), grid=(1, 1, 1), block=(2, 1, 1), unpassed=(a, b))
    inputs = {
        "p": np.array([7, 9], np.uint64),
        "a": np.arange(4, dtype=np.uint32),
        "b": 10 + np.arange(4, dtype=np.uint32),
    }
    return emulate_ptx(FOLLOW, launch, inputs, memory=Memory(addresses=addresses))


def test_addresses_in_an_array() -> None:
    done = follow((StoredAddress("p", 0, "b", 8), StoredAddress("p", 8, "a", 4)))
    assert done.ok, done.reason
    assert done.outputs["o"].tolist() == [12, 1]
    assert done.outputs["p"].tolist() == [7, 9], "pointers in p must be replaced by the original values again"


def test_an_integer_is_not_a_valid_address() -> None:
    done = follow((StoredAddress("p", 0, "b", 8),))
    assert [f.kind for f in done.findings] == [FindingKind.OUT_OF_BOUNDS_GLOBAL]
    assert "an address outside of every argument" in done.reason


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        (Memory(offsets={2: 0}), "argument 2 is neither a pointer"),
        (Memory(offsets={0: 65}), "byte 65 is outside x"),
        (Memory(defined={"y": np.ones(64, bool)}), "y is not an array of role inout"),
        (Memory(defined={"x": np.ones(16, bool)}), "x needs 64 flags"),
        (Memory(addresses=(StoredAddress("x", 60, "x"),)), "byte 60 of x cannot hold an address"),
        (Memory(addresses=(StoredAddress("x", 0, "x", 65),)), "byte 65 is outside x"),
        (Memory(addresses=(StoredAddress("x", 0, "y"),)), "x and y must both be arrays"),
    ],
)
def test_memory_that_does_not_fit(memory: Memory, reason: str) -> None:
    array = Operand("x", "inout", U32, (16,))
    launch = Launch(entry="add_one", arguments=(array, array), grid=(1, 1, 1), block=(4, 1, 1))
    with pytest.raises(ValueError, match=reason):
        emulate_ptx(ADD_ONE, launch, {"x": np.zeros(16, np.uint32)}, memory=memory)


def add_in_place(bits: int) -> str:
    text = (Path(__file__).parent / "ptx" / "add_in_place.ptx").read_text()
    if bits == 32:
        return text
    for old, new in {
        ".reg .f32": ".reg .b16",
        "ld.global.f32": f"ld.global.u{bits}",
        "st.global.f32": f"st.global.u{bits}",
        "add.f32": "add.u16",
        "%r4, 4;": f"%r4, {bits // 8};",
    }.items():
        assert old in text
        text = text.replace(old, new)
    return text


def peak_kib(file: Path, bits: int, elements: int) -> int:
    """Return the runner's peak memory in KiB while it emulates x[i] += y[i]."""
    program = (
        "import resource, sys\n"
        "import numpy as np\n"
        "import autosched\n"
        "arrays = [np.ones(int(sys.argv[2]), sys.argv[3]) for _ in range(2)]\n"
        "done = autosched.emulate(open(sys.argv[1]).read(), kernel='add', arguments=arrays,\n"
        "                         grid=int(sys.argv[2]) // 256, block=256, order=autosched.Order('descending'))\n"
        "assert done.status == 'ok', done.reason\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    dtype = {32: "float32", 16: "uint16", 8: "uint8"}[bits]
    done = subprocess.run(
        [sys.executable, "-c", program, str(file), str(elements), dtype], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.parametrize("bits", [32, 16, 8])
def test_shadow_memory_takes_at_most_three_times_the_arrays(bits: int, tmp_path: Path) -> None:
    file = tmp_path / "add.ptx"
    file.write_text(add_in_place(bits))
    small, large = 2**17, 2**20
    added = 2 * bits / 8 * (large - small) / 1024  # additional KiB of both arrays
    runner()  # compile the runner first; otherwise peak_kib would return the compiler's peak, which is larger
    # 4 times: the arrays themselves, and shadow memory of at most three times their size
    assert peak_kib(file, bits, large) - peak_kib(file, bits, small) < 4 * added
