# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gradients of functions, on the tapes of the extension."""
import contextlib
import functools
import threading

from . import _creation, _kiln
from ._compile import _flatten, _unflatten
from ._kiln import Array, Tape, detach

__all__ = ["Tape", "checkpoint", "custom_gradient", "detach", "grad", "no_grad", "tape", "value_and_grad"]


class _Here(threading.local):
    tapes = ()  # of calls of value_and_grad that go on, the innermost last
    parts = ()  # tapes of parts that are computed right now
    again = None  # the tape of a part that is computed again, and so tracked


_here = _Here()


@contextlib.contextmanager
def _within(tapes, parts, again):
    were = _here.tapes, _here.parts, _here.again
    _here.tapes, _here.parts, _here.again = tapes, parts, again
    try:
        yield
    finally:
        _here.tapes, _here.parts, _here.again = were


def _watching(tape=None):
    """The tape that keeps what is computed now; None: there is none, or it will come back to the part that this is."""
    own = tape or (_here.tapes[-1] if _here.tapes else _here.again)
    return None if own in _here.parts and own is not _here.again else own


def tape(device=None, /):
    """A tape on a device, for this thread: `with kiln.tape() as t: t.track([w]); ...; t.backward(loss)`.

    `kiln.grad` and `kiln.value_and_grad` make and end one by themselves.
    """
    return _kiln._tape(device)


class no_grad:
    """Within `with kiln.no_grad():` nothing is tracked by the calls of grad and value_and_grad around it."""

    def __enter__(self):
        self._paused = (*_here.tapes, *_here.parts)
        self._state = _within((), (), None)
        self._state.__enter__()
        for one in self._paused:
            one._pause(True)
        return self

    def __exit__(self, *_):
        self._state.__exit__(None, None, None)
        for one in self._paused:
            one._pause(False)


