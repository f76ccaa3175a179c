"""Every test starts from the same random state and one thread a process, so that failures repeat."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
