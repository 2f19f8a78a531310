"""A small transformer block: record the shapes of its calls, tune them offline, and run it with tuned kernels.

python examples/transformer_block.py [FOLDER] [--effort model|quick|full]

If there is a GPU, the kernels are timed and called on it. Otherwise the times are estimated, and the tuned kernels run
in the emulator. The block itself is plain PyTorch without any reference to autosched.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import autosched
import autosched.torch

TOKENS, WIDTH, HEADS = 32, 64, 2
DEVICE = "h200"  # the GPU to tune for if this machine has no GPU


class Block(nn.Module):
    """Attention and a gated feed-forward layer, each after an RMS norm."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.attention_norm(x)).reshape(TOKENS, 3, HEADS, -1).permute(1, 2, 0, 3).contiguous()
        query, key, value = parts
        scores = query @ key.transpose(-1, -2) * (WIDTH / HEADS) ** -0.5
        mixed = (functional.softmax(scores, dim=-1) @ value).transpose(0, 1).reshape(TOKENS, WIDTH)
        x = x + self.out(mixed)
        return x + self.down(functional.silu(self.up(self.mlp_norm(x))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=Path(tempfile.gettempdir()) / "autosched-block")
    parser.add_argument("--effort", default="model", choices=("model", "quick", "full"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    shapes, database = arguments.folder / "shapes.csv", arguments.folder / "best.db"
    shapes.unlink(missing_ok=True)

    on_gpu = torch.cuda.is_available()
    torch.manual_seed(0)
    block = Block().half().to("cuda" if on_gpu else "cpu").eval()
    x = torch.randn(TOKENS, WIDTH).half().to("cuda" if on_gpu else "cpu")

    with torch.no_grad(), autosched.log_calls(shapes), autosched.torch.patch(None):
        expected = block(x)

    tune = [sys.executable, "-m", "autosched", "tune", "--from", shapes, "--db", database, "--effort", arguments.effort]
    subprocess.run(tune if on_gpu else [*tune, "--device", DEVICE], check=True)

    emulated = contextlib.nullcontext() if on_gpu else autosched.torch.emulated(database, DEVICE)
    with torch.no_grad(), emulated, autosched.torch.patch(database, None if on_gpu else DEVICE) as calls:
        result = block(x)
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)
    print(calls.summary())
    error = (result - expected).abs().max().item()
    print(f"the block's result is right: largest difference to torch {error:.2g}")


if __name__ == "__main__":
    main()
