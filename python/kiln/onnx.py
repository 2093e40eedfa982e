# SPDX-License-Identifier: MIT OR Apache-2.0
"""ONNX models, in the shape of onnxruntime's interface:

    session = kiln.onnx.load("model.onnx")
    outputs = session.run({"x": x})            # or session.run(None, {"x": x})
"""
import pathlib
import threading

from . import _kiln, ops
from ._creation import asarray

_MOST = 16  # graphs that a session keeps, the last used ones

_TYPES = {"bool": "bool", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "int8": "int8",
          "int16": "int16", "int32": "int32", "int64": "int64", "float16": "float16", "bfloat16": "bfloat16",
          "float32": "float", "float64": "double", "float8_e4m3fn": "float8e4m3fn",
          "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2": "float8e5m2", "float8_e5m2fnuz": "float8e5m2fnuz",
          "float8_e8m0fnu": "float8e8m0", "float4_e2m1fn": "float4e2m1"}


class NodeArg:
    """An input or an output of a model: `name`, `shape` (names and None for open lengths), `type`, `dtype`."""

    def __init__(self, name, type_name, shape, dtype, is_tensor):
        self.name, self.shape, self.dtype = name, shape, dtype
        element = _TYPES.get(dtype.name, type_name) if dtype is not None else type_name
        self.type = f"tensor({element})" if is_tensor else type_name

    def __repr__(self):
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


def load(path, *, device=None, dtype=None):
    """A model file, ready to run on a device.

    dtype, float16 or bfloat16, is what a model of float32 keeps its weights and intermediates in; inputs and outputs
    have the model's types. None: as the option model-dtype says.
    """
    return InferenceSession(path, device=device, dtype=dtype)


def provider_library():
    """The path of libkiln_ort.so, by which ONNX Runtime runs models on Kiln (docs/onnxruntime.md):

        onnxruntime.register_execution_provider_library("Kiln", kiln.onnx.provider_library())
    """
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here / "lib", here.parent.parent / "lib"):  # in a wheel, and in a build folder
        if (folder / "libkiln_ort.so").exists():
            return str(folder / "libkiln_ort.so")
    raise FileNotFoundError("this build of Kiln has no libkiln_ort.so")


class InferenceSession:
    """A model on a device. A run with shapes that were seen before replays what was recorded for them."""

    def __init__(self, path, *, device=None, dtype=None):
        if not hasattr(_kiln, "_load_model"):
            raise NotImplementedError("this build of Kiln has no ONNX importer")
        self._model = _kiln._load_model(path, device, dtype)
        self._inputs = [NodeArg(*row) for row in self._model.inputs]
        self._outputs = [NodeArg(*row) for row in self._model.outputs]
        self._by_name = {arg.name: arg for arg in self._inputs}
        self._graphs = {}  # signature -> graph, or None where runs cannot be captured
        self._lock = threading.RLock()

    @property
    def device(self):
        """The device that the model runs on."""
        return self._model.device

    def get_inputs(self):
        """What a run needs, in the model's order."""
        return list(self._inputs)

    def get_outputs(self):
        """What a run gives, in the model's order."""
        return list(self._outputs)

    def run(self, output_names, input_feed=None, run_options=None):
        """The outputs named, all for None, as a list of arrays, which are computed when somebody looks.

        run({"x": x}) is run(None, {"x": x}). Inputs are arrays of Kiln, of NumPy, or nested lists.
        """
        if input_feed is None:
            output_names, input_feed = None, output_names
        if run_options is not None:
            raise NotImplementedError("there are no run options")
        if isinstance(output_names, str) or not hasattr(input_feed, "keys"):
            raise TypeError("run takes a list of output names or None, and a dict of inputs by name")
        wanted = self._wanted(output_names)
        names, arrays = self._arrays(input_feed)
        with self._lock:
            made = self._run(names, arrays)
        return [made[i] for i in wanted]

    def _wanted(self, names):
        order = [arg.name for arg in self._outputs]
        for name in names or ():
            if name not in order:
                raise ValueError(f"the model has no output {name!r}; its outputs are {', '.join(order)}")
        return [order.index(name) for name in names] if names else range(len(order))

    def _arrays(self, feed):
        for name in feed:
            if name not in self._by_name:
                raise ValueError(f"the model has no input {name!r}; its inputs are {', '.join(self._by_name)}")
        missing = [arg for arg in self._inputs if arg.name not in feed]
        if missing:
            raise ValueError("the model needs " + ", ".join(f"{a.name!r}, {a.type} {a.shape}" for a in missing))
        # Kiln's own order, so that one graph serves every order of the dict.
        names = list(self._by_name)
        arrays = []
        for name in names:
            value, arg = feed[name], self._by_name[name]
            is_python = isinstance(value, (bool, int, float, list, tuple))
            arrays.append(asarray(value, device=self.device, dtype=arg.dtype if is_python else None))
        return names, arrays

    def _run(self, names, arrays):
        if _kiln._capturing():  # within kiln.compile
            return self._model.record(names, arrays, None)
        unique = len({array._id for array in arrays}) == len(arrays)
        key = _kiln._signature(arrays)
        if key in self._graphs or not unique:
            graph = self._graphs.pop(key, None) if unique else None
        else:
            graph = self._capture(names, arrays)
        if unique:
            self._graphs[key] = graph
        if len(self._graphs) > _MOST:
            del self._graphs[next(iter(self._graphs))]
        if graph is not None:
            return graph.run(arrays)
        return self._model.record(names, arrays, [memoryview(array) for array in arrays])

    def _capture(self, names, arrays):
        """A graph, or None where every run has to record: it looks at values, or gives an input back."""
        # The first time with views, which have no values yet: looking at one is refused. A graph of the arrays
        # themselves would keep what it saw.
        for views in (True, False):
            _kiln._graph_begin(self.device, arrays)
            graph = None
            try:
                made = self._model.record(names, [ops.reshape(a, a.shape) if views else a for a in arrays], None)
                graph = None if views else _kiln._graph_end(self.device, made)
            except (_kiln.FailedPreconditionError, _kiln.InvalidArgumentError):
                return None
            finally:
                if graph is None:
                    _kiln._graph_cancel(self.device)
        return graph

    def explain(self, *, source=False):
        """What was decided for each recorded run, as a text; with the kernels' source."""
        with self._lock:
            return "\n".join(graph.explain(source) for graph in self._graphs.values() if graph is not None)

    def __repr__(self):
        return (f"<kiln.onnx.InferenceSession on {self.device}: "
                f"{', '.join(a.name for a in self._inputs)} -> {', '.join(a.name for a in self._outputs)}>")
