"""`python -m tests.architectures`: runs every architecture and writes docs/supported.md."""

import tempfile
from pathlib import Path

import torch

from tests.architectures import ARCHITECTURES, page
from tests.architectures.verbs import Run

if __name__ == "__main__":
    torch.set_num_threads(1)
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        for architecture in ARCHITECTURES.values():
            run = Run(architecture, Path(folder))
            entries.append(page.Entry.of(architecture, run))
            print(architecture.name, *(f"\n  {verb}: {said}" for verb, said in entries[-1].sentences))
    page.PAGE.write_text(page.whole(entries), encoding="utf-8")
    print(page.PAGE)
