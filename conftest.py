"""What every test and every worked example may rely on: a fixed seed, and the usual names."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from binaryduo import ste as stes
from binaryduo.training.devices import avoid_undescribed_tiles

avoid_undescribed_tiles()  # tests use PyTorch's own bfloat16 too


@pytest.fixture(autouse=True)
def _seed(doctest_namespace: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(stes, "_STES", dict(stes._STES))  # an STE that a test registers is forgotten again
    doctest_namespace.update(torch=torch, nn=nn, np=np)
