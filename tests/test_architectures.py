"""Published architectures through every verb: what docs/supported.md says of each is what happens."""

from pathlib import Path

import pytest

from tests.architectures import ARCHITECTURES, page
from tests.architectures.verbs import Run

STALE = "docs/supported.md is out of date: make supported"
TEXT = page.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_page_says_what_happens(name: str, tmp_path: Path) -> None:
    entry = page.Entry.of(ARCHITECTURES[name], Run(ARCHITECTURES[name], tmp_path))
    assert entry.row in TEXT, STALE
    assert entry.text in TEXT, STALE


def test_the_page_has_the_table_s_operations_and_no_other_rows() -> None:
    assert len(ARCHITECTURES) >= 25
    assert TEXT.startswith(f"{page.HEAD}{page.operations()}{page.MIDDLE}"), STALE
    rows = [
        line
        for line in TEXT.removeprefix(page.HEAD + page.operations()).splitlines()
        if line.startswith("| **")
    ]
    assert len(rows) == len(ARCHITECTURES), STALE


def test_hardly_anything_is_refused() -> None:
    """All but packing works everywhere, and most pack."""
    refused = [line for line in TEXT.splitlines() if line.startswith("- **") and ", pack:" in line]
    assert len(refused) <= 5
    rows = [line for line in TEXT.splitlines() if line.startswith("| **")]
    for row in rows:
        *verbs, pack, onnx = (cell.strip() for cell in row.split("|")[3:9])
        assert all(cell.startswith("yes") for cell in [*verbs, onnx]), row
        assert pack in ("yes", "no, see below"), row
