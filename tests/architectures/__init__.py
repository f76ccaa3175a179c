"""Published architectures, small, through every verb; `python -m tests.architectures` writes docs/supported.md."""

from tests.architectures import mobile, plain, residual, sequences, tasks  # noqa: F401 (fill the list)
from tests.architectures.registry import ARCHITECTURES, Architecture

__all__ = ["ARCHITECTURES", "Architecture"]
