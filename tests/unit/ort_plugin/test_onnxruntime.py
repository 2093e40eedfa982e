#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""libkiln_ort.so: what it says to an ONNX Runtime that is too old, and, where KILN_TEST_PYTHON names a Python that has
onnxruntime, models that run on Kiln, on both, and with shapes that change. usage: test_onnxruntime.py LIBRARY"""
import ctypes
import json
import os
import sys
import tempfile
import threading
import unittest

PYTHON = os.environ.get("KILN_TEST_PYTHON")
if PYTHON and os.environ.get("KILN_TEST_PYTHON_USED") is None:
    os.execve(PYTHON, [PYTHON, "-B", "-W", "ignore"] + sys.argv, dict(os.environ, KILN_TEST_PYTHON_USED="1"))

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path += [os.path.join(ROOT, "tests", "onnx_cases"), os.path.join(HERE, "..", "python")]
import numpy as np  # noqa: E402
import onnx_writer as ow  # noqa: E402

try:
    import onnxruntime as ort
    MISSING = None if hasattr(ort, "register_execution_provider_library") else "this onnxruntime loads no providers"
except ImportError:
    MISSING = "no onnxruntime: KILN_TEST_PYTHON names no Python that has it (pip install onnxruntime)"

LIBRARY = os.path.abspath(sys.argv[1])
CALL = ctypes.CFUNCTYPE


class Old(unittest.TestCase):
    """An ONNX Runtime that is made up: it knows the interface up to version 22."""

    def test_is_refused_by_name(self):
        said, asked = [], []

        @CALL(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
        def create(code, text):
            said.append((code, text.decode()))
            return 4096

        oldest = (ctypes.c_void_p * 1)(ctypes.cast(create, ctypes.c_void_p).value)

        @CALL(ctypes.c_void_p, ctypes.c_uint32)
        def table(version):
            asked.append(version)
            return ctypes.addressof(oldest) if version <= 22 else None

        class Base(ctypes.Structure):
            _fields_ = [("table", type(table)), ("version", ctypes.c_void_p)]

        library = ctypes.CDLL(LIBRARY)
        library.CreateEpFactories.restype = ctypes.c_void_p
        factories, count = (ctypes.c_void_p * 4)(), ctypes.c_size_t(7)
        status = library.CreateEpFactories(b"Kiln", ctypes.byref(Base(table, None)), None, factories,
                                           ctypes.c_size_t(4), ctypes.byref(count))
        self.assertEqual((status, count.value, factories[0]), (4096, 0, None))
        self.assertEqual(asked[0], 23)
        self.assertEqual(said, [(9, "Kiln's provider needs ONNX Runtime 1.23 or newer")])


def devices():
    if not any(d.ep_name == "Kiln" for d in ort.get_ep_devices()):
        ort.register_execution_provider_library("Kiln", LIBRARY)
    return [d for d in ort.get_ep_devices() if d.ep_name == "Kiln"]


def session(model, kiln=True, **settings):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    for name, value in settings.items():
        setattr(options, name, value)
    if kiln:
        options.add_provider_for_devices(devices()[:1], {})
    return ort.InferenceSession(model, options)


def nodes_run(model, feed):
    """The providers that ran the nodes, in order, and the results."""
    with tempfile.TemporaryDirectory() as folder:
        profiled = session(model, enable_profiling=True, profile_file_prefix=os.path.join(folder, "p"))
        made = profiled.run(None, feed)
        with open(profiled.end_profiling()) as file:
            events = json.load(file)
    return [e["args"]["provider"] for e in events
            if e.get("cat") == "Node" and e["name"].endswith("kernel_time")], made


RANDOM = np.random.default_rng(20)
WEIGHT = RANDOM.standard_normal((4, 4)).astype(np.float32)
CPU, KILN = "CPUExecutionProvider", "Kiln"


def of_floats(nodes, weights, outputs=("y",)):
    return ow.model(ow.Graph(nodes, {"x": np.float32}, {name: np.float32 for name in outputs}, weights), 18)


def both(case, model, feed, within=1e-5):
    """Kiln's results are ONNX Runtime's; the providers that ran its nodes."""
    ran, made = nodes_run(model, feed)
    for ours, wanted in zip(made, session(model, kiln=False).run(None, feed)):
        case.assertEqual(ours.dtype, wanted.dtype)
        case.assertEqual(ours.shape, wanted.shape)
        np.testing.assert_allclose(ours, wanted, rtol=within, atol=within)
    return ran


@unittest.skipIf(MISSING, MISSING)
class Provider(unittest.TestCase):
    def test_devices_are_offered(self):
        found = devices()[0]
        self.assertEqual((found.ep_vendor, found.ep_options["device"]), ("Kiln", "opencl:0"))

    def test_a_whole_model(self):
        nodes = [ow.node("MatMul", ["x", "w"], ["a"]), ow.node("Relu", ["a"], ["b"]),
                 ow.node("Gemm", ["b", "w", "c"], ["d"], alpha=0.5, transB=1),
                 ow.node("Reshape", ["d", "shape"], ["e"]), ow.node("ReduceSum", ["e", "axes"], ["y"], keepdims=0)]
        model = of_floats(nodes, {"w": WEIGHT, "c": WEIGHT[0], "shape": np.int64([0, 2, 2]), "axes": np.int64([1])})
        x = RANDOM.standard_normal((3, 4)).astype(np.float32)
        self.assertEqual(both(self, model, {"x": x}), [KILN])

    def test_half_and_half(self):
        """ONNX Runtime's own operator in the middle; what goes around it stays out of the first part."""
        nodes = [ow.node("MatMul", ["x", "w"], ["a"]), ow.node("Inverse", ["a"], ["b"], domain="com.microsoft"),
                 ow.node("Add", ["a", "b"], ["c"]), ow.node("Tanh", ["c"], ["y"]), ow.node("Exp", ["a"], ["z"])]
        model = of_floats(nodes, {"w": WEIGHT}, ("y", "z"))
        x = RANDOM.standard_normal((4, 4)).astype(np.float32)
        ran = both(self, model, {"x": x}, 1e-4)
        self.assertEqual(sorted(ran), [CPU, KILN, KILN])

    def test_branches_stay(self):
        """A node with graphs inside reads what Kiln made, and Kiln what it gives."""
        then = ow.Graph([ow.node("Mul", ["a", "a"], ["t"])], {}, {"t": np.float32})
        other = ow.Graph([ow.node("Neg", ["a"], ["o"])], {}, {"o": np.float32})
        nodes = [ow.node("MatMul", ["x", "w"], ["a"]), ow.node("ReduceMax", ["a"], ["m"], keepdims=0),
                 ow.node("Greater", ["m", "zero"], ["if"]),
                 ow.node("If", ["if"], ["b"], then_branch=then, else_branch=other),
                 ow.node("Sqrt", ["b"], ["s"]), ow.node("Add", ["s", "a"], ["y"])]
        model = of_floats(nodes, {"w": np.abs(WEIGHT), "zero": np.float32(0)})
        x = np.abs(RANDOM.standard_normal((2, 4))).astype(np.float32)
        for sign in (1, -1):
            ran = both(self, model, {"x": sign * x})
            self.assertEqual((ran[0], ran[-1]), (KILN, KILN))
            self.assertIn(CPU, ran)

    def test_shapes_change(self):
        nodes = [ow.node("Shape", ["x"], ["n"]), ow.node("Gather", ["n", "first"], ["rows"]),
                 ow.node("Concat", ["rows", "rest"], ["to"], axis=0), ow.node("MatMul", ["x", "w"], ["a"]),
                 ow.node("Reshape", ["a", "to"], ["b"]), ow.node("Softmax", ["b"], ["y"])]
        model = of_floats(nodes, {"w": WEIGHT, "first": np.int64([0]), "rest": np.int64([2, 2])})
        ours, wanted = session(model), session(model, kiln=False)
        for rows in [5, 1, 5, 7] + list(range(1, 25)):
            feed = {"x": RANDOM.standard_normal((rows, 4)).astype(np.float32)}
            np.testing.assert_allclose(ours.run(None, feed)[0], wanted.run(None, feed)[0], rtol=1e-5, atol=1e-6)

    def test_values_that_decide_about_shapes(self):
        nodes = [ow.node("Relu", ["x"], ["a"]), ow.node("NonZero", ["a"], ["i"]),
                 ow.node("Transpose", ["i"], ["t"]), ow.node("GatherND", ["a", "t"], ["g"]),
                 ow.node("Exp", ["g"], ["y"])]
        model = of_floats(nodes, {})
        ours, wanted = session(model), session(model, kiln=False)
        for seed in range(4):
            feed = {"x": np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)}
            np.testing.assert_allclose(ours.run(None, feed)[0], wanted.run(None, feed)[0], rtol=1e-5)

    def test_kinds_of_attributes_and_types(self):
        nodes = [ow.node("Cast", ["x"], ["h"], to=10), ow.node("Cast", ["h"], ["f"], to=1),
                 ow.node("Clip", ["f", "low"], ["c"]), ow.node("Einsum", ["c", "w"], ["e"], equation="ij,jk->ki"),
                 ow.node("Pad", ["e", "pads"], ["p"], mode="reflect"), ow.node("LeakyRelu", ["p"], ["l"], alpha=0.25),
                 ow.node("ReduceMean", ["l", "axes"], ["y"], keepdims=1)]
        model = of_floats(nodes, {"w": WEIGHT, "low": np.float32(-1), "pads": np.int64([1, 0, 0, 1]),
                                  "axes": np.int64([1])})
        x = RANDOM.standard_normal((3, 4)).astype(np.float32)
        self.assertEqual(set(both(self, model, {"x": x}, 1e-3)), {KILN})

    def test_large_constants(self):
        weight = RANDOM.standard_normal((512, 600)).astype(np.float32) / 20
        model = of_floats([ow.node("MatMul", ["x", "w"], ["a"]), ow.node("MatMul", ["a", "v"], ["y"])],
                          {"w": weight, "v": np.ascontiguousarray(weight.T)})
        x = RANDOM.standard_normal((3, 512)).astype(np.float32)
        self.assertEqual(both(self, model, {"x": x}, 1e-3), [KILN])

    def test_several_threads(self):
        model = of_floats([ow.node("MatMul", ["x", "w"], ["a"]), ow.node("Tanh", ["a"], ["y"])], {"w": WEIGHT})
        ours = session(model)
        wrong = []

        def work(seed):
            for rows in range(1, 9):
                x = np.random.default_rng(seed).standard_normal((rows, 4)).astype(np.float32)
                if not np.allclose(ours.run(None, {"x": x})[0], np.tanh(x @ WEIGHT), atol=1e-5):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_wrong_device_is_an_error(self):
        model = of_floats([ow.node("Exp", ["x"], ["y"])], {})
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.add_provider_for_devices(devices()[:1], {"device": "opencl:99"})
        with self.assertRaisesRegex(Exception, "no OpenCL device 99"):
            ort.InferenceSession(model, options)


if __name__ == "__main__":
    import kiln_case
    kiln_case.main()
