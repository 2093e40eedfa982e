#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small convolutional model and an LSTM of handwritten digits beside PyTorch's, in f32: 200 steps of SGD from the same
start, and the loss of every step is the same to 1e-4. torch_models.py LIBKILN IMAGES LABELS DEVICE. Skipped without
PyTorch."""
import ctypes
import sys

try:
    import numpy as np
    import torch
except ImportError as error:
    print(f"SKIP unit/autodiff/train/torch_models\n    {error}\nkiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

LIBRARY, IMAGES, LABELS, DEVICE = sys.argv[1:5]
STEPS, BATCH, RATES, TOLERANCE, HIDDEN = 200, 32, {"cnn": 0.1, "lstm": 0.3}, 1e-4, 24
KEPT = []  # arrays that structs point into


def ints(*values):
    return (ctypes.c_int64 * len(values))(*values), ctypes.c_size_t(len(values))


def options(*lists, number=0):
    """An options struct of lists of integers and a number, the rest zeros."""
    fields = [("struct_size", ctypes.c_uint32)]
    for i in range(len(lists)):
        fields += [(f"list{i}", ctypes.POINTER(ctypes.c_int64)), (f"count{i}", ctypes.c_size_t)]
    made = type("Options", (ctypes.Structure,), {"_fields_": fields + [("number", ctypes.c_int64),
                                                                     ("rest", ctypes.c_char * 64)]})()
    made.struct_size, made.number = ctypes.sizeof(made), number
    for i, values in enumerate(lists):
        array, count = ints(*values)
        KEPT.append(array)
        setattr(made, f"list{i}", array if values else None)
        setattr(made, f"count{i}", count)
    return made


class Kiln:
    """The C API. Tensors are let go at the end of a step."""
    def __init__(self):
        self.lib = ctypes.CDLL(LIBRARY)
        self.context, self.device, self.made = ctypes.c_void_p(), ctypes.c_void_p(), []
        self.check("context_create", None, ctypes.byref(self.context), None)
        self.check("device_open", self.context, DEVICE.encode(), ctypes.byref(self.device), None)

    def check(self, name, *args):
        if getattr(self.lib, "kiln_" + name)(*args) != 0:
            raise RuntimeError(name)

    def op(self, name, *args):
        """One operation."""
        made = ctypes.c_void_p()
        self.check(name, *args, ctypes.byref(made), None)
        self.made.append(made)
        return made

    def tensor(self, array):
        dtype = self.lib.kiln_dtype_from_name({"float32": b"f32", "int32": b"i32"}[str(array.dtype)])
        array = np.ascontiguousarray(array)
        dims, count = ints(*array.shape)
        made = ctypes.c_void_p()
        self.check("tensor_create", self.device, dtype, count, dims, array.ctypes.data_as(ctypes.c_void_p),
                   ctypes.byref(made), None)
        return made

    def loss(self, scores, labels):
        chosen = self.op("gather", self.op("log_softmax", scores, ctypes.c_int64(1)), labels, ctypes.c_int64(1))
        return self.op("neg", self.op("mean", chosen, None, ctypes.c_size_t(0), ctypes.c_bool(False)))

    def step(self, params, rate, forward, images, labels):
        """The loss, and the parameters after the step."""
        tape, found = ctypes.c_void_p(), ctypes.c_float()
        self.check("tape_create", self.device, ctypes.byref(tape), None)
        for value in params.values():
            self.check("tape_track", tape, value, None)
        images, labels = self.tensor(images), self.tensor(labels.astype(np.int32).reshape(-1, 1))
        self.made += [images, labels]
        loss = self.loss(forward(self, params, images), labels)
        self.check("backward", tape, loss, None, None)
        after = {}
        for name, value in params.items():
            update = self.op("mul", self.op("gradient", tape, value), rate)
            after[name] = self.op("sub", value, update)
            self.made.remove(after[name])
        self.check("read", loss, ctypes.byref(found), ctypes.c_size_t(4), None)
        self.lib.kiln_tape_destroy(tape)
        for tensor in self.made + list(params.values()):
            self.lib.kiln_release(tensor)
        self.made = []
        return found.value, after


# ---- the models ----

def kiln_cnn(k, p, images):
    conv, pool = options([], [1, 1, 1, 1], [], number=1), options([2, 2], [2, 2])
    x = k.op("reshape", images, *ints(BATCH, 1, 8, 8))
    for i in (1, 2):
        x = k.op("relu", k.op("conv", x, p[f"conv{i}.weight"], p[f"conv{i}.bias"], ctypes.byref(conv)))
        x = k.op("max_pool", x, ctypes.byref(pool))
    return k.op("linear", k.op("reshape", x, *ints(BATCH, 64)), p["out.weight"], p["out.bias"])


def torch_cnn(p, images):
    f = torch.nn.functional
    x = images.reshape(BATCH, 1, 8, 8)
    for i in (1, 2):
        x = f.max_pool2d(f.relu(f.conv2d(x, p[f"conv{i}.weight"], p[f"conv{i}.bias"], padding=1)), 2)
    return x.reshape(BATCH, 64) @ p["out.weight"] + p["out.bias"]


def kiln_lstm(k, p, images):
    """Rows of pixels one after another; the last state gives the scores."""
    axes = ints(1, 0, 2)
    x = k.op("permute", k.op("reshape", images, *ints(BATCH, 8, 8)), *axes)
    last = ctypes.c_void_p()
    k.check("lstm", x, p["weight"], p["recurrence"], p["bias"], None, None, None, None, None, None,
            ctypes.byref(last), None, None)
    k.made.append(last)
    return k.op("linear", k.op("reshape", last, *ints(BATCH, HIDDEN)), p["out.weight"], p["out.bias"])


def torch_lstm(p, images):
    """PyTorch's own, whose gates are input, forget, cell, output; here input, output, forget, cell."""
    def turn(x):
        i, o, f, c = x.chunk(4)
        return torch.cat([i, f, c, o])
    weights = [turn(p["weight"][0]), turn(p["recurrence"][0]), turn(p["bias"][0, :4 * HIDDEN]),
               turn(p["bias"][0, 4 * HIDDEN:])]
    zeros = torch.zeros(1, BATCH, HIDDEN)
    _, last, _ = torch.lstm(images.reshape(BATCH, 8, 8), (zeros, zeros), weights, True, 1, 0.0, False, False, True)
    return last[0] @ p["out.weight"] + p["out.bias"]


