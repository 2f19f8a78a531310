"""The tables of docs/reference/gpus.md are up to date."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from autosched.cli.commands.machine.list_devices import markdown_table
from search_spaces.hardware.architectures import ARCHITECTURES, FEATURES

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "gpus.md"


def architectures() -> list[str]:
    head = ["| cc | chips | shared memory of a block, KiB | threads, blocks of an SM | CUDA |", f"|{'---|' * 5}"]
    return head + [
        f"| {row.sm / 10} | {row.chips} | {row.shared_per_block // 1024} | {row.threads}, {row.blocks} | {row.cuda} |"
        for row in ARCHITECTURES.values()
    ]


def features() -> list[str]:
    def having(name: str) -> Iterable[str]:
        for row in ARCHITECTURES.values():
            if name in row.features:
                yield f"{row.sm / 10}{'a' if FEATURES[name].scope else ''}"

    head = ["| feature | what it is | compute capabilities |", f"|{'---|' * 3}"]
    return head + [f"| `{name}` | {row.doc} | {', '.join(having(name))} |" for name, row in FEATURES.items()]


TABLES = {"architectures": architectures, "features": features, "devices": markdown_table}


def between(text: str, name: str) -> str:
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_current(name: str) -> None:
    assert between(DOCUMENT.read_text(), name).splitlines() == TABLES[name](), f"python {Path(__file__).name} writes it"


if __name__ == "__main__":
    written = DOCUMENT.read_text()
    for title, lines in TABLES.items():
        start, end = f"<!-- {title} -->\n", f"<!-- /{title} -->"
        before, _, after = written.partition(start)
        written = before + start + "".join(f"{line}\n" for line in lines()) + end + after.partition(end)[2]
    DOCUMENT.write_text(written)
