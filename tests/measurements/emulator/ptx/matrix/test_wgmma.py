"""wgmma of every type, layout and source of A against numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from needs import needs_compiler
from ptx_snippets import HEAD, run_ptx

pytestmark = needs_compiler

Array = npt.NDArray[Any]
RESULTS = {"f16": np.float16, "f32": np.float32, "s32": np.int32}
MODES = {0: 0, 128: 1, 64: 2, 32: 3}  # of a descriptor, by the bytes of its swizzle
B_AT = 32768


@dataclass(frozen=True)
class Operand:
    """A matrix of `lines` (m or n) by k in shared memory: bytes of its swizzle, and whether it lies along m or n."""

    swizzle: int = 128
    transposed: bool = False

    def place(self, lines: int, depth: int, size: int) -> tuple[Array, int, int]:
        """Return the byte of each element, and the leading and stride offsets (PTX ISA 9.7.15.5.1, canonical
        layouts)."""
        line, k = np.meshgrid(np.arange(lines), np.arange(depth), indexing="ij")
        per = 16 // size
        if not self.transposed:
            piece, within = k // per, k % per * size
            if not self.swizzle:  # 8 x 16 bytes together, those along m or n first
                leading, stride = lines // 8 * 128, 128
                return line % 8 * 16 + line // 8 * stride + piece * leading + within, leading, stride
            stride = 8 * self.swizzle
            return self._mix(line % 8 * self.swizzle + line // 8 * stride + piece * 16 + within), 16, stride
        piece, within = line // per, line % per * size
        if not self.swizzle:
            leading, stride = 128, depth // 8 * 128
            return k % 8 * 16 + k // 8 * leading + piece * stride + within, leading, stride
        pieces = self.swizzle // 16
        stride, leading = 8 * self.swizzle, depth // 8 * 8 * self.swizzle
        at = k % 8 * self.swizzle + k // 8 * stride + piece % pieces * 16 + piece // pieces * leading + within
        return self._mix(at), leading, stride

    def _mix(self, at: Array) -> Array:
        result: Array = at ^ ((at >> 7 & self.swizzle // 16 - 1) << 4)
        return result

    def descriptor(self, address: int, leading: int, stride: int) -> int:
        return MODES[self.swizzle] << 62 | stride >> 4 << 32 | leading >> 4 << 16 | address >> 4


def numbers(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> Array:
    """Integers, which all types have."""
    low, high = (0, 8) if kind == "u8" else (-4, 4)
    return rng.integers(low, high, shape)


def f8(code: int, mantissa: int, bias: int) -> float:
    """Return the number of an eight-bit float that is neither subnormal nor special."""
    exponent, fraction = code >> mantissa & (1 << 7 - mantissa) - 1, code & (1 << mantissa) - 1
    return (-1.0) ** (code >> 7) * (1 + fraction / 2**mantissa) * 2.0 ** (exponent - bias)


def encoded(x: Array, kind: str) -> Array:
    """Return the bits of integers as a type has them."""
    match kind:
        case "f16":
            return x.astype(np.float16).view(np.uint16)
        case "bf16":
            return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "tf32":
            return x.astype(np.float32).view(np.uint32)
        case "s8" | "u8":
            return x.astype(np.uint8)
    mantissa, bias = (3, 7) if kind == "e4m3" else (2, 15)
    codes = {f8(code, mantissa, bias): code for code in range(256) if code >> mantissa & (1 << 7 - mantissa) - 1}
    return np.vectorize({**codes, 0.0: 0}.__getitem__)(x).astype(np.uint8)


def run(
    d: str, a: str, b: str, n: int, *, left: Operand | None, right: Operand, negated: tuple[int, int] = (1, 1)
) -> tuple[Array, Array]:
    """Return what the machine gives for c + a @ b.T, and what numpy does. ``left`` is None for A in registers."""
    rng = np.random.default_rng(n)
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(a, 1)
    depth = 32 // size
    x, y = numbers(rng, (64, depth), a), numbers(rng, (n, depth), b)
    x_bits, y_bits = encoded(x, a), encoded(y, b)
    start = numbers(rng, (64, n), "s8").astype(RESULTS[d])
    image = np.zeros(2 * B_AT, np.uint8)
    descriptors = []
    for matrix, operand, at in ((x_bits, left, 0), (y_bits, right, B_AT)):
        if operand is None:
            continue
        places, leading, stride = operand.place(*matrix.shape, size)
        bytes_of = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, size)
        for byte in range(size):
            image[at + places + byte] = bytes_of[..., byte]
        descriptors.append(operand.descriptor(1024 + at, leading, stride))

    thread = np.arange(128)
    row, lane = thread // 32 * 16, thread % 32
    v = np.arange(n // 2)
    rows = (row + lane // 4)[:, None] + 8 * (v // 2 % 2)
    columns = v // 4 * 8 + (lane % 4 * 2)[:, None] + v % 2
    registers = np.ascontiguousarray(start[rows, columns]).view(np.uint32).reshape(128, -1)
    run_of = 4 // size
    w = np.arange(4 * run_of)
    part = w // run_of
    a_rows = (row + lane // 4)[:, None] + 8 * (part % 2)
    a_columns = (lane % 4 * run_of)[:, None] + w % run_of + 4 * run_of * (part // 2)
    a_registers = np.ascontiguousarray(x_bits[a_rows, a_columns]).view(np.uint32).reshape(128, 4)

    count = registers.shape[1]
    given = np.concatenate([image.view(np.uint32), registers.reshape(-1), a_registers.reshape(-1)])
    names = [f"%d{k}" for k in range(count)]
    ra = ", ".join(f"%a{k}" for k in range(4))
    first = f"{{{ra}}}" if left is None else "%desc_a"
    types = f"{d}.{a}.{b}"
    numbers_behind = [] if d == "s32" else [str(s) for s in negated]
    if a in ("f16", "bf16"):
        numbers_behind += [str(int(o.transposed)) for o in (left, right) if o is not None]
    tail = "".join(f", {text}" for text in numbers_behind)
    base = image.size
    text = f"""{HEAD.replace("sm_90", "sm_90a")}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.shared .align 1024 .b8 tile[{image.size}];