SHAPES = {
    "cnn": {"conv1.weight": (8, 1, 3, 3), "conv1.bias": (8,), "conv2.weight": (16, 8, 3, 3), "conv2.bias": (16,),
            "out.weight": (64, 10), "out.bias": (10,)},
    "lstm": {"weight": (1, 4 * HIDDEN, 8), "recurrence": (1, 4 * HIDDEN, HIDDEN), "bias": (1, 8 * HIDDEN),
             "out.weight": (HIDDEN, 10), "out.bias": (10,)},
}


def compare(kiln, name, forward, torch_forward, images, labels):
    random = np.random.default_rng(7)
    start = {key: (random.standard_normal(shape) * 0.2).astype(np.float32) for key, shape in SHAPES[name].items()}
    params = {key: kiln.tensor(value) for key, value in start.items()}
    theirs = {key: torch.nn.Parameter(torch.tensor(value)) for key, value in start.items()}
    optimiser = torch.optim.SGD(theirs.values(), lr=RATES[name])
    rate = kiln.tensor(np.array(RATES[name], np.float32))
    worst, first, last = 0.0, None, None
    for step in range(STEPS):
        rows = random.integers(0, len(images), BATCH)
        loss, params = kiln.step(params, rate, forward, images[rows], labels[rows])
        expected = torch.nn.functional.cross_entropy(torch_forward(theirs, torch.tensor(images[rows])),
                                                     torch.tensor(labels[rows].astype(np.int64)))
        optimiser.zero_grad()
        expected.backward()
        optimiser.step()
        worst = max(worst, abs(loss - expected.item()) / expected.item())
        first, last = first or loss, loss
    print(f"{name}: {STEPS} steps, loss {first:.4f} to {last:.4f}: at most {worst:.2g} from PyTorch's")
    return worst < TOLERANCE and last < 0.8 * first


def main():
    images = np.load(IMAGES).astype(np.float32) / 16
    labels = np.load(LABELS)
    kiln = Kiln()
    good = [compare(kiln, "cnn", kiln_cnn, torch_cnn, images, labels),
            compare(kiln, "lstm", kiln_lstm, torch_lstm, images, labels)]
    for name, ok in zip(("cnn", "lstm"), good):
        if not ok:
            print(f"FAIL unit/autodiff/train/torch_models {name}")
    print(f"kiln-test: {sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return 0 if all(good) else 1


sys.exit(main())
