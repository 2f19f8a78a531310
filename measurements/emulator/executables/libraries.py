"""Compile the libraries that replace CUDA's, once per version of their sources, and inspect executables."""

from __future__ import annotations

import hashlib
import mmap
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from measurements.emulator.host.build import COMPILE_SECONDS, cache_folder, one_at_a_time
from measurements.emulator.host.compiler import (
    HostCompiler,
    HostFailure,
    compiler_pool,
    host_compiler,
    main_complaint,
    run_compiler,
)
from measurements.emulator.host.status import CompileStatus
from measurements.files.work_folders import temporary_folder
from measurements.interruptible import result_of

_SOURCES = Path(__file__).parent / "library"
_RUNNER = Path(__file__).parents[1] / "runtime"
# Translation units of libcudart that are the same for all versions. The files of a translation unit are compiled
# together, because headers take most of the compile time. ``per_thread`` is compiled separately, because it redeclares
# functions of other files.
_SHARED_PARTS = {
    "shared": tuple(f"cudart/{name}.cpp" for name in ("arrays", "launches", "memory", "registration", "streams")),
    "per_thread": ("cudart/per_thread.cpp",),
}
# files of libcudart that depend on the macro VERSION
_OF_A_VERSION = ("cudart/captures.cpp", "cudart/devices.cpp", "cudart/graph_nodes.cpp", "cudart/graphs.cpp")
_SHARED = ("isa/access/reduction.hpp", "isa/async/tensor_map.hpp")  # headers of the runner that the libraries include
_INCLUDE = (f"-I{_SOURCES}", f"-I{_RUNNER}")
_FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=default")
# major release of CUDA by soname
RUNTIMES = {"libcudart.so.11.0": 11, "libcudart.so.12": 12, "libcudart.so.13": 13}
DRIVER = "libcuda.so.1"
_CORE = "libautosched_program.so"
_LIBRARIES = (_CORE, DRIVER, *RUNTIMES)
_BUILT = (*_LIBRARIES, *(f"{part}.o" for part in _SHARED_PARTS))  # files that a build creates
_OF_CORE = tuple(
    f"{name}.cpp"
    for name in ("session", "memory", "modules", "launches", "call_site", "guards", "host_threads", "order", "work")
)
_OF_DRIVER = tuple(
    f"driver/{name}.cpp" for name in ("devices", "modules", "launches", "tensor_maps", "memory", "streams")
)
_MOST_SEARCHED = 1 << 31  # a search for text reads at most this many bytes of a file
_FUNCTION = re.compile(r"(?:__)?cu(?:da)?[A-Z_]\w*")
_NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]")
# NVIDIA's libraries that are not emulated. NVRTC is not among them, because it compiles without a GPU.
_FOREIGN = re.compile(r"lib(cublas|cublasLt|cufft|curand|cusparse|cusolver|cudnn|nccl|nvjpeg|npp\w*|cutensor|cufile)\b")


def library_folder() -> Path:
    """Return the folder of the compiled libraries, which are compiled if necessary. Raises HostFailure."""
    compiler = host_compiler()
    h = hashlib.sha256(compiler.identity.encode())
    sources = sorted(path for path in _SOURCES.rglob("*") if path.is_file())
    for source in (Path(__file__), *sources, *(_RUNNER / name for name in _SHARED)):
        h.update(source.read_bytes())
    folder = cache_folder() / f"libraries-{h.hexdigest()[:32]}"
    if not folder.is_dir():
        with one_at_a_time(folder.parent / "libraries.lock"):
            if not folder.is_dir():
                _build(compiler, folder)
    return folder


def _build(compiler: HostCompiler, folder: Path) -> None:
    with (
        temporary_folder() as work,
        CompileStatus("the emulated CUDA runtime", len(_BUILT), lambda: sum((work / name).exists() for name in _BUILT)),
    ):
        _compile(compiler, work / _CORE, _OF_CORE, [], _CORE, "")
        linked = ["-L", str(work), "-lautosched_program", "-Wl,-rpath,$ORIGIN"]

        def runtime(soname: str) -> None:
            flags = [f"-DVERSION={RUNTIMES[soname]}", *linked]
            _compile(compiler, work / soname, _OF_A_VERSION, [*objects, *flags], soname, soname)

        with compiler_pool(work) as pool:
            driver = pool.submit(_compile, compiler, work / DRIVER, _OF_DRIVER, linked, DRIVER, "")
            parts = [pool.submit(_object, compiler, part, work) for part in _SHARED_PARTS]
            objects = [result_of(part) for part in parts]
            for compilation in (*[pool.submit(runtime, soname) for soname in RUNTIMES], driver):
                result_of(compilation)
        new_folder = folder.with_suffix(".new")
        shutil.rmtree(new_folder, ignore_errors=True)
        new_folder.mkdir()
        for library in _LIBRARIES:
            shutil.copy(work / library, new_folder)
        new_folder.rename(folder)


