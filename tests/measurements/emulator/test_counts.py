"""Counts of requests, wavefronts and sectors agree between emulator, brute force and layout algebra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from measurements.emulator import Emulation
from search_spaces.hardware.block_scaling import FACTOR_DTYPES
from search_spaces.hardware.costs.bank_conflicts import (
    Traffic,
    copy_traffic,
    fragment_traffic,
    ldmatrix_wavefronts,
    wavefronts,
)
from search_spaces.hardware.dtypes import U32
from search_spaces.hardware.intrinsics import INTRINSICS
from search_spaces.hardware.requirements import Access
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.launches.operand import Operand
from search_spaces.layouts.shared_layout import SharedLayout

Run = Callable[..., Emulation]
Table = npt.NDArray[np.int64]

SHARED = 65536
NOBODY = 0xFFFFFFFF


def words(name: str, size: int, role: str = "input") -> Operand:
    return Operand(name, "output" if role == "output" else "input", U32, (size,))


def offsets_or_idle(table: Table) -> npt.NDArray[np.uint32]:
    flat = table.reshape(-1)
    return np.where(flat < 0, NOBODY, flat).astype(np.uint32)


def emulate_table(run: Run, source: str, table: Table, *more: int) -> tuple[Traffic, Traffic | None]:
    """Emulate accesses at a table's offsets (-1: no access).

    Returns the counts of the lines that end with ``// load`` and ``// store``.
    """
    requests = np.array([len(table), *more], dtype=np.uint32)
    arguments = (words("table", table.size), words("requests", requests.size), words("o", 32, "output"))
    inputs = {"table": offsets_or_idle(table), "requests": requests}
    emulation = run(source, arguments, inputs, shared=SHARED, check=False)
    assert emulation.ok, emulation.reason or emulation.log
    traffic: list[Traffic | None] = []
    for mark in ("// load", "// store"):
        lines = [i for i, line in enumerate(source.splitlines(), 1) if line.endswith(mark)]
        sites = [s for s in emulation.shared_sites if s.line in lines]
        traffic.append(Traffic(sites[0].requests, sites[0].wavefronts, sites[0].ideal) if sites else None)
    assert traffic[0] is not None
    return traffic[0], traffic[1]


def brute_force(addresses: list[int], access_bytes: int) -> tuple[int, int]:
    """Return (wavefronts, phases) of one request, counted word by word. Lanes with -1 are inactive."""
    lanes = 8 if access_bytes == 16 else 16 if access_bytes == 8 else 32
    total = phases = 0
    for first in range(0, 32, lanes):
        words = {
            word
            for address in addresses[first : first + lanes]
            if address >= 0
            for word in range(address // 4, (address + access_bytes - 1) // 4 + 1)
        }
        if words:
            phases += 1
            total += max(Counter(word % 32 for word in words).values())
    return total, phases


@pytest.mark.parametrize("access_bytes", [1, 2, 4, 8, 16])
def test_wavefronts_of_random_requests(run: Run, test_kernel: Callable[[str], str], access_bytes: int) -> None:
    source = f"#define BYTES {access_bytes}\n" + test_kernel("shared_requests")
    rng = np.random.default_rng(access_bytes)
    for _ in range(40):
        count = int(rng.integers(1, 8))
        kind = rng.integers(0, 4)
        lane = np.arange(32)
        if kind == 0:  # random positions
            units = rng.integers(0, SHARED // access_bytes, (count, 32))
        elif kind == 1:  # a fixed stride
            units = lane * rng.integers(0, 64, (count, 1)) + rng.integers(0, 64, (count, 1))
        elif kind == 2:  # at most six addresses, each read by several lanes (broadcast)
            units = rng.integers(0, 6, (count, 32)) * 32
        else:  # a permutation of 32 positions
            units = np.stack([rng.permutation(32) for _ in range(count)])
        table = units * access_bytes
        table[rng.random(table.shape) < rng.choice([0, 0.3, 0.9])] = -1
        table[(table < 0).all(axis=1), 0] = 0
        load, store = emulate_table(run, source, table)
        expected = np.array([brute_force([int(x) for x in request], access_bytes) for request in table])
        assert load == store == Traffic(count, int(expected[:, 0].sum()), int(expected[:, 1].sum()))
        np.testing.assert_array_equal(expected[:, 0], wavefronts(table, access_bytes))


@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_wavefronts_of_random_ldmatrix(run: Run, test_kernel: Callable[[str], str], matrices: int) -> None:
    source = f"#define MATRICES {matrices}\n#define LDMATRIX ldmatrix_x{matrices}\n" + test_kernel("ldmatrix_requests")
    rng = np.random.default_rng(matrices)
    for _ in range(20):
        count = int(rng.integers(1, 8))
        stride = int(rng.choice([1, 2, 3, 4, 8, 9]))
        rows = rng.integers(0, 200, (count, 1)) + np.arange(32) * stride
        if rng.random() < 0.5:
            rows = rng.integers(0, SHARED // 16, (count, 32))
        table = rows * 16
        load, _ = emulate_table(run, source, table)
        used = table[:, : 8 * matrices]
        expected = sum(
            brute_force([int(x) for x in request[i : i + 8]] + [-1] * 24, 16)[0]
            for request in used
            for i in range(0, 8 * matrices, 8)
        )
        assert load == Traffic(count, expected, count * matrices)
        assert expected == ldmatrix_wavefronts(used).sum()


def random_layout(rng: np.random.Generator, shape: tuple[int, int]) -> SharedLayout:
    """Return a legal layout: row- or column-major, padded or swizzled."""
    while True:
        steps = ["transpose"] if rng.random() < 0.5 else []
        kind = rng.integers(0, 3)
        if kind == 1:
            steps.append(f"pad({rng.choice([1, 2, 4, 8, 16])},{rng.choice([1, 2, 4])})")
        elif kind == 2:
            base = int(rng.integers(0, 5))
            steps.append(f"swizzle({rng.integers(1, 4)},{base},{rng.integers(3, 7)})")
        layout = SharedLayout.parse("+".join(steps) or "identity", shape)
        if layout.why_illegal() is None:
            return layout


def accesses(
    row: TensorIntrinsic, operand: str, layout: SharedLayout, element_bytes: int, access: Access
) -> tuple[str, Table]:
    """Return the name of a kernel that loads from shared memory, and the byte offsets of its loads.

    The loads fetch each of the intrinsic's fragments of a tile once.
    """
    offsets = layout.offsets().astype(np.int64) * element_bytes
    if access.mode in ("row", "col"):  # wmma: the start of each fragment
        fragment = row.a.shape if operand == "a" else row.b.shape
        return "wmma_requests", offsets[:: fragment[0], :: fragment[1]].reshape(-1)
    if access.mode in ("rows", "trans"):  # ldmatrix: 16-byte rows along the contiguous index, for four matrices
        lines = offsets if access.axis == "cols" else offsets.T
        starts = lines[:, :: access.vector]
        matrices = starts.reshape(len(starts) // 8, 8, -1).transpose(0, 2, 1)
        return "ldmatrix_requests", matrices.reshape(-1, 32)
    held = row.fragment("a" if operand == "a" else "b")
    rows, cols = (index[:, :: access.vector] for index in held.positions)
    requests = [
        offsets[r + rows[:, i], c + cols[:, i]]
        for r in range(0, layout.shape[0], held.shape[0])
        for c in range(0, layout.shape[1], held.shape[1])
        for i in range(rows.shape[1])
    ]
    return "shared_requests", np.stack(requests)


def test_layout_algebra_predicts_fragment_loads(run: Run, test_kernel: Callable[[str], str]) -> None:
    """For random layouts and intrinsics, fragment_traffic equals the emulator's counts of the same loads."""
    rng = np.random.default_rng(11)
    compared: Counter[str] = Counter()
    while compared.total() < 200:
        row = list(INTRINSICS.values())[rng.integers(len(INTRINSICS))]
        operand = "a" if rng.random() < 0.5 else "b"
        element_bytes = FACTOR_DTYPES[row.stored("a")[0]].bytes if row.unit != "fma" else 2
        shapes = ((16, 32), (32, 32), (64, 16), (32, 64)) if row.unit != "fma" else ((32, 8), (32, 32), (8, 32))
        shape = shapes[rng.integers(len(shapes))]
        layout = random_layout(rng, shape)
        access = row.requirement("a" if operand == "a" else "b", layout, element_bytes)
        if not isinstance(access, Access):
            continue
        name, table = accesses(row, operand, layout, element_bytes, access)
        if name == "wmma_requests":
            instruction = row.name.removeprefix("wmma_")
            source = (
                f"#define REGISTERS {row.a.registers}\n#define ORDER {access.mode}\n"
                f"#define WMMA_LOAD wmma_load_{operand}_{instruction}\n{test_kernel(name)}"
            )
            load, _ = emulate_table(run, source, table, access.leading_dimension or 0)
        elif name == "ldmatrix_requests":
            source = f"#define MATRICES 4\n#define LDMATRIX ldmatrix_x4\n{test_kernel(name)}"
            load, _ = emulate_table(run, source, table)
        else:
            source = f"#define BYTES {access.vector * element_bytes}\n{test_kernel(name)}"
            load, _ = emulate_table(run, source, table)
        expected = fragment_traffic(row, "a" if operand == "a" else "b", layout, element_bytes)
        assert load == expected, (row.name, operand, layout.text, shape)
        compared[row.unit] += 1
    assert min(compared[unit] for unit in ("fma", "mma", "wmma")) >= 20


