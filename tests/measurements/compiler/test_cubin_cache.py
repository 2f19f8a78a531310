"""The cache of compiled kernels never has partial entries, even with concurrent writers and after failures."""

import dataclasses
import json
import sys
from pathlib import Path

import forked_python
import pytest

import measurements.compiler.cubin_cache
from measurements.compiler.cubin_cache import CompileCache, default_folder
from measurements.trials.measurement import Resources
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers

ROOT = str(Path(measurements.compiler.cubin_cache.__file__).resolve().parents[2])
RESOURCES = Resources(32, 4, 8, 16, 1024, 2048)
KERNEL = GeneratedKernel(entry="k", source="// source", arguments=(), grid=(1, 1, 1), block=(32, 1, 1))


def store(cache: CompileCache, key: str, cubin: bytes = b"\x7fELF and more"):
    return cache.store(
        key,
        cubin,
        entry="k",
        resources=RESOURCES,
        compile_seconds=0.25,
        log="log",
        arch="sm_90a",
        toolchain="nvrtc 1.2.3",
    )


def test_a_stored_cubin_is_loaded(tmp_path):
    stored = store(CompileCache(tmp_path), "key")
    cubin = CompileCache(tmp_path).load("key")
    assert cubin == dataclasses.replace(stored, cached=True)
    assert cubin.path.read_bytes() == b"\x7fELF and more"
    assert not stored.cached


def test_a_missing_cubin_is_not_loaded(tmp_path):
    assert CompileCache(tmp_path).load("key") is None


def test_equal_cubins_share_one_file(tmp_path):
    cache = CompileCache(tmp_path)
    assert store(cache, "one").path == store(cache, "two").path


def test_no_temporary_files_remain(tmp_path):
    store(CompileCache(tmp_path), "key")
    assert sorted(p.suffix for p in tmp_path.rglob("*") if p.is_file()) == [".cubin", ".json"]


def entry(tmp_path) -> Path:
    return next(tmp_path.glob("entries/*.json"))


def change(**fields):
    def corrupt(tmp_path):
        data = json.loads(entry(tmp_path).read_text()) | fields
        entry(tmp_path).write_text(json.dumps({k: v for k, v in data.items() if v is not None}))

    return corrupt


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda t: entry(t).write_bytes(entry(t).read_bytes()[:40]),
        lambda t: entry(t).write_bytes(b"\xff\xfe"),
        lambda t: entry(t).write_text("[]"),
        lambda t: entry(t).write_text(""),
        lambda t: next(t.glob("cubins/*")).write_bytes(b"\x7fELF"),
        lambda t: next(t.glob("cubins/*")).unlink(),
        change(digest=None),
        change(digest="../../etc/passwd"),
        change(resources={"registers": 3}),
        change(resources=dataclasses.asdict(RESOURCES) | {"registers": -1}),
        change(resources=dataclasses.asdict(RESOURCES) | {"registers": "many"}),
        change(compile_seconds="soon"),
    ],
)
def test_a_damaged_entry_is_ignored_and_overwritten(tmp_path, corrupt):
    cache = CompileCache(tmp_path)
    store(cache, "key")
    corrupt(tmp_path)
    assert cache.load("key") is None
    store(cache, "key")
    assert cache.load("key") is not None


def test_the_key_depends_on_all_inputs_of_the_compilation(tmp_path):
    header = tmp_path / "include" / "h.cuh"
    header.parent.mkdir()
    header.write_text("// one")

    def fresh(**changes) -> GeneratedKernel:
        return dataclasses.replace(KERNEL, headers=Headers.from_folder(header.parent), **changes)

    def key(kernel, arch="sm_90a", options=("-a",), toolchain="nvrtc 1"):
        return CompileCache.key(kernel, arch, options, toolchain)

    keys = [
        key(fresh()),
        key(fresh(source="// other")),
        key(fresh(entry="other")),
        key(fresh(dynamic_shared_bytes=16)),
        key(fresh(), arch="sm_80"),
        key(fresh(), options=("-b",)),
        key(fresh(), toolchain="nvrtc 2"),
    ]
    header.write_text("// two")
    keys.append(key(fresh()))
    assert len(set(keys)) == len(keys)
    assert key(fresh()) == keys[-1]
    assert key(fresh(grid=(7, 1, 1))) == keys[-1]


def test_processes_read_and_write_the_same_entries_concurrently(tmp_path):
    program = (
        "import sys\n"
        f"sys.path.insert(0, {ROOT!r})\n"
        "from measurements.compiler.cubin_cache import CompileCache\n"
        "from measurements.trials.measurement import Resources\n"
        f"cache = CompileCache({str(tmp_path)!r})\n"
        "letter = sys.argv[1].encode()\n"
        "for turn in range(100):\n"
        "    cache.store('key', letter * 5000, entry='k', resources=Resources(1, 0, 0, 0, 0, 0), compile_seconds=0.1,\n"
        "                log='', arch='sm_90a', toolchain='t')\n"
        "    cached = cache.load('key')\n"
        "    assert cached is not None and cached.path.read_bytes() in (b'a' * 5000, b'b' * 5000)\n"
    )
    writers = [forked_python.Popen([sys.executable, "-c", program, letter]) for letter in "ab"]
    assert [w.wait(timeout=60) for w in writers] == [0, 0]


def test_an_unwritable_folder_is_reported_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="set AUTOSCHED_CACHE_DIR to a writable folder") as caught:
        CompileCache(tmp_path / "file" / "below").prepare()
    assert "\n" not in str(caught.value)


def test_the_default_folder_follows_the_environment(monkeypatch):
    monkeypatch.delenv("AUTOSCHED_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_folder() == Path("/home/somebody/.cache/autosched/cubin")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/autosched/cubin")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", "/elsewhere")
    assert default_folder() == Path("/elsewhere/cubin")
