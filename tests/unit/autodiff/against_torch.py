#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gradients beside PyTorch's, in f64 on the reference: against_torch.py LIBKILN. Skips without
PyTorch; KILN_TEST_PYTHON may name a Python that has it."""
import ctypes
import os
import sys


class Kiln:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.context, self.device = ctypes.c_void_p(), ctypes.c_void_p()
        self.f64 = self.lib.kiln_dtype_from_name(b"f64")
        self.call("context_create", None, ctypes.byref(self.context))
        self.call("device_open", self.context, b"reference:0", ctypes.byref(self.device))

    def call(self, name, *args):
        if getattr(self.lib, "kiln_" + name)(*args, None) != 0:
            raise RuntimeError(name)

    def tensor(self, array):
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        made = ctypes.c_void_p()
        self.call("tensor_create", self.device, self.f64, ctypes.c_size_t(array.ndim), dims,
                  array.ctypes.data_as(ctypes.c_void_p), ctypes.byref(made))
        return made

    def read(self, tensor, like):
        import numpy
        found = numpy.empty_like(like)
        self.call("read", tensor, found.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(found.nbytes))
        return found

    def gradients(self, record, arrays, seed):
        """`record` takes tensors and the place of the result."""
        tape, result = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("tape_create", self.device, ctypes.byref(tape))
        inputs = [self.tensor(a) for a in arrays]
        for x in inputs:
            self.call("tape_track", tape, x)
        record(self, inputs, ctypes.byref(result))
        self.call("backward", tape, result, self.tensor(seed))
        found = []
        for x, array in zip(inputs, arrays):
            gradient = ctypes.c_void_p()
            self.call("gradient", tape, x, ctypes.byref(gradient))
            found.append(self.read(gradient, array))
        self.lib.kiln_tape_destroy(tape)
        return found


class ConvOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32)] + [
        pair for name in ("strides", "padding", "dilations")
        for pair in ((name, ctypes.POINTER(ctypes.c_int64)), ("n_" + name, ctypes.c_size_t))] + [
            ("groups", ctypes.c_int64)]


def convolution(strides, padding, dilations, groups):
    lists = [ints(*values) for values in (strides, padding, dilations)]
    options = ConvOptions(ctypes.sizeof(ConvOptions), *[x for pair in lists for x in pair], groups)
    return ctypes.byref(options)


def named(name, *attributes):
    return lambda k, inputs, out: k.call(name, *inputs, *attributes, out)


def ints(*values):
    return (ctypes.c_int64 * len(values))(*values), ctypes.c_size_t(len(values))


def cases(torch):
    f = torch.nn.functional
    one = {"exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "tanh": torch.tanh, "sin": torch.sin,
           "cos": torch.cos, "tan": torch.tan, "atan": torch.atan, "erf": torch.erf, "log1p": torch.log1p,
           "expm1": torch.expm1, "rsqrt": torch.rsqrt, "recip": torch.reciprocal, "sigmoid": torch.sigmoid,
           "relu": torch.relu, "abs": torch.abs, "silu": f.silu, "softplus": f.softplus, "mish": f.mish,
           "log_sigmoid": f.logsigmoid, "hard_swish": f.hardswish, "asinh": torch.asinh}
    two = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
           "maximum": torch.maximum, "minimum": torch.minimum, "atan2": torch.atan2, "hypot": torch.hypot,
           "rem": torch.remainder, "fmod": torch.fmod}
    false, axis = ctypes.c_bool(False), ctypes.c_int64(1)
    for name, function in one.items():
        yield name, named(name), function, [(3, 5)]
    for name, function in two.items():
        yield name, named(name), function, [(3, 1, 4), (5, 1)]
    yield "matmul", named("matmul", false, false), torch.matmul, [(2, 3, 4), (4, 5)]
    yield "softmax", named("softmax", axis), lambda x: torch.softmax(x, 1), [(3, 6, 2)]
    yield "log_softmax", named("log_softmax", axis), lambda x: torch.log_softmax(x, 1), [(3, 6, 2)]
    yield "prod", named("prod", *ints(1), false), lambda x: torch.prod(x, 1), [(3, 4, 2)]
    yield "max", named("max", *ints(1), false), lambda x: torch.amax(x, 1), [(3, 4, 2)]
    yield "cum_prod", named("cum_prod", axis, false, false), lambda x: torch.cumprod(x, 1), [(3, 4)]
    yield "sort", named("sort", axis, false), lambda x: torch.sort(x, 1)[0], [(3, 7)]
    yield "layer_norm", named("layer_norm", ctypes.c_int64(-1), ctypes.c_double(1e-5)), \
        lambda x, w, b: f.layer_norm(x, (6,), w, b, 1e-5), [(4, 6), (6,), (6,)]
    yield "conv", named("conv", convolution((2, 1), (1, 0, 1, 0), (1, 2), 2)), \
        lambda x, w, b: f.conv2d(x, w, b, (2, 1), (1, 0), (1, 2), 2), [(2, 4, 7, 8), (6, 2, 3, 2), (6,)]
    yield "det", named("det"), torch.det, [(2, 4, 4)]


def main():
    try:
        import numpy
        import torch
    except ImportError as error:
        other = os.environ.pop("KILN_TEST_PYTHON", None)
        if other:
            os.execv(other, [other, *sys.argv])
        print(f"SKIP unit/autodiff/against_torch\n    {error}\nkiln-test: 0 passed, 0 failed, 1 skipped")
        return 0
    kiln, random, failed, passed = Kiln(sys.argv[1]), numpy.random.default_rng(5), 0, 0
    for name, record, function, shapes in cases(torch):
        arrays = [random.uniform(0.3, 2, shape) for shape in shapes]
        tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
        result = function(*tensors)
        seed = random.uniform(0.5, 1, tuple(result.shape))
        result.backward(torch.tensor(seed))
        try:
            found = kiln.gradients(record, arrays, seed)
            worst = max(float(numpy.max(numpy.abs(a - t.grad.numpy()))) for a, t in zip(found, tensors))
        except RuntimeError as error:
            found, worst = None, str(error)
        good = found is not None and worst < 1e-9
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"FAIL unit/autodiff/against_torch {name}\n    differs by {worst}")
    print(f"kiln-test: {passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
