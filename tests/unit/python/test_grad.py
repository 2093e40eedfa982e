#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gradients of functions, parameters and optimisers, against formulas and differences in NumPy."""
import gc
import json
import os
import tempfile
import threading

import kiln
import kiln_case
import numpy as np


def numbers(*values):
    return kiln.asarray(np.float32(values))


def model(w, x):
    return kiln.sum(kiln.tanh(x @ w) ** 2)


class Gradients(kiln_case.Case):
    def setUp(self):
        random = np.random.default_rng(7)
        self.w, self.x = (random.standard_normal(shape).astype(np.float32) for shape in ((3, 2), (4, 3)))

    def wanted(self):
        made = np.tanh(self.x @ self.w)
        inner = 2 * made * (1 - made * made)
        return float((made * made).sum()), self.x.T @ inner, inner @ self.w.T

    def test_value_and_gradients(self):
        value, of_w, of_x = self.wanted()
        w, x = kiln.asarray(self.w), kiln.asarray(self.x)
        got, (one, other) = kiln.value_and_grad(model, (0, 1))(w, x)
        self.assertAlmostEqual(float(got), value, places=4)
        self.same(one, of_w, 1e-5)
        self.same(other, of_x, 1e-5)
        self.same(kiln.grad(model, argnums=1)(w, x), of_x, 1e-5)
        gradient, extra = kiln.grad(lambda w: (model(w, x), "more"), has_aux=True)(w)
        self.same(gradient, of_w, 1e-5)
        self.assertEqual(extra, "more")

    def test_trees(self):
        loss = lambda p, k: kiln.sum(p["a"] * p["b"][0]) * k + kiln.sum(p["b"][1])  # noqa: E731
        made = kiln.grad(loss)({"a": numbers(1, 2), "b": [numbers(3, 4), numbers(5)]}, 2.0)
        self.same(made["a"], np.float32([6, 8]))
        self.same(made["b"][0], np.float32([2, 4]))
        self.same(made["b"][1], np.float32([1]))

    def test_one_array_twice_and_outside(self):
        x = numbers(2, 3)
        one, other = kiln.grad(lambda a, b: kiln.sum(a * a * b), (0, 1))(x, x)
        self.same(one, np.float32([8, 18]))
        self.same(other, np.float32([4, 9]))
        self.same(kiln.grad(lambda a: kiln.sum(a * x))(x), np.float32([2, 3]))  # not through x from outside

    def test_of_gradients(self):
        second = kiln.grad(lambda x: kiln.sum(kiln.grad(lambda y: kiln.sum(y ** 3))(x) ** 2))
        self.same(second(numbers(1, 2)), np.float32([36, 288]), 1e-5)
        nothing = kiln.grad(lambda x: kiln.sum(kiln.grad(lambda y: kiln.sum(x * x))(x) + x))
        self.same(nothing(numbers(1, 2)), np.float32([1, 1]))

    def test_many_slices_of_one_array(self):
        """Overlapping ones and such that leave places out; one tensor of zeros serves all of them."""
        random = np.random.default_rng(3)
        values = random.standard_normal((40, 3)).astype(np.float32)
        weights = random.random((76, 3), np.float32)
        array, heavy = kiln.asarray(values), kiln.asarray(weights)

        def of_slices(x):
            parts = kiln.concat([x[i:i + 2] for i in range(38)])
            return kiln.sum(parts * parts * heavy) + kiln.sum(x[1:31:3])

        wanted = np.zeros_like(values)
        for i in range(38):
            wanted[i:i + 2] += 2 * weights[2 * i:2 * i + 2] * values[i:i + 2]
        wanted[1:31:3] += 1
        with kiln.trace() as trace:
            got = kiln.grad(of_slices)(array)
            self.same(got, wanted, 1e-5)
        zeros = sum(event.get("cat") == "record" and event["name"] == "full"
                    for event in json.loads(trace.text)["traceEvents"])
        self.assertLess(zeros, 10)
        second = kiln.grad(lambda x: kiln.sum(kiln.grad(of_slices)(x) * x))(array)
        wanted[1:31:3] -= 1  # d/dx of (a * x + 1) * x, with a for each element
        wanted *= 2
        wanted[1:31:3] += 1
        self.same(second, wanted, 1e-5)

    def test_where_gradients_stop(self):
        x = numbers(2, 3)
        self.same(kiln.grad(lambda x: kiln.sum(kiln.detach(x) * x))(x), np.float32([2, 3]))

        def inside(x):
            with kiln.no_grad():
                factor = x * 2
                self.same(kiln.grad(lambda y: kiln.sum(y * y))(x), np.float32([4, 6]))
            return kiln.sum(factor * x)

        self.same(kiln.grad(inside)(x), np.float32([4, 6]))
        self.same(kiln.grad(lambda x: kiln.sum(kiln.ones(2)))(x), np.float32([0, 0]))

    def test_in_compiled_functions(self):
        value, of_w, _ = self.wanted()
        step = kiln.compile(lambda w, x: kiln.value_and_grad(model)(w, x))
        w, x = kiln.asarray(self.w), kiln.asarray(self.x)
        for _ in range(3):
            got, gradient = step(w, x)
        self.assertAlmostEqual(float(got), value, places=4)
        self.same(gradient, of_w, 1e-5)
        self.assertEqual(len(step.graphs), 1)
        compiled = kiln.compile(model)
        float(compiled(w, x))  # recorded before: replayed, its result would not be tracked
        self.same(kiln.grad(compiled)(w, x), of_w, 1e-5)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "one element, not \\(2,\\)"):
            kiln.grad(lambda x: x)(numbers(1, 2))
        with self.assertRaisesRegex(ValueError, "only floats have"):
            kiln.grad(lambda x: kiln.sum(x))(kiln.asarray([1, 2]))
        with self.assertRaisesRegex(ValueError, "no array among"):
            kiln.grad(lambda x: x)(3)
        with self.assertRaisesRegex(ZeroDivisionError, "here"):
            kiln.grad(self.fails)(numbers(1))
        self.same(kiln.grad(lambda x: kiln.sum(x * x))(numbers(3)), np.float32([6]))  # after it as before

    @staticmethod
    def fails(x):
        raise ZeroDivisionError("here")

    def test_tapes(self):
        w = numbers(2, 3)
        with kiln.tape() as tape:
            tape.track([w])
            tape.backward(kiln.sum(w * w))
            tape.backward(kiln.sum(w))
            self.same(tape.gradient(w), np.float32([5, 7]))  # added up
            y = w * w
            tape.backward(y, numbers(1, 10))
            self.same(tape.gradient(w), np.float32([9, 67]))
            with self.assertRaisesRegex(ValueError, "not given to"):
                tape.gradient(numbers(1))
        with self.assertRaisesRegex(ValueError, "closed"):
            tape.track([w])

    def test_tapes_and_threads(self):
        tape, caught = kiln.tape(), []

        def use():
            try:
                tape.track([numbers(1)])
            except RuntimeError as error:
                caught.append(str(error))
            kept.append(kiln.tape())

        kept = []
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        self.assertEqual(caught, ["a tape is used by the thread that made it"])
        kept.clear()  # ends on this thread
        tape.close()
        results = []
        threads = [threading.Thread(target=lambda i=i: results.append(
            float(kiln.grad(lambda x: kiln.sum(x * i))(numbers(1, 1))[0]))) for i in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(sorted(results), [0.0, 1.0, 2.0, 3.0])

    def test_memory_comes_back(self):
        @kiln.custom_gradient
        def twice(x):
            return x * 2, lambda gradient: gradient * 2

        gradient = kiln.grad(lambda w, x: model(w, x) + kiln.checkpoint(model)(w, twice(x)))
        w, x = kiln.asarray(self.w), kiln.asarray(self.x)
        counts = []
        for _ in range(3):
            for _ in range(200):
                gradient(w, x)
            kiln.device().sync()
            gc.collect()
            counts.append(kiln.device().stats["tensors_live"])
        self.assertEqual(counts[1], counts[2])


class Train(kiln_case.Case):
    def params(self):
        params = kiln.train.Params(seed=3)
        params.add("w", (2, 4), init="kaiming_normal", gain=1.0)
        params.add("b", (2,))
        return params

    def test_params(self):
        params = self.params()
        self.assertEqual((list(params), len(params), params["w"].shape), (["w", "b"], 2, (2, 4)))
        self.same(params["b"], np.zeros(2, np.float32))
        self.same(self.params()["w"], np.asarray(params["w"]))  # by seed and name
        self.assertGreater(np.asarray(params["w"]).std(), 0.1)
        params["b"] = numbers(1, 2)
        params["c"] = numbers(5)
        self.assertEqual(list(params), ["w", "b", "c"])
        with tempfile.TemporaryDirectory() as folder:
            for name in ("all.safetensors", "all.npz"):
                path = os.path.join(folder, name)
                params.save(path)
                other = kiln.train.Params()
                other.add_file(path)
                self.assertEqual(sorted(other), ["b", "c", "w"])
                self.same(other["b"], np.float32([1, 2]))
            again = self.params()
            again.load(path)
            self.same(again["b"], np.float32([1, 2]))
            with self.assertRaises(LookupError):
                again.load(os.path.join(folder, "nothing"))
        with self.assertRaisesRegex(ValueError, "no init 'zeros'; known are constant,"):
            params.add("d", (2,), init="zeros")
        with self.assertRaisesRegex(TypeError, "no option 'gian'"):
            params.add("d", (2,), init="normal", gian=2)
        with self.assertRaises(kiln.AlreadyExistsError):
            params.add("w", (2,))

    def test_steps_by_the_formulas(self):
        gradient, start = np.float32([1, -2]), np.float32([5, 6])
        for rule, options, wanted in (("sgd", {"rate": 0.5}, start - 0.5 * gradient),
                                      ("lion", {"rate": 0.5}, start - 0.5 * np.sign(gradient)),
                                      ("adam", {"rate": 0.5, "epsilon": 1e-8}, start - 0.5 * np.sign(gradient))):
            params = kiln.train.Params()
            params["w"] = kiln.asarray(start)
            optimiser = kiln.train.Optimiser(params, rule, **options)
            optimiser.step({"w": kiln.asarray(gradient)})
            self.same(params["w"], wanted, 1e-6)
            self.assertEqual(optimiser.steps, 1)

    def test_schedules_and_errors(self):
        params = self.params()
        optimiser = kiln.train.Optimiser(params, "sgd", rate=1.0, schedule="linear", steps=4)
        rates = []
        for _ in range(4):
            rates.append(optimiser.rate)
            optimiser.step({"b": numbers(0, 0)})
        self.assertTrue(all(a > b for a, b in zip(rates, rates[1:])), rates)
        with self.assertRaisesRegex(ValueError, "no parameter 'v'"):
            optimiser.step({"v": numbers(1)})
        with self.assertRaisesRegex(ValueError, "no rule 'adagrad'"):
            kiln.train.Optimiser(params, "adagrad")
        with self.assertRaisesRegex(TypeError, "no option 'learning_rate'"):
            kiln.train.Optimiser(params, "adam", learning_rate=1)
        with self.assertRaisesRegex(ValueError, "is a count"):
            kiln.train.Optimiser(params, "adam", captured=-1)

    def fit(self, captured):
        random = np.random.default_rng(1)
        x = random.standard_normal((64, 4)).astype(np.float32)
        y = kiln.asarray(x @ np.float32([[1, -2, 3, 0.5], [0, 1, -1, 2]]).T + np.float32([0.5, -1]))
        params = self.params()
        optimiser = kiln.train.Optimiser(params, "adam", rate=0.1, captured=captured)
        loss = lambda p, x, y: kiln.mean((x @ p["w"].T + p["b"] - y) ** 2)  # noqa: E731
        step = kiln.compile(kiln.value_and_grad(loss))
        for _ in range(150):
            value, gradients = step(params.tree(), kiln.asarray(x), y)
            optimiser.step(gradients)
        return params, optimiser, float(value)

    def test_training_fits_a_line(self):
        params, optimiser, value = self.fit(captured=False)
        self.assertLess(value, 1e-3)
        self.close(params["b"], np.float32([0.5, -1]), 0.02)
        again, _, _ = self.fit(captured=True)
        self.same(again["w"], np.asarray(params["w"]), 1e-3)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            optimiser.save(path)
            other = self.params()
            resumed = kiln.train.Optimiser(other, "adam", rate=0.1)
            resumed.load(path)
            self.assertEqual(resumed.steps, 150)
            self.same(other["w"], np.asarray(params["w"]))

    def test_what_a_checkpoint_holds(self):
        """Of gelu's 2 MiB before and after a product, and packed for it, two are there at once and not three."""
        device, random = kiln.device(), np.random.default_rng(7)
        w = [kiln.asarray(random.standard_normal(shape).astype(np.float32) / 8) for shape in ((64, 1024), (1024, 64))]
        x = kiln.asarray(random.standard_normal((8, 64, 64)).astype(np.float32))

        def layer(w, x):
            return kiln.linear(kiln.gelu(kiln.linear(x, w[0]), approximate=True), w[1])

        def step(part):
            return kiln.compile(kiln.grad(lambda w, x: kiln.mean(part(w, x) ** 2)))

        wanted = [np.asarray(one) for one in step(layer)(w, x)]
        device.sync()
        device.trim()
        own = step(kiln.checkpoint(layer))
        for _ in range(3):
            got = own(w, x)
        for one, other in zip(got, wanted):
            self.same(one, other, 1e-5)
        self.assertLess(device.stats["bytes_arena"], 5 << 20)


if __name__ == "__main__":
    kiln_case.main()
