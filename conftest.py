"""What every test and every worked example may rely on: a fixed seed, and the usual names."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def _seed(doctest_namespace: dict[str, Any]) -> None:
    torch.manual_seed(0)
    doctest_namespace.update(torch=torch, nn=nn, np=np)
