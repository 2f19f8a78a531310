"""The benchmark of language-model kernels lists its problems, and counts the instructions of a kernel's main loop."""

from __future__ import annotations

from benchmarks.cost_model.language_models import PUBLISHED, Estimated, problems
from measurements.compiler.disassembly import SassInstruction
from search_spaces.catalogue import problem_from_json, templates_for
from search_spaces.hardware.devices import device


def test_problems_have_kernels_and_keep_their_options() -> None:
    listed = problems()
    assert len(listed) > 30 and set(PUBLISHED) <= set(listed)
    for problem in listed.values():
        assert problem_from_json(problem.to_json()) == problem
    for name in ("nvf4, bf16, m 16, fragments", "64 experts, m 65536, e4m3"):
        assert len(templates_for(listed[name], device("h100")))


def test_conversions_are_counted_by_their_opcodes() -> None:
    codes = ("LOP3.LUT", "HFMA2", "HMMA.16816.F32", "F2FP.F16.E4M3.UNPACK_B", "LDS.128")
    loop = tuple(SassInstruction(16 * at, "", code, "", ("", 0)) for at, code in enumerate(codes))
    assert Estimated(1.0, 32, loop).converting == 3
