import hashlib

import pytest

from measurements.compiler.cubin import machine_code
from measurements.compiler.nvrtc import NvrtcMissing
from measurements.compiler.pool import CompileCache, Compiled, CompilePool
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.transpose import Transpose


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    problem, h200 = Transpose(64, 64), device("h200")
    transpose = template("transpose")
    schedule = transpose.space(problem, h200).sample(1, 0)[0]
    try:
        with CompilePool(CompileCache(tmp_path_factory.mktemp("cache")), workers=1) as pool:
            result = pool.compile(transpose.kernel(problem, schedule, h200), "sm_90")
    except NvrtcMissing as error:
        pytest.skip(str(error))
    assert isinstance(result, Compiled), result
    return result


def test_a_cubin_is_identified_by_its_instructions(compiled: Compiled) -> None:
    code = compiled.code
    assert code is not None and code == machine_code(compiled.cubin)
    assert code.cubin_digest == compiled.digest
    assert code.sass_bytes % 16 == 0 and 0 < code.sass_bytes < len(compiled.cubin), "an instruction is 16 bytes"


def test_unexecuted_sections_do_not_change_the_code_digest(compiled: Compiled) -> None:
    code, cubin = machine_code(compiled.cubin), compiled.cubin
    other = machine_code(cubin + b"a later section")
    assert code is not None and other is not None
    assert other.cubin_digest != code.cubin_digest
    assert (other.sass_digest, other.sass_bytes) == (code.sass_digest, code.sass_bytes)


def test_one_other_instruction_does(compiled: Compiled) -> None:
    code = machine_code(compiled.cubin)
    assert code is not None
    bits = bytearray(compiled.cubin)
    digests = set()
    for at in range(0, len(bits), 64):
        bits[at] ^= 1
        changed = machine_code(bytes(bits))
        digests.add(changed.sass_digest if changed is not None else None)
        bits[at] ^= 1
    assert len(digests) > 2


@pytest.mark.parametrize("size", [0, 3, 4, 16, 63, 64, 100, 1000])
def test_truncated_and_invalid_cubins_have_no_code(compiled: Compiled, size: int) -> None:
    assert machine_code(compiled.cubin[:size]) is None
    assert machine_code(hashlib.sha256(b"").digest() * size) is None
