"""Launch kernels of ``autosched export --cubin`` from Python. Needs only this file, the folder and NVIDIA's driver.

    import autosched_loader

    kernels = autosched_loader.load("kernels")
    softmax = kernels.select("softmax rows=64 columns=512")
    softmax(x, out)                      # cupy, torch, numba, cuda.core: inputs, then outputs, already allocated
    softmax(x, out, stream=stream)

Python 3.10 or newer is required. Arrays and streams may belong to any library.
"""

from __future__ import annotations

import ast
import ctypes
import json
import math
import operator
import os
import stat
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

MOST_DOUBLINGS = 4.0  # maximum distance between the requested and the tuned problem, in doublings of sizes

_NO_BINARY = 209  # CUresult
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 8, 14  # CUfunction_attribute
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76  # CUdevice_attribute
_CLUSTER = 4  # CUlaunchAttributeID
_ELEMENTS = (
    "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16",
    "FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ",
)  # fmt: skip
_CHOICES = {
    "interleave": ("NONE", "16B", "32B"),
    "swizzle": ("NONE", "32B", "64B", "128B"),
    "l2_promotion": ("NONE", "L2_64B", "L2_128B", "L2_256B"),
    "fill": ("NONE", "NAN_REQUEST_ZERO_FMA"),
}
_MOST_CHARACTERS = 20_000  # maximum number of characters of an expression
_BOUND = 1 << 62
_MOST_BYTES = 1 << 28  # maximum size in bytes of a file in the folder
_BYTES = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2, "i16": 2, "u16": 2}
_PACKED = {
    "f64": "<d", "f32": "<f", "f16": "<e", "i64": "<q", "u64": "<Q", "i32": "<i", "u32": "<I", "i16": "<h", "u16": "<H",
    "i8": "<b", "u8": "<B", "bool": "<?",
}  # fmt: skip


class KernelError(RuntimeError):
    """The driver failed or rejected a kernel. The message is one line.

    ``status`` is one of no_driver, no_device, load_failed, launch_failed. ``driver`` is the CUresult, 0 if the driver
    was not called.
    """

    def __init__(self, status: str, message: str, driver: int = 0) -> None:
        super().__init__(message)
        self.status, self.driver = status, driver


class NoKernel(LookupError):
    """No kernel in the folder computes this problem on this GPU."""


# ---- Expressions of manifests ---------------------------------------------------------------------------------------


class NoValue(ArithmeticError, ValueError):
    """An expression has no value, for example because it divides by zero or reaches 2^62."""


def evaluate(text: str, sizes: Mapping[str, int]) -> Any:
    """Evaluate an expression of sizes. Only arithmetic and comparisons, as in Python, are supported.

    Raises ValueError for invalid text, and NoValue (a ValueError and ArithmeticError) if the expression is undefined.
    """
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        raise ValueError(
            f"an expression must be a text of at most {_MOST_CHARACTERS} characters: export the kernels again"
        )
    try:
        return _number(_value(ast.parse(text, mode="eval").body, sizes))
    except NoValue:
        raise
    except ArithmeticError as error:
        raise NoValue(f"{text[:60]!r} has no value: {error}") from None
    except (SyntaxError, RecursionError, MemoryError, TypeError, ValueError) as error:
        raise ValueError(f"invalid expression {text[:60]!r} ({_short(error)}): export the kernels again") from None


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


def _number(value: Any) -> Any:
    """Check and return ``value``. Raises NoValue if it is too large or not a number."""
    if not isinstance(value, (int, float)) or not -_BOUND < value < _BOUND:  # this condition is also true for NaN
        raise NoValue("a value is not a number below 2^62")
    return value


