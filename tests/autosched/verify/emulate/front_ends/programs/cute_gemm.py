"""Usage: cute_gemm.py FILE M N K. Write CuTe DSL's PTX of an f16 matmul with TMA, tensor memory and 128 x 256 tiles.

Each block computes one tile. One warp of the block issues the TMA loads and the multiplications.
"""

import sys

import cutlass
import cutlass.cute as cute
from cutlass import memory as device_memory
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, make_tiled_tma_atom_A, make_tiled_tma_atom_B, tcgen05
from cutlass.cute.runtime import make_fake_compact_tensor
from cutlass.utils import blackwell_helpers

TILE = (128, 256, 64)
STAGES, THREADS, COLUMNS = 3, 128, 256


@cute.struct
class Barriers:
    stages: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    sums: cute.struct.MemRange[cutlass.Int64, 2]
    memory: cutlass.Int32


@cute.kernel
def matmul(mma: cute.TiledMma, copy_a: cute.CopyAtom, a: cute.Tensor, copy_b: cute.CopyAtom, b: cute.Tensor,
           c: cute.Tensor, layout_a: cute.ComposedLayout, layout_b: cute.ComposedLayout):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    down, across, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    shared = device_memory.SmemAllocator()
    barriers = shared.allocate(Barriers)
    staged_a, staged_b = (
        shared.allocate_tensor(cutlass.Float16, layout.outer, byte_alignment=128, swizzle=layout.inner)
        for layout in (layout_a, layout_b)
    )
    memory = device_memory.TmemAllocator(
        barriers.memory.ptr, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS)
    )
    memory.allocate(COLUMNS)
    one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
    stage_bytes = sum(
        cute.size_in_bytes(cutlass.Float16, cute.select(layout, mode=[0, 1, 2])) for layout in (layout_a, layout_b)
    )
    fills, reads = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES, producer_group=one, consumer_group=one, tx_count=stage_bytes,
        barrier_storage=barriers.stages.data_ptr(),
    ).make_participants()  # fmt: skip
    sums, results = pipeline.PipelineUmmaAsync.create(
        num_stages=1, producer_group=one, consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS),
        barrier_storage=barriers.sums.data_ptr(),
    ).make_participants()  # fmt: skip

    tile = (down, across, None)
    part = mma.get_slice(0)
    from_a = part.partition_A(cute.local_tile(a, TILE, tile, proj=(1, None, 1)))
    from_b = part.partition_B(cute.local_tile(b, TILE, tile, proj=(None, 1, 1)))
    to_c = part.partition_C(cute.local_tile(c, TILE, tile, proj=(1, 1, None)))
    alone = cute.make_layout(1)
    into_a, from_a = cpasync.tma_partition(
        copy_a, 0, alone, cute.group_modes(staged_a, 0, 3), cute.group_modes(from_a, 0, 3)
    )
    into_b, from_b = cpasync.tma_partition(
        copy_b, 0, alone, cute.group_modes(staged_b, 0, 3), cute.group_modes(from_b, 0, 3)
    )
    left, right = mma.make_fragment_A(staged_a), mma.make_fragment_B(staged_b)
    memory.wait_for_alloc()
    address = memory.retrieve_ptr(cutlass.Float32)
    accumulators = cute.make_tensor(address, mma.make_fragment_C(mma.partition_shape_C(TILE[:2])).layout)

    if warp == 0:
        ready = sums.acquire_and_advance()
        for _ in cutlass.range(cute.size(from_a, mode=[1]), prefetch_stages=STAGES - 1):
            empty = fills.acquire_and_advance()
            cute.copy(copy_a, from_a[(None, empty.count)], into_a[(None, empty.index)], tma_bar_ptr=empty.barrier)
            cute.copy(copy_b, from_b[(None, empty.count)], into_b[(None, empty.index)], tma_bar_ptr=empty.barrier)
            full = reads.wait_and_advance()
            for step in cutlass.range_constexpr(cute.size(left, mode=[2])):
                at = (None, None, step, full.index)
                cute.gemm(mma, accumulators, left[at], right[at], accumulators)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            full.release()
        ready.commit()
    memory.relinquish_alloc_permit()

    done = results.wait_and_advance()
    piece = ((cute.size(accumulators, mode=[0, 0]), cute.size(accumulators, mode=[0, 1]) // 4),)
    source, target = cute.zipped_divide(accumulators, piece), cute.zipped_divide(to_c, piece)
    load = tcgen05.make_tmem_copy(
        cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32), source[None, 0]
    )
    thread_copy = load.get_slice(thread)
    source, target = thread_copy.partition_S(source), thread_copy.partition_D(target)
    loaded = cute.make_rmem_tensor(target[None, None, 0].shape, cutlass.Float32)
    rounded = cute.make_rmem_tensor(target[None, None, 0].shape, cutlass.Float16)
    for i in cutlass.range(cute.size(source, mode=[2])):
        cute.copy(load, source[None, None, i], loaded)
        cute.arch.fence_view_async_tmem_load()
        rounded.store(loaded.load().to(cutlass.Float16))
        cute.autovec_copy(rounded, target[None, None, i])
    done.release()
    pipeline.sync(barrier_id=1)
    memory.free(address)


@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    along_k = OperandMajorMode.K
    mma = cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16, cutlass.Float32, (*TILE[:2], 16), tcgen05.CtaGroup.ONE, tcgen05.OperandSource.SMEM,
            along_k, along_k,
        )
    )  # fmt: skip
    layout_a = blackwell_helpers.make_smem_layout_a(mma, TILE, a.element_type, STAGES)
    layout_b = blackwell_helpers.make_smem_layout_b(mma, TILE, b.element_type, STAGES)
    tma = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    copy_a, a_of_tma = make_tiled_tma_atom_A(tma, a, cute.select(layout_a, mode=[0, 1, 2]), TILE, mma)
    copy_b, b_of_tma = make_tiled_tma_atom_B(tma, b, cute.select(layout_b, mode=[0, 1, 2]), TILE, mma)
    matmul(mma, copy_a, a_of_tma, copy_b, b_of_tma, c, layout_a, layout_b).launch(
        grid=cute.ceil_div((*c.layout.shape, 1), TILE[:2]), block=(THREADS, 1, 1)
    )


file, m, n, k = sys.argv[1:]
shapes = ((int(m), int(k)), (int(n), int(k)), (int(m), int(n)))
tensors = [make_fake_compact_tensor(cutlass.Float16, s, stride_order=(1, 0), assumed_align=32) for s in shapes]
compiled = cute.compile[cute.KeepPTX()](launch, *tensors)
with open(file, "w") as out:
    out.write(compiled.__ptx__)
