"""The memory that an engine needs for a network, measured in a process of its own.

The child prints the most memory it has held with the engine's own packages imported, and the most it has held
after the network was loaded and run three times. The difference is the network's; the first is the engine's.
"""

import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Memory:
    """Bytes: `engine` once its packages are imported, `peak` after three runs of the network."""

    engine: int
    peak: int

    @property
    def network(self) -> int:
        """What the network added.

        >>> Memory(engine=30, peak=50).network
        20
        """
        return self.peak - self.engine


def memory_of(engine: str, file: Path, shape: tuple[int, ...], threads: int = 1) -> Memory:
    """Run a network in a fresh process. `engine`: binaryduo (a .duo file), onnxruntime or openvino (.onnx),
    torch (the name of one of our networks, in full precision)."""
    child = [
        sys.executable,
        "-m",
        "binaryduo.bench.memory_use",
        engine,
        str(file),
        json.dumps(shape),
        str(threads),
    ]
    result = subprocess.run(child, capture_output=True, text=True, check=True)
    return Memory(**json.loads(result.stdout.splitlines()[-1]))


def _peak() -> int:
    """The most memory that this process has held, in bytes. Linux gives a child its parent's `ru_maxrss`."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _main(engine: str, file: str, shape: tuple[int, ...], threads: int) -> Memory:
    import numpy as np

    images = np.zeros(shape, np.float32)
    if engine == "binaryduo":
        from binaryduo.engine.runtime import load

        before = _peak()
        model = load(file, threads)

        def call() -> object:
            return model(images)

    elif engine == "torch":
        import torch

        from binaryduo import models
        from binaryduo.bench.peers import torch_call

        before = _peak()
        network = models.build(file, variant="baseline", levels=None, weight_bits=32).eval()
        call = torch_call(network, torch.from_numpy(images), threads)
    else:
        from binaryduo.bench import peers

        peers.need(engine)
        before = _peak()
        if engine == "onnxruntime":
            call = peers.onnx_call(file, images, threads)
        else:
            graph = peers.need("openvino").Core().read_model(file)
            graph.reshape(list(shape))
            call = peers.openvino_call(graph, threads)
    for _ in range(3):
        call()
    return Memory(before, _peak())


if __name__ == "__main__":
    found = _main(sys.argv[1], sys.argv[2], tuple(json.loads(sys.argv[3])), int(sys.argv[4]))
    print(json.dumps({"engine": found.engine, "peak": found.peak}))
