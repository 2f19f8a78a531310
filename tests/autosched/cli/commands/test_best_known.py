"""``best --db DB`` and reports of databases whose kernel files are missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc
from snippets.kernel_file import FILE, SOURCE

from autosched.cli import main
from autosched.reporting import formatting
from search_spaces import catalogue

pytestmark = [needs_nvrtc, needs_compiler]

COSTS = '[cost]\nflops = "2 * n"\n[metrics]\n"GB/s" = "8 * n / time / 1e9"\n'
NAME = "measured_copy"


def forget_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = catalogue._Catalogue()
    monkeypatch.setattr(catalogue, "_catalogue", lambda: empty)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return a database with a failed and a working revision of a kernel. The kernel is not registered."""
    monkeypatch.chdir(tmp_path)
    forget_kernels(monkeypatch)
    text = FILE.replace("[kernel]", f'[kernel]\nname = "{NAME}"') + COSTS
    tune = ["tune", "--kernel", "k.toml", "--device", "a100", "--sampler", "random", "--db", "b.db", "--trials"]
    Path("r.py").write_text("def f(x):\n    return x\n")
    Path("k.toml").write_text(text + '[reference]\npython = "r.py:f"\n')
    Path("k.cu").write_text(SOURCE.replace("= x[i]", "= x[i] + 1.0f"))
    assert main([*tune, "1"]) != 0
    Path("k.cu").write_text(SOURCE)
    Path("k.toml").write_text(text)
    assert main([*tune, "2"]) == 0
    forget_kernels(monkeypatch)
    capsys.readouterr()
    return tmp_path / "b.db"


def test_best_lists_all_problems_of_a_database(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not catalogue.is_operator(NAME)
    assert main(["best", "--db", "b.db"]) == 0
    out = capsys.readouterr().out
    assert f"{NAME} n=64" in out and "a100" in out and "estimated" in out and "B/s" in out
    assert main(["best", "--db=b.db", "--json"]) == 0
    (best,) = json.loads(capsys.readouterr().out)["best"]
    assert best["name"] == f"{NAME} n=64" and best["seconds"] > 0 and best["trials"] == 2
    assert main(["best", "--db", "b.db", "--device", "h100"]) == 1
    assert main(["best", "copy", "--db", "b.db"]) == 1


def test_a_report_lists_a_user_kernel_with_rate_and_metrics(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--db", "b.db", "--out", "r.html", "--json"]) == 0
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert {p["problem"] for p in problems} == {f"{NAME} n=64"}
    worked = [p for p in problems if p["seconds"] is not None]
    assert len(problems) == 2 and len(worked) == 1 and 0 < worked[0]["share_of_roof"] <= 1
    assert [bool(p["advice"]) for p in problems if p["seconds"] is None] == [False], (
        "a replaced revision of a kernel gets no advice"
    )
    page = Path("r.html").read_text()
    assert "<title>autosched: b.db</title>" in page and str(database.parent) not in page
    assert "GB/s" in page and "computes" not in page


@pytest.mark.parametrize("most", range(12, 40))
def test_no_word_is_cut_in_the_middle(most: int) -> None:
    text = "updates element 0 of bins, which was never written"
    shown = formatting.cut(text, most)
    assert len(shown) <= most and shown.endswith("...")
    assert set(shown.removesuffix("...").split()) <= set(text.replace(",", "").split()) | set(text.split())
