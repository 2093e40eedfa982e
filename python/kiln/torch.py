# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kiln as a backend of torch.compile, for inference and training:

    model = torch.compile(model, backend="kiln")
    loss = model(x).sum()
    loss.backward()

Importing this module is not needed: PyTorch finds the backend by the package's entry point.
"""
import contextlib
import logging
import operator

import torch
from functorch.compile import make_boxed_func
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import _aten, _kiln, _products, ops
from ._compile import compile as _capture

aten = torch.ops.aten
_log = logging.getLogger("kiln.torch")
_DTYPES = {torch_dtype: getattr(_kiln, str(torch_dtype).partition(".")[2])
           for torch_dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
                               torch.int16, torch.int8, torch.uint8, torch.bool)}
_KEPT = (aten._scaled_dot_product_flash_attention_for_cpu.default, aten.silu.default, aten.hardswish.default,
         aten.leaky_relu.default)  # which Kiln has whole


def _encoder_layer(x, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, gelu, norm_first, epsilon,
                   scale_1, shift_1, scale_2, shift_2, weight_1, bias_1, weight_2, bias_2, mask=None, mask_type=None):
    """What nn.TransformerEncoderLayer becomes in inference, taken apart."""
    if mask is not None:
        return NotImplemented

    def norm(y, scale, shift):
        return torch.nn.functional.layer_norm(y, (width,), scale, shift, epsilon)

    def attend(y):
        batch, length, _ = y.shape
        parts = torch.nn.functional.linear(y, qkv_weight, qkv_bias).view(batch, length, 3, heads, width // heads)
        made = torch.nn.functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4).unbind(0))
        return torch.nn.functional.linear(made.transpose(1, 2).reshape(batch, length, width), out_weight, out_bias)

    def feed(y):
        y = torch.nn.functional.linear(y, weight_1, bias_1)
        return torch.nn.functional.linear(torch.nn.functional.gelu(y) if gelu else torch.relu(y), weight_2, bias_2)

    if norm_first:
        x = x + attend(norm(x, scale_1, shift_1))
        return x + feed(norm(x, scale_2, shift_2))
    x = norm(x + attend(x), scale_1, shift_1)
    return norm(x + feed(x), scale_2, shift_2)


def _decompositions():
    table = dict(core_aten_decompositions())
    for kept in _KEPT:
        table.pop(kept, None)
    table[aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    return table


# ---- what is served ----

def _lengths(value):
    """A shape, or a length, with the numbers that PyTorch traced with."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value.node.hint
    return value


def _stand_in(value):
    """An array like a traced tensor; anything else as it is."""
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout != torch.strided:
            raise NotImplementedError("a tensor elsewhere")
        return ops.full(tuple(_lengths(n) for n in value.shape), _DTYPES[value.dtype], value=0)
    if isinstance(value, (tuple, list)):
        return type(value)(_stand_in(v) for v in value)
    return _lengths(value)


def _fits(made, traced):
    if isinstance(traced, (tuple, list)):
        return all(m is None or _fits(m, t) for m, t in zip(made, traced, strict=True))
    return made.shape == tuple(_lengths(n) for n in traced.shape)


def _apply(node, args, kwargs):
    """What a node makes of arrays and numbers."""
    if node.target is operator.getitem:
        made = args[0][args[1]]
        if made is None:
            raise NotImplementedError("a result that Kiln does not make")
        return made
    traced = node.meta["val"]
    if not isinstance(traced, (torch.Tensor, tuple, list)):
        return args[0].shape[args[1]] if node.target is aten.sym_size.int else node.target(*args, **kwargs)
    way, function = _aten.find(node.target)
    first = traced if isinstance(traced, torch.Tensor) else next(t for t in traced if t is not None)
    out = _DTYPES[first.dtype]
    if way is not _aten.PLAIN:
        common = first.dtype
        if way is _aten.MEETS:
            tensors = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in node.args]
            common = torch.result_type(*tensors) if len(tensors) == 2 else tensors[0].dtype
        args = [a.astype(_DTYPES[common]) if isinstance(a, _kiln.Array) else a for a in args]
    made = function(out, *args, **{("keepdims" if k == "keepdim" else k): v for k, v in kwargs.items()})
    return made.astype(out) if isinstance(made, _kiln.Array) else made


