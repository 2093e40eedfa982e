#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""On OpenCL: functions that are recorded and replayed, and ONNX models."""
import collections
import os
import sys
import tempfile
import threading

import kiln
import kiln_case
import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
import onnx_writer  # noqa: E402

DIGITS = os.path.join(ROOT, "examples/digits")
Pair = collections.namedtuple("Pair", "first second")


def numbers(*values):
    return kiln.asarray(np.float32(values))


class Compile(kiln_case.Case):
    def test_records_once_for_each_shape(self):
        calls = []

        @kiln.compile
        def function(a, b):
            """What it does."""
            calls.append(a.shape)
            return a * b + 1

        for _ in range(3):
            self.same(function(numbers(1, 2), numbers(3, 4)), np.float32([4, 9]))
        self.same(function(numbers(5, 6), numbers(1, 0)), np.float32([6, 1]))
        self.assertEqual(calls, [(2,)])
        self.same(function(numbers(1), numbers(1)), np.float32([2]))
        self.assertEqual(calls, [(2,), (1,)])
        self.assertEqual(function.__name__, "function")
        self.assertEqual(function.__doc__, "What it does.")
        self.assertEqual([graph["ops"] for graph in function.graphs], [2, 2])
        self.assertIn("elementwise", function.explain())

    def test_structures(self):
        function = kiln.compile(lambda data, scale=1.0: {"sum": data["x"] + data["y"][0] * scale, "same": (data["x"], 7)})
        made = function({"x": numbers(1, 2), "y": [numbers(3, 4)]}, scale=2.0)
        self.same(made["sum"], np.float32([7, 10]))
        self.same(made["same"][0], np.float32([1, 2]))
        self.assertEqual(made["same"][1], 7)
        self.same(function({"x": numbers(1, 2), "y": [numbers(3, 4)]}, scale=3.0)["sum"], np.float32([10, 14]))
        pair = kiln.compile(lambda p: Pair(p.second, p.first + 1))(Pair(numbers(1), numbers(2)))
        self.assertEqual((float(pair.first), float(pair.second)), (2.0, 2.0))

    def test_one_array_twice(self):
        function = kiln.compile(lambda a, b: a - b)
        x = numbers(1, 2)
        self.same(function(x, x), np.float32([0, 0]))
        self.same(function(x, numbers(0, 5)), np.float32([1, -3]))
        self.same(function(x, x + 0), np.float32([0, 0]))

    def test_constants(self):
        weight = numbers(2, 3)
        function = kiln.compile(lambda a: (a * weight, weight, kiln.asarray([1.0, 1.0]) + a))
        made = function(numbers(1, 1))
        self.same(made[0], np.float32([2, 3]))
        self.same(made[1], np.float32([2, 3]))
        self.same(made[2], np.float32([2, 2]))
        self.same(function(numbers(5, 5))[2], np.float32([6, 6]))
        self.same(kiln.compile(lambda a: weight)(numbers(1)), np.float32([2, 3]))

    def test_results_twice_and_no_arguments(self):
        def function(a):
            b = a + 1
            return b, b, a[:1], a

        for made in (kiln.compile(function)(numbers(1, 2)), function(numbers(1, 2))):
            self.assertEqual([part.tolist() for part in made], [[2, 3], [2, 3], [1], [1, 2]])
        self.same(kiln.compile(lambda: kiln.ones(3) * 2)(), np.float32([2, 2, 2]))
        self.assertIsNone(kiln.compile(lambda a: None)(numbers(1)))

    def test_assignment_stays_inside(self):
        def function(a):
            a[0] = 9
            return a

        x = numbers(1, 2)
        for _ in range(2):
            self.same(kiln.compile(function)(x), np.float32([9, 2]))
            self.same(x, np.float32([1, 2]))

    def test_values_are_not_looked_at(self):
        function = kiln.compile(lambda a: a if float(kiln.sum(a)) > 0 else -a)
        with self.assertRaises(kiln.FailedPreconditionError) as caught:
            function(numbers(1))
        self.assertIn("kiln.compile", caught.exception.__notes__[0])
        self.same(numbers(1) + 1, np.float32([2]))  # nothing is captured any more
        shown = []
        kiln.compile(lambda a: shown.append(repr(a + 1)) or a + 1)(numbers(1))
        self.assertIn("no values", shown[0])

    def test_arguments_that_are_not_hashable(self):
        with self.assertRaises(TypeError) as caught:
            kiln.compile(lambda a, b: a + b)(numbers(1), np.ones(1))
        self.assertIn("kiln.asarray", caught.exception.__notes__[0])

    def test_failures_end_the_capture(self):
        def function(a):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            kiln.compile(function)(numbers(1))
        self.assertEqual(float(kiln.compile(lambda a: a + 1)(numbers(1))), 2.0)

    def test_within_another(self):
        inner = kiln.compile(lambda a: a + 1)
        outer = kiln.compile(lambda a: inner(a) * 2)
        self.same(outer(numbers(1, 2)), np.float32([4, 6]))
        self.assertEqual(outer.graphs[0]["ops"], 2)

    def test_methods(self):
        class Model:
            def __init__(self, weight):
                self.weight = weight

            @kiln.compile
            def forward(self, x):
                return x * self.weight

        one, two = Model(numbers(2)), Model(numbers(3))
        self.assertEqual([float(m.forward(numbers(1))) for m in (one, two, one)], [2.0, 3.0, 2.0])

    def test_random_numbers_are_drawn_anew(self):
        function = kiln.compile(lambda a: a + kiln.random_uniform([4], min=0, max=1))
        x = kiln.zeros(4)
        self.assertNotEqual(function(x).tolist(), function(x).tolist())

    def test_the_sign_of_zero(self):
        function = kiln.compile(lambda a, scale: 1 / (a * scale))
        self.assertEqual([float(function(numbers(1), zero)) for zero in (0.0, -0.0)], [np.inf, -np.inf])

    def test_few_are_kept(self):
        function = kiln.compile(lambda a, n: a + n)
        for n in range(70):
            self.assertEqual(float(function(numbers(0), n)), n)
        self.assertEqual(len(function.graphs), 64)

    def test_threads(self):
        function = kiln.compile(lambda a: a * 2 + 1)
        wrong = []

        def work(number):
            for i in range(30):
                if float(function(numbers(number * 100 + i))) != (number * 100 + i) * 2 + 1:
                    wrong.append((number, i))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(wrong, [])