def _power(base: Any, exponent: Any) -> Any:
    # Reject large powers before they are computed, because they could have thousands of digits.
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 62:
        raise NoValue("a power reaches 2^62")
    return base**exponent


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: _power,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.RShift: operator.rshift,
    ast.LShift: lambda a, b: a * _power(2, b),
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "gcd": math.gcd, "int": int, "floor": math.floor, "ceil": math.ceil,
    "round": round, "float": float, "sqrt": math.sqrt, "log2": math.log2,
    "ceil_div": lambda a, b: -(-a // b), "round_up": lambda a, b: -(-a // b) * b,
    "is_power_of_two": lambda a: a > 0 and a & (a - 1) == 0,
}  # fmt: skip


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return _number(value)
        case ast.Name(id=name) if name in sizes:
            return _number(sizes[name])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, sizes)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_value(operand, sizes))
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~int(_number(_value(operand, sizes)))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _number(_value(operand, sizes))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _number(_BINARY[type(op)](_number(_value(left, sizes)), _number(_value(right, sizes))))
        case ast.BoolOp(op=op, values=values):
            result: Any = None
            for part in values:
                result = _value(part, sizes)
                if bool(result) == isinstance(op, ast.Or):
                    return result
            return result
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, sizes) else orelse, sizes)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [_value(element, sizes) for element in elements]
        case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(op) in _COMPARED for op in ops):
            values = [_value(part, sizes) for part in (left, *rights)]
            return all(_COMPARED[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _number(_FUNCTIONS[name](*(_number(_value(a, sizes)) for a in arguments)))
    raise ValueError(f"invalid expression {ast.unparse(node)!r}: export the kernels again")


# ---- Selection ------------------------------------------------------------------------------------------------------


def load(folder: str | Path) -> Kernels:
    """Return the kernels of an export. Raises OSError, and ValueError for a damaged manifest or another version."""
    path = Path(folder)
    try:
        document = json.loads(_content(path, "manifest.json").decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} has a damaged manifest: {_short(error)}") from None
    if not isinstance(document, dict) or document.get("format") != 1:
        file_format = document.get("format") if isinstance(document, dict) else None
        raise ValueError(f"{path} has a manifest of format {file_format!r}, but this loader supports only format 1")
    entries = document.get("kernels")
    if not isinstance(entries, list) or not all(isinstance(e, dict) and "operator" in e for e in entries):
        raise ValueError(f"{path} has a damaged manifest: it lists no kernels")
    return Kernels(path, entries)


def _content(folder: Path, name: Any) -> bytes:
    """Read a regular file in the folder.

    Raises:
        OSError: The file cannot be read.
        ValueError: The name is not that of a regular file in the folder, or the file is too large.
    """
    if not isinstance(name, str) or not name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f"invalid file name {name!r}: use a file in {folder}")
    path = folder / name
    with open(path, "rb", opener=lambda p, flags: os.open(p, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{name} must be a regular file")
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES:,} bytes")
    return content


class Kernels:
    """The kernels of an exported folder."""

    def __init__(self, folder: Path, entries: Sequence[Mapping[str, Any]]) -> None:
        self.folder, self.entries = folder, entries

    def select(self, problem: str, *, device: int | None = None, growth: float = 1.0) -> ShippedKernel:
        """Return the kernel for ``problem`` on a GPU. Default: the current GPU.

        A kernel for exactly this problem is preferred. Otherwise the nearest kernel whose rules allow these sizes is
        selected. If no kernel allows them and ``growth`` is above 1, the result may be a kernel that computes up to
        ``growth`` times as many rows. Arrays must then have the kernel's sizes (``ShippedKernel.sizes``). Fields that
        ``problem`` omits have their default values.

        Raises NoKernel if no kernel can be used, ValueError for an invalid problem, and KernelError without a GPU.
        """
        sm, name = describe(current_device() if device is None else device)
        return self.select_for(problem, sm, name, growth=growth)

    def select_for(self, problem: str, sm: int, name: str = "", *, growth: float = 1.0) -> ShippedKernel:
        """Select a kernel as ``select`` does, but for a GPU that need not be present.

        Args:
            problem: Operator and sizes as in the manifest, such as "matmul m=4096 n=4096 k=4096".
            sm: Compute capability: 90 for 9.0.
            name: Name by which the driver reports the GPU. Kernels that were tuned on this GPU are preferred. "" for no
                preference.
            growth: Maximum factor by which padding may enlarge the problem. 1.0 allows no padding.

        Returns:
            The kernel that was tuned for the nearest problem.

        Raises:
            NoKernel: No kernel can be used. The message has the reason why the last candidate cannot be used.
            ValueError: No kernel computes the operator, or ``problem`` is malformed.
        """
        op, *words = problem.split()
        requested = dict(word.split("=", 1) for word in words)  # raises ValueError for an invalid problem
        same = [e for e in self.entries if e["operator"] == op]
        if not same:
            raise ValueError(f"no kernel in this export computes {op}")
        candidates: list[tuple[tuple[float, float], int, ShippedKernel]] = []
        why = ""
        for number, entry in enumerate(same):
            try:
                candidate = _candidate(self.folder, entry, requested, sm, growth)
            except (KeyError, TypeError, AttributeError, IndexError) as error:
                raise ValueError(f"{self.folder} has a damaged manifest: {error!r}") from None
            if isinstance(candidate, str):
                why = f"{entry['problem']}: {candidate}"
                continue
            elsewhere = 0.0 if entry["device"]["driver_name"] == name else 0.25
            kinds = {"exact": 0.0, "nearest": 100.0, "padded": 200.0}
            rank = kinds[candidate.match] + candidate.doublings + elsewhere + (50.0 if candidate.by_ptx else 0.0)
            candidates.append(((rank, entry["seconds"]), number, candidate))
        if not candidates:
            raise NoKernel(f'no kernel in this export computes "{problem}" on sm_{sm}: {why}')
        return min(candidates, key=lambda f: f[:2])[2]


def _candidate(
    folder: Path, entry: Mapping[str, Any], requested: Mapping[str, str], sm: int, growth: float
) -> ShippedKernel | str:
    """Return the kernel of a manifest entry for the requested problem, or the reason why the kernel cannot be used."""
    sizes, texts = entry["sizes"], entry["texts"]
    for name in requested:
        if name not in sizes and name not in texts:
            return f"it has no {name}"
    for name, text in texts.items():
        if requested.get(name, text["default"]) != text["value"]:
            return f"its {name} is {text['value']}"
    chosen, doublings, grown, exact = {}, 0.0, 1.0, True
    for name, size in sizes.items():
        if name not in requested and size["default"] is None:
            raise ValueError(f"{name} is missing")
    for name, size in sizes.items():
        requested_size = int(requested.get(name, size["default"]))
        if requested_size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {requested_size}")
        chosen[name] = requested_size
        if requested_size == size["value"]:
            continue
        exact = False
        doublings += abs(math.log2(size["value"] / requested_size))
        if size["free"]:
            continue
        if not size["padded"] or requested_size > size["value"] or growth <= 1:
            return f"its {name} is {size['value']}"
        grown *= size["value"] / requested_size
        chosen[name] = size["value"]
    arch = str(entry["device"]["arch"])
    built, exactly = int("".join(c for c in arch if c.isdigit())), not arch[-1].isdigit()
    fits = built == sm or (not exactly and built // 10 == sm // 10 and built < sm)
    by_ptx = not fits and not exactly and entry["ptx"] is not None and built < sm
    if not fits and not by_ptx:
        return f"the kernel is for {arch}"
    if grown > growth:
        return f"the kernel would compute {grown:.3g} times as much"
    if doublings > MOST_DOUBLINGS:
        return "the kernel's sizes differ too much from the requested sizes"
    for guard in entry["guards"] if not exact else ():
        try:
            holds = evaluate(guard["holds"], chosen)
        except ArithmeticError:
            holds = False
        if not holds:
            return str(guard["reason"])
    return ShippedKernel(
        folder, entry, chosen, "exact" if exact else "padded" if grown > 1 else "nearest", doublings, by_ptx
    )


# ---- The driver -----------------------------------------------------------------------------------------------------


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


@cache
def _driver() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise KernelError("no_driver", str(error)) from error
    _check(library, "no_device", library.cuInit(0), "cuInit")
    return library


def _check(library: ctypes.CDLL, status: str, code: int, action: str) -> None:
    if code:
        name = ctypes.c_char_p()
        library.cuGetErrorName(code, ctypes.byref(name))
        raise KernelError(status, f"{action}: {(name.value or b'unknown error').decode()} ({code})", code)


def _context() -> int:
    """Return the current context of this thread, or the primary context of GPU 0 if there is none."""
    library, context = _driver(), ctypes.c_void_p()
    _check(library, "no_device", library.cuCtxGetCurrent(ctypes.byref(context)), "the current context")
    if not context.value:
        device = ctypes.c_int()
        _check(library, "no_device", library.cuDeviceGet(ctypes.byref(device), 0), "GPU 0")
        _check(library, "no_device", library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "its context")
        _check(library, "no_device", library.cuCtxSetCurrent(context), "its context")
    return int(context.value or 0)


def current_device() -> int:
    """Return the index of this thread's GPU. Raises KernelError."""
    _context()
    device = ctypes.c_int()
    _check(_driver(), "no_device", _driver().cuCtxGetDevice(ctypes.byref(device)), "the current GPU")
    return device.value


def describe(device: int) -> tuple[int, str]:
    """Return the compute capability (90 for 9.0) and the name of a GPU. Raises KernelError."""
    library, handle, number = _driver(), ctypes.c_int(), ctypes.c_int()
    _check(library, "no_device", library.cuDeviceGet(ctypes.byref(handle), device), f"GPU {device}")
    capability = []
    for attribute in (_MAJOR, _MINOR):
        code = library.cuDeviceGetAttribute(ctypes.byref(number), attribute, handle)
        _check(library, "no_device", code, "its compute capability")
        capability.append(number.value)
    name = ctypes.create_string_buffer(256)
    _check(library, "no_device", library.cuDeviceGetName(name, 256, handle), "its name")
    return 10 * capability[0] + capability[1], name.value.decode(errors="replace")


# ---- Launching ------------------------------------------------------------------------------------------------------


class ShippedKernel:
    """A selected kernel for a problem. Thread-safe.

    Args:
        folder: Folder of the export.
        entry: Manifest entry of the kernel.
        sizes: Sizes of the problem, by name.
        match: "exact", "nearest" or "padded".
        doublings: Distance to the problem that the kernel was tuned for, in doublings of sizes.
        by_ptx: If True, the driver compiles the kernel from PTX, because the cubin is for another GPU.

    ``problem``, ``verification`` and ``provenance`` come from the manifest.
    """

    def __init__(
        self,
        folder: Path,
        entry: Mapping[str, Any],
        sizes: Mapping[str, int],
        match: str,
        doublings: float,
        by_ptx: bool,
    ) -> None:
        self.entry, self.sizes, self.match, self.doublings, self.by_ptx = entry, dict(sizes), match, doublings, by_ptx
        self.problem, self.verification, self.provenance = entry["problem"], entry["verification"], entry["provenance"]
        self._folder = folder
        self._lock = threading.Lock()
        self._functions: dict[int, list[ctypes.c_void_p]] = {}  # loaded modules, by context
        self._constants: dict[
            int, dict[str, tuple[int, int]]
        ] = {}  # addresses and sizes in bytes of __constant__ variables, by context
        self._own: dict[tuple[int, int], dict[str, int]] = {}  # workspaces by context and stream
        launch = entry["launch"]
        self.block, self.cluster = (tuple(self._number(t) for t in launch[name]) for name in ("block", "cluster"))
        self.grid = tuple(self._number(t) for t in launch["grid"])
        self.shared_bytes = self._number(launch["dynamic_shared_bytes"])
        if any(len(size) != 3 for size in (self.grid, self.block, self.cluster)):
            raise ValueError(f"{self.problem}: a grid, a block and a cluster have three sizes each")
        self._steps = [entry, *entry.get("then", ())]  # functions of all launches of the kernel, in order
        operands = [o for o in entry["operands"] if o["role"] != "workspace"]
        self.arrays = [o["name"] for outputs in (False, True) for o in operands if (o["role"] == "output") == outputs]
        self.shapes = {o["name"]: tuple(int(evaluate(t, self.sizes)) for t in o["shape"]) for o in entry["operands"]}
        passed = [a for step in self._steps for a in step["arguments"] if a["kind"] == "scalar" and "limits" in a]
        self.scalars = {a["name"]: (a["dtype"], *map(float, a["limits"])) for a in passed}

    def __call__(self, *arrays: Any, stream: Any = None, **scalars: float) -> None:
        """Queue the kernel on ``stream``, with arrays in the order of ``arrays``.

        ``stream`` is a stream of any library, or a handle. Default: the default stream. The call does not wait for the
        kernel. ``scalars`` are values for the kernel's scalar arguments, by name. They replace the values in the
        manifest. Raises ValueError for unsuitable arrays and scalars, and KernelError if the driver rejects the launch.
        """
        for name, value in scalars.items():
            self._check_scalar(name, value)
        if len(arrays) != len(self.arrays):
            raise ValueError(f"{self.problem} takes {', '.join(self.arrays)}, not {len(arrays)} arrays")
        at = {name: _address(name, array) for name, array in zip(self.arrays, arrays, strict=True)}
        library, context, queue = _driver(), _context(), _stream(stream)
        with self._lock:
            functions = self._functions.get(context) or self._load(context)
            at |= self._workspaces(context, queue)
            self._fill_constants(context, queue, at)
        for function, step in zip(functions, self._steps, strict=True):
            keep_alive, parameters = self._parameters(step["arguments"], at, scalars)
            sizes = [[self._number(t) for t in step["launch"][name]] for name in ("grid", "block", "cluster")]
            shared = self._number(step["launch"]["dynamic_shared_bytes"])
            config = _Config((ctypes.c_uint * 3)(*sizes[0]), (ctypes.c_uint * 3)(*sizes[1]), shared, queue)
            if math.prod(sizes[2]) > 1:
                config.attributes = ctypes.pointer(_Attribute(_CLUSTER, 0, (ctypes.c_uint * 16)(*sizes[2])))
                config.count = 1
            if step["launch"].get("grid_may_shrink"):
                config.grid[0] = min(config.grid[0], self._at_a_time(function, config) or config.grid[0])
            for _ in range(step["launch"].get("launches", 1)):
                if config.count:
                    code = library.cuLaunchKernelEx(ctypes.byref(config), function, parameters, None)
                else:
                    code = library.cuLaunchKernel(
                        function, *config.grid, *config.block, config.shared, ctypes.c_void_p(queue), parameters, None
                    )
                _check(library, "launch_failed", code, f"the launch of {step['entry']}")
            del keep_alive

    def _check_scalar(self, name: str, value: Any) -> None:
        if name not in self.scalars:
            raise ValueError(f"{self.problem} has no scalar {name}: use {', '.join(self.scalars) or 'none'}")
        dtype, low, high = self.scalars[name]
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not (is_integer or (isinstance(value, float) and dtype == "f32")) or not low <= value <= high:
            raise ValueError(f"{name} must be a {dtype} from {low:g} to {high:g}, not {value!r}")

    def _number(self, text: str) -> int:
        number = int(evaluate(text, self.sizes))
        if not 0 <= number < 1 << 32:  # check the range here, because ctypes would truncate the number
            raise ValueError(f"invalid launch size {number} from {text[:60]!r}: it must be from 0 to 2^32 - 1")
        return number

    def _load(self, context: int) -> list[ctypes.c_void_p]:
        library, module = _driver(), ctypes.c_void_p()
        code = library.cuModuleLoadData(ctypes.byref(module), _content(self._folder, self.entry["cubin"]))
        if code == _NO_BINARY and self.entry["ptx"]:
            text = _content(self._folder, self.entry["ptx"]) + b"\0"
            code = library.cuModuleLoadData(ctypes.byref(module), text)
        _check(library, "load_failed", code, f"the kernel of {self.problem} does not load")
        functions = [self._function(module, step) for step in self._steps]
        constants = {}
        for o in self.entry["operands"]:
            if o.get("constant"):
                to, size = ctypes.c_uint64(), ctypes.c_size_t()
                code = library.cuModuleGetGlobal_v2(ctypes.byref(to), ctypes.byref(size), module, o["name"].encode())
                _check(library, "load_failed", code, f"its constant {o['name']}")
                constants[o["name"]] = to.value, size.value
        self._constants[context], self._functions[context] = constants, functions
        return functions

    def _function(self, module: ctypes.c_void_p, step: Mapping[str, Any]) -> ctypes.c_void_p:
        library, function, name = _driver(), ctypes.c_void_p(), step["entry"].encode()
        _check(library, "load_failed", library.cuModuleGetFunction(ctypes.byref(function), module, name), name.decode())
        shared = self._number(step["launch"]["dynamic_shared_bytes"])
        attributes = [(_MAX_DYNAMIC_SHARED, shared)] if shared else []
        attributes += (
            [(_NON_PORTABLE_CLUSTER, 1)] if math.prod(self._number(t) for t in step["launch"]["cluster"]) > 8 else []
        )
        for attribute, value in attributes:
            code = library.cuFuncSetAttribute(function, attribute, value)
            _check(library, "load_failed", code, f"attribute {attribute} = {value} of {step['entry']}")
        return function

    def _fill_constants(self, context: int, stream: int, at: Mapping[str, int]) -> None:
        """Copy arrays to the __constant__ variables from which the kernel reads them."""
        for o in self.entry["operands"]:
            if not o.get("constant"):
                continue
            to, capacity = self._constants[context][o["name"]]
            size = math.prod(self.shapes[o["name"]]) * _BYTES.get(o["dtype"], 1)
            if size > capacity:
                raise ValueError(f"{o['name']}: {size} bytes do not fit its __constant__ symbol ({capacity} bytes)")
            code = _driver().cuMemcpyDtoDAsync_v2(
                ctypes.c_uint64(to), ctypes.c_uint64(at[o["name"]]), ctypes.c_size_t(size), ctypes.c_void_p(stream)
            )
            _check(_driver(), "launch_failed", code, f"the copy to the constant {o['name']}")

    def _workspaces(self, context: int, stream: int) -> dict[str, int]:
        """Return the kernel's workspaces for a stream. Launches on different streams must not share workspaces."""
        known = self._own.get((context, stream))
        if known is not None:
            return known
        pointers: dict[str, int] = {}
        for o in self.entry["operands"]:
            if o["role"] != "workspace":
                continue
            size, at = math.prod(self.shapes[o["name"]]) * _BYTES.get(o["dtype"], 1), ctypes.c_uint64()
            code = _driver().cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size))
            _check(_driver(), "out_of_memory", code, f"the workspace {o['name']} of {size} bytes")
            if o["zeroed"]:
                code = _driver().cuMemsetD8Async(at, ctypes.c_ubyte(0), ctypes.c_size_t(size), ctypes.c_void_p(stream))
                _check(_driver(), "launch_failed", code, f"zeros in {o['name']}")
            pointers[o["name"]] = at.value
        self._own[context, stream] = pointers
        return pointers

    def _parameters(
        self, arguments: Sequence[Any], at: Mapping[str, int], scalars: Mapping[str, float]
    ) -> tuple[list[Any], Any]:
        """Return the kernel's parameters in the driver's format, and the objects that they point to."""
        keep_alive: list[Any] = []
        for a in arguments:
            if a["kind"] == "array":
                keep_alive.append(ctypes.c_uint64(at[a["operand"]]))
            elif a["kind"] == "scalar":
                passed = scalars.get(a["name"]) if "limits" in a else None
                keep_alive.append(_packed(a["dtype"], evaluate(a["value"], self.sizes) if passed is None else passed))
            else:
                keep_alive.append(_tensor_map(a, at[a["operand"]]))
        pointers = [ctypes.addressof(k) + getattr(k, "start", 0) for k in keep_alive]
        return keep_alive, (ctypes.c_void_p * (len(pointers) + 1))(*pointers, None)

    def _at_a_time(self, function: ctypes.c_void_p, config: _Config) -> int:
        """Return the number of blocks that run at the same time; 0 if the driver does not report it."""
        library, running, count, device = _driver(), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        if config.count:
            code = library.cuOccupancyMaxActiveClusters(ctypes.byref(running), function, ctypes.byref(config))
            return 0 if code else running.value * int(self.cluster[0])
        shared = ctypes.c_size_t(self.shared_bytes)
        code = library.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(running), function, math.prod(self.block), shared
        )
        code = code or library.cuCtxGetDevice(ctypes.byref(device))
        code = code or library.cuDeviceGetAttribute(ctypes.byref(count), _MULTIPROCESSORS, device)
        return 0 if code else running.value * count.value


