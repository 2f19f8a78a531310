"""Add tuned kernels to the candidates of Inductor, which times all candidates and uses the fastest."""

from __future__ import annotations

from typing import Any

import torch

from autosched.dispatch import functions
from autosched.torch import cpu, formulas

RACED = ("softmax", "rmsnorm", "layernorm")  # operators whose formulas Inductor can fuse with neighbouring operators


def external_matmul(a: Any, b: Any, out: Any) -> None:
    """Write ``a @ b`` into ``out``. This function can be an entry of Inductor's option ``external_matmul``.

    ``torch.compile(model, options={"max_autotune": True, "external_matmul": [external_matmul]})``. Inductor calls this
    function only for plain ``mm``, and fuses no later operation with it.
    """
    if a.is_cuda:
        functions.matmul(a, b, out)
    else:
        out.copy_(cpu.compute("matmul", a, b))


def race_formulas(*, min_speedup: float = 1.0) -> None:
    """Let Inductor choose between each normalisation kernel of ``torch.ops.autosched`` and its compiled formula.

    Inductor can fuse the formula with other operators. A compiled model uses the formula if it is faster than the tuned
    kernel by the factor ``min_speedup``, and the kernel otherwise. Call this function once, before ``torch.compile``.
    Raises RuntimeError if torch has no ``register_custom_op_autotuning``.
    """
    try:
        from torch._inductor.kernel.custom_op import CustomOpConfig, register_custom_op_autotuning
    except ImportError as error:
        raise RuntimeError(f"this torch has no register_custom_op_autotuning ({error}): install a newer one") from error
    for name in RACED:
        register_custom_op_autotuning(
            getattr(torch.ops.autosched, name).default,
            configs=[CustomOpConfig(getattr(formulas, name))],
            name=f"autosched_{name}",
            min_speedup_threshold=min_speedup,
            benchmark_with_cudagraphs=torch.cuda.is_available(),
        )
