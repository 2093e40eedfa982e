# SPDX-License-Identifier: MIT OR Apache-2.0
"""Products as they were written. PyTorch takes every product apart into matrices of two or three axes with views around
them; between a product and what follows it, these views end the block that Kiln would compute at once."""
import torch

aten = torch.ops.aten
VIEWS = (aten.view.default, aten._unsafe_view.default)


def _is(node, *targets):
    return isinstance(node, torch.fx.Node) and node.target in targets


def _known_shape(node):
    """The lengths of a traced tensor; None where one is open."""
    shape = tuple(node.meta["val"].shape)
    return shape if all(isinstance(n, int) for n in shape) else None


def _whole(flat):
    """The operand that was flattened to `flat`, and its lengths before; itself where nothing was."""
    if not _is(flat, *VIEWS):
        return flat, _known_shape(flat)
    spread = flat.args[0]
    whole = spread.args[0] if _is(spread, aten.expand.default) else spread
    return whole, _known_shape(spread)


def _product(graph, node, left, right):
    """What stands for the views of a flat product; None where an operand is no flattened one."""
    (a, a_shape), (b, b_shape) = _whole(left), _whole(right)
    flat = _known_shape(node)
    if None in (a_shape, b_shape, flat) or len(a_shape) <= len(flat):
        return None
    if len(flat) == 2:  # by one matrix, with all axes but the last taken together
        b, b_shape = right, _known_shape(right)
    elif a_shape[:-2] != b_shape[:-2] or a_shape[-2] != flat[1]:
        return None
    if a_shape[-1] != b_shape[-2] or b_shape[-1] != flat[-1]:
        return None
    wanted = a_shape[:-1] + flat[-1:]
    shapes = _known_shape(a), _known_shape(b)
    if None in shapes or torch.broadcast_shapes(*(s[:-2] for s in shapes)) + wanted[-2:] != wanted:
        return None  # an operand was spread further than the product spreads it
    views = [user for user in node.users if _is(user, *VIEWS) and _known_shape(user) == wanted]
    if not views or len(views) != len(node.users):
        return None
    with graph.inserting_before(views[0]):
        made = graph.call_function(aten.matmul.default, (a, b))
    made.meta["val"] = views[0].meta["val"]
    return made, views


def make_whole(module):
    """Changes the graph of `module` in place."""
    graph = module.graph
    for node in list(graph.nodes):
        bias = None
        if _is(node, aten.addmm.default) and not node.kwargs:
            bias, left, right = node.args
        elif _is(node, aten.mm.default) or _is(node, aten.bmm.default):
            left, right = node.args
        else:
            continue
        found = _product(graph, node, left, right)
        if found is None:
            continue
        made, views = found
        if bias is not None:
            with graph.inserting_before(views[0]):
                made, product = graph.call_function(aten.add.Tensor, (made, bias)), made
            made.meta["val"] = product.meta["val"]
        for view in views:
            view.replace_all_uses_with(made)
    graph.eliminate_dead_code()
    module.recompile()
