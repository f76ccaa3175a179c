"""The kernels that make a training step fast on CPUs, and how a network is made to use them."""
