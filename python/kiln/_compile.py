# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions whose operations are recorded once for each set of shapes and replayed afterwards."""
import functools
import math
import threading

from . import _draw, _kiln
from ._kiln import Array

_MOST = 64  # graphs that a function keeps, the last used ones


def compile(function=None, /):
    """A function that records its operations at the first call with given shapes and replays them afterwards.

    Arrays in arguments and results may stand in tuples, lists and dicts; all other arguments must be hashable, and
    each value of one is recorded for itself. Python code in the function runs while it is recorded only, so it
    cannot look at values: float(x) within it is an error. Arrays that it uses from outside are constants from then
    on. Works as a decorator too.
    """
    return compile if function is None else GraphFunction(function)


class _Leaf:
    """Stands for an array in a structure of arguments."""

    def __repr__(self):
        return "array"


_LEAF = _Leaf()


def _flatten(value, leaves):
    """A hashable description of `value`; its arrays go to `leaves`."""
    if isinstance(value, Array):
        leaves.append(value)
        return _LEAF
    if isinstance(value, (tuple, list)):
        return (type(value), *[_flatten(part, leaves) for part in value])
    if isinstance(value, dict):
        return (dict, *[(key, _flatten(part, leaves)) for key, part in value.items()])
    if isinstance(value, float):
        return (None, type(value), value, math.copysign(1.0, value))  # -0.0 is not 0.0
    return (None, type(value), value)


def _unflatten(tree, leaves):
    """The value of a description, with arrays taken from the iterator `leaves`."""
    if tree is _LEAF:
        return next(leaves)
    kind = tree[0]
    if kind is None:
        return tree[2]
    if kind is dict:
        return {key: _unflatten(part, leaves) for key, part in tree[1:]}
    parts = [_unflatten(part, leaves) for part in tree[1:]]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)  # a namedtuple


class _Entry:
    """A recorded call: its graph, and where each array of the result comes from."""

    def __init__(self, graph, inputs, tree, sources):
        self.graph, self.inputs, self.tree, self.sources = graph, inputs, tree, sources
        self.plain = tree is _LEAF and sources == [("made", 0)]

    def run(self, leaves):
        made = self.graph.run([leaves[i] for i in self.inputs]) if self.graph is not None else []
        if self.plain:
            return made[0]
        values = [made[what] if kind == "made" else leaves[what] if kind == "given" else what
                  for kind, what in self.sources]
        return _unflatten(self.tree, iter(values))


class GraphFunction:
    """What kiln.compile makes of a function."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self._function = function
        self._entries = {}
        self._lock = threading.RLock()

    def __get__(self, owner, kind=None):
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, /, *args, **keywords):
        if _kiln._capturing() or _kiln._taping():  # part of a larger graph; what runs of graphs give is not tracked
            return self._function(*args, **keywords)
        leaves = []
        tree = _flatten((args, keywords) if keywords else args, leaves)
        key = (tree, _kiln._signature(leaves))
        with self._lock:  # one thread at a time uses a graph
            try:
                entry = self._entries.pop(key, None)
                if entry is None:
                    hash(key)  # which an empty dict does not ask for
            except TypeError as error:
                error.add_note("Arguments of a compiled function are arrays of Kiln (kiln.asarray makes them), tuples, "
                               "lists and dicts of them, or hashable.")
                raise
            if entry is None:
                entry = self._record(args, keywords, leaves)
            self._entries[key] = entry  # the last is the newest
            if len(self._entries) > _MOST:
                del self._entries[next(iter(self._entries))]
            return entry.run(leaves)

    def _record(self, args, keywords, leaves):
        places = {}  # tensor -> the first leaf that is it
        for i, leaf in enumerate(leaves):
            places.setdefault(leaf._id, i)
        inputs = list(places.values())
        device = leaves[0].device if leaves else _kiln.device()
        stand_ins = []
        tree = _flatten((args, keywords), stand_ins)
        # Handles of the function's own: what it assigns to elements stays inside.
        inner_args, inner_keywords = _unflatten(tree, iter([leaf.to_device(leaf.device) for leaf in leaves]))
        capture = _kiln._graph_begin(device, [leaves[i] for i in inputs])
        graph = None
        try:
            result = self._function(*inner_args, **inner_keywords)
            outputs = []
            result_tree = _flatten(result, outputs)
            made, sources = [], []
            for output in outputs:
                if output._capture == capture:
                    sources.append(("made", len(made)))
                    made.append(output)
                elif output._id in places:
                    sources.append(("given", places[output._id]))
                else:
                    sources.append(("constant", output))
            if made:
                graph = _kiln._graph_end(device, made)
        except _kiln.FailedPreconditionError as error:
            error.add_note("A function given to kiln.compile is recorded, not run: it cannot look at values.")
            raise
        finally:
            if graph is None:
                _kiln._graph_cancel(device)
        return _Entry(graph, inputs, result_tree, sources)

    def explain(self, *, source=False):
        """What was decided for each recorded call, as a text that a notebook draws; with the kernels' source."""
        with self._lock:
            return _draw.Explanation("\n".join(entry.graph.explain(source) for entry in self._entries.values()
                                               if entry.graph is not None))

    @property
    def graphs(self):
        """Facts about each recorded call: operations, blocks, steps."""
        with self._lock:
            return [entry.graph.info for entry in self._entries.values() if entry.graph is not None]

    def __repr__(self):
        return f"<kiln.GraphFunction of {getattr(self, '__qualname__', self._function)}, {len(self._entries)} recorded>"
