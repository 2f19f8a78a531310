"""Loads, stores and reductions of a multicast object of one GPU are correct, and misuse is reported."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from needs import needs_compiler, needs_nvrtc
from ptx_snippets import run_ptx

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from measurements.emulator.architecture import source_arch
from search_spaces.hardware.dtypes import BF16
from search_spaces.launches.headers import Headers

pytestmark = [needs_compiler, needs_nvrtc]

Array = npt.NDArray[Any]
BITS = [(kind, 1) for kind in ("b32", "u32", "s32", "b64", "u64", "s64", "f64")]
FLOATS = [
    *((kind, n) for kind in ("f16", "bf16") for n in (2, 4, 8)),
    *((kind, n) for kind in ("f16x2", "bf16x2", "f32") for n in (1, 2, 4)),
]  # fmt: skip
OF_BYTES = [
    (f"{kind}{pair}", n)
    for kind in ("e4m3", "e5m2")
    for pair, counts in (("", (4, 8)), ("x2", (2, 4, 8)), ("x4", (1, 2, 4)))
    for n in counts
]
KINDS = [*BITS, *FLOATS, *OF_BYTES]
ORDERED = ("add", "min", "max")


def each_bytes(kind: str) -> int:
    if kind.startswith(("e4m3", "e5m2")):
        return int(kind[5:] or 1)
    return {"f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4}.get(kind) or int(kind[1:]) // 8


def loads(kind: str) -> tuple[str, ...]:
    """Return the operations that multimem.ld_reduce supports for a type."""
    if kind[0] == "b" and kind[1].isdigit():
        return "and", "or", "xor"
    if kind in ("f32", "f64"):
        return ("add",)
    wider = {"f": "f32", "b": "f32", "e": "f16"}.get(kind[0])
    return (*(ORDERED[kind == "s64" :]), *([f"add.acc::{wider}"] if wider else []))


def reductions(kind: str, n: int) -> tuple[str, ...]:
    if kind in ("f16x2", "bf16x2") and n == 1:
        return ("add",)
    return () if (kind, n) in OF_BYTES else tuple(op for op in loads(kind) if "acc" not in op)


def name(*parts: object) -> str:
    return ".".join(str(part) for part in parts if part)


def form(instruction: str, how: str, operation: str, kind: str, n: int) -> str:
    return name("multimem", instruction, how, operation, f"v{n}" if n > 1 else "", kind)


def registers(kind: str, n: int) -> tuple[str, str]:
    """Return a declaration of ``n`` registers, and the operand that consists of these registers."""
    names = [f"%v{k}" for k in range(n)]
    declared = f".reg .{kind if kind in ('f32', 'f64') else f'b{8 * each_bytes(kind)}'} {', '.join(names)};"
    return declared, names[0] if n == 1 else "{" + ", ".join(names) + "}"


def program(body: str) -> str:
    """Return the PTX of ``kernel(out, in)`` with ``body``. Each thread has 16 bytes at ``%out`` and 16 at ``%in``."""
    return f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %out, %in, %at; .reg .b32 %t;
ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 16;
add.u64 %out, %out, %at; add.u64 %in, %in, %at;
{body}
ret; }}
"""


def run(text: str, *arguments: Array) -> EmulatedLaunch:
    return autosched.emulate(text, arguments=arguments, grid=1, block=32)


def moved(kind: str, n: int, operation: str, at: int) -> str:
    declared, operand = registers(kind, n)
    loaded, stored = form("ld_reduce", "weak.global", operation, kind, n), form("st", "relaxed.sys", "", kind, n)
    return f"{{ {declared} {loaded} {operand}, [%in]; {stored} [%out+{at}], {operand}; }}"


@pytest.mark.parametrize(("kind", "n"), KINDS)
def test_one_replica_is_loaded_and_stored_as_it_is(kind: str, n: int) -> None:
    values = np.random.default_rng(1).integers(0, 256, (32, 16), np.uint8)
    operations = loads(kind)
    body = "\n".join(moved(kind, n, operation, 512 * k) for k, operation in enumerate(operations))
    done = run(program(body), np.zeros((len(operations), 32, 16), np.uint8), values)
    assert done.ok, done.reason
    values[:, n * each_bytes(kind) :] = 0
    np.testing.assert_array_equal(done.arrays[0], np.stack([values] * len(operations)))


