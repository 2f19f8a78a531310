"""Emit products by tcgen05: one thread issues multiplications, and warps read the sums from tensor memory.

In a loop that only accumulates products, sums are read after the loop. Otherwise they are read after each product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from search_spaces.hardware.devices import Device
from search_spaces.programs.inference.inference import Inference, Spread
from search_spaces.programs.language import ir
from search_spaces.programs.lowering.emit_stores import Stores
from search_spaces.programs.planning.estimates import STORED_A
from search_spaces.programs.planning.instructions import WARPS, allocated_columns, in_tensor_memory, rows_of
from search_spaces.programs.planning.staging import sides
from search_spaces.programs.planning.tensor_memory import (
    is_computed,
    stored_swizzle,
    sums_stay,
    tensor_columns,
    waits_for_readers,
)
from search_spaces.programs.planning.wmma import staged_key
from search_spaces.spaces.parameters import Value


@dataclass
class Waiting:
    """A product whose loop over k has not been emitted yet, so that later products may share it."""

    operation: ir.Mma
    array: str
    sets: list[int] = field(default_factory=list)


class TensorMemory(Stores):
    """Emitter of the code that is specific to tcgen05.

    Attributes:
        columns: Number of tensor-memory columns of each product, by the id of its result.
        done: Address of the mbarrier that signals completed multiplications, as CUDA C++.
        tensor_address: Address of the shared-memory word that holds the address of the allocated tensor memory, as CUDA
            C++.
    """

    def __init__(self, inference: Inference, values: Mapping[str, Value], device: Device) -> None:
        super().__init__(inference, values, device)
        self.columns: dict[int, int] = {}
        self.done = self.tensor_address = ""
        self._starts: dict[int, int] = {}  # first column of each product, by the id of its result
        # names of the parity variables of mbarriers, for products whose sums are read immediately
        self._parities: list[str] = []
        self._sums: list[tuple[ir.Mma, int]] = []  # products of the current loop, and the states that they are added to
        self._freed = False
        if inference.products and in_tensor_memory(str(values["intrinsic"])):
            self.columns = tensor_columns(inference, str(values["intrinsic"]))
            self._starts = dict(zip(self.columns, accumulate(self.columns.values(), initial=0), strict=False))
            if self.sums_stay:
                self.done = self._new_done()
            self.tensor_address = f"barriers + {self._barriers_of(1)}u"

    def _barriers_of(self, count: int) -> int:
        """Allocate ``count`` mbarriers, and return the byte offset of the first."""
        offset = self.barriers
        self.barriers += 8 * count
        return offset

    def _new_done(self) -> str:
        """Allocate an mbarrier that signals completed multiplications, and return its address as CUDA C++."""
        done = f"barriers + {self._barriers_of(1)}u"
        self.inits.append(f"ptx::mbarrier_init({done}, 1);")
        return done

    @property
    def commits_stages(self) -> bool:
        """True if tcgen05.commit releases a stage when its multiplications end, so that no thread waits for them."""
        return bool(self.columns) and bool(self.values.get("in_flight", 0))

    @property
    def sums_stay(self) -> bool:
        """True if the sums of products stay in tensor memory until the loop ends."""
        return bool(self.columns) and sums_stay(self.inference)

    @property
    def _allocated(self) -> int:
        return allocated_columns(sum(self.columns.values()))

    def allocating(self) -> list[str]:
        """Return the code that allocates tensor memory, to be executed before the first barrier."""
        if not self.columns:
            return []
        return [f"if (warp == 0) tile::allocate_tensor({self.tensor_address}, {self._allocated});"]

    def allocated(self) -> list[str]:
        """Return the declarations after the first barrier: the address of tensor memory, and parity variables."""
        if not self.columns:
            return []
        lines = [f"const unsigned tensor = tile::allocated_tensor({self.tensor_address});"]
        return [*lines, *(f"unsigned {parity} = 0;" for parity in self._parities)]

    def _before_tensor_loop(self, loop: ir.Loop) -> None:
        self.code.add("bool begun = false;  // whether tensor memory has sums", loop.source)
        if not self.commits_stages:
            self.code.add("unsigned done_parity = 0;")

    def _tensor_iterations(self, loop: ir.Loop, products: list[tuple[ir.Mma, int]]) -> None:
        """Emit the multiplications of an iteration. Unless ``commits_stages``, all threads then wait for them."""
        alone = not self.commits_stages
        if alone:
            self._enter("if (warp == 0 && ptx::elect()) {", loop.source)
        for operation, state in products:
            a, b = (self.refs[key.id, spread].name for key, spread in sides(self.inference, operation))
            self._multiply(operation, f"Operand_{a}, Operand_{b}", f"tile_{a}, tile_{b}, begun")
            self._sums.append((operation, state))
        self.code.add("begun = true;")
        if alone:
            self.code.add(f"ptx::tcgen05_commit<1>({self.done});")
            self._leave()
            self.code.add("ptx::warp_sync();")
            self.code.add(f"tile::wait_phase({self.done}, done_parity);")
            self.code.add("done_parity ^= 1u;")
        self._leave("});")

    def _read_tensor(self, loop: ir.Loop, count: str) -> None:
        """Emit loads of sums from tensor memory to registers, and the deallocation of tensor memory."""
        self._enter(f"if ({count} > 0) {{", loop.source)
        if self.commits_stages:
            self.code.add(f"tile::wait_phase({self.done}, 0);")
        for operation, state in self._sums:
            self._read_sums_of(operation, self.states[state], True)
        self.code.add("ptx::tcgen05_fence_before_sync();")
        self._leave()
        self._free_tensor(loop.source)

    def _multiply(self, operation: ir.Mma, types: str, tiles: str) -> None:
        """Emit the multiplications of one product, in code that a single thread executes."""
        rows, column = rows_of(str(self.values["intrinsic"])), self._starts[operation.result.id]
        of = f"{types}, {rows}, {operation.a.shape[0] // rows}"
        self.code.add(f"tile::multiply_tensor<{of}>(tensor + {column}u, {tiles});", operation.source)

    def _read_sums_of(self, operation: ir.Mma, array: str, adds: bool) -> None:
        """Emit the load of a product from tensor memory to registers. ``adds``: True to add it to the registers."""
        rows, groups = rows_of(str(self.values["intrinsic"])), self.distributions.warps // WARPS
        m, n = self.inference.products[self.inference.product_of[operation.result.id]].shape
        of, column = f"{rows}, {n}, {m // rows}, {groups}, {str(adds).lower()}", self._starts[operation.result.id]
        self.code.add(f"tile::read_tensor<{of}>({array}, tensor + {column}u, warp);", operation.source)

    def _tensor_products(self, waiting: list[Waiting]) -> None:
        """Emit products whose sums are read immediately.

        The products are divided into groups. At most one left operand of a group is computed rather than loaded.
        """
        together: list[Waiting] = []
        for w in waiting:
            if is_computed(self.inference, w.operation) and any(
                is_computed(self.inference, o.operation) for o in together
            ):
                self._products_at_once(together)
                together = []
            together.append(w)
        self._products_at_once(together)

    def _products_at_once(self, waiting: list[Waiting]) -> None:
        source, operands = waiting[0].operation.source, list[tuple[str, str]]()
        for w in waiting:
            operands.append(self._left(w.operation))
        self.code.flush()
        waits = any(
            is_computed(self.inference, w.operation) or waits_for_readers(self.inference, w.operation) for w in waiting
        )
        # Every group of products has a separate mbarrier. A barrier of the block separates two phases of an mbarrier,
        # so that no warp misses a phase.
        done, parity = self._new_done(), f"parity_{len(self._parities) + 1}"
        self._parities.append(parity)
        if waits:
            self.code.add(f"{self.barrier}  // everybody has stored operands, and has read earlier sums", source)
        self._written = True
        self.code.open("if (warp == 0 && ptx::elect()) {", source)
        if waits:
            self.code.add("ptx::tcgen05_fence_after_sync();")
        for w, (type_, tile) in zip(waiting, operands, strict=True):
            b = self.refs[w.operation.b.id, Spread("right", w.operation.b.shape, self._number(w.operation))].name
            self._multiply(w.operation, f"{type_}, Operand_{b}", f"{tile}, tile_{b}, false")
        self.code.add(f"ptx::tcgen05_commit<1>({done});")
        self.code.close()
        self.code.add("ptx::warp_sync();")
        self.code.add(f"tile::wait_phase({done}, {parity});")
        self.code.add(f"{parity} ^= 1u;")
        for w in waiting:
            self._read_sums_of(w.operation, w.array, w.operation.c is not None)
        self.code.add("ptx::tcgen05_fence_before_sync();")
        self.code.flush()

    def _number(self, operation: ir.Mma) -> int:
        return self.inference.product_of[operation.result.id]

    def _left(self, operation: ir.Mma) -> tuple[str, str]:
        """Return the C++ type and address of a product's left operand.

        If the operand was computed in registers, emit stores to shared memory.
        """
        spread = Spread("left", operation.a.shape, self._number(operation))
        operand = self.staged.get(staged_key(self.inference, operation.a, spread))
        if operand is not None:  # prefer the tile in shared memory, even if the operand was also loaded to registers
            return f"Operand_{operand.staged.name}", f"tile_{operand.staged.name}"
        packed = self._pack(self.refs[operation.a.id, spread], self.of(spread).registers, operation.source)
        self.code.flush()
        (m, k), rows = operation.a.shape, rows_of(str(self.values["intrinsic"]))
        type_ = f"tile::StoredOperand<{operation.a.dtype.c_name}, {m}, {k}, {stored_swizzle(operation)}>"
        tile = f"shared + {self.memory.exchange(self.loop, STORED_A)}u"
        if len(self.memory.exchanges[self.loop]) > 1:
            self.code.add(f"{self.barrier}  // everybody has read what was exchanged here", operation.source)
        of = f"{type_}, {rows}, {m // rows}, {self.distributions.warps // WARPS}"
        self.code.add(f"tile::store_operand<{of}>({tile}, {packed.name}, warp, lane);", operation.source)
        self.code.add("ptx::fence_async_proxy();  // tensor cores read what this thread has stored")
        return type_, tile

    def _free_tensor(self, source: ir.Source) -> None:
        """Emit the deallocation of tensor memory, unless it has already been emitted."""
        if not self.columns or self._freed:
            return
        self._freed = True
        self.code.add(f"{self.barrier}  // everybody has read tensor memory", source)
        self._enter("if (warp == 0) {")
        self.code.add("ptx::tcgen05_fence_after_sync();")
        self.code.add(f"ptx::tcgen05_dealloc<1>(tensor, {self._allocated});")
        self._leave()
