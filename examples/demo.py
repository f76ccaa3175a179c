"""The method at work on real images, in about two minutes: the same as `binaryduo demo` (and `make demo`).

Its code is short and made of public calls only: src/binaryduo/cli/demonstration.py.
"""

import sys

from binaryduo.cli.app import run

if __name__ == "__main__":
    run(["demo", *sys.argv[1:]])
