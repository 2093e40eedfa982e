# SPDX-License-Identifier: MIT OR Apache-2.0
"""Named parameters and optimisers: `params = kiln.train.Params()`, `kiln.train.Optimiser(params, "adamw", rate=1e-3)`.

A training step is `loss, gradients = kiln.value_and_grad(model)(params.tree(), batch)`, then
`optimiser.step(gradients)`.
"""
import contextlib
import functools
import threading
from collections.abc import Mapping

from . import _kiln
from ._creation import asarray

__all__ = ["Optimiser", "Params", "ShardedOptimiser"]

# By the numbers of kiln_init, kiln_optimiser_rule and kiln_schedule_kind.
_INITS = ("constant", "uniform", "normal", "truncated_normal", "xavier_uniform", "xavier_normal", "kaiming_uniform",
          "kaiming_normal", "orthogonal")
_RULES = ("sgd", "adam", "adamw", "lion")
_SCHEDULES = ("constant", "linear", "cosine", "step", "one_cycle")


def _alone(method):
    """One thread at a time is in a set of parameters and its optimisers."""
    @functools.wraps(method)
    def call(self, *args, **keywords):
        with self._lock:
            return method(self, *args, **keywords)
    return call


def _number(names, name, what):
    if name not in names:
        raise _kiln.InvalidArgumentError(f"there is no {what} {name!r}; known are {', '.join(names)}")
    return names.index(name)


def _plan(rule, schedule, options):
    """What the extension takes: options of the optimiser, and of its schedule."""
    plan = {}
    if schedule is not None:
        plan = {name: options.pop(name) for name in ("warmup", "steps", "period", "factor", "least", "rise")
                if name in options}
        plan["kind"] = _number(_SCHEDULES, schedule, "schedule")
    return {**options, "rule": _number(_RULES, rule, "rule")}, plan


def _in_order(names, gradients):
    """The gradients of a dict by the order of the parameters."""
    unknown = [name for name in gradients if name not in names]
    if unknown:
        raise _kiln.InvalidArgumentError(f"the optimiser has no parameter {', '.join(map(repr, unknown))}")
    return [gradients.get(name) for name in names]


class Params(Mapping):
    """Named parameters on one device, in the order in which they were added.

    The first values of a parameter depend on `seed`, its name and its shape alone.
    """

    def __init__(self, *, seed=0, device=None):
        self._lock = threading.RLock()
        self._set = _kiln._params(device, seed)
        self._names = []

    @_alone
    def add(self, name, shape, *, init="constant", dtype="float32", **options):
        """Adds a parameter of initial values, zeros if nothing is said, and gives it.

        `init` is constant, uniform, normal, truncated_normal, xavier_uniform, xavier_normal, kaiming_uniform,
        kaiming_normal or orthogonal; options are `center`, `spread`, `gain`, `fan_in`, `fan_out`.
        """
        options["kind"] = _number(_INITS, init, "init")
        self._set.add(name, shape, dtype, options)
        return self._added()[name]

    @_alone
    def add_file(self, path):
        """Adds all tensors of a safetensors or .npz file."""
        self._set.add_file(path)
        self._added()

    def _added(self):
        self._names = self._set.names()
        return self

    @_alone
    def __setitem__(self, name, value):
        """Replaces the value of a parameter by one of its shape and dtype, or adds one."""
        array = asarray(value)
        if name in self._names:
            self._set.set_array(self._names.index(name), array)
        else:
            self._set.add_array(name, array)
            self._added()

    def __getitem__(self, name):
        return self.tree()[name]

    def __iter__(self):
        return iter(list(self._names))

    def __len__(self):
        return len(self._names)

    @_alone
    def tree(self):
        """The values as a dict, for value_and_grad. An optimiser's step puts others in their places: ask again."""
        return dict(zip(self._names, self._set.arrays()))

    @_alone
    def save(self, path):
        """Writes all parameters: NumPy's format when the name ends in .npz, else safetensors."""
        self._set.save(path)

    @_alone
    def load(self, path):
        """Gives every parameter the value that the file has for its name."""
        self._set.load(path)

    def __repr__(self):
        return f"kiln.train.Params({', '.join(f'{name}: {list(array.shape)}' for name, array in self.tree().items())})"


class _Steps:
    """What every optimiser tells of itself."""

    @property
    def steps(self):
        """How many steps were made."""
        return self._optimiser.steps

    @property
    def rate(self):
        """The rate of the next step."""
        return self._optimiser.rate


class Optimiser(_Steps):
    """From gradients to the next values of the parameters that the set has now.

    `rule` is sgd, adam, adamw or lion. Options are those of kiln_optimiser.h: `rate`, `momentum`, `nesterov`, `beta1`,
    `beta2`, `epsilon`, `decay`, `clip`, `captured` (the step becomes a graph that runs in place). `schedule` is
    constant, linear, cosine, step or one_cycle, with `warmup`, `steps`, `period`, `factor`, `least`, `rise`.
    """

    def __init__(self, params, rule="adamw", *, schedule=None, **options):
        options, plan = _plan(rule, schedule, options)
        self._params, self._lock = params, params._lock
        with self._lock:
            self._names = list(params)
            self._optimiser = _kiln._optimiser(params._set, options, plan)

    @_alone
    def step(self, gradients):
        """Makes a step. `gradients` is a dict by name; a parameter that is not in it stays as it is."""
        self._optimiser.step(_in_order(self._names, gradients))

    @_alone
    def save(self, path):
        """Writes parameters, state and the number of steps; what loads it goes on bit for bit."""
        self._optimiser.save(path)

    @_alone
    def load(self, path):
        """Takes all that save wrote."""
        self._optimiser.load(path)


class ShardedOptimiser(_Steps):
    """As Optimiser, for the members of a group, of which each keeps its part of the state alone.

    `params` are a set for each of `group.devices`, with the same parameters, which begin with the same values. The
    gradients that `step` gets are each member's own: it takes their mean. Parameters travel together
    until they have `bucket_bytes`; if nothing is said, a sixteenth of all, from 4 to 64 MiB.
    """

    def __init__(self, group, params, rule="adamw", *, schedule=None, bucket_bytes=0, **options):
        options, plan = _plan(rule, schedule, options)
        self._params = tuple(params)
        with self._all():
            self._names = list(self._params[0]) if self._params else []
            sets = tuple(one._set for one in self._params)
            self._optimiser = _kiln._sharded(group._group, sets, options, plan, bucket_bytes)

    @contextlib.contextmanager
    def _all(self):
        """One thread at a time is in the sets."""
        with contextlib.ExitStack() as stack:
            for one in sorted(self._params, key=id):
                stack.enter_context(one._lock)
            yield

    def step(self, gradients):
        """Makes a step on all devices. `gradients` is a dict by name for each, in which no parameter is missing."""
        gradients = list(gradients)
        if len(gradients) != len(self._params):
            raise _kiln.InvalidArgumentError(f"{len(gradients)} dicts of gradients for {len(self._params)} devices")
        with self._all():
            self._optimiser.step([one for own in gradients for one in _in_order(self._names, own)])

    def save(self, member, path):
        """Writes the part of the state that a member of this process keeps, and the number of steps."""
        with self._all():
            self._optimiser.save(member, path)

    def load(self, member, path):
        """Takes what save wrote for the member, in a group of as many; the parameters have a file of their own."""
        with self._all():
            self._optimiser.load(member, path)
