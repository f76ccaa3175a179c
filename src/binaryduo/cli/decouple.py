"""`binaryduo decouple`: what a network decouples to store and to run."""


def decouple() -> None:
    """Parameters and operations of a network, counted as in the paper's Table 2."""