def _packed(dtype: str, value: Any) -> Any:
    if dtype == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        data = struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)  # round to nearest, ties to even
    elif dtype in _PACKED:
        data = struct.pack(_PACKED[dtype], value)
    else:
        raise ValueError(f"a scalar of type {dtype} cannot be passed from Python")
    return (ctypes.c_ubyte * len(data))(*data)


class _Map(ctypes.Array[ctypes.c_ubyte]):
    _type_, _length_ = ctypes.c_ubyte, 128 + 64
    start = 0  # offset in the buffer at which the map is aligned to 64 bytes


def _tensor_map(recipe: Mapping[str, Any], address: int) -> _Map:
    memory = _Map()
    memory.start = -ctypes.addressof(memory) % 64
    rank = len(recipe["sizes"])
    choices = [names.index(recipe[field]) for field, names in _CHOICES.items()]
    wide = ctypes.c_uint64
    code = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(memory) + memory.start), _ELEMENTS.index(recipe["element"]), rank,
        ctypes.c_void_p(address), (wide * rank)(*recipe["sizes"]), (wide * rank)(*recipe["strides"]),
        (ctypes.c_uint * rank)(*recipe["box"]), (ctypes.c_uint * rank)(*recipe["element_strides"]), *choices,
    )  # fmt: skip
    _check(_driver(), "launch_failed", code, f"the tensor map of {recipe['operand']}")
    return memory


def _address(name: str, array: Any) -> int:
    if isinstance(array, int):
        at = array
    elif hasattr(array, "data_ptr"):  # torch
        at = array.data_ptr()
    elif hasattr(array, "__cuda_array_interface__"):
        at = array.__cuda_array_interface__["data"][0]
    elif hasattr(array, "handle"):  # cuda.core
        at = int(array.handle)
    else:
        raise ValueError(
            f"{name} is not an array on a GPU: pass an array of torch, cupy, numba or cuda.core, or an address"
        )
    if not at or at % 16:
        raise ValueError(f"{name} must start at a multiple of 16 bytes, not at {at}")
    return int(at)


def _stream(stream: Any) -> int:
    # Stream objects have the CUDA stream handle as cuda_stream (torch), ptr (cupy), or handle (numba and cuda.core).
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, name):
            stream = getattr(stream, name)
            break
    return int(getattr(stream, "value", stream) or 0)
