"""Write a recording of two matmuls in AutoHeuristic's format, as torch does."""

from __future__ import annotations

import json
from pathlib import Path

COLUMNS = (
    "m,k,n,mat1_dtype,mat2_dtype,mat1_stride_0,mat1_stride_1,mat2_stride_0,mat2_stride_1,mat1_iscontig,mat2_iscontig,"
    "using_tf32,choice,feedback"
)
CONFIGS = ((16, 32, 16, 2, 2), (64, 32, 64, 3, 4), (128, 32, 128, 4, 4), (128, 64, 128, 3, 8))


def recording(folder: Path, scale: float = 1.0, capability: tuple[int, int] = (8, 0)) -> Path:
    """Write a recording of two matmuls, whose times depend on the tile size, and return its file."""
    lines = [json.dumps({"shared_memory": 166912, "device_capa": capability, "name": "mm"}), COLUMNS]
    for m, k, n in ((4096, 4096, 4096), (2048, 1024, 512)):
        problem = f"{m},{k},{n},torch.float16,torch.float16,{k},1,{n},1,True,True,not_float_32"
        lines.append(f"{problem},extern_mm,{scale * 0.5}")
        for rank, (bm, bk, bn, stages, warps) in enumerate(CONFIGS):
            choice = f"type=triton_BLOCK-M={bm}_BLOCK-K={bk}_BLOCK-N={bn}_numstages={stages}_numwarps={warps}"
            lines += [f"{problem},{choice},{scale * (len(CONFIGS) - rank)}"] * 2
    path = folder / "a100_test_mm.txt"
    path.write_text("\n".join(lines) + "\n")
    return path
