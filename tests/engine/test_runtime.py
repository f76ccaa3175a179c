"""The loaded model: batches, threads, and life without PyTorch."""

import copy
import multiprocessing
import pickle
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np

import binaryduo
from binaryduo.engine import _native
from binaryduo.engine import format as duo
from binaryduo.engine.program import Code
from tests.engine.programs import Builder, load_program


def network(seed=0):
    b = Builder(3, 16, 16, seed=seed)
    x = b.conv(0, 40, copies=2, out="bits")
    x = b.conv(x, 70, copies=2, out="bits", integer=True)
    x = b.pool(x, Code.MAX_POOL, flip=True)
    x = b.conv(x, 33, (8, 8), padding=(0, 0), out="bits", integer=True)
    return b, b.finish(b.conv(x, 10, (1, 1), padding=(0, 0)))


def test_batches_and_threads_give_the_same_bytes():
    b, program = network()
    images = b.images(67)
    one = load_program(program, threads=1)
    wanted = one(images)
    for threads in (1, 2, 5):
        model = load_program(program, threads)
        assert model.threads == threads
        for batch in (1, 2, 7, 67):
            found = np.concatenate([model(images[i : i + batch]) for i in range(0, 67, batch)])
            np.testing.assert_array_equal(found, wanted)
    assert one(images[:0]).shape == (0, 10)
    np.testing.assert_array_equal(one.predict(images), wanted.argmax(1))


def test_a_model_is_copied_and_sent_to_a_process_that_is_started_anew():
    b, program = network()
    images = b.images(3)
    model = load_program(program, threads=1)
    wanted = model(images)
    np.testing.assert_array_equal(copy.deepcopy(model)(images), wanted)
    again = pickle.loads(pickle.dumps(model))
    assert (again.threads, again.check_finite) == (1, True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(model, (images,)), wanted)


def test_many_threads_share_one_model():
    b, program = network()
    model = load_program(program, threads=2)
    images = b.images(24)
    wanted = load_program(program, threads=1)(images)
    wrong = []

    def call(i):
        for _ in range(20):
            if not np.array_equal(model(images[i::4]), wanted[i::4]):
                wrong.append(i)

    threads = [threading.Thread(target=call, args=(i % 4,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_types_and_layouts_of_images():
    b, program = network()
    model = load_program(program)
    images = b.images(2)
    np.testing.assert_array_equal(model(images.astype(np.float64)), model(images))
    strided = np.ascontiguousarray(np.moveaxis(images, 1, -1))
    np.testing.assert_array_equal(model(np.moveaxis(strided, -1, 1)), model(images))
    np.testing.assert_array_equal(model(images.tolist()), model(images))


def test_profile_and_describe():
    b, program = network()
    model = load_program(program)
    assert len(model.profile(b.images())) == len(program.ops)
    assert [layer.name for layer in model.describe()] == [op.name for op in program.ops]
    assert model.describe()[1].weights == "1 bit, 3×3×80→70"


def bare_environment(folder):
    """A folder with this package and NumPy, and nothing else that could be imported from it."""
    package = Path(binaryduo.__file__).parent
    shutil.copytree(package, folder / "binaryduo", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_native.__file__, folder / "binaryduo" / "engine")
    numpy = Path(np.__file__).parent
    for part in (numpy, numpy.with_name("numpy.libs")):
        if part.exists():
            (folder / part.name).symlink_to(part)
    return folder


def test_runs_where_torch_is_not_installed(tmp_path):
    b, program = network()
    duo.write(program, tmp_path / "net.duo")
    image = b.images()
    np.save(tmp_path / "image.npy", image)
    code = """
        import sys
        from importlib.util import find_spec

        assert not any(find_spec(name) for name in ("torch", "typer", "rich", "onnx", "scipy"))
        import numpy as np
        import binaryduo as bd

        model = bd.load(sys.argv[1] + "/net.duo")
        np.save(sys.argv[1] + "/out.npy", model(np.load(sys.argv[1] + "/image.npy")))
        try:
            bd.pack
        except bd.BinaryDuoError as error:
            assert "binaryduo[train]" in str(error)
        else:
            raise AssertionError("bd.pack is there without torch")
    """
    site = bare_environment(tmp_path / "site")
    command = [sys.executable, "-S", "-s", "-c", textwrap.dedent(code), str(tmp_path)]  # -S: no site-packages
    subprocess.run(command, check=True, timeout=60, env={"PYTHONPATH": str(site)}, cwd=tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), load_program(program)(image))