class _Support(OperatorSupportBase):
    """Kiln serves a node that has a row and whose row gives the traced shapes, tried on arrays that are not computed."""

    def __init__(self):
        self._known = {}

    def is_node_supported(self, submodules, node):
        if node not in self._known:
            self._known[node] = node.op == "call_function" and self._try(node)
        return self._known[node]

    def _try(self, node):
        traced = node.meta.get("val")
        numbers = isinstance(traced, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))
        if numbers:
            return node.target is aten.sym_size.int or _aten.of_lengths(node.target)
        if node.target is operator.getitem:
            producer = node.args[0]
            return self.is_node_supported(None, producer) and self._made(producer)[node.args[1]] is not None
        return _aten.find(node.target) is not None and self._made(node) is not None

    def _made(self, node):
        """What the node's row makes of stand-ins; None: nothing that fits."""
        device = _kiln.device()
        _kiln._graph_begin(device, [])
        try:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: _stand_in(n.meta["val"]))
            made = _apply(node, args, kwargs)
            return made if _fits(made, node.meta["val"]) else None
        except (NotImplementedError, ValueError, TypeError, KeyError, IndexError, AttributeError, _kiln.Error) as why:
            _log.info("left to torch: %s: %s", node.format_node(), why)
            return None
        finally:
            _kiln._graph_cancel(device)


# ---- constants ----

def _fold_norms(graph, fixed):
    """Batch norms behind convolutions of constants go into the weights."""
    for norm in [n for n in graph.nodes if n.target is aten._native_batch_norm_legit_no_training.default]:
        conv, scale, shift, mean, variance, _, epsilon = norm.args
        weight, bias = conv.args[1:3] if conv.target is aten.convolution.default else (None, None)
        parts = [p for p in (weight, bias, scale, shift, mean, variance) if p is not None]
        if weight is None or len(conv.users) > 1 or conv.args[6] or None in (scale, shift) or \
                not all(p in fixed for p in parts) or any(u.args[1] != 0 for u in norm.users):
            continue

        def folded(weight, bias, scale, shift, mean, variance, epsilon):
            factor = scale * torch.rsqrt(variance + epsilon)
            shifted = shift + (-mean if bias is None else bias - mean) * factor
            return weight * factor.view(-1, *[1] * (weight.ndim - 1)), shifted

        with graph.inserting_before(norm):
            both = graph.call_function(folded, (weight, bias, scale, shift, mean, variance, epsilon))
            new_weight, new_bias = [graph.call_function(operator.getitem, (both, i)) for i in range(2)]
            made = graph.call_function(conv.target, (conv.args[0], new_weight, new_bias, *conv.args[3:]))
        fixed.update((both, new_weight, new_bias))
        made.meta = dict(conv.meta)
        for user in list(norm.users):
            user.replace_all_uses_with(made)
            graph.erase_node(user)
        graph.erase_node(norm)
        graph.erase_node(conv)


def _fold(graph, fixed):
    """Marks what follows from constants alone."""
    for node in graph.nodes:
        given = node.all_input_nodes
        if node.op == "call_function" and given and all(n in fixed for n in given):
            fixed.add(node)


def _state(tensor):
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


# ---- parts of a graph on Kiln ----

def _array(tensor):
    tensor = tensor.detach()
    return _kiln._from_capsule(torch.utils.dlpack.to_dlpack(tensor.resolve_neg()), _kiln.device(), 1)


def _constant(tensor):
    tensor = tensor.detach().contiguous()
    return _kiln._from_capsule(torch.utils.dlpack.to_dlpack(tensor), _kiln.device(), 3)


def _order(traced):
    """The axes of a traced tensor as they lie in memory, outermost first; None: as they are counted."""
    shape, strides = [_lengths(n) for n in traced.shape], [_lengths(n) for n in traced.stride()]
    order = sorted(range(len(shape)), key=lambda i: (-strides[i], i))
    step = 1
    for i in reversed(order):
        if shape[i] != 1 and strides[i] != step:
            return None  # not dense: a copy will do
        step *= shape[i]
    lasting = [i for i in order if shape[i] != 1]
    return order if lasting != sorted(lasting) else None


def _read_parts(node, made):
    """Without the results that nobody reads: what is alive when a recording ends is computed."""
    if not isinstance(made, tuple):
        return made
    read = {user.args[1] for user in node.users if user.target is operator.getitem}
    return tuple(part if i in read else None for i, part in enumerate(made))


def _ends(nodes, outputs):
    """For a node, those that nobody reads after it."""
    last = {n: user for user in nodes for n in user.all_input_nodes}
    ends, inner = {}, set(nodes) - set(outputs)
    for node, user in last.items():
        if node in inner:
            ends.setdefault(user, []).append(node)
    return ends


