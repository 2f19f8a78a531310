"""The cupy functions that autosched uses exist in the installed version, and accept its arguments.

Without a GPU the functions do not run, but their names and signatures can be read. Cython functions state their
signature in the docstring.
"""

import ast
import enum
import inspect
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import device_attributes
import pytest

from autosched.cli.commands.machine import doctor
from autosched.dispatch import kernel
from measurements.runners import launch
from measurements.runners.cuda import (
    device as cuda_device,
)
from measurements.runners.cuda import (
    device_arrays,
    launch_timer,
    result_checks,
)
from measurements.runners.cuda import (
    worker as cuda_worker,
)
from measurements.runners.cuda.device import device_row
from measurements.runners.cuda.libraries import baselines, cublas, cublas_lt
from measurements.workers.messages import Message

# For each name in the code, the module of cupy that the name refers to.
_MODULES = {"cp": "", "cupy": "", "self._cp": "", "self._cupy": "", "cuda": "cuda", "runtime": "cuda.runtime"}
_OBJECTS = {
    "stream": "cuda.Stream",
    "self._stream": "cuda.Stream",
    "event": "cuda.Event",
    "start": "cuda.Event",
    "stop": "cuda.Event",
    "captured.graph": "cuda.Graph",
    "device": "cuda.Device",
    "pointer": "cuda.MemoryPointer",
    "self.memory": "cuda.MemoryPointer",
    "slot.memory": "cuda.MemoryPointer",
    "workspace": "cuda.MemoryPointer",
    "module": "RawModule",
    "function": "RawKernel",
    "self.function": "RawKernel",
    "self._function": "RawKernel",
    "view": "ndarray",
}
_RETURNED = {
    "get_default_memory_pool": "cuda.MemoryPool",
    "cuda.get_current_stream": "cuda.Stream",
    "RawModule.get_function": "RawKernel",
}
_DOCTOR = {"cupy": "", "runtime": "cuda.runtime"}


