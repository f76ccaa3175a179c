"""`python -m binaryduo`: what torchrun starts."""

from binaryduo.cli import main

main()
