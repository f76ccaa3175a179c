"""`binaryduo cost`: what a network costs to store and to run."""


def cost() -> None:
    """Parameters and operations of a network, counted as in the paper's Table 2."""
