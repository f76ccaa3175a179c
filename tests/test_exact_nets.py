"""Networks whose sums float32 loses nothing of: every verb gives the same numbers, bit by bit, ties included."""

import copy
import random
import warnings

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import binaryduo as bd
from binaryduo.engine import _native
from binaryduo.errors import GraphError
from binaryduo.graph.tracing import tensors_in
from tests.exact_nets import LAYERS, ExactNet, make_exact

SETS = _native.available().split()


@torch.no_grad()
def outputs(model, x):
    wide = [t.numpy() for t in tensors_in(copy.deepcopy(model).double().eval()(x.double()))]
    found = [t.numpy() for t in tensors_in(model.eval()(x))]
    for one, other in zip(wide, found, strict=True):
        assume(
            np.array_equal(1024 * one, np.rint(1024 * one))
        )  # after many products even such sums need rounding
        np.testing.assert_array_equal(one, other)
    return found


def check_packed(model, x, path):
    """The packed file gives PyTorch's numbers, on every instruction set, for one thread and for more."""
    wanted = outputs(model, x)
    bd.pack(model, x[:2], path, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        for isa, threads in zip(SETS, (1, 3, 2, 1), strict=False):
            patch.setenv("BINARYDUO_ISA", isa)
            found = bd.load(path, threads=threads).outputs(x.numpy())
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=isa)


def coupled_or_none(net, x, **options):
    """The coupled network; None of one so narrow that nothing can become narrower."""
    try:
        return bd.couple(net, x, **options)
    except GraphError as error:
        if "nothing is left to narrow" in str(error):
            return None
        raise


@given(seed=st.integers(0, 100_000))
@example(seed=3218)  # a layer that is not called, with a single weight
@settings(max_examples=8, deadline=None)
def test_what_users_write_through_every_verb(seed, tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("exact") / "net.duo", random.Random(seed)
    net = ExactNet(seed)
    x = net.inputs(5)
    check_packed(net, x, path)
    topology, widths = rng.choice(["duo", "quad"]), rng.choice([None, "fill"])
    options = {"levels": rng.choice([3, 5]), "interval": rng.choice([None, "layer"])}
    coupled = coupled_or_none(net, x, topology=topology, widths=widths, **options)
    if coupled is None:
        return
    make_exact(coupled, seed + 1)
    check_packed(coupled, x, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one-bit layers behind what cannot be followed
        binary = bd.decouple(coupled, x, topology=topology)
    for one, other in zip(outputs(coupled, x), outputs(binary, x), strict=True):
        np.testing.assert_array_equal(one, other)
    assert type(binary(x)) is type(net(x))
    check_packed(binary, x, path)
    before, after = (
        sum(m.weight.numel() for m in n.modules() if isinstance(m, LAYERS)) for n in (net, binary)
    )
    assert after <= before
    if topology == "duo":
        assert after == coupled.coupling.decoupled_weights
