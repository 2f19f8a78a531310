"""Search for the fastest schedule of a GPU kernel, and verify that the kernel is correct.

Start at ``tuning/tune.py`` (search), ``verify/verdict.py`` (verification), or ``cli/app.py`` (command line). Public
names are imported on first use, so a program that only calls kernels does not import the search. The lower-level
packages ``measurements``, ``cost_models`` and ``search_spaces`` must not import this package.

>>> import autosched
>>> problem = autosched.Matmul(m=4096, n=4096, k=4096)
>>> result = autosched.tune(problem)  # trials are stored in result.database  # doctest: +SKIP
>>> c = autosched.matmul(a, b)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from autosched.version import VERSION

if TYPE_CHECKING:
    from autosched.dispatch.call_log import log_calls
    from autosched.dispatch.database import Database, NotTuned, StaleSchedule
    from autosched.dispatch.functions import layernorm, matmul, matvec, reduce, rmsnorm, softmax, transpose, use
    from autosched.dispatch.kernel import RuntimeUnavailable
    from autosched.dispatch.packing import pack_weights
    from autosched.dispatch.provenance import NoSchedule
    from autosched.dispatch.tile_functions.attention import (
        attention,
        attention_backward,
        decode_attention,
    )
    from autosched.dispatch.tile_functions.cross_entropy import (
        cross_entropy,
        cross_entropy_backward,
        linear_cross_entropy,
        linear_cross_entropy_dlogits,
    )
    from autosched.dispatch.tile_functions.layers import (
        qk_norm_rope,
        qk_norm_rope_append,
        rmsnorm_quantize,
        router_topk,
    )
    from autosched.dispatch.tile_functions.products import (
        grouped_matmul,
        quantized_matmul,
    )
    from autosched.samplers.optuna.study_sampler import StudySampler
    from autosched.tuning.backends import BackendError
    from autosched.tuning.options import TuneOptions
    from autosched.tuning.result import CommonFailure, Interrupted, TuneResult
    from autosched.tuning.tune import tune
    from autosched.user_kernels import KernelFileError
    from autosched.user_kernels.kernel_options import KernelOptions
    from autosched.user_kernels.user_kernel import KernelSpec
    from autosched.verify.emulate.emulate import Im2col, Struct, Surface, TensorMapOf, Texture, emulate
    from autosched.verify.emulate.emulated_launch import EmulatedLaunch
    from autosched.verify.emulate.options import EmulatedLaunchOptions
    from measurements.emulator import Finding, HostFailure, Order
    from measurements.store.errors import StoreError
    from measurements.trials.measurement import Provenance
    from measurements.trials.trial import Trial
    from search_spaces.hardware.devices import Device, device
    from search_spaces.operators.copy import Copy
    from search_spaces.operators.matmul import Matmul
    from search_spaces.operators.matvec import Matvec
    from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
    from search_spaces.operators.transpose import Transpose
    from search_spaces.spaces.schedule import Schedule
    from search_spaces.tile_operators.attention import Attention
    from search_spaces.tile_operators.attention_backward import AttentionBackward
    from search_spaces.tile_operators.cross_entropy import CrossEntropy, CrossEntropyBackward
    from search_spaces.tile_operators.decode_attention import DecodeAttention
    from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
    from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits
    from search_spaces.tile_operators.packed_weights import int4_from_awq, int4_from_gptq, pack_int4
    from search_spaces.tile_operators.qk_norm_rope import QkNormRope
    from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend
    from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul
    from search_spaces.tile_operators.rmsnorm_quantize import RmsNormQuantize
    from search_spaces.tile_operators.router_topk import RouterTopK

__version__ = VERSION
__all__ = [
    "Attention",
    "AttentionBackward",
    "BackendError",
    "CommonFailure",
    "Copy",
    "CrossEntropy",
    "CrossEntropyBackward",
    "Database",
    "DecodeAttention",
    "Device",
    "EmulatedLaunch",
    "EmulatedLaunchOptions",
    "Finding",
    "GroupedMatmul",
    "HostFailure",
    "Im2col",
    "Interrupted",
    "KernelFileError",
    "KernelOptions",
    "KernelSpec",
    "LayerNorm",
    "LinearCrossEntropy",
    "LinearCrossEntropyDlogits",
    "Matmul",
    "Matvec",
    "NoSchedule",
    "NotTuned",
    "Order",
    "Provenance",
    "QkNormRope",
    "QkNormRopeAppend",
    "QuantizedMatmul",
    "Reduce",
    "RmsNorm",
    "RmsNormQuantize",
    "RouterTopK",
    "RuntimeUnavailable",
    "Schedule",
    "Softmax",
    "StaleSchedule",
    "StoreError",
    "Struct",
    "StudySampler",
    "Surface",
    "TensorMapOf",
    "Texture",
    "Transpose",
    "Trial",
    "TuneOptions",
    "TuneResult",
    "__version__",
    "attention",
    "attention_backward",
    "cross_entropy",
    "cross_entropy_backward",
    "decode_attention",
    "device",
    "emulate",
    "grouped_matmul",
    "int4_from_awq",
    "int4_from_gptq",
    "layernorm",
    "linear_cross_entropy",
    "linear_cross_entropy_dlogits",
    "log_calls",
    "matmul",
    "matvec",
    "pack_int4",
    "pack_weights",
    "qk_norm_rope",
    "qk_norm_rope_append",
    "quantized_matmul",
    "reduce",
    "rmsnorm",
    "rmsnorm_quantize",
    "router_topk",
    "softmax",
    "transpose",
    "tune",
    "use",
]

_HOMES = {
    "BackendError": "autosched.tuning.backends",
    "Device": "search_spaces.hardware.devices",
    "EmulatedLaunch": "autosched.verify.emulate.emulated_launch",
    "EmulatedLaunchOptions": "autosched.verify.emulate.options",
    "Finding": "measurements.emulator",
    "HostFailure": "measurements.emulator",
    "KernelFileError": "autosched.user_kernels",
    "NoSchedule": "autosched.dispatch.provenance",
    "NotTuned": "autosched.dispatch.database",
    "Order": "measurements.emulator",
    "Provenance": "measurements.trials.measurement",
    "Trial": "measurements.trials.trial",
    "RuntimeUnavailable": "autosched.dispatch.kernel",
    "Schedule": "search_spaces.spaces.schedule",
    "StaleSchedule": "autosched.dispatch.database",
    "StoreError": "measurements.store.errors",
    **dict.fromkeys(("CommonFailure", "Interrupted", "TuneResult"), "autosched.tuning.result"),
    "device": "search_spaces.hardware.devices",
    "Copy": "search_spaces.operators.copy",
    "Database": "autosched.dispatch.database",
    "KernelSpec": "autosched.user_kernels.user_kernel",
    "KernelOptions": "autosched.user_kernels.kernel_options",
    "LayerNorm": "search_spaces.operators.row_reduction",
    "Matmul": "search_spaces.operators.matmul",
    "Matvec": "search_spaces.operators.matvec",
    "Reduce": "search_spaces.operators.row_reduction",
    "RmsNorm": "search_spaces.operators.row_reduction",
    "Softmax": "search_spaces.operators.row_reduction",
    "Transpose": "search_spaces.operators.transpose",
    "StudySampler": "autosched.samplers.optuna.study_sampler",
    **dict.fromkeys(
        ("Im2col", "Struct", "Surface", "TensorMapOf", "Texture", "emulate"), "autosched.verify.emulate.emulate"
    ),
    "log_calls": "autosched.dispatch.call_log",
    "TuneOptions": "autosched.tuning.options",
    "tune": "autosched.tuning.tune",
    **dict.fromkeys(
        ("layernorm", "matmul", "matvec", "reduce", "rmsnorm", "softmax", "transpose", "use"),
        "autosched.dispatch.functions",
    ),
    **dict.fromkeys(
        ("attention", "attention_backward", "decode_attention"), "autosched.dispatch.tile_functions.attention"
    ),
    **dict.fromkeys(("quantized_matmul", "grouped_matmul"), "autosched.dispatch.tile_functions.products"),
    **dict.fromkeys(
        ("rmsnorm_quantize", "qk_norm_rope", "qk_norm_rope_append", "router_topk"),
        "autosched.dispatch.tile_functions.layers",
    ),
    **dict.fromkeys(
        ("cross_entropy", "cross_entropy_backward", "linear_cross_entropy", "linear_cross_entropy_dlogits"),
        "autosched.dispatch.tile_functions.cross_entropy",
    ),
    "pack_weights": "autosched.dispatch.packing",
    **dict.fromkeys(("int4_from_awq", "int4_from_gptq", "pack_int4"), "search_spaces.tile_operators.packed_weights"),
    **dict.fromkeys(("CrossEntropy", "CrossEntropyBackward"), "search_spaces.tile_operators.cross_entropy"),
    **dict.fromkeys(
        ("LinearCrossEntropy", "LinearCrossEntropyDlogits"), "search_spaces.tile_operators.linear_cross_entropy"
    ),
    "QkNormRope": "search_spaces.tile_operators.qk_norm_rope",
    "QkNormRopeAppend": "search_spaces.tile_operators.qk_norm_rope_append",
    "RmsNormQuantize": "search_spaces.tile_operators.rmsnorm_quantize",
    "RouterTopK": "search_spaces.tile_operators.router_topk",
    "Attention": "search_spaces.tile_operators.attention",
    "AttentionBackward": "search_spaces.tile_operators.attention_backward",
    "GroupedMatmul": "search_spaces.tile_operators.grouped_matmul",
    "QuantizedMatmul": "search_spaces.tile_operators.quantized_matmul",
    "DecodeAttention": "search_spaces.tile_operators.decode_attention",
}


def __getattr__(name: str) -> Any:
    # This module must be fast to import, because the command line must handle Ctrl-C before any slow import.
    if name not in _HOMES:
        raise AttributeError(f"module 'autosched' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
