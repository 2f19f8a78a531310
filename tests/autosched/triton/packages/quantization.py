"""Kernels of torchao that quantize blocks to fp8 and dequantize them, compared with torch."""

# mypy: ignore-errors
import torch
from torchao.kernel.blockwise_quantization import (
    fp8_blockwise_act_quant,
    fp8_blockwise_weight_dequant,
    fp8_blockwise_weight_quant,
)

BLOCK = 128
LARGEST = torch.finfo(torch.float8_e4m3fn).max


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(3, 2 * BLOCK, device="cuda")
    quantized, scales = fp8_blockwise_act_quant(x)
    blocks = x.view(3, 2, BLOCK)
    expected = blocks.abs().amax(2) / LARGEST
    torch.testing.assert_close(scales, expected)
    restored = quantized.float().view(3, 2, BLOCK) * scales[..., None]
    torch.testing.assert_close(restored, blocks, atol=float(expected.max()) * 16, rtol=0)

    weight = torch.randn(BLOCK, 2 * BLOCK, device="cuda")
    quantized, scales = fp8_blockwise_weight_quant(weight)
    expected = weight.view(1, BLOCK, 2, BLOCK).abs().amax((1, 3)) / LARGEST
    torch.testing.assert_close(scales, expected)
    restored = fp8_blockwise_weight_dequant(quantized, scales)
    by_hand = quantized.float() * scales.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    torch.testing.assert_close(restored.float(), by_hand, atol=0, rtol=1e-2)
