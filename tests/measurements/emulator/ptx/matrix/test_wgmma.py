"""wgmma agrees with numpy for every type, layout and source of A. A may be sparse; types include single bits."""

from __future__ import annotations

from collections.abc import Callable
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
MODES = {0: 0, 128: 1, 64: 2, 32: 3}  # swizzle field of a descriptor, by the swizzle in bytes
B_AT = 32768


@dataclass(frozen=True)
class Operand:
    """Layout of an operand in shared memory: a matrix of lines (m or n) by k.

    ``swizzle`` is in bytes. ``transposed``: the matrix is contiguous along m or n.
    """

    swizzle: int = 128
    transposed: bool = False

    def layout(self, lines: int, depth: int, size: int) -> tuple[Array, int, int]:
        """Return each element's byte offset, and the descriptor's leading and stride offsets.

        Source: PTX ISA 9.7.15.5.1, canonical layouts.
        """
        line, k = np.meshgrid(np.arange(lines), np.arange(depth), indexing="ij")
        per = 16 // size
        if not self.transposed:
            piece, within = k // per, k % per * size
            if not self.swizzle:  # core matrices of 8 x 16 bytes, adjacent along m or n
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
    """Return random integers that the type ``kind`` represents exactly."""
    low, high = {"u8": (0, 8), "b1": (0, 2)}.get(kind, (-4, 4))
    return rng.integers(low, high, shape)


def f8(code: int, mantissa: int, bias: int) -> float:
    """Return the value of an eight-bit float that is neither subnormal nor special."""
    exponent, fraction = code >> mantissa & (1 << 7 - mantissa) - 1, code & (1 << mantissa) - 1
    return (-1.0) ** (code >> 7) * (1 + fraction / 2**mantissa) * 2.0 ** (exponent - bias)


def encoded(x: Array, kind: str) -> Array:
    """Return the bit patterns that represent integers in the type ``kind``."""
    match kind:
        case "f16":
            return x.astype(np.float16).view(np.uint16)
        case "bf16":
            return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "tf32":
            return x.astype(np.float32).view(np.uint32)
        case "b1":
            return np.packbits(x.astype(np.uint8), axis=1, bitorder="little")
        case "s8" | "u8":
            return x.astype(np.uint8)
    mantissa, bias = (3, 7) if kind == "e4m3" else (2, 15)
    codes = {f8(code, mantissa, bias): code for code in range(256) if code >> mantissa & (1 << 7 - mantissa) - 1}
    return np.vectorize({**codes, 0.0: 0}.__getitem__)(x).astype(np.uint8)


