"""Every example of docs/explanation/layouts.md runs, and draws the pictures on the page."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from needs import needs_matplotlib

pytestmark = needs_matplotlib

DOCS = Path(__file__).parents[3] / "docs" / "explanation"
PAGE = (DOCS / "layouts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def texts(svg):
    return Counter(
        "".join(e.itertext()).strip() for e in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")
    )


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Run all examples of the page in order as one program, and return the folder in which they ran."""
    folder = tmp_path_factory.mktemp("layouts")
    line_of = [PAGE[: PAGE.index(block)].count("\n") for block in BLOCKS]
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block, line in zip(BLOCKS, line_of, strict=True):
            # empty lines before the code, so that a failure names the line of the page
            exec(compile("\n" * line + block, DOCS / "layouts.md", "exec"), names)
    return folder


def test_examples_run(drawn):
    assert len(BLOCKS) == PAGE.count("```python") >= 8


@pytest.mark.parametrize("picture", re.findall(r"!\[.*?\]\((.*?)\)", PAGE))
def test_pictures_are_up_to_date(drawn, picture):
    assert texts(DOCS / picture) == texts(drawn / picture)