@pytest.fixture(scope="module")
def cupy(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUPY_CACHE_DIR", str(tmp_path_factory.mktemp("cupy")))  # importing cupy creates this folder
        return pytest.importorskip("cupy", exc_type=ImportError)


def dotted(node):
    """Return "a.b.c" for the expressions a.b.c and a.b(1).c, and None for other expressions."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            start = dotted(value)
            return start and f"{start}.{name}"
        case ast.Call(func=ast.Call() as function):
            start = dotted(function)
            return start and f"{start}.__call__"
        case ast.Call(func=function):
            return dotted(function)
    return None


def uses(source, names):
    """Yield every use of cupy in ``source`` as (path in cupy, syntax node of the call or None, text of the code)."""
    for node in ast.walk(ast.parse(source)):
        call = node if isinstance(node, ast.Call) else None
        path = dotted(node) if isinstance(node, (ast.Attribute, ast.Call)) else None
        if call and path in names:  # ``name(...)`` calls an object, such as a kernel
            path += ".__call__"
        known = [name for name in names if path and path.startswith(f"{name}.")]
        if known:
            member = path.removeprefix(max(known, key=len) + ".")
            yield ".".join(filter(None, (names[max(known, key=len)], member))), call, ast.unparse(node)


def signature(function):
    """Return the signature that Cython's docstring or Python's inspection states, or None if neither does."""
    stated = re.match(r"\s*[\w.]+\((.*)\)( -> .*)?$", (function.__doc__ or "").strip().split("\n")[0])
    if not stated:
        try:
            return inspect.signature(function)
        except ValueError:
            return None
    # Parentheses and strings may contain commas.
    text = re.sub(r"\([^()]*\)|'[^']*'", "0", stated[1]).replace("\\", "")
    words = (word.strip().partition("=") for word in text.split(",") if word.strip())
    arguments = [name.partition(":")[0].split()[-1] + equals + ("0" if equals else "") for name, equals, _ in words]
    parsed = ast.parse(f"def f({', '.join(arguments)}): ...").body[0].args
    kinds = inspect.Parameter
    first_default = len(parsed.posonlyargs) + len(parsed.args) - len(parsed.defaults)
    parameters = [
        kinds(a.arg, kinds.POSITIONAL_OR_KEYWORD, default=kinds.empty if i < first_default else 0)
        for i, a in enumerate(parsed.posonlyargs + parsed.args)
    ]
    parameters += [kinds(parsed.vararg.arg, kinds.VAR_POSITIONAL)] if parsed.vararg else []
    parameters += [kinds(a.arg, kinds.KEYWORD_ONLY, default=0) for a in parsed.kwonlyargs]
    parameters += [kinds(parsed.kwarg.arg, kinds.VAR_KEYWORD)] if parsed.kwarg else []
    return inspect.Signature(parameters)


def complaints(cupy, source, names):
    """Return one line for each name that cupy lacks, and for each call whose arguments do not fit the signature."""
    for path, call, code in uses(source, names):
        value, at = cupy, ""
        for name in path.split("."):
            if at in _RETURNED:
                value = reached(cupy, _RETURNED[at])
            elif at and not (inspect.ismodule(value) or inspect.isclass(value)):
                break  # the value of a property is unknown, so its members cannot be checked
            if inspect.isclass(value) and issubclass(value, enum.Enum) and name in ("name", "value"):
                break  # members of an Enum have both attributes, but in Python 3.11 the class has neither
            if not hasattr(value, name):
                is_documented = inspect.isclass(value) and f".{name} (" in (value.__doc__ or "")  # set by __init__
                if not is_documented:
                    yield f"{code}: cupy has no {path}"
                value = None
                break
            value, at = getattr(value, name), f"{at}.{name}".lstrip(".")
        accepted = signature(value) if call and callable(value) and at == path else None
        if accepted and not any(isinstance(a, ast.Starred) for a in call.args) and all(k.arg for k in call.keywords):
            itself = [None] if "self" in accepted.parameters else []
            try:
                accepted.bind(*itself, *call.args, **{k.arg: k.value for k in call.keywords})
            except TypeError as error:
                yield f"{code}: {error}"


def reached(cupy, path):
    for name in path.split("."):
        cupy = getattr(cupy, name)
    return cupy


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (cuda_worker, _MODULES | _OBJECTS),
        (device_arrays, _MODULES | _OBJECTS),
        (result_checks, _MODULES | _OBJECTS),
        (launch_timer, _MODULES | _OBJECTS),
        (baselines, _MODULES | _OBJECTS),
        (cublas, _MODULES | _OBJECTS),
        (cublas_lt, _MODULES | _OBJECTS),
        (kernel, _MODULES | _OBJECTS),
        (launch, _MODULES | _OBJECTS),
        (cuda_device, _MODULES | _OBJECTS),
        (doctor, _DOCTOR),
    ],
)
def test_cupy_has_the_functions_and_arguments_in_use(cupy, module, names):
    source = Path(inspect.getsourcefile(module)).read_text()
    assert list(uses(source, names))
    assert list(complaints(cupy, source, names)) == []


_BINDINGS = {"driver": "driver", "attributes": "driver.CUfunction_attribute"}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (Path(inspect.getsourcefile(launch)).read_text(), False),
        ("driver.cuFuncGetAttribute(side, handle)", False),
        ("driver.cuFuncGetAttribute(side)", True),
        ("driver.cuOccupancyMaxActiveClusters(handle)", True),
        ("driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, config)", True),
        ("driver.cuFuncGetAttributes(side, handle)", True),
        ("attributes.CU_FUNC_ATTRIBUTE_CLUSTER", True),
    ],
)
def test_the_driver_bindings_have_the_functions_in_use(source, wrong):
    bindings = pytest.importorskip("cuda.bindings", exc_type=ImportError)
    pytest.importorskip("cuda.bindings.driver", exc_type=ImportError)
    assert list(uses(source, _BINDINGS))
    assert bool(list(complaints(bindings, source, _BINDINGS))) is wrong


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("cp.cuda.runtime.eventQuery(event.ptr)", False),
        ("cp.cuda.runtime.eventQwery(event.ptr)", True),
        ("cp.cuda.runtime.eventQuery()", True),
        ("cp.cuda.runtime.eventQuery(event.address)", True),
        ("cp.cuda.Event(timing=False)", True),
        ("cp.cuda.alloc(1, 2)", True),
        ("cp.cuda.Device(0).use()", False),
        ("cp.cuda.Device(0).take()", True),
        ("cp.get_default_memory_pool().free_all()", True),
        ("cp.RawModule('cubin', path='cubin')", False),
        ("cp.RawModule(file='cubin')", True),
        ("pointer.memset_async(0, 16, stream)", False),
        ("pointer.memset_async(0, 16, stream, True)", True),
        ("function((1,), (1,))", True),
        ("cp.RawModule(path='cubin').get_function('f')((1,), (1,))", True),
        ("cp.RawModule(path='cubin').get_function('f')((1,), (1,), ())", False),
        ("function.max_dynamic_shared_bytes = 1", True),
    ],
)
def test_a_misuse_is_noticed(cupy, source, wrong):
    assert bool(list(complaints(cupy, source, _MODULES | _OBJECTS))) is wrong


def test_a_device_row_needs_no_attribute_that_cupy_does_not_give(cupy):
    prefix = "cudaDevAttr"
    cupy_attributes = {name.removeprefix(prefix) for name in dir(cupy.cuda.runtime) if name.startswith(prefix)}
    assert cupy_attributes >= device_attributes.CUPY_ATTRIBUTES.keys()
    needed = device_attributes.ATTRIBUTES | {"MultiProcessorCount": 100}
    attributes = {name: size for name, size in needed.items() if name in cupy_attributes}
    properties = {"name": b"NVIDIA Something", "totalGlobalMem": 1 << 30, "major": 9, "minor": 0}
    cuda = SimpleNamespace(
        Device=lambda gpu: SimpleNamespace(id=gpu, use=lambda: None, attributes=attributes, pci_bus_id="0000:01:00.0"),
        Stream=lambda non_blocking: nullcontext(),
        runtime=SimpleNamespace(
            getDeviceProperties=lambda gpu: properties,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
        ),
    )
    worker = cuda_worker.GpuWorker(SimpleNamespace(cuda=cuda, __version__="0"))
    response = worker.handle(Message({"op": "open", "gpu": 0, "checks": None}))
    row = device_row(response["name"], response["attributes"], response["memory_bytes"])
    assert (row.name, row.sm, row.sm_count) == ("something", 90, 100)


def test_cupy_errors_have_the_expected_types_and_names(cupy):
    error = cupy.cuda.runtime.CUDARuntimeError
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    for status, name in (
        (launch_timer._NOT_READY, "cudaErrorNotReady"),
        (cuda_worker._OUT_OF_MEMORY, "cudaErrorMemoryAllocation"),
        (cuda_worker._LAUNCH_OUT_OF_RESOURCES, "cudaErrorLaunchOutOfResources"),
    ):
        assert error(status).status == status
        assert str(error(status)).startswith(name)