def chosen_columns(rng: np.random.Generator, kind: str, depth: int) -> tuple[Array, Array]:
    """Return an array (64, depth / 2) of the columns that each row keeps, and the bits of each row's metadata.

    Source: PTX ISA, "Sparse matrix storage". For tf32, 0b0100 and 0b1110 select one of two elements. For other types,
    two indices select two of four elements.
    """
    columns, bits = [], []
    for _ in range(64):
        of_row: list[int] = []
        indices: list[int] = []
        if kind == "tf32":
            for pair, second in enumerate(rng.integers(0, 2, depth // 2).tolist()):
                of_row.append(2 * pair + second)
                indices += [0, 1, 1, 1] if second else [0, 0, 1, 0]
        else:
            for four in range(depth // 4):
                two = sorted(rng.permutation(4)[:2].tolist())
                of_row += [4 * four + one for one in two]
                indices += [one >> bit & 1 for one in two for bit in (0, 1)]
        columns.append(of_row)
        bits.append(indices)
    return np.array(columns), np.array(bits)


def metadata_words(bits: Array, selector: int) -> Array:
    """Return the metadata register of each of 128 threads.

    If rows have 32 bits, ``selector`` names a pair of lanes. Each lane of the pair holds 16 bits of row g and 16 bits
    of row g + 8. If rows have 64 bits, each lane holds 32 bits of one row.
    """
    words = np.full(128, 0xDEADBEEF, np.uint64)
    for warp in range(4):
        for row in range(16):
            value = sum(int(bit) << k for k, bit in enumerate(bits[16 * warp + row]))
            first, high = 32 * warp + 4 * (row % 8), row // 8
            for part in range(2):
                if bits.shape[1] == 64:
                    words[first + 2 * part + high] = value >> 32 * part & 0xFFFFFFFF
                else:
                    at = first + 2 * selector + part
                    preserved = int(words[at]) & (0xFFFF if high else 0xFFFF0000)
                    words[at] = preserved | (value >> 16 * part & 0xFFFF) << 16 * high
    return words.astype(np.uint32)


def run(
    d: str,
    a: str,
    b: str,
    n: int,
    *,
    left: Operand | None,
    right: Operand,
    negated: tuple[int, int] = (1, 1),
    selector: int | None = None,
    infinite: int | None = None,
    spoiled: Callable[[Array], Array] = lambda words: words,
    edit: Callable[[str], str] = lambda text: text,
) -> tuple[Array, Array]:
    """Return c + a @ b.T as computed by the emulator, and by numpy.

    Args:
        d: Type of the accumulators.
        a: Type of A.
        b: Type of B.
        n: Number of columns of B.
        left: None for A in registers.
        right: Layout of B in shared memory.
        negated: Factors of A and B, 1 or -1.
        selector: Sparsity selector of a sparse A.
        infinite: Index along k at which the first column of b (bf16) is infinite. numpy's result is NaN in rows that
            keep this index.
        spoiled: Function that damages the metadata.
        edit: Function that edits the PTX.
    """
    rng = np.random.default_rng(n)
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(a, 1)
    depth = 256 if a == "b1" else 32 // size * (1 if selector is None else 2)
    x, y = numbers(rng, (64, depth), a), numbers(rng, (n, depth), b)
    meta, compressed = np.zeros(128, np.uint32), x
    if selector is not None:
        chosen, bits = chosen_columns(rng, a, depth)
        compressed, meta = np.take_along_axis(x, chosen, 1), spoiled(metadata_words(bits, selector))
        x = np.zeros_like(x)
        np.put_along_axis(x, chosen, compressed, 1)
    x_bits, y_bits = encoded(compressed, a), encoded(y, b)
    reached = np.zeros(64, np.bool_)
    if infinite is not None:
        y_bits[0, infinite] = 0x7F80
        reached = (chosen == infinite).any(axis=1)
    start = numbers(rng, (64, n), "s8").astype(RESULTS[d])
    image = np.zeros(2 * B_AT, np.uint8)
    descriptors = []
    for matrix, operand, at in ((x_bits, left, 0), (y_bits, right, B_AT)):
        if operand is None:
            continue
        positions, leading, stride = operand.layout(*matrix.shape, size)
        bytes_of = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, size)
        for byte in range(size):
            image[at + positions + byte] = bytes_of[..., byte]
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
    inputs = np.concatenate([image.view(np.uint32), registers.reshape(-1), a_registers.reshape(-1), meta])
    names = [f"%d{k}" for k in range(count)]
    ra = ", ".join(f"%a{k}" for k in range(4))
    first = f"{{{ra}}}" if left is None else "%desc_a"
    types = f"{d}.{a}.{b}"
    variant, of_sparse = ("", "") if selector is None else (".sp", f"%m, {selector}, ")
    suffix = ".and.popc" if a == "b1" else ""
    scale_operands = [] if d == "s32" else [str(s) for s in negated]
    if a in ("f16", "bf16"):
        scale_operands += [str(int(o.transposed)) for o in (left, right) if o is not None]
    tail = "".join(f", {text}" for text in scale_operands)
    base = image.size
    text = f"""{HEAD.replace("sm_90", "sm_90a")}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.shared .align 1024 .b8 tile[{image.size}];
.reg .b64 %out, %in, %at, %desc_a, %desc_b; .reg .b32 %t, %k, %s, %x; .reg .pred %p;
.reg .b32 %d<{count}>; .reg .b32 %a<4>; .reg .b32 %m;
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
mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %in; ld.global.u32 %m, [%at+{base + 512 * count + 2048}];
mov.u64 %desc_a, {descriptors[0]}; mov.u64 %desc_b, {descriptors[-1]};
setp.eq.u32 %p, 0, 0;
wgmma.fence.sync.aligned;
wgmma.mma_async{variant}.sync.aligned.m64n{n}k{depth}.{types}{suffix}
  {{{", ".join(names)}}}, {first}, %desc_b, {of_sparse}%p{tail};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %at, %t, {4 * count}; add.u64 %at, %at, %out;
{" ".join(f"st.global.u32 [%at+{4 * k}], {name};" for k, name in enumerate(names))}
ret; }}
"""
    done = run_ptx(edit(text), 64 * count, inputs, block=128)
    assert done.ok, (done.reason, done.findings)
    actual = np.zeros((64, n), RESULTS[d])
    actual[rows, columns] = done.outputs["out"].view(RESULTS[d]).reshape(128, -1)
    expected = (start.astype(np.int64) + (negated[0] * x) @ (negated[1] * y).T).astype(RESULTS[d])
    expected[reached, 0] = np.nan if reached.any() else 0
    return actual, expected


TYPES = [
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    ("f32", "e4m3", "e4m3"), ("f32", "e4m3", "e5m2"), ("f16", "e5m2", "e4m3"), ("s32", "s8", "s8"), ("s32", "u8", "s8"),
]  # fmt: skip


@pytest.mark.parametrize("types", TYPES, ids=".".join)
def test_types(types: tuple[str, str, str]) -> None:
    for left in (Operand(), None):
        actual, expected = run(*types, 32, left=left, right=Operand())
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_layouts_of_both_orders(swizzle: int) -> None:
    for left, right in ((False, False), (False, True), (True, False), (True, True)):
        a, b = Operand(swizzle, left), Operand(swizzle, right)
        actual, expected = run("f32", "bf16", "bf16", 64, left=a, right=b)
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("n", [8, 24, 136, 256])
def test_columns_and_signs(n: int) -> None:
    actual, expected = run("f32", "f16", "f16", n, left=Operand(64), right=Operand(32), negated=(-1, 1))
    np.testing.assert_array_equal(actual, expected)


def test_a_sign_is_plus_or_minus_one() -> None:
    with pytest.raises(AssertionError, match=r"not supported: .*wgmma\.mma_async"):
        run("f32", "f16", "f16", 8, left=Operand(64), right=Operand(32), negated=(2, 1))


@pytest.mark.parametrize("n", [8, 24, 256])
def test_bits(n: int) -> None:
    for left in (Operand(), None):
        actual, expected = run("s32", "b1", "b1", n, left=left, right=Operand(64))
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("types", TYPES, ids=".".join)
def test_sparse_types(types: tuple[str, str, str]) -> None:
    for left in (Operand(), None):
        for selector in (0, 1) if types[1] in ("f16", "bf16", "tf32") else (0,):
            actual, expected = run(*types, 32, left=left, right=Operand(), selector=selector)
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("swizzle", [0, 64, 128])
def test_layouts_of_sparse_products(swizzle: int) -> None:
    for left, right in ((False, False), (False, True), (True, False), (True, True)):
        a, b = Operand(swizzle, left), Operand(swizzle, right)
        actual, expected = run("f32", "bf16", "bf16", 136, left=a, right=b, selector=1, negated=(1, -1))
        np.testing.assert_array_equal(actual, expected)


def test_dropped_elements_of_sparse_a_are_not_multiplied() -> None:
    """An infinity of B at a column that A drops must not be multiplied by zero, which would give NaN."""
    actual, expected = run("f32", "bf16", "bf16", 8, left=Operand(), right=Operand(), selector=0, infinite=5)
    is_nan = np.isnan(expected)
    assert 0 < is_nan.sum() < 64
    assert not np.isfinite(actual[is_nan]).any()
    np.testing.assert_array_equal(actual[~is_nan], expected[~is_nan])


def test_metadata_name_two_elements() -> None:
    with pytest.raises(AssertionError, match=r"metadata 0x5 of row 3"):
        run("f32", "f16", "f16", 8, left=Operand(), right=Operand(), selector=0, spoiled=repeated)


def repeated(words: Array) -> Array:
    """Damage the metadata: row 3 selects element 1 of its first four elements twice."""
    words[12] = words[12] & ~np.uint32(15) | np.uint32(5)
    return words


ASYNCHRONOUS = {
    "wgmma.fence.sync.aligned;": "missing_wgmma_fence",
    "fence.proxy.async.shared::cta;": "missing_proxy_fence",
    "wgmma.wait_group.sync.aligned 0;": "wgmma_in_flight",
}


@pytest.mark.parametrize(("line", "kind"), ASYNCHRONOUS.items())
def test_sparse_products_require_the_same_waits(line: str, kind: str) -> None:
    with pytest.raises(AssertionError, match=kind):
        run("f32", "f16", "f16", 8, left=None, right=Operand(), selector=0, edit=lambda text: text.replace(line, ""))


def test_only_lanes_that_the_selector_names_have_metadata() -> None:
    def edit(named: int) -> Callable[[str], str]:
        """Return a function that removes the load of the metadata register in the lanes of pair ``named``."""
        load = "ld.global.u32 %m,"
        guard = f"and.b32 %k, %t, 2; setp.ne.u32 %p, %k, {2 * named}; @%p {load}"
        return lambda text: text.replace(load, guard)

    actual, expected = run("f32", "f16", "f16", 8, left=Operand(), right=Operand(), selector=0, edit=edit(1))
    np.testing.assert_array_equal(actual, expected)
    with pytest.raises(AssertionError, match="undefined_register"):
        run("f32", "f16", "f16", 8, left=Operand(), right=Operand(), selector=0, edit=edit(0))