.reg .b64 %out, %in, %at, %desc_a, %desc_b; .reg .b32 %t, %k, %s, %x; .reg .pred %p;
.reg .b32 %d<{count}>; .reg .b32 %a<4>;
ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
mov.u32 %t, %tid.x; mov.u32 %s, tile;
mul.lo.u32 %k, %t, 4;
copy:
cvt.u64.u32 %at, %k; add.u64 %at, %at, %in; ld.global.u32 %x, [%at];
add.u32 %x, %x, 0; .reg .b32 %w; add.u32 %w, %s, %k; st.shared.u32 [%w], %x;
add.u32 %k, %k, 512; setp.lt.u32 %p, %k, {image.size}; @%p bra copy;
fence.proxy.async.shared::cta;
bar.sync 0;
mul.wide.u32 %at, %t, {4 * count}; add.u64 %at, %at, %in;
{" ".join(f"ld.global.u32 {name}, [%at+{base + 4 * k}];" for k, name in enumerate(names))}
mul.wide.u32 %at, %t, 16; add.u64 %at, %at, %in;
{" ".join(f"ld.global.u32 %a{k}, [%at+{base + 512 * count + 4 * k}];" for k in range(4))}
mov.u64 %desc_a, {descriptors[0]}; mov.u64 %desc_b, {descriptors[-1]};
setp.eq.u32 %p, 0, 0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{types} {{{", ".join(names)}}}, {first}, %desc_b, %p{tail};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %at, %t, {4 * count}; add.u64 %at, %at, %out;
{" ".join(f"st.global.u32 [%at+{4 * k}], {name};" for k, name in enumerate(names))}
ret; }}
"""
    done = run_ptx(text, 64 * count, given, block=128)
    assert done.ok, done.reason
    got = np.zeros((64, n), RESULTS[d])
    got[rows, columns] = done.outputs["out"].view(RESULTS[d]).reshape(128, -1)
    return got, (start.astype(np.int64) + (negated[0] * x) @ (negated[1] * y).T).astype(RESULTS[d])


TYPES = [
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    ("f32", "e4m3", "e4m3"), ("f32", "e4m3", "e5m2"), ("f16", "e5m2", "e4m3"), ("s32", "s8", "s8"), ("s32", "u8", "s8"),
]  # fmt: skip


@pytest.mark.parametrize("types", TYPES, ids=".".join)
def test_types(types: tuple[str, str, str]) -> None:
    for left in (Operand(), None):
        got, wanted = run(*types, 32, left=left, right=Operand())
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_layouts_of_both_orders(swizzle: int) -> None:
    for left, right in ((False, False), (False, True), (True, False), (True, True)):
        a, b = Operand(swizzle, left), Operand(swizzle, right)
        got, wanted = run("f32", "bf16", "bf16", 64, left=a, right=b)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("n", [8, 24, 136, 256])
def test_columns_and_signs(n: int) -> None:
    got, wanted = run("f32", "f16", "f16", n, left=Operand(64), right=Operand(32), negated=(-1, 1))
    np.testing.assert_array_equal(got, wanted)


def test_a_sign_is_plus_or_minus_one() -> None:
    with pytest.raises(AssertionError, match=r"not supported: .*wgmma\.mma_async"):
        run("f32", "f16", "f16", 8, left=Operand(64), right=Operand(32), negated=(2, 1))
