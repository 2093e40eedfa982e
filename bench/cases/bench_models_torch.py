# SPDX-License-Identifier: MIT OR Apache-2.0
"""An ONNX graph in PyTorch's eager mode: the operators that bench/models/write_models.py writes.

What does not depend on inputs, such as the arrangement of weights, is done before the first run.
"""
import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional as F

HOST = {"Reshape": 1, "Expand": 1, "Squeeze": 1, "Unsqueeze": 1, "Split": 1}  # inputs that are lengths or axes


def gates(weights, order):
    """ONNX's gates, one below the other, in PyTorch's order."""
    parts = weights.chunk(len(order))
    return torch.cat([parts[i] for i in order])


def recurrent(kind, order):
    def make(attributes, constants):
        w, r, b = (part[0] for part in constants[1:4])
        flat = [gates(w, order), gates(r, order), *(gates(part, order) for part in b.chunk(2))]
        starts = constants[5:]
        run = getattr(torch, kind)

        def call(x, *_):
            start = starts if kind == "lstm" else starts[0]
            y, *states = run(x, start, flat, True, 1, 0.0, False, False, False)
            return y.unsqueeze(1), *states
        return call
    return make


def conv(attributes, _):
    pads = attributes.get("pads", [0] * 4)
    settings = {"stride": attributes["strides"], "padding": pads[:2], "groups": attributes.get("group", 1)}
    return lambda x, w, b=None: F.conv2d(x, w, b, **settings)


def gather(attributes, constants):
    if constants[1] is not None and constants[1].dim() == 0:
        place = int(constants[1])
        return lambda x, _: x.select(attributes["axis"], place)
    return lambda x, at: F.embedding(at, x)


def dequantize(attributes, _):
    def call(x, scale, zero):
        if scale.dim() > 0:
            shape = [-1 if i == attributes["axis"] else 1 for i in range(x.dim())]
            scale, zero = scale.reshape(shape), zero.reshape(shape)
        return (x.to(scale.dtype) - zero.to(scale.dtype)) * scale
    return call


def gemm(attributes, _):
    turned = attributes.get("transB", 0)
    return lambda x, w, b: torch.addmm(b, x, w.t() if turned else w)


def always(function):
    return lambda attributes, _: function


MAKERS = {
    "Add": always(torch.add), "Sub": always(torch.sub), "Mul": always(torch.mul), "Div": always(torch.div),
    "Pow": always(torch.pow), "Erf": always(torch.erf), "Tanh": always(torch.tanh), "Relu": always(torch.relu),
    "Sigmoid": always(torch.sigmoid), "HardSwish": always(F.hardswish), "HardSigmoid": always(F.hardsigmoid),
    "MatMul": always(torch.matmul), "Where": always(torch.where), "Identity": always(lambda x: x),
    "Clip": always(torch.clamp), "Flatten": always(lambda x: x.flatten(1)), "Gemm": gemm, "Conv": conv,
    "GlobalAveragePool": always(lambda x: F.adaptive_avg_pool2d(x, 1)),
    "BatchNormalization": lambda a, _: lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, eps=a["epsilon"]),
    "LayerNormalization": lambda a, _: lambda x, w, b: F.layer_norm(x, w.shape, w, b, a["epsilon"]),
    "MaxPool": lambda a, _: lambda x: F.max_pool2d(x, a["kernel_shape"], a["strides"], a["pads"][:2]),
    "Softmax": lambda a, _: lambda x: torch.softmax(x, a["axis"]),
    "Concat": lambda a, _: lambda *parts: torch.cat(parts, a["axis"]),
    "Transpose": lambda a, _: lambda x: x.permute(a["perm"]),
    "Reshape": always(lambda x, shape: x.reshape(shape)), "Expand": always(lambda x, shape: x.expand(shape)),
    "Squeeze": always(lambda x, axes: x.squeeze(axes[0])), "Unsqueeze": always(lambda x, axes: x.unsqueeze(axes[0])),
    "Split": lambda a, _: lambda x, sizes: torch.split(x, sizes, a["axis"]),
    "Gather": gather,
    "QuantizeLinear": always(lambda x, scale, zero: torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8)),
    "DequantizeLinear": dequantize, "LSTM": recurrent("lstm", (0, 2, 3, 1)), "GRU": recurrent("gru", (1, 0, 2)),
}


class Graph:
    def __init__(self, path, dtype):
        graph = onnx.load(path).graph
        self.dtype = dtype
        self.outputs = [value.name for value in graph.output]
        self.constants = {weight.name: self.tensor(numpy_helper.to_array(weight)) for weight in graph.initializer}
        self.steps = []
        last = {name: node for node in graph.node for name in node.input}
        for node in graph.node:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            known = [self.constants.get(name) for name in node.input]
            if node.op_type == "Cast":
                call = (lambda x: x.to(self.dtype))
            else:
                call = MAKERS[node.op_type](attributes, known)
            inputs = [known[i].tolist() if HOST.get(node.op_type) == i else name
                      for i, name in enumerate(node.input)]
            dead = [name for name in dict.fromkeys(node.input) if last[name] is node and name not in self.constants]
            self.steps.append((call, [name for name in inputs if name != ""], list(node.output), dead))

    def tensor(self, array):
        made = torch.from_numpy(array.copy())
        return made.to(self.dtype) if made.is_floating_point() else made

    def compute(self, values):
        """The outputs, from the inputs and constants by name."""
        values = dict(values)
        for call, names, outputs, dead in self.steps:
            results = call(*(values[name] if isinstance(name, str) else name for name in names))
            values.update(zip(outputs, results if isinstance(results, tuple) else (results,)))
            for name in dead:
                values.pop(name, None)
        return [values[name] for name in self.outputs]

    def run(self, inputs):
        with torch.no_grad():
            found = self.compute({**self.constants, **{name: self.tensor(array) for name, array in inputs.items()}})
        return [value.numpy() for value in found]


class Module(torch.nn.Module):
    """A graph as torch.compile takes it: constants are buffers."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph
        self.names = {name: f"constant_{i}" for i, name in enumerate(graph.constants)}
        for name, buffer in self.names.items():
            self.register_buffer(buffer, graph.constants[name])

    def forward(self, inputs):
        constants = {name: getattr(self, buffer) for name, buffer in self.names.items()}
        return self.graph.compute({**constants, **inputs})
