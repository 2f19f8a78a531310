"""With cluster launch control, running blocks take over each unstarted cluster exactly once. Faults are reported."""

from __future__ import annotations

import numpy as np
import pytest
from bulk_kernels import HEAD, kinds
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import Emulation, FindingKind, emulate
from measurements.emulator.order import Order, OrderKind
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand

pytestmark = [needs_compiler, needs_nvrtc]
K = FindingKind
BLOCKS = 12

BODY = """
  __shared__ alignas(16) uint4 answer; __shared__ u64 barrier;
  const u32 b = AT(barrier), t = threadIdx.x;
  u32 block = blockIdx.x + gridDim.x * blockIdx.y, parity = 0, x, y;
  if (t == 0) { init(b, 1); fence(); }
  __syncthreads();
  for (;;) {
    if (t == 0) {
      expect(b, 16);
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                   ::"r"(AT(answer)), "r"(b) : "memory");
    }
    out[block * 32 + t] = block + 1;
    wait(b, parity);
    parity ^= 1;
    u32 more;
    asm volatile(
        "{\\n.reg .pred p;\\n.reg .b128 a;\\nld.shared.b128 a, [%3];\\n"
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a;\\nselp.u32 %0, 1, 0, p;\\n"
        "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, _, _}, a;\\n}"
        : "=r"(more), "=r"(x), "=r"(y) : "r"(AT(answer)) : "memory");
    fence();
    __syncthreads();
    if (!more) break;
    block = x + gridDim.x * y;
  }
"""


def run_counting(body: str, order: Order) -> Emulation:
    """Run a kernel with this body on 32-bit counters ``out``, which start at zero."""
    kernel = GeneratedKernel(
        entry="test",
        source=f'{HEAD}\nextern "C" __global__ void test(u32* out) {{{body}}}',
        arguments=(Operand("out", "output", U32, ((BLOCKS + 1) * 32,), zeroed=True),),
        grid=(BLOCKS // 2, 2, 1),
        block=(32, 1, 1),
        arch="sm_120a",
    )
    return emulate(kernel, {}, order=order, time_limit=30)


def run(body: str, seed: int = 0) -> Emulation:
    kernel = GeneratedKernel(
        entry="test",
        source=f'{HEAD}\nextern "C" __global__ void test(u32* out) {{{body}}}',
        arguments=(Operand("out", "output", U32, (BLOCKS, 32)),),
        grid=(BLOCKS // 2, 2, 1),
        block=(32, 1, 1),
        arch="sm_120a",
    )
    return emulate(kernel, {}, order=Order("ascending", seed), time_limit=30)


@pytest.mark.parametrize("seed", range(4))
def test_every_block_is_computed_once(seed: int) -> None:
    done = run(BODY, seed)
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["out"], np.repeat(np.arange(1, BLOCKS + 1), 32).reshape(BLOCKS, 32))


COUNTING = BODY.replace("out[block * 32 + t] = block + 1;", "atomicAdd(&out[block * 32 + t], 1u);")
# Block 0 waits for the block that takes over the grid's last cluster, and that block waits for block 0.
MEETING = (
    """
  volatile u32* const flags = out + BLOCKS * 32;
  if (blockIdx.x == 0 && blockIdx.y == 0) {
    while (flags[0] == 0) {}
    flags[1] = 1;
  }
""".replace("BLOCKS", str(BLOCKS))
    + COUNTING.replace(
        "if (!more) break;",
        f"if (!more) {{ if (t == 0 && block != 0) {{ volatile u32* const flags = out + {BLOCKS * 32}; "
        "flags[0] = 1; while (flags[1] == 0) {} } break; }",
    )
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("body", [COUNTING, MEETING], ids=["counting", "meeting"])
@pytest.mark.parametrize("kind", ["ascending", "descending", "alternating", "interleaved", "random"])
def test_no_cluster_runs_after_the_last_one_was_cancelled(kind: OrderKind, body: str, seed: int) -> None:
    done = run_counting(body, Order(kind, seed))
    np.testing.assert_array_equal(done.outputs["out"][: BLOCKS * 32], 1)


def test_one_coordinate_of_an_answer() -> None:
    body = BODY.replace(
        ".get_first_ctaid.v4.b32.b128 {%1, %2, _, _}, a;",
        ".get_first_ctaid::x.b32.b128 %1, a;\\n@p clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %2, a;",
    )
    assert body != BODY
    done = run(body)
    assert done.ok, done.reason


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("    wait(b, parity);\n", "", K.ASYNC_READ_BEFORE_WAIT),
        ("expect(b, 16)", "expect(b, 32)", K.BARRIER_NOT_REACHED),
        ("if (!more) break;", "if (!more && block == 0) break;", K.INVALID_ARGUMENT),  # repeats a failed request
        ("    fence();\n    __syncthreads();\n    if (!more)", "    if (!more)", K.SHARED_RACE),
        ("    fence();\n    __syncthreads();\n    if", "    __syncthreads();\n    if", K.MISSING_PROXY_FENCE),
        ("block = x + gridDim.x * y;", "block = x;", K.UNWRITTEN_OUTPUT),
        ("@p cluster", "cluster", K.INVALID_ARGUMENT),
        ("(AT(answer)), \"r\"(b)", "(AT(answer) + 8), \"r\"(b)", K.OUT_OF_BOUNDS_SHARED),
    ],
)  # fmt: skip
def test_planted_faults_are_reported(old: str, new: str, kind: str) -> None:
    assert old in BODY
    assert kind in kinds(run(BODY.replace(old, new)))


def test_decoding_a_value_not_from_try_cancel_is_reported() -> None:
    done = run(
        BODY.replace("    wait(b, parity);\n", "    wait(b, parity); if (t == 0) answer.x = 7; __syncthreads();\n")
    )
    assert any("not a response of try_cancel" in f.message for f in done.findings), done.findings
