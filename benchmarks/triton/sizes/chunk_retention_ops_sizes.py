"""Chunked retention of small heads, forwards and backwards: the file's own heads take minutes to compile without tensor
cores, before its backward pass is reached."""

import sys
from pathlib import Path
from types import SimpleNamespace

import torch

# The kernels alone: the file runs its test where it is imported.
[path] = (p for folder in sys.path if (p := Path(folder) / "chunk_retention_ops.py").is_file())
kernels: dict[str, object] = {"__name__": "chunk_retention_ops"}
exec(compile(path.read_text().partition("\ndef test_")[0], str(path), "exec"), kernels)
file = SimpleNamespace(**kernels)

q, k, v = (torch.randn(1, 2, 64, 16, device="cuda", requires_grad=True) for _ in range(3))
o, _ = file.chunk_retention(q, k, v, output_final_state=False, checkpoint_level=0)
o.sum().backward()
