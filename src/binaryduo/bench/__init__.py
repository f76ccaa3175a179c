"""Every benchmark, each against named peers in one run: inference, training, the mismatch tools."""
