"""Small edits of a model and its traced graph, for where a user's own forward() must change."""

from typing import Any

from torch import Tensor, fx, nn
from torch.nn import functional as F

from binaryduo.graph.canonical import add_module
from binaryduo.graph.operations import Call
from binaryduo.graph.rewritten import rewritten_from, source_of, with_forward


def replace_everywhere(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put a module in another's place under every name that it has.

    >>> relu = nn.ReLU()
    >>> net = nn.Sequential(relu, relu)
    >>> replace_everywhere(net, relu, nn.Tanh())
    >>> net
    Sequential(
      (0): Tanh()
      (1): Tanh()
    )
    """
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child is old:
                parent._modules[name] = new


def in_sequence(*modules: nn.Module, like: nn.Module) -> nn.Sequential:
    """Modules one behind the other, in the mode (training or not) of the one whose place they take."""
    new = nn.Sequential(*modules)
    for module in (new, *(m for m in modules if m is not like)):
        module.training = like.training
    return new


# --- numbers in the user's code ---------------------------------------------------------------------------


def channel_size(call: Call, dim: int) -> Any:
    """What a view or reshape says of the dimension of the channels: the 2048 of x.view(-1, 2048), a node, or
    None where it says nothing."""
    sizes = (
        list(call["shape"])
        if call.operation.name == "view" and isinstance(call["shape"], tuple | list)
        else []
    )
    return sizes[dim] if dim < len(sizes) else None


def set_channel_size(call: Call, dim: int, size: int) -> None:
    """Write another number in its place."""
    sizes = list(call["shape"])
    sizes[dim] = size
    call.node.args, call.node.kwargs = (call.sources[0], tuple(sizes)), {}


# --- a graph instead of forward() -------------------------------------------------------------------------


def restore_dropout(graph: fx.Graph, model: nn.Module) -> None:
    """A traced F.dropout has its `training` flag fixed: make it a module that follows the model's mode."""
    kinds: dict[Any, type[nn.Module]] = {
        F.dropout: nn.Dropout,
        F.dropout1d: nn.Dropout1d,
        F.dropout2d: nn.Dropout2d,
        F.alpha_dropout: nn.AlphaDropout,
        F.feature_alpha_dropout: nn.FeatureAlphaDropout,
    }
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in kinds:
            p = node.kwargs.get("p", node.args[1] if len(node.args) > 1 else 0.5)
            if node.kwargs.get("training", node.args[2] if len(node.args) > 2 else True) is not False:
                continue  # always on, whatever the mode
            source = node.args[0] if node.args else node.kwargs["input"]
            name = add_module(model, "dropout", kinds[node.target](p).train(model.training))
            with graph.inserting_after(node):
                new = graph.call_module(name, (source,))
            node.replace_all_uses_with(new)
            graph.erase_node(node)


def to_module(model: nn.Module, graph: fx.Graph) -> nn.Module:
    """The model with a changed graph in place of its forward(): still of the user's class, by inheritance."""
    restore_dropout(graph, model)
    for node in graph.nodes:  # constants that were in the code move with the model from now on
        if node.op == "get_attr" and isinstance(vars(model).get(str(node.target)), Tensor):
            value = model.__dict__.pop(str(node.target))
            model.register_buffer(str(node.target), value, persistent=False)
    if isinstance(model, fx.GraphModule):
        traced = fx.GraphModule(model, graph, class_name=type(model).__name__)
        modes = {name: module.training for name, module in model.named_modules()}
        for name, module in traced.named_modules():
            module.training = modes.get(name, model.training)
        return traced
    model.__class__ = with_forward(rewritten_from(type(model)), *source_of(graph))
    return model