def _object(compiler: HostCompiler, part: str, folder: Path) -> str:
    to = folder / f"{part}.o"
    _run(compiler, folder, *_INCLUDE, "-c", "-o", str(to), _together(_SHARED_PARTS[part], to))
    return str(to)


def _together(files: Iterable[str], to: Path) -> str:
    """Write a source file next to ``to`` that includes ``files``, and return its path."""
    source = to.with_name(f"{to.name}.cpp")
    source.write_text("".join(f'#include "{file}"\n' for file in files))
    return str(source)


def _compile(
    compiler: HostCompiler, to: Path, files: Iterable[str], flags: Iterable[str], soname: str, version: str
) -> None:
    extra = [f"-Wl,-soname,{soname}"]
    if version:  # programs request versioned symbols, whose version is the name of the library
        script = to.with_name(f"{to.name}.map")
        script.write_text(f"{version} {{ global: cuda*; __cuda*; local: *; }};\n")
        extra.append(f"-Wl,--version-script={script}")
    _run(compiler, to.parent, *_INCLUDE, "-o", str(to), _together(files, to), *flags, *extra)


def _run(compiler: HostCompiler, folder: Path, *arguments: str, result: str = "the libcudart replacement") -> None:
    """Compile ``result``, with ``folder`` for the compiler's temporary files. Raises HostFailure."""
    try:
        done = run_compiler([compiler.path, *_FLAGS, *arguments], COMPILE_SECONDS, scratch=folder)
    except subprocess.TimeoutExpired:
        complaint = f"not done within {COMPILE_SECONDS:.0f} s"
    else:
        if done.returncode == 0:
            return
        complaint = main_complaint(done.stderr)
    raise HostFailure(f"{compiler.path} cannot compile {result} ({complaint})")


def missing_functions(program: Path, folder: Path, work: Path) -> tuple[Path | None, tuple[str, ...]]:
    """Build a library that defines the CUDA functions that the program calls but that the replacement libraries lack.

    Each of its functions reports its name and returns cudaErrorNotSupported.

    Args:
        program: The executable.
        folder: Folder of the replacement libraries.
        work: Folder for the new library.

    Returns:
        Path of the library and the names of its functions; None if no functions are missing.

    Raises:
        HostFailure: The library cannot be compiled.
    """
    wanted = {name for name in _symbols("--undefined-only", program) if _FUNCTION.fullmatch(name)}
    have = _symbols("--defined-only", *(folder / library for library in (*RUNTIMES, DRIVER)))
    lacking = tuple(sorted(wanted - have))
    if not lacking:
        return None, ()
    source = work / "missing.cpp"
    body = "".join(f'extern "C" int {n}() {{ return autosched::program::unsupported("{n}"); }}\n' for n in lacking)
    source.write_text(f"namespace autosched::program {{ int unsupported(const char*); }}\n{body}")
    to = work / "libautosched_missing.so"
    compiler = host_compiler()
    linked = ["-L", str(folder), "-lautosched_program", f"-Wl,-rpath,{folder}"]
    _run(compiler, work, "-o", str(to), str(source), *linked, result="missing functions")
    return to, lacking


def needed_libraries(program: Path) -> tuple[str, ...]:
    """Return the sonames that a program needs. Raises HostFailure without binutils."""
    return tuple(_NEEDED.findall(_binutil("readelf", "-d", str(program))))


def opens_driver(program: Path) -> bool:
    """Return True if a program may open the driver's library at run time: it contains the library's name.

    The result is False for a program that is linked with the static runtime. Such a program also contains the library's
    name, but the static runtime looks up functions with cuGetProcAddress, which has no replacement.
    """
    if not needed_libraries(program):  # a static executable, or not an executable: there are no libraries to replace
        return False
    return has_text(program, DRIVER.encode()) and not has_text(program, b"cuGetProcAddress")


def has_text(program: Path, text: bytes) -> bool:
    """Return True if a program contains ``text`` in its first 2 GiB, where compilers place constant data."""
    size = min(program.stat().st_size, _MOST_SEARCHED)
    with program.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
        return content.find(text) >= 0


def foreign_libraries(needed: Iterable[str]) -> tuple[str, ...]:
    """Return the NVIDIA libraries that a program needs and that have no replacement."""
    return tuple(n for n in needed if _FOREIGN.match(n))


def _symbols(which: str, *files: Path) -> set[str]:
    """Return the names of the dynamic symbols of ``files``."""
    lines = _binutil("nm", "-D", "--format=posix", which, *map(str, files)).splitlines()
    # If there are several files, nm also prints a line with the name of each file.
    return {name.partition("@")[0] for name, *kind in map(str.split, lines) if kind}


def _binutil(name: str, *arguments: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise HostFailure(f"{name} was not found on the PATH, but is needed to inspect programs: install binutils")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout
