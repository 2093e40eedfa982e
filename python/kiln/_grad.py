# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gradients of functions, on the tapes of the extension."""
import functools
import threading

from . import _kiln
from ._compile import _flatten, _unflatten
from ._kiln import Array, Tape, detach

__all__ = ["Tape", "detach", "grad", "no_grad", "tape", "value_and_grad"]

_here = threading.local()  # .tapes: those of calls of value_and_grad that go on, the innermost last


def tape(device=None, /):
    """A tape on a device, for this thread: `with kiln.tape() as t: t.track([w]); ...; t.backward(loss)`.

    `kiln.grad` and `kiln.value_and_grad` make and end one by themselves.
    """
    return _kiln._tape(device)


class no_grad:
    """Within `with kiln.no_grad():` nothing is tracked by the calls of grad and value_and_grad around it."""

    def __enter__(self):
        self._paused, _here.tapes = _tapes(), []
        for one in self._paused:
            one._pause(True)
        return self

    def __exit__(self, *_):
        _here.tapes = self._paused
        for one in self._paused:
            one._pause(False)


def _tapes():
    if not hasattr(_here, "tapes"):
        _here.tapes = []
    return _here.tapes


def value_and_grad(function, /, argnums=0, *, has_aux=False):
    """A function that gives the value of `function` and its gradient for the arguments numbered in `argnums`.

    `function` gives an array of one element, or with `has_aux` a tuple of it and anything else. An argument may be an
    array or tuples, lists and dicts of arrays, all of them floats; its gradient has the same form. With a tuple as
    `argnums` the gradients are a tuple. May be used inside of kiln.compile, and inside of itself for gradients of
    gradients.
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
    """The result, and a gradient for each of `leaves`. The outermost call has the tape, inner ones use it."""
    tapes = _tapes()
    if tapes:
        tapes[-1].track([leaf for leaf in leaves if not tapes[-1].tracks(leaf)])
        result = function(*args, **keywords)
        return result, _gradients(tapes[-1], _loss(result, has_aux), leaves)
    with _kiln._tape(leaves[0].device) as own:
        tapes.append(own)
        try:
            own.track(leaves)
            result = function(*args, **keywords)
            loss = _loss(result, has_aux)
            if own.tracks(loss):
                own.backward(loss)
        finally:
            tapes.pop()
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