def test_layout_algebra_predicts_copies(run: Run, test_kernel: Callable[[str], str]) -> None:
    """For random layouts and thread grids, copy_traffic equals the emulator's counts of the same stores."""
    rng = np.random.default_rng(12)
    for _ in range(100):
        element_bytes = int(rng.choice([2, 4]))
        shape = ((32, 32), (64, 32), (32, 64))[rng.integers(3)]
        layout = random_layout(rng, shape)
        by_rows = rng.random() < 0.5
        offsets = (layout.offsets() if by_rows else layout.offsets().T).astype(np.int64) * element_bytes
        across, along = offsets.shape
        vector = int(rng.choice([v for v in (1, 2, 4, 8) if v * element_bytes <= 16]))
        columns = int(
            rng.choice([c for c in (1, 2, 4, 8, 16) if along % (c * vector) == 0 and across % (32 // c) == 0])
        )
        piece = min(vector, layout.contiguity("cols" if by_rows else "rows"), 16 // element_bytes)
        lane = np.arange(32)
        table = np.stack(
            [
                offsets[i + lane // columns, j + lane % columns * vector + e]
                for i in range(0, across, 32 // columns)
                for j in range(0, along, columns * vector)
                for e in range(0, vector, piece)
            ]
        )
        source = f"#define BYTES {piece * element_bytes}\n" + test_kernel("shared_requests")
        _, store = emulate_table(run, source, table)
        assert store == copy_traffic(layout, element_bytes, "cols" if by_rows else "rows", vector, columns, 32)


@pytest.mark.parametrize("access_bytes", [2, 4, 8, 16])
def test_sectors_of_random_requests(run: Run, test_kernel: Callable[[str], str], access_bytes: int) -> None:
    source = f"#define BYTES {access_bytes}\n" + test_kernel("global_requests")
    (line,) = (i for i, text in enumerate(source.splitlines(), 1) if text.endswith("// load"))
    rng = np.random.default_rng(access_bytes)
    data = np.zeros(16384, dtype=np.uint32)
    for _ in range(20):
        count = int(rng.integers(1, 8))
        units = rng.integers(0, 8, (count, 32)) + np.arange(32) * rng.integers(0, 40, (count, 1))
        table = units * access_bytes
        table[rng.random(table.shape) < rng.choice([0, 0.5])] = -1
        table[:, 0] = 0
        arguments = (words("table", table.size), words("requests", 1), words("data", 16384), words("o", 32, "output"))
        inputs = {
            "table": offsets_or_idle(table),
            "requests": np.array([count], dtype=np.uint32),
            "data": data,
        }
        emulation = run(source, arguments, inputs)
        assert emulation.ok, emulation.reason
        (site,) = (s for s in emulation.global_sites if s.line == line)
        sectors = sum(len({int(x) // 32 for x in request if x >= 0}) for request in table)
        assert (site.instruction, site.requests, site.sectors) == ("ld.global.nc", count, sectors)
        assert site.sectors_per_request == sectors / count


def test_sites_of_template_instances_are_separate(run: Run) -> None:
    """If template instances access two layouts from one line, the conflicts of each are counted separately."""
    source = (
        '#include "common.cuh"\n'
        "template <int Pitch>\n"
        "__device__ void fill(unsigned s) { st_shared(s + threadIdx.x * Pitch, AlignedVector<4>{}); }\n"
        'extern "C" __global__ void kernel(unsigned* o) {\n'
        "  fill<4>(shared_memory());\n"
        "  fill<128>(shared_memory() + 128);\n"
        "  st_global(o + threadIdx.x, AlignedVector<4>{});\n"
        "}\n"
    )
    emulation = run(source, (words("o", 32, "output"),), {}, shared=8192)
    assert emulation.ok, emulation.reason
    degrees = {site.callers: site.conflict_degree for site in emulation.shared_sites}
    assert degrees == {("kernel.cu:5",): 1.0, ("kernel.cu:6",): 32.0}


def test_uncoalesced_and_partial_requests(run: Run) -> None:
    """Each iteration counts as one request, even if some lanes are inactive in it."""
    source = (
        '#include "common.cuh"\n'
        'extern "C" __global__ void kernel(const unsigned* a, unsigned* o) {\n'
        "  for (int i = 0; i < 4; ++i) {\n"
        "    if (threadIdx.x >= 8u * i) ld_global_nc<4>(a + i * 32 + threadIdx.x);\n"
        "    warp_sync();\n"
        "  }\n"
        "  st_global(o + threadIdx.x, AlignedVector<4>{});\n"
        "}\n"
    )
    arguments = (words("a", 128), words("o", 32, "output"))
    emulation = run(source, arguments, {"a": np.zeros(128, dtype=np.uint32)})
    assert emulation.ok, emulation.reason
    site = emulation.global_sites[0]
    assert (site.requests, site.sectors) == (4, 4 + 3 + 2 + 1)