class Models(kiln_case.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.digits = kiln.onnx.load(os.path.join(DIGITS, "digits.onnx"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, nodes, inputs, outputs):
        path = os.path.join(self.folder.name, "model.onnx")
        with open(path, "wb") as file:
            file.write(onnx_writer.model(onnx_writer.Graph(nodes, inputs, outputs), 17))
        return path

    def test_digits(self):
        three = np.load(os.path.join(DIGITS, "three.npy"))
        for _ in range(2):
            made, = self.digits.run({"image": three})
            self.close(made, np.load(os.path.join(DIGITS, "expected.npy"))[3:4], 1e-4)
        made, = self.digits.run(["log_probability"], {"image": kiln.asarray(three)})
        self.assertEqual(int(made.argmax()), 3)
        both, = self.digits.run(None, {"image": np.concatenate([three, np.load(os.path.join(DIGITS, "five.npy"))])})
        self.assertEqual(both.argmax(axis=1).tolist(), [3, 5])
        self.assertIn("convolution", self.digits.explain())

    def test_kept_in_another_type(self):
        three = np.load(os.path.join(DIGITS, "three.npy"))
        wanted = np.load(os.path.join(DIGITS, "expected.npy"))[3:4]
        for dtype, most in ((kiln.bfloat16, 0.02), ("float16", 0.002)):
            session = kiln.onnx.load(os.path.join(DIGITS, "digits.onnx"), device="reference:0", dtype=dtype)
            made = np.asarray(session.run({"image": three})[0])
            self.assertEqual(made.dtype, np.float32)
            error = np.abs(made - wanted).max() / np.abs(wanted).max()
            self.assertGreater(error, 1e-6)  # it is rounded
            self.assertLess(error, most)
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "f32, f16 or bf16"):
            kiln.onnx.load(os.path.join(DIGITS, "digits.onnx"), device="reference:0", dtype="int32")

    def test_inputs_and_outputs(self):
        image, = self.digits.get_inputs()
        self.assertEqual((image.name, image.type, image.shape), ("image", "tensor(float)", ["batch", 1, 8, 8]))
        result, = self.digits.get_outputs()
        self.assertEqual((result.name, result.shape), ("log_probability", ["batch", 10]))
        self.assertEqual(self.digits.device, kiln.device())

    def test_errors(self):
        three = np.load(os.path.join(DIGITS, "three.npy"))
        with self.assertRaisesRegex(ValueError, "image"):
            self.digits.run({"picture": three})
        for wrong in (lambda: self.digits.run(None), lambda: self.digits.run(None, [three]),
                      lambda: self.digits.run("log_probability", {"image": three})):
            with self.assertRaisesRegex(TypeError, "a dict of inputs"):
                wrong()
        with self.assertRaisesRegex(ValueError, "needs 'image'"):
            self.digits.run({})
        with self.assertRaisesRegex(ValueError, "log_probability"):
            self.digits.run(["other"], {"image": three})
        with self.assertRaises(kiln.InvalidArgumentError):
            self.digits.run({"image": three[:, :, :4]})
        with self.assertRaises(kiln.InvalidArgumentError):
            self.digits.run({"image": three.astype(np.float64)})
        with self.assertRaises(LookupError):
            kiln.onnx.load("no such file.onnx")
        with self.assertRaises(kiln.Error):
            kiln.onnx.load(__file__)
        self.close(self.digits.run({"image": three})[0], np.load(os.path.join(DIGITS, "expected.npy"))[3:4], 1e-4)

    def test_values_decide_about_shapes(self):
        """The same lengths with other values give another shape: nothing of the first run is kept."""
        x, shape = np.arange(6, dtype=np.float32), np.int64([2, 3])
        session = kiln.onnx.load(self.write([onnx_writer.node("Reshape", ["x", "shape"], ["y"])],
                                            {"x": x, "shape": shape}, {"y": x.reshape(2, 3)}))
        for wanted in ([2, 3], [3, 2], [2, 3]):
            made, = session.run({"shape": np.int64(wanted), "x": x})
            self.same(made, x.reshape(wanted))

    def test_lists_and_one_array_twice(self):
        a = np.float32([1, 2])
        session = kiln.onnx.load(self.write([onnx_writer.node("Add", ["a", "b"], ["y"])], {"a": a, "b": a}, {"y": a}))
        x = kiln.asarray(a)
        self.same(session.run({"a": x, "b": x})[0], a + a)
        self.same(session.run({"a": [1, 2], "b": [3.5, 4]})[0], np.float32([4.5, 6]))
        self.same(kiln.compile(lambda v: session.run({"a": v, "b": v})[0] * 2)(x), a * 4)


if __name__ == "__main__":
    kiln_case.main()