class _Part(torch.nn.Module):
    """Nodes that Kiln runs: recorded for each set of shapes, replayed afterwards."""

    def __init__(self, module, constants):
        super().__init__()
        self._eager = module
        graph = module.graph
        self._inputs = [n for n in graph.nodes if n.op == "placeholder"]
        self._fixed = {self._inputs[i] for i in constants}
        _fold_norms(graph, self._fixed)
        _fold(graph, self._fixed)
        self._nodes = [n for n in graph.nodes if n.op == "call_function"]
        outputs = next(n for n in graph.nodes if n.op == "output").args[0]
        self._outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        self._single = not isinstance(outputs, (tuple, list))
        self._ends = _ends(self._nodes, self._outputs)
        self._orders = [_order(n.meta["val"]) if isinstance(n.meta.get("val"), torch.Tensor) else None
                        for n in self._outputs]
        self._places = [i for i, n in enumerate(self._inputs) if n in self._fixed]
        self._state = None
        self._torch = {}  # constant node -> tensor
        self._arrays = {}  # constant node -> array
        self._run = None

    def _prepare(self, args, state):
        """Constants, computed by PyTorch and given to Kiln once, until one of them changes."""
        env = {n: args[i] for i, n in enumerate(self._inputs) if n in self._fixed}
        with torch.no_grad():
            for node in self._nodes:
                if node in self._fixed:
                    mapped = torch.fx.node.map_arg((node.args, node.kwargs), env.__getitem__)
                    env[node] = node.target(*mapped[0], **mapped[1])
        used = {n for user in self._nodes if user not in self._fixed for n in user.all_input_nodes} & self._fixed
        self._torch = {n: env[n] for n in self._outputs if n in self._fixed}
        self._arrays = {n: _constant(env[n]) for n in used}
        self._run = _capture(self._record)
        self._state = state

    def _record(self, arrays, numbers):
        env = dict(self._arrays)
        arrays = iter(arrays)
        numbers = iter(numbers)
        for node in self._inputs:
            if node not in self._fixed:
                traced = isinstance(node.meta["val"], torch.Tensor)
                env[node] = next(arrays) if traced else next(numbers)
        for node in self._nodes:
            if node not in self._fixed:
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), env.__getitem__)
                env[node] = _read_parts(node, _apply(node, args, kwargs))
                for dead in self._ends.get(node, ()):
                    del env[dead]
        made = []
        for node, order in zip(self._outputs, self._orders):
            value = None if node in self._fixed else env[node]
            made.append(value if order is None or value is None else ops.permute(value, order))
        return made

    def _given(self, made, node, order):
        """A result for PyTorch, in the memory where Kiln has it."""
        if node in self._fixed:
            return self._torch[node]
        if not isinstance(made, _kiln.Array):
            return made
        tensor = torch.utils.dlpack.from_dlpack(_kiln.Array.__dlpack__(made, copy=False))
        if order is None:
            return tensor
        return tensor.permute(*sorted(range(len(order)), key=order.__getitem__))

    def forward(self, *args):
        state = [_state(args[i]) for i in self._places]
        if state != self._state:
            self._prepare(args, state)
        arrays = [_array(a) for a, n in zip(args, self._inputs) if n not in self._fixed and isinstance(a, torch.Tensor)]
        numbers = tuple(a for a in args if not isinstance(a, torch.Tensor))
        made = self._run(arrays, numbers)
        given = [self._given(*each) for each in zip(made, self._outputs, self._orders)]
        return given[0] if self._single else tuple(given)


# ---- the backend ----

def _constants():
    """Which inputs of the graph that is being compiled are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    facts = context.fw_metadata if context is not None else None
    return set(facts.static_input_indices or ()) if facts is not None else set()


def _on_kiln(module, fixed):
    """What runs the graph, with the parts that Kiln serves on Kiln; the inputs numbered in `fixed` are constants."""
    _products.make_whole(module)
    split = CapabilityBasedPartitioner(module, _Support(), allows_single_node_partition=True).partition_and_fuse()
    places = {n: i for i, n in enumerate(n for n in split.graph.nodes if n.op == "placeholder")}
    for node in list(split.graph.nodes):
        if node.op == "call_module":
            constants = [i for i, given in enumerate(node.args)
                         if given.op == "get_attr" or places.get(given, -1) in fixed]
            setattr(split, node.target, _Part(getattr(split, node.target), constants))
    split.recompile()
    return make_boxed_func(split.forward)


def _inference(module, example_inputs):
    return _on_kiln(module, _constants())


def _training(module, example_inputs):
    """The way forward, or back: parameters change with every step, so nothing is constant."""
    return _on_kiln(module, set())


def backend(module, example_inputs, **options):
    """What torch.compile(.., backend="kiln") calls."""
    compiled = aot_autograd(fw_compiler=_training, bw_compiler=_training, inference_compiler=_inference,
                            decompositions=_decompositions())
    # Attention that records gradients is taken apart: the whole one's gradient reads what Kiln does not make.
    with sdpa_kernel(SDPBackend.MATH) if torch.is_grad_enabled() else contextlib.nullcontext():
        return compiled(module, example_inputs)
