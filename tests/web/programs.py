"""Node, the npm package as users get it, and networks to run in it."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "binaryduo" / "web" / "npm"

# Runs a model in Node as a user's script would, and prints what it finds.
SCRIPT = """
import { readFileSync, writeFileSync } from "node:fs";
import { load } from "binaryduo";
const [duo, input, output, count] = process.argv.slice(2);
const bytes = readFileSync(input);
const images = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
const model = await load(duo);
writeFileSync(output, model.run(images));
const written = model.trace(images.slice(0, images.length / Number(count)));
const inside = written.map(({ values, ...rest }) => ({ ...rest, values: Array.from(values) }));
console.log(JSON.stringify({ inside, classes: model.classes, inputs: model.inputs, bytes: model.bytes }));
"""


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed: not checked here")
    return found


def installed_package(folder: Path) -> Path:
    """A project with the package unpacked from `npm pack`'s tarball into its node_modules."""
    need("node")
    subprocess.run(
        [need("npm"), "pack", "--offline", "--silent", "--pack-destination", folder, PACKAGE],
        check=True, capture_output=True, timeout=120, cwd=folder,
    )  # fmt: skip
    target = folder / "node_modules" / "binaryduo"
    target.mkdir(parents=True)
    (tarball,) = folder.glob("*.tgz")
    subprocess.run(["tar", "xzf", tarball, "--strip-components=1", "-C", target], check=True, timeout=60)
    return folder


def node(project: Path, script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    (project / "script.mjs").write_text(script)
    command = ["node", project / "script.mjs", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=project, check=False)


def run_in_node(project: Path, duo: Path, images: np.ndarray) -> tuple[np.ndarray, dict]:
    images.astype("<f4").tofile(project / "images.bin")
    done = node(project, SCRIPT, duo, project / "images.bin", project / "out.bin", str(len(images)))
    assert done.returncode == 0, done.stderr
    return np.fromfile(project / "out.bin", "<f4").reshape(len(images), -1), json.loads(done.stdout)
