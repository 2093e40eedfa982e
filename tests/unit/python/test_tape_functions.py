#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions in Python that tapes call: checkpoints and custom gradients."""
import kiln
import kiln_case
import numpy as np


def numbers(*values):
    return kiln.asarray(np.float32(values))


class TapeFunctions(kiln_case.Case):
    def setUp(self):
        random = np.random.default_rng(7)
        self.w, self.x = (random.standard_normal(shape).astype(np.float32) for shape in ((3, 2), (4, 3)))

    def test_checkpoints(self):
        """The same gradients, also of arrays from outside, with the part computed twice and nothing of it kept."""
        calls = []

        def layer(w, x):
            calls.append(1)
            return kiln.tanh(x @ w["a"]), x * 2

        def loss(w, x, part):
            y, twice = part(w, x)
            return kiln.sum(y ** 2) + kiln.sum(twice * w["b"])

        w, x = {"a": kiln.asarray(self.w), "b": numbers(1, 2, 3)}, kiln.asarray(self.x)
        value, wanted = kiln.value_and_grad(loss)(w, x, layer)
        again, got = kiln.value_and_grad(loss)(w, x, kiln.checkpoint(layer))
        self.assertEqual(len(calls), 3)
        self.same(again, np.asarray(value), 1e-5)
        outside = kiln.grad(lambda w: loss(w, x, lambda w, x: kiln.checkpoint(lambda x: layer(w, x))(x)))(w)
        compiled = kiln.compile(kiln.grad(lambda w, x: loss(w, x, kiln.checkpoint(layer))))
        for name in "ab":
            self.same(got[name], np.asarray(wanted[name]), 1e-5)
            self.same(outside[name], np.asarray(wanted[name]), 1e-5)
            self.same(compiled(w, x)[name], np.asarray(wanted[name]), 1e-5)
        self.assertEqual(len(kiln.checkpoint(layer)(w, x)), 2)  # without a tape it is the function

    def test_gradients_within_checkpoints(self):
        """A penalty on a gradient, within a part: the same as without, also of arrays from outside and compiled."""
        w, x = kiln.asarray(self.w), kiln.asarray(self.x)

        def steep(w, x):
            value, slope = kiln.value_and_grad(lambda x: kiln.sum(kiln.tanh(x @ w) ** 2))(x)
            return value + kiln.sum(slope ** 2) + kiln.sum(x)

        def loss(part):
            return lambda w, x: kiln.sum(part(w, kiln.sin(x)) * kiln.sum(w * w) + kiln.sum(x ** 3))

        value, wanted = kiln.value_and_grad(loss(steep), (0, 1))(w, x)
        outside = kiln.checkpoint(lambda x: steep(w, x))
        for both in (kiln.value_and_grad(loss(kiln.checkpoint(steep)), (0, 1)),
                     kiln.compile(kiln.value_and_grad(loss(kiln.checkpoint(steep)), (0, 1))),
                     kiln.value_and_grad(loss(kiln.checkpoint(kiln.checkpoint(steep))), (0, 1))):
            again, got = both(w, x)
            self.same(again, np.asarray(value), 1e-4)
            for i in range(2):
                self.same(got[i], np.asarray(wanted[i]), 1e-3)
        self.same(kiln.grad(lambda x: kiln.sum(outside(x)))(x), np.asarray(kiln.grad(lambda x: steep(w, x))(x)), 1e-3)
        self.same(kiln.grad(lambda x: kiln.sum(kiln.checkpoint(kiln.grad(lambda x: kiln.sum(x ** 3)))(x)))(
            numbers(1, 2)), np.float32([6, 12]), 1e-4)

    def test_checkpoints_within_checkpoints(self):
        """What lies inside is computed once for the loss, and once more for each part around it."""
        calls = []

        def inner(x):
            calls.append(1)
            for _ in range(9):
                x = kiln.tanh(x)
            return x

        def outer(part):
            return lambda x: part(part(x) * 2) + x

        x = numbers(0.5, -0.25)
        wanted = kiln.grad(lambda x: kiln.sum(outer(inner)(x)))(x)
        self.same(kiln.grad(lambda x: kiln.sum(kiln.checkpoint(outer(kiln.checkpoint(inner)))(x)))(x),
                  np.asarray(wanted), 1e-5)
        self.assertEqual(len(calls), 2 + 2 * 3)
        live = []

        def spied(x):
            kiln.device().sync()
            live.append(kiln.device().stats["tensors_live"])
            return inner(x)

        for part in (spied, kiln.checkpoint(spied)):  # of the first of two nothing stays while the second begins
            live.clear()
            kiln.grad(lambda x: kiln.sum(kiln.checkpoint(outer(part))(x)))(x)
            grown = live[3] - live[2]
            self.assertTrue(grown >= 9 if part is spied else grown < 9, (grown, part))

    def test_gradients_within_custom_gradients(self):
        """The function and its gradient may take gradients themselves, also of what the tape around them tracks."""
        w = numbers(3, 5)

        def result_of(x):
            slope = kiln.grad(lambda y: kiln.sum(y ** 3))

            def backward(gradient):
                return gradient * slope(x)
            return x * slope(x), backward

        custom = kiln.custom_gradient(result_of)
        x = numbers(1, 2)
        value, gradient = kiln.value_and_grad(lambda x: kiln.sum(custom(x * 1) * w))(x)
        self.same(value, np.float32(3 * 3 + 5 * 24), 1e-5)
        self.same(gradient, np.float32([3 * 3, 5 * 12]), 1e-5)
        self.same(kiln.grad(lambda x: kiln.sum(kiln.checkpoint(custom)(x * 1) * w))(x), np.float32([9, 60]), 1e-5)
        second = kiln.grad(lambda x: kiln.sum(kiln.grad(lambda y: kiln.sum(custom(y)))(x)))
        self.same(second(x), np.float32([6, 12]), 1e-5)

    def test_what_a_checkpoint_gets_and_gives(self):
        x = numbers(1, 2)
        both = kiln.checkpoint(lambda x: (x, x * 2))
        self.same(kiln.grad(lambda x: kiln.sum(both(x)[0] + both(x)[1] * x))(x), np.float32([5, 9]))  # x itself

        def assigns(x):
            x[0] = 7.0
            return x * x

        self.same(kiln.grad(lambda x: kiln.sum(kiln.checkpoint(assigns)(x)))(x), np.float32([0, 4]))
        self.same(x, np.float32([1, 2]))

        def stops(x):
            with kiln.no_grad():
                factor = kiln.sum(x)
            return x * factor

        self.same(kiln.grad(lambda x: kiln.sum(kiln.checkpoint(stops)(x)))(x), np.float32([3, 3]))
        second = kiln.grad(lambda x: kiln.sum(kiln.grad(lambda y: kiln.sum(kiln.checkpoint(lambda z: z ** 3)(y)))(x)))
        self.same(second(x), np.float32([6, 12]), 1e-5)

        def deep(x):
            for _ in range(9):
                x = kiln.tanh(x)
            return x

        def live():
            kiln.device().sync()
            return kiln.device().stats["tensors_live"]

        with kiln.tape() as tape:
            tape.track([x])
            counts = [live()]
            y = kiln.checkpoint(deep, tape=tape)(x)
            counts.append(live())
            z = deep(x)
            counts.append(live())
            self.assertLess(counts[1] - counts[0] + 6, counts[2] - counts[1])  # one of nine
            tape.backward(kiln.sum(y))
            found = np.asarray(tape.gradient(x))
            del z
            tape.backward(kiln.sum(deep(x)))
            self.same(tape.gradient(x), 2 * found, 1e-5)
            with self.assertRaisesRegex(RuntimeError, "calling this very function"):
                kiln.checkpoint(lambda x: tape.close(), tape=tape)(x)

    def test_custom_gradients(self):
        @kiln.custom_gradient
        def limited(x, low):
            return kiln.maximum(x, low), lambda gradient: (gradient * 10, None)

        x = numbers(1, -2)
        value, gradient = kiln.value_and_grad(lambda x: kiln.sum(limited(x, 0.0) * x))(x)
        self.same(value, np.float32(1))
        self.same(gradient, np.float32([11, -20]))
        self.same(limited(x, 0.0), np.float32([1, 0]))

        @kiln.custom_gradient
        def pair(trees, factor):
            made = {"sum": trees["a"] + trees["b"], "first": trees["a"]}
            return made, lambda g: ({"a": g["sum"] * 2 + g["first"] * 3, "b": g["sum"] * 5}, kiln.sum(g["sum"]))

        of = lambda name: kiln.grad(lambda t, f: kiln.sum(pair(t, f)[name]), (0, 1))  # noqa: E731
        trees, factor = {"a": numbers(1, 2), "b": numbers(3, 4)}, kiln.asarray(np.float32(1))
        for name, a, b, f in (("sum", 2, 5, 2), ("first", 3, 0, 0)):
            made, of_factor = of(name)(trees, factor)
            self.same(made["a"], np.float32([a, a]))
            self.same(made["b"], np.float32([b, b]))
            self.same(of_factor, np.float32(f))

        @kiln.custom_gradient
        def cube(x):
            return x ** 3, lambda gradient: gradient * 3 * x ** 2

        second = kiln.grad(lambda x: kiln.sum(kiln.grad(lambda y: kiln.sum(cube(y)))(x)))
        self.same(second(x), np.float32([6, -12]), 1e-5)
        inside = kiln.checkpoint(lambda x: limited(x, 0.0) * 2)
        self.same(kiln.grad(lambda x: kiln.sum(inside(x)))(x), np.float32([20, 20]))
        compiled = kiln.compile(kiln.grad(lambda x: kiln.sum(cube(x))))
        for _ in range(2):
            self.same(compiled(x), np.float32([3, 12]), 1e-5)

    def test_exceptions_of_functions_on_tapes(self):
        def fails_at(call):
            calls = []

            def function(x):
                calls.append(1)
                if len(calls) == call:
                    raise KeyError("mine")
                return x * 2
            return function

        def backward(gradient):
            raise KeyError("mine")

        x = numbers(1, 2)
        for part in (kiln.checkpoint(fails_at(1)), kiln.checkpoint(fails_at(2)),
                     kiln.custom_gradient(lambda x: (x * 2, backward))):
            with self.assertRaisesRegex(KeyError, "mine"):
                kiln.grad(lambda x: kiln.sum(part(x)))(x)
        other = iter([1, 2])
        for wrong, part in (("at most 6", kiln.checkpoint(lambda x: [x] * 7)),
                            ("the second time", kiln.checkpoint(lambda x: (x, next(other)))),
                            ("not like its input", kiln.custom_gradient(lambda x: (x * 1, kiln.sum))),
                            ("1 arrays for an argument of 0",
                             kiln.custom_gradient(lambda x, k: (x * 1, lambda g: (g, g)))),
                            ("a tuple of 2", kiln.custom_gradient(lambda x, k: (x * 1, lambda g: g)))):
            extra = (2,) if wrong.startswith(("1 arrays", "a tuple")) else ()
            with self.assertRaisesRegex(ValueError, wrong):
                kiln.grad(lambda x: kiln.sum(kiln.asarray(part(x, *extra)[0])))(x)
        self.same(kiln.grad(lambda x: kiln.sum(x * x))(x), np.float32([2, 4]))


if __name__ == "__main__":
    kiln_case.main()
