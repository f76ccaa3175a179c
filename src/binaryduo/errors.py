"""Every error that binaryduo raises on purpose.

An error says what was found, where (a module's qualified name, a file, a key), and what would work.
The command line prints it as one sentence and exits with code 2; a traceback is always a bug.
"""


class BinaryDuoError(Exception):
    """The base of all errors below: catch this one to catch them all."""


class GraphError(BinaryDuoError):
    """A model has a part that cannot be coupled, decoupled or packed; names the module."""


class UnknownNameError(BinaryDuoError):
    """A name (of a network, an STE, a data set, a recipe) that does not exist; lists those that do."""


class ArgumentError(BinaryDuoError, ValueError):
    """An argument outside of what a function can use."""


class BusyError(ArgumentError):
    """A folder that another process is working in; names the process."""


class CheckpointError(BinaryDuoError):
    """A checkpoint that is truncated, altered, or of another network."""


class DataError(BinaryDuoError):
    """A data set that is missing, altered or malformed; names the file."""


class PackedFormatError(BinaryDuoError):
    """A packed file that is truncated, altered, or not a packed file at all."""


class MissingExtraError(BinaryDuoError, ImportError):
    """A feature whose optional dependencies are not installed; says which extra brings them."""


def unknown_name(kind: str, name: object, known: list[str]) -> UnknownNameError:
    """The error for a name that is not among the known ones.

    >>> str(unknown_name("STE", "relu2", ["relu1", "steep2"]))
    "unknown STE 'relu2': choose one of relu1, steep2"
    """
    return UnknownNameError(f"unknown {kind} {name!r}: choose one of {', '.join(known)}")
