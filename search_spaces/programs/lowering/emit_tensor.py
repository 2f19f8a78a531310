"""tcgen05: one thread issues a loop's multiplications into tensor memory, from which warps read the sums after it."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.hardware.devices import Device
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.lowering.emit_memory import MemoryAccess
from search_spaces.programs.planning.staging import sides
from search_spaces.programs.planning.tensor_memory import tensor_columns
from search_spaces.programs.planning.ways import WARPS, allocated_columns, in_tensor_memory, rows_of
from search_spaces.spaces.parameters import Value


class TensorMemory(MemoryAccess):
    """Parts of a kernel that differ with tcgen05.

    Attributes:
        columns: Columns of tensor memory of the products, by result.
        done: Offset of the mbarrier at which multiplications arrive.
        tensor_address: Offset at which the address of the columns is stored.
    """

    def __init__(self, found: Inference, values: Mapping[str, Value], device: Device) -> None:
        super().__init__(found, values, device)
        self.columns: dict[int, int] = {}
        self.done = self.tensor_address = ""
        self._sums: list[tuple[ir.Mma, int, int]] = []  # the loop's products, the states they add to, and their columns
        if found.products and in_tensor_memory(str(values["intrinsic"])):
            self.columns = tensor_columns(found, str(values["intrinsic"]))
            self.done, self.tensor_address = (f"barriers + {self._barriers_of(1)}u" for _ in range(2))
            self.inits.append(f"ptx::mbarrier_init({self.done}, 1);")

    def _barriers_of(self, count: int) -> int:
        """Return the offset of ``count`` new mbarriers."""
        place = self.barriers
        self.barriers += 8 * count
        return place

    @property
    def commits_stages(self) -> bool:
        """Whether multiplications release the stages of a ring that they have read."""
        return bool(self.columns) and bool(self.values.get("in_flight", 0))

    @property
    def _allocated(self) -> int:
        return allocated_columns(sum(self.columns.values()))

    def allocating(self) -> list[str]:
        """Return the code of the first warp before the first barrier."""
        if not self.columns:
            return []
        return [f"if (warp == 0) tile::allocate_tensor({self.tensor_address}, {self._allocated});"]

    def allocated(self) -> list[str]:
        """Return the code after that barrier."""
        if not self.columns:
            return []
        return [f"const unsigned tensor = tile::allocated_tensor({self.tensor_address});"]

    def _before_tensor_loop(self, loop: ir.Loop) -> None:
        self.code.add("bool begun = false;  // whether tensor memory has sums", loop.source)
        if not self.commits_stages:
            self.code.add("unsigned done_parity = 0;")

    def _tensor_turns(self, loop: ir.Loop, products: list[tuple[ir.Mma, int]]) -> None:
        """Emit the multiplications of an iteration; all wait for them unless they release the stages themselves."""
        alone = not self.commits_stages
        if alone:
            self._enter("if (warp == 0 && ptx::elect()) {", loop.source)
        column = 0
        for operation, state in products:
            a, b = (self.refs[key.id, spread].name for key, spread in sides(self.found, operation))
            rows = rows_of(str(self.values["intrinsic"]))
            of = f"Operand_{a}, Operand_{b}, {rows}, {operation.a.shape[0] // rows}"
            self.code.add(
                f"tile::multiply_tensor<{of}>(tensor + {column}u, tile_{a}, tile_{b}, begun);", operation.source
            )
            self._sums.append((operation, state, column))
            column += self.columns[operation.result.id]
        self.code.add("begun = true;")
        if alone:
            self.code.add(f"ptx::tcgen05_commit<1>({self.done});")
            self._leave()
            self.code.add("ptx::warp_sync();")
            self.code.add(f"tile::wait_phase({self.done}, done_parity);")
            self.code.add("done_parity ^= 1u;")
        self._leave("});")

    def _read_tensor(self, loop: ir.Loop, count: str) -> None:
        """Emit the reading of sums to registers, and the deallocation of tensor memory."""
        rows, groups = rows_of(str(self.values["intrinsic"])), self.numbers.warps // WARPS
        self._enter(f"if ({count} > 0) {{", loop.source)
        if self.commits_stages:
            self.code.add(f"tile::wait_phase({self.done}, 0);")
        for operation, state, column in self._sums:
            m, n = self.found.products[self.found.product_of[operation.result.id]].shape
            of = f"{rows}, {n}, {m // rows}, {groups}"
            self.code.add(f"tile::add_tensor<{of}>({self.states[state]}, tensor + {column}u, warp);", operation.source)
        self.code.add("ptx::tcgen05_fence_before_sync();")
        self._leave()
        self.code.add(f"{self.barrier}  // everybody has read tensor memory", loop.source)
        self._enter("if (warp == 0) {")
        self.code.add("ptx::tcgen05_fence_after_sync();")
        self.code.add(f"ptx::tcgen05_dealloc<1>(tensor, {self._allocated});")
        self._leave()
