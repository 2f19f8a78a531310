"""Names of element-wise functions in listings. Functions that exist in MLIR's dialects have the dialects' names."""

from __future__ import annotations

from search_spaces.hardware.dtypes import DType

_FUNCTIONS = {
    "add": ("arith.addf", "arith.addi"),
    "subtract": ("arith.subf", "arith.subi"),
    "multiply": ("arith.mulf", "arith.muli"),
    "divide": ("arith.divf", "arith.divf"),
    "maximum": ("arith.maximumf", "arith.maxsi"),
    "minimum": ("arith.minimumf", "arith.minsi"),
    "exp": ("math.exp", "math.exp"),
    "exp2": ("math.exp2", "math.exp2"),
    "log2": ("math.log2", "math.log2"),
    "tanh": ("math.tanh", "math.tanh"),
    "sigmoid": ("math.sigmoid", "math.sigmoid"),
    "sqrt": ("math.sqrt", "math.sqrt"),
    "rsqrt": ("math.rsqrt", "math.rsqrt"),
    "sine": ("math.sin", "math.sin"),
    "cosine": ("math.cos", "math.cos"),
    "absolute": ("math.absf", "math.absi"),
    "less": ("arith.less", "arith.less"),
    "less_equal": ("arith.less_equal", "arith.less_equal"),
    "equal": ("arith.equal", "arith.equal"),
    "and": ("arith.and", "arith.and"),
    "or": ("arith.or", "arith.or"),
    "not": ("arith.not", "arith.not"),
    "where": ("arith.select", "arith.select"),
    "bit_and": ("arith.andi", "arith.andi"),
    "bit_or": ("arith.ori", "arith.ori"),
    "bit_xor": ("arith.xori", "arith.xori"),
    "shift_right": ("arith.shrsi", "arith.shrsi"),
    "shift_left": ("arith.shli", "arith.shli"),
    "modulo": ("arith.remsi", "arith.remsi"),
    "floor_divide": ("arith.floordivsi", "arith.floordivsi"),
    "log": ("math.log", "math.log"),
    "erf": ("math.erf", "math.erf"),
    "power": ("math.powf", "math.powf"),
    "floor": ("math.floor", "math.floor"),
    "ceil": ("math.ceil", "math.ceil"),
    "round": ("math.roundeven", "math.roundeven"),
    "truncate": ("math.trunc", "math.trunc"),
    "nibble_f16": ("tile.nibble_f16", "tile.nibble_f16"),
    "nibble_bf16": ("tile.nibble_bf16", "tile.nibble_bf16"),
    "fp4_f16": ("tile.fp4_f16", "tile.fp4_f16"),
    "fp4_bf16": ("tile.fp4_bf16", "tile.fp4_bf16"),
}
OF_TEXT = {name: function for function, names in _FUNCTIONS.items() for name in names} | {"add": "add"}
CASTS = frozenset(
    {"arith.extf", "arith.truncf", "arith.convertf", "arith.sitofp", "arith.uitofp", "arith.extsi", "arith.extui"}
)
# Kinds of reductions: the spelling in the documents, and the name in the builder.
KINDS = {
    "addf": "add", "addi": "add", "mulf": "mul", "muli": "mul", "and": "andi", "or": "ori", "xor": "xori",
    "minnumf": "minnumf", "maxnumf": "maxnumf",
}  # fmt: skip


def function_text(function: str, dtype: DType) -> str:
    """Return the name of a function in listings, for arguments of type ``dtype``."""
    return _FUNCTIONS[function][not dtype.is_float]


def cast_text(source: DType, target: DType) -> str:
    """Return the name of a cast in listings."""
    if source.is_float and target.is_float:
        widens = source.bits < target.bits
        return "arith.extf" if widens else "arith.truncf" if source.bits > target.bits else "arith.convertf"
    signed = source.name not in ("u8", "bool")
    if target.is_float:
        return "arith.sitofp" if signed else "arith.uitofp"
    return "arith.extsi" if signed else "arith.extui"
