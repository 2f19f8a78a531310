"""Estimate times of language-model operators by the time model, and list published times of other kernels.

    python -m benchmarks.cost_model.language_models [--device h100] [--samples 1000] [--only PART ...] > table.md

This benchmark measures nothing; published times were measured by their authors. In each search space, a local search
starts from the best of the random samples, and the schedules with the shortest estimates are compiled. Each compiled
schedule is estimated again, with the registers and spills of its code. The table shows the schedule that is then the
fastest. The table also shows a limit that follows from the transferred bytes: 1.3 times their transfer time at 3.0
TB/s, plus 2 us.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.samplers.first_choices.descent import descended, starting_points
from cost_models.analytic import predict
from cost_models.estimates import AnalyticEstimates
from measurements.compiler.disassembly import SassInstruction, disassemble, main_loop
from measurements.compiler.pool import Compiled, CompilePool
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.cross_entropy import CrossEntropy, CrossEntropyBackward
from search_spaces.tile_operators.decode_attention import DecodeAttention
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits
from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul

COMPILED = 4  # number of schedules per space to compile
SEED = 0
BYTES_PER_SECOND, SLACK, START = 3.0e12, 1.3, 2e-6  # constants of the column "bytes allow"
CONVERTING = ("LOP3", "HFMA2", "HADD2", "HMUL2", "PRMT", "SHF", "F2F", "F2FP", "I2F", "I2FP")
N, K, MANY = 6144, 4096, 4096
VOCABULARY = 128256  # size of Llama 3's vocabulary
PUBLISHED = {
    "64 experts, m 65536, bf16": "DeepGEMM: 657 to 670 TFLOP/s on an H200, 256 experts of 4096 x 6144 (TileOPs#1567)",
    "cross entropy, 8192 rows": "quack: about 3.0 TB/s on an H100 for 65k columns or more, that is 701 us",
    "its gradient, 8192 rows": "no published time of the gradient alone was found",
    "linear layer and cross entropy, 4096 rows": "quack: 6.85 ms, Liger: 7.10 ms on an H200 (Liger-Kernel#1348)",
    "linear layer and cross entropy, 8192 rows, 262144 columns": "Liger: 788 TFLOP/s on Hopper (Liger-Kernel#1422)",
    "gradient of its logits, 4096 rows": "Liger's whole backward pass: 763 TFLOP/s on Hopper, 8192 rows "
    "and 131072 columns (Liger-Kernel#1422)",
    "cache append, 1 token, 32 heads of queries, keys and values": "6.92 us on an H100, without norm (vllm#52363)",
}
"""Times of the best public kernel, measured by its authors. If shape or GPU differ, the text says so."""


def whole_tiles(rows: int, groups: int, tile: int = 128) -> int:
    """Return the number of rows that the tiles of all groups cover, if sizes of groups decrease as 1, 1/2, 1/3, ...

    Args:
        rows: Total number of rows in all groups.
        groups: Number of groups.
        tile: Rows of a tile. The last tile of a group is partial, but takes as long as a full one.
    """
    shares = [1 / (group + 1) for group in range(groups)]
    ends = [round(rows * sum(shares[: group + 1]) / sum(shares)) for group in range(groups)]
    return sum(-(-(end - begin) // tile) * tile for begin, end in zip([0, *ends], ends, strict=False))


def problems() -> dict[str, Problem]:
    """Return the problems of the page by name."""
    by_name: dict[str, Problem] = {}
    for m in (1, 16, MANY):
        for weights, group, dtype in (
            ("int4", 128, "f16"), ("int4", 128, "bf16"), ("int8", 0, "f16"), ("e4m3", 128, "bf16"), ("nvf4", 16, "bf16")
        ):  # fmt: skip
            for layout in ("rows", "fragments") if m == 16 else ("fragments",):
                if m == MANY and weights != "int4":
                    continue
                name = f"{weights}, {dtype}, m {m}, {layout}"
                by_name[name] = QuantizedMatmul(
                    m=m, n=N, k=K, weights=weights, group=group, dtype=dtype, layout=layout
                )  # fmt: skip
    by_name[f"matmul of bf16, m {MANY}"] = Matmul(m=MANY, n=N, k=K, dtype="bf16")
    for cache in ("", "e4m3"):
        by_name[f"decode, batch 4, cache of {cache or 'f16'}"] = DecodeAttention(
            batch=4, heads=32, kv_heads=8, entries=128, page=64, cache=cache
        )
    by_name["attention, 256 queries after 16384 keys"] = Attention(1, 8, 8, 256, 16384, causal=1)
    by_name["attention, 8 heads, 2048 positions"] = Attention(1, 8, 8, 2048, causal=1)
    by_name["attention, 32 heads, 8192 positions"] = Attention(1, 32, 8, 8192, causal=1)
    for m in (32768, 65536):
        by_name[f"64 experts, m {m}, bf16"] = GroupedMatmul(m=m, n=4096, k=7168, groups=64)
        by_name[f"64 experts, m {m}, e4m3"] = GroupedMatmul(
            m=m, n=4096, k=7168, groups=64, dtype="e4m3", w_order="col"
        )  # fmt: skip
        by_name[f"matmul of bf16, m {m}"] = Matmul(m=m, n=4096, k=7168, dtype="bf16")
        by_name[f"64 unequal experts, m {m}, bf16"] = GroupedMatmul(m=whole_tiles(m, 64), n=4096, k=7168, groups=64)
    for layout in ("rows", "fragments"):
        by_name[f"64 experts, m 1024, int4, {layout}"] = GroupedMatmul(
            m=1024, n=4096, k=7168, groups=64, w_order="col", weights="int4", scale_group=128, layout=layout
        )
    by_name["64 experts, m 1024, bf16"] = GroupedMatmul(m=1024, n=4096, k=7168, groups=64, w_order="col")
    by_name["cross entropy, 8192 rows"] = CrossEntropy(8192, VOCABULARY)
    by_name["its gradient, 8192 rows"] = CrossEntropyBackward(8192, VOCABULARY)
    by_name["linear layer and cross entropy, 4096 rows"] = LinearCrossEntropy(MANY, VOCABULARY, K)
    by_name["linear layer and cross entropy, 8192 rows, 262144 columns"] = LinearCrossEntropy(8192, 262144, K)
    by_name["gradient of its logits, 4096 rows"] = LinearCrossEntropyDlogits(MANY, VOCABULARY, K)
    by_name["cache append, 1 token, 32 heads of queries, keys and values"] = QkNormRopeAppend(
        1, 32, 32, page=16, pages=64, norm=0
    )
    for tokens in (64, MANY):
        for cache in ("", "e4m3"):
            by_name[f"cache append, {tokens} tokens, cache of {cache or 'bf16'}"] = QkNormRopeAppend(
                tokens, 32, 8, page=64, pages=tokens // 16, cache=cache
            )
    return by_name


@dataclass(frozen=True)
class Estimated:
    """The best compiled schedule of a problem, with the estimated seconds and the machine code of the main loop."""

    seconds: float
    registers: int
    loop: tuple[SassInstruction, ...]

    @property
    def converting(self) -> int:
        """Number of instructions in the main loop that unpack words or convert types."""
        return sum(i.opcode.partition(".")[0] in CONVERTING for i in self.loop)


def estimated(problem: Problem, on: Device, samples: int, pool: CompilePool) -> Estimated:
    """Compile the schedules with the shortest estimates and return the best. Raises ValueError if none compiles."""
    usable = templates_for(problem, on)
    space = usable.space(problem, on)
    estimates, best = AnalyticEstimates(problem, usable, on), None
    for schedule in descended(space, estimates, starting_points(space, samples, SEED))[:COMPILED]:
        template = usable.of(schedule)
        config = template.config(problem, schedule, on)
        result = pool.compile(template.kernel(problem, schedule, on), on.arch)
        if not isinstance(result, Compiled) or template.counts is None:
            continue
        resources = result.resources
        seconds = predict(
            template.counts(problem, config, on),
            on,
            registers=resources.registers,
            spill_bytes=resources.spill_load_bytes + resources.spill_store_bytes,
        )
        if best is None or seconds < best.seconds:
            best = Estimated(seconds, resources.registers, main_loop(disassemble(result.cubin, result.entry)))
    if best is None:
        raise ValueError(f"no schedule of {problem} compiles")
    return best


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument(
        "--only", nargs="+", default=[""], help="estimate only rows whose names contain one of these texts"
    )
    options = parser.parse_args(arguments)
    on = device(options.device)
    print(
        "| problem | bytes | GFLOP | estimated | bytes allow | TFLOP/s | registers | main loop | converting "
        "| published |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    with CompilePool() as pool:
        for name, problem in problems().items():
            if not any(part in name for part in options.only):
                continue
            estimate = estimated(problem, on, options.samples, pool)
            allowed = SLACK * problem.min_bytes / BYTES_PER_SECOND + START
            cells = (
                *(name, f"{problem.min_bytes / 1e6:.2f} MB", f"{problem.flops / 1e9:.2f}"),
                *(f"{estimate.seconds * 1e6:.2f} us", f"{allowed * 1e6:.2f} us"),
                *(f"{problem.flops / estimate.seconds / 1e12:.0f}", f"{estimate.registers}", f"{len(estimate.loop)}"),
                *(f"{estimate.converting}", PUBLISHED.get(name, "")),
            )
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