def value_and_grad(function, /, argnums=0, *, has_aux=False):
    """A function that gives the value of `function` and its gradient for the arguments numbered in `argnums`.

    `function` gives an array of one element, or with `has_aux` a tuple of it and anything else. An argument may be an
    array or tuples, lists and dicts of arrays, all of them floats; its gradient has the same form. With a tuple as
    `argnums` the gradients are a tuple. May be used inside of kiln.compile, of kiln.checkpoint, and of itself for
    gradients of gradients.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(function)
    def both(*args, **keywords):
        trees, leaves, inner = [], [], list(args)
        for number in numbers:
            mine = []
            trees.append(_flatten(args[number], mine))
            # Tensors of its own: a leaf is this argument, not whatever else the caller does with the array.
            aliases = [_kiln.operators["reshape"](leaf, leaf.shape) for leaf in mine]
            inner[number] = _unflatten(trees[-1], iter(aliases))
            leaves += aliases
        if not leaves:
            raise _kiln.InvalidArgumentError(f"no array among the arguments {numbers}, which are to have gradients")
        result, gradients = _run(function, inner, keywords, leaves, has_aux)
        found = iter(gradients)
        made = tuple(_unflatten(tree, found) for tree in trees)
        return result, made[0] if isinstance(argnums, int) else made

    return both


def _run(function, args, keywords, leaves, has_aux):
    """The result, and a gradient for each of `leaves`. The outermost call has the tape, inner ones use it. So does one
    within a part that is computed again; the first time the part has a tape for itself, of which nothing stays."""
    own = _watching()
    if own is not None:
        with _within((own,), _here.parts, _here.again):
            own.track([leaf for leaf in leaves if not own.tracks(leaf)])
            result = function(*args, **keywords)
            return result, _gradients(own, _loss(result, has_aux), leaves)
    with _kiln._tape(leaves[0].device) as own:
        with _within((own,), (), None):
            own.track(leaves)
            result = function(*args, **keywords)
            loss = _loss(result, has_aux)
        if own.tracks(loss):
            with _within((), (), None):  # it is paused: functions that it calls take gradients by tapes of their own
                own.backward(loss)
        return result, [own.gradient(leaf) for leaf in leaves]


def _gradients(own, loss, leaves):
    """Gradients that are tracked, where there are any; of a loss that depends on nothing, zeros."""
    if not own.tracks(loss):
        return [leaf * 0 for leaf in leaves]
    return own.gradients(loss, leaves)


def _loss(result, has_aux):
    loss = result[0] if has_aux else result
    if not isinstance(loss, Array) or loss.size != 1:
        raise _kiln.InvalidArgumentError(
            "a function that is to have gradients gives an array of one element"
            + (" and something else" if has_aux else "") + f", not {getattr(loss, 'shape', type(loss).__name__)}")
    return loss


def grad(function, /, argnums=0, *, has_aux=False):
    """As value_and_grad, without the value: the gradient, or with `has_aux` a tuple of it and the rest of the result."""
    both = value_and_grad(function, argnums, has_aux=has_aux)

    @functools.wraps(function)
    def gradient(*args, **keywords):
        result, made = both(*args, **keywords)
        return (made, result[1]) if has_aux else made

    return gradient


def _alias(array):
    return _kiln.operators["reshape"](array, array.shape)


def checkpoint(function, /, *, tape=None):
    """The function, of whose inside a tape keeps nothing: on the way back it is computed once more.

    It must do the same both times. Arrays in its arguments and its results may stand in tuples, lists and dicts; there
    are at most 6 in the results. Arrays that it uses from outside have gradients too. Checkpoints, custom gradients and
    gradients may stand in it. `tape` is for those who made a tape themselves.
    """
    @functools.wraps(function)
    def part(*args, **keywords):
        own = _watching(tape)
        return function(*args, **keywords) if own is None else _compute_part(own, function, args, keywords)

    return part


def _compute_part(own, function, args, keywords):
    leaves, forms, tracked = [], [], set()
    tree = _flatten((args, keywords), leaves)

    def run(arrays):
        inner, inner_keywords = _unflatten(tree, iter(arrays))
        outputs = []
        with _within((), (*_here.parts, own), own if forms else None):
            forms.append(_flatten(function(*inner, **inner_keywords), outputs))
        if forms[-1] != forms[0]:
            raise _kiln.InvalidArgumentError("a checkpoint's function gave something else the second time")
        if len(forms) == 1:  # nothing that was made meanwhile is tracked
            tracked.update(i for i, output in enumerate(outputs) if own.tracks(output))
        return [_alias(output) if i in tracked else output for i, output in enumerate(outputs)]

    made = own._checkpoint(run, leaves)
    return _unflatten(forms[0], iter(made))


def custom_gradient(function, /, *, tape=None):
    """The first result of a function whose second one says what its gradient is.

    `function` gives a result and a function from the result's gradient to the gradients of the arguments: one for one
    argument, a tuple for several, None for 0. They have the forms of result and arguments, with at most 64 arrays in
    the arguments and 6 in the result. Nothing that `function` computes is tracked. Arguments by name have no gradient.
    """
    @functools.wraps(function)
    def result_of(*args, **keywords):
        own = _watching(tape)
        return function(*args, **keywords)[0] if own is None else _compute_custom(own, function, args, keywords)

    return result_of


def _compute_custom(own, function, args, keywords):
    counts, leaves, outputs = [], [], []
    for arg in args:
        before = len(leaves)
        _flatten(arg, leaves)
        counts.append(len(leaves) - before)
    own._pause(True)
    try:
        with no_grad():
            result, backward = function(*args, **keywords)
            form = _flatten(result, outputs)
            outputs = [_alias(output) if own.tracks(output) else output for output in outputs]
    finally:
        own._pause(False)
    facts = [(output.shape, output.dtype, output.device) for output in outputs]

    def back(gradients):
        whole = [_creation.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient
                 for gradient, (shape, dtype, device) in zip(gradients, facts)]
        given = backward(_unflatten(form, iter(whole)))
        given = (given,) if len(counts) == 1 else given
        if not isinstance(given, (tuple, list)) or len(given) != len(counts):
            raise _kiln.InvalidArgumentError(f"a custom gradient is to give a tuple of {len(counts)} gradients")
        return [leaf for gradient, count in zip(given, counts) for leaf in _leaves_of(gradient, count)]

    own._custom(leaves, outputs, back)
    return _unflatten(form, iter(outputs))


def _leaves_of(gradient, count):
    if gradient is None:
        return [None] * count
    leaves = []
    _flatten(gradient, leaves)
    if len(leaves) != count:
        raise _kiln.InvalidArgumentError(f"a custom gradient has {len(leaves)} arrays for an argument of {count}")
    return leaves