STORAGE = {"f16": np.float16, "f16x2": np.float16, "f32": np.float32, "f64": np.float64, "bf16": BF16, "bf16x2": BF16}
COMBINED = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def operands(kind: str) -> tuple[Array, Array]:
    """Return the initial contents and the addends, 512 bytes each."""
    rng = np.random.default_rng(2)
    if kind in STORAGE:
        values = rng.normal(size=(2, 512 // (4 if kind == "f32" else 8 if kind == "f64" else 2)))
        stored = [(BF16.store(v.astype(np.float32)) if "bf16" in kind else v.astype(STORAGE[kind])) for v in values]
        return stored[0].view(np.uint8), stored[1].view(np.uint8)
    return rng.integers(0, 256, 512, np.uint8), rng.integers(0, 256, 512, np.uint8)


def combined(operation: str, kind: str, old: Array, new: Array) -> Array:
    f = COMBINED[operation]
    if "bf16" in kind:
        x, y = (BF16.load(a.view(np.uint16)) for a in (old, new))
        return np.asarray(BF16.store(f(x, y))).view(np.uint8)
    dtype = STORAGE.get(kind) or f"{'i' if kind[0] == 's' else 'u'}{each_bytes(kind)}"
    return np.asarray(f(old.view(dtype), new.view(dtype))).view(np.uint8)


@pytest.mark.parametrize(("kind", "n"), [(kind, n) for kind, n in KINDS if reductions(kind, n)])
def test_reductions_of_one_replica(kind: str, n: int) -> None:
    declared, operand = registers(kind, n)
    old, new = operands(kind)
    size, operations = each_bytes(kind), reductions(kind, n)
    values = " ".join(f"ld.global.b{8 * size} %v{k}, [%in+{k * size}];" for k in range(n))
    each = [form("red", "release.gpu.global", operation, kind, n) for operation in operations]
    body = declared + values + "\n".join(f"{one} [%out+{512 * k}], {operand};" for k, one in enumerate(each))
    done = run(program(body), np.stack([old] * len(operations)), new)
    assert done.ok, done.reason
    for operation, result in zip(operations, np.asarray(done.arrays[0]), strict=True):
        expected = old.reshape(32, 16).copy()
        expected[:, : n * size] = combined(operation, kind, old, new).reshape(32, 16)[:, : n * size]
        np.testing.assert_array_equal(result.reshape(32, 16), expected)


def test_semantics_and_scopes() -> None:
    scopes = ("cta", "cluster", "gpu", "sys")
    instructions = {
        "ld_reduce": ["", "weak", *(f"{s}.{scope}" for s in ("relaxed", "acquire") for scope in scopes)],
        "st": ["", "weak", *(f"{s}.{scope}" for s in ("relaxed", "release") for scope in scopes)],
        "red": ["", *(f"{s}.{scope}" for s in ("relaxed", "release") for scope in scopes)],
    }
    loads, stores, sums = (
        [
            form(form_name, name(how, space), "" if form_name == "st" else "add", "u32", 1)
            for how in instructions[form_name]
            for space in ("", "global")
        ]
        for form_name in instructions
    )
    body = ".reg .b32 %v;" + "".join(f"{one} %v, [%in];" for one in [*loads, "multimem.ld_reduce.sys.relaxed.add.u32"])
    body += "".join(f"{one} [%out], %v;" for one in (*stores, *sums))
    values = np.arange(128, dtype=np.uint32)
    done = run(program(body), np.zeros(128, np.uint32), values)
    assert done.ok, done.reason
    expected = np.where(np.arange(128) % 4 == 0, (1 + len(sums)) * values, 0)
    np.testing.assert_array_equal(done.arrays[0], expected)


@pytest.mark.parametrize(
    "instruction",
    [
        "ld_reduce.relaxed.global.add.u32 %r0, [%in]",
        "ld_reduce.gpu.global.add.u32 %r0, [%in]",
        "ld_reduce.weak.gpu.global.add.u32 %r0, [%in]",
        "ld_reduce.release.gpu.global.add.u32 %r0, [%in]",
        "ld_reduce.global.u32 %r0, [%in]",
        "ld_reduce.global.add.b32 %r0, [%in]",
        "ld_reduce.global.add.s64 %at, [%in]",
        "ld_reduce.global.inc.u32 %r0, [%in]",
        "ld_reduce.global.min.f32 %r0, [%in]",
        "ld_reduce.global.add.f16 %h0, [%in]",
        "ld_reduce.global.add.v2.u32 {%r0, %r1}, [%in]",
        "ld_reduce.global.add.v2.f32 {%r0, %r1, %r2}, [%in]",
        "ld_reduce.global.add.v8.f32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%in]",
        "ld_reduce.global.add.acc::f32.f32 %r0, [%in]",
        "ld_reduce.global.add.acc::f16.f16x2 %r0, [%in]",
        "ld_reduce.global.min.acc::f32.f16x2 %r0, [%in]",
        "ld_reduce.shared.add.u32 %r0, [%in]",
        "st.acquire.gpu.global.u32 [%out], %r0",
        "st.global.add.u32 [%out], %r0",
        "st.global.b128 [%out], %q0",
        "st.global.v2.f64 [%out], {%at, %at}",
        "red.weak.global.add.u32 [%out], %r0",
        "red.acq_rel.gpu.global.add.u32 [%out], %r0",
        "red.global.add.s64 [%out], %at",
        "red.global.min.f16x2 [%out], %r0",
        "red.global.add.noftz.f16x2 [%out], %r0",
        "red.global.add.e4m3x4 [%out], %r0",
        "red.global.max.f64 [%out], %at",
        "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r0], 16",
    ],
)
def test_instructions_rejected_by_ptxas_are_unsupported(instruction: str, tmp_path: Path) -> None:
    registers = ".reg .b16 %h0; .reg .b32 %r<8>; .reg .b128 %q0;"
    text = program(f"{registers}\nmultimem.{instruction};")
    done = run(text, np.zeros(512, np.uint8), np.zeros(512, np.uint8))
    assert done.status == "unsupported"
    assert f"PTX line 11: multimem.{instruction}" in done.reason
    if shutil.which("ptxas") is not None:
        file = tmp_path / "k.ptx"
        file.write_text(text)
        command = ["ptxas", "-arch=sm_100a", "-o", str(tmp_path / "k.cubin"), str(file)]
        assert "line 11;" in subprocess.run(command, capture_output=True, text=True, check=False).stderr


COUNT = "multimem.red.release.gpu.global.add.u32 [%flag], 1;"
WAIT = "WAIT: multimem.ld_reduce.acquire.gpu.global.add.u32 %v, [%flag]; setp.eq.u32 %p, %v, 0; @%p bra WAIT;"
# Block 0 stores data and then a flag, which tells block 1 that the data is complete.
HANDED_ON = f""".reg .b64 %flag; .reg .b32 %v, %block; .reg .pred %p;
ld.param.u64 %flag, [in]; mov.u32 %block, %ctaid.x; setp.ne.u32 %p, %block, 0; @%p bra OTHER;
multimem.st.global.u32 [%out], 7; {COUNT} ret;
OTHER: {WAIT}
multimem.ld_reduce.global.add.u32 %v, [%out]; multimem.st.global.u32 [%out+4], %v;
"""


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("", "", set()),
        ("red.release", "red.relaxed", {"global_race"}),
        ("ld_reduce.acquire", "ld_reduce.relaxed", {"global_race"}),
        (WAIT, "", {"global_race"}),
        (COUNT, "multimem.st.release.gpu.global.u32 [%flag], 1;", set()),
        (COUNT, "multimem.st.weak.global.u32 [%flag], 1;", {"global_race"}),
    ],
)
def test_accesses_are_ordered_by_their_semantics(before: str, after: str, kinds: set[str]) -> None:
    text = program(HANDED_ON.replace(before, after) if before else HANDED_ON)
    done = autosched.emulate(text, arguments=(np.zeros(4, np.uint32), np.zeros(1, np.uint32)), grid=2, block=1)
    assert {f.kind for f in done.findings} == kinds
    if not kinds:
        assert done.ok, done.reason
        assert np.asarray(done.arrays[0]).tolist() == [7, 7, 0, 0]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("multimem.ld_reduce.add.v4.f32 {%r0, %r1, %r2, %r3}, [%in+4];", "misaligned_access"),
        ("multimem.st.v2.f32 [%out+4], {%r0, %r1};", "misaligned_access"),
        ("multimem.red.add.v4.f16 [%out+4], {%h0, %h1, %h2, %h3};", "misaligned_access"),
        ("multimem.ld_reduce.add.u32 %r0, [%in+16];", "out_of_bounds_global"),
        ("multimem.st.f32 [%out+512], %r0;", "out_of_bounds_global"),
        ("multimem.red.add.v4.f32 [%out+16], {%r0, %r1, %r2, %r3};", "out_of_bounds_global"),
        ("cvta.shared.u64 %at, tile; multimem.ld_reduce.add.u32 %r0, [%at];", "wrong_state_space"),
        ("cvta.shared.u64 %at, tile; multimem.st.u32 [%at], %r0;", "wrong_state_space"),
        ("cvta.shared.u64 %at, tile; multimem.red.add.u32 [%at], %r0;", "wrong_state_space"),
    ],
)
def test_misuse_of_multimem_is_reported(body: str, kind: str) -> None:
    zeros = " ".join(f"mov.b32 %r{k}, 0; mov.b16 %h{k}, 0;" for k in range(4))
    text = program(f".shared .b32 tile; .reg .b32 %r<4>; .reg .b16 %h<4>; {zeros} {body}")
    done = run(text, np.zeros(512, np.uint8), np.zeros(512, np.uint8))
    assert kind in {f.kind for f in done.findings}, done.reason


def test_unwritten_memory_is_found() -> None:
    text = program(".reg .b32 %v; multimem.ld_reduce.add.u32 %v, [%out]; st.global.u32 [%out+4], %v;")
    assert "uninitialized_global_read" in {f.kind.value for f in run_ptx(text, 64, np.zeros(1)).findings}


def test_cuda_source_with_multimem_is_compiled_for_hopper() -> None:
    source = """extern "C" __global__ void kernel(unsigned* o) {
  unsigned v;
  asm volatile("multimem.ld_reduce.weak.global.add.u32 %0, [%1];" : "=r"(v) : "l"(o + threadIdx.x) : "memory");
  asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(o + threadIdx.x), "r"(v) : "memory");
}"""
    assert source_arch(source, Headers()) == "compute_90a"
    done = autosched.emulate(source, arguments=(np.arange(32, dtype=np.uint32),), grid=1, block=32)
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.arrays[0], 2 * np.arange(32))
