#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Training steps through the package `kiln` beside PyTorch on the same device: a transformer of characters, with AdamW,
and a convolutional model of 8 x 8 digits, with SGD. Each side is a process of its own, which runs when it is told; the
sides take turns, and the median of the rounds counts. Peak memory is what a process that is warm holds at most in a
step beyond what it had when the device was open; `device` is what Kiln and, on a GPU, PyTorch say of their own. Run it
twice: what a compiler took in the first run stays with its process. `--layer-checkpoints` measures the transformer
whose layers are computed again on the way back, beside the one whose are not. `--profile` says what a step of Kiln
spends the device's time on. On a GPU (`--cuda`) KILN_DEVICE names Kiln's device."""
import argparse
import collections
import ctypes
import gc
import json
import math
import os
import subprocess
import sys
import time

import numpy as np

VOCABULARY = 96
DIGITS = 32  # images of a step


def resident_kib(key):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))


def blas_in_use():
    """By its file: with the one that Debian installs first, products are a hundredth as fast as with OpenBLAS."""
    with open("/proc/self/maps", encoding="ascii") as file:
        paths = {os.path.realpath(line.split()[-1]) for line in file if "blas" in line or "mkl" in line}
    return ", ".join(sorted(os.path.basename(path) for path in paths if "lapack" not in path)) or "no BLAS of its own"


# ---- the models: names and shapes of parameters ----

def transformer_shapes(options):
    width = options.width
    shapes = {"tokens": (VOCABULARY, width), "places": (options.context, width)}
    for i in range(options.layers):
        for norm in ("norm1", "norm2"):
            shapes |= {f"{i}.{norm}.scale": (width,), f"{i}.{norm}.bias": (width,)}
        for name, inputs, outputs in (("look", width, 3 * width), ("join", width, width), ("wide", width, 4 * width),
                                      ("narrow", 4 * width, width)):
            shapes |= {f"{i}.{name}.weight": (inputs, outputs), f"{i}.{name}.bias": (outputs,)}
    return shapes | {"norm.scale": (width,), "norm.bias": (width,), "scores": (width, VOCABULARY)}


def digits_shapes(_):
    return {"conv1.weight": (8, 1, 3, 3), "conv1.bias": (8,), "conv2.weight": (16, 8, 3, 3), "conv2.bias": (16,),
            "out.weight": (64, 10), "out.bias": (10,)}


SHAPES = {"transformer": transformer_shapes, "digits": digits_shapes}


def start_values(options):
    random = np.random.default_rng(7)
    for name, shape in SHAPES[options.model](options).items():
        values = random.standard_normal(shape) * (0.2 if options.model == "digits" else 0.05)
        yield name, (np.ones(shape) if name.endswith("scale") else values).astype(np.float32)


def batch_of(options):
    random = np.random.default_rng(8)
    if options.model == "digits":
        return random.random((DIGITS, 1, 8, 8), np.float32), random.integers(0, 10, DIGITS)
    tokens = random.integers(0, VOCABULARY, (options.batch, options.context + 1))
    return tokens[:, :-1], tokens[:, 1:].reshape(-1)


# ---- the sides: each makes `step`, `wait` and `loss` ----

class OfKiln:
    def __init__(self, options):
        import kiln
        self.kiln, self.options = kiln, options
        float(kiln.sum(kiln.ones(3)))
        self.version = kiln.__version__

    def build(self):
        kiln, options = self.kiln, self.options
        self.params = kiln.train.Params()
        for name, values in start_values(options):
            self.params[name] = values
        rule = {"rule": "adamw", "decay": 0.1, "rate": 1e-3} if options.model == "transformer" else {"rule": "sgd",
                                                                                                     "rate": 0.1}
        self.optimiser = kiln.train.Optimiser(self.params, captured=True, **rule)
        inputs, targets = batch_of(options)
        self.batch = [kiln.asarray(inputs if inputs.dtype == np.float32 else inputs.astype(np.int32)),
                      kiln.asarray(targets.astype(np.int32).reshape(-1, 1))]
        model = getattr(self, options.model)
        self.gradient = kiln.compile(kiln.value_and_grad(lambda p, x, y: self.cross_entropy(model(p, x), y)))

    def cross_entropy(self, scores, targets):
        kiln = self.kiln
        return -kiln.mean(kiln.gather(kiln.log_softmax(scores, 1), targets, 1))

    def layer(self, p, x):
        kiln, options = self.kiln, self.options
        heads, width = options.heads, options.width
        parts = kiln.linear(kiln.layer_norm(x, p["norm1.scale"], p["norm1.bias"]), p["look.weight"], p["look.bias"])
        parts = kiln.reshape(parts, (options.batch, options.context, 3, heads, width // heads))
        query, key, value = (kiln.permute(parts[:, :, i], (0, 2, 1, 3)) for i in range(3))
        seen = kiln.permute(kiln.attention(query, key, value, causal=True), (0, 2, 1, 3))
        x = x + kiln.linear(kiln.reshape(seen, x.shape), p["join.weight"], p["join.bias"])
        wide = kiln.linear(kiln.layer_norm(x, p["norm2.scale"], p["norm2.bias"]), p["wide.weight"], p["wide.bias"])
        return x + kiln.linear(kiln.gelu(wide, approximate=True), p["narrow.weight"], p["narrow.bias"])

    def transformer(self, p, tokens):
        kiln, options = self.kiln, self.options
        layer = kiln.checkpoint(self.layer) if options.checkpoints else self.layer
        x = kiln.embedding(p["tokens"], tokens) + p["places"]
        for i in range(options.layers):
            x = layer({name[len(f"{i}."):]: p[name] for name in p if name.startswith(f"{i}.")}, x)
        x = kiln.reshape(kiln.layer_norm(x, p["norm.scale"], p["norm.bias"]), (-1, options.width))
        return x @ p["scores"]

    def digits(self, p, images):
        kiln, x = self.kiln, images
        for i in (1, 2):
            x = kiln.relu(kiln.conv(x, p[f"conv{i}.weight"], p[f"conv{i}.bias"], padding=[1, 1, 1, 1]))
            x = kiln.max_pool(x, [2, 2], strides=[2, 2])
        return kiln.linear(kiln.reshape(x, (DIGITS, 64)), p["out.weight"], p["out.bias"])

    def step(self):
        self.value, gradients = self.gradient(self.params.tree(), *self.batch)
        self.optimiser.step(gradients)

    def wait(self):
        self.kiln.device().sync()

    def begin_peak(self):
        self.wait()
        self.kiln.device().reset_peaks()

    def device_peak(self):
        return self.kiln.device().stats["bytes_peak"]

    def profile(self):
        """Lines: milliseconds of the device in a step, how often, which block, its shapes; the longest first."""
        self.wait()
        with self.kiln.trace() as trace:
            begin = time.perf_counter()
            self.step()
            self.wait()
            whole = time.perf_counter() - begin
        spans = collections.defaultdict(list)
        for event in json.loads(trace.text)["traceEvents"]:
            if event.get("cat") in ("step", "command"):
                spans[event["name"], event["args"].get("shapes", "")].append(event["dur"] / 1e3)
        rows = sorted(((sum(times), len(times), *key) for key, times in spans.items()), reverse=True)
        busy, count = sum(row[0] for row in rows), sum(row[1] for row in rows)
        return [f"step {whole * 1e3:.2f} ms, device {busy:.2f} ms in {count} launches",
                *(f"{row[0]:8.2f} {row[1]:4d}  {row[2]}  {row[3]}" for row in rows[:40])]

    def loss(self):
        return float(self.value)


class OfTorch:
    def __init__(self, options):
        import torch
        self.torch, self.options = torch, options
        self.place = "cuda" if options.cuda else "cpu"
        if options.threads:
            torch.set_num_threads(options.threads)
        float(torch.ones(3, device=self.place).sum())
        self.version = f"{torch.__version__} ({self.place if options.cuda else blas_in_use()})"

    def build(self):
        torch, options = self.torch, self.options
        self.params = {name: torch.nn.Parameter(torch.tensor(values, device=self.place))
                       for name, values in start_values(options)}
        self.optimiser = (torch.optim.AdamW(self.params.values(), lr=1e-3, weight_decay=0.1)
                          if options.model == "transformer" else torch.optim.SGD(self.params.values(), lr=0.1))
        self.batch = [torch.tensor(values, device=self.place) for values in batch_of(options)]
        self.later = torch.ones(options.context, options.context, dtype=torch.bool, device=self.place).triu(1)
        self.forward = getattr(self, options.model)
        if options.compiled:
            self.forward = torch.compile(self.forward)

    def layer(self, x, i):
        torch, options, p = self.torch, self.options, self.params
        f, heads, width = torch.nn.functional, options.heads, options.width

        def line(values, name):
            return torch.addmm(p[f"{i}.{name}.bias"], values.reshape(-1, values.shape[-1]),
                               p[f"{i}.{name}.weight"]).reshape(*values.shape[:-1], -1)

        def norm(values, name):
            return f.layer_norm(values, (width,), p[f"{i}.{name}.scale"], p[f"{i}.{name}.bias"])

        parts = line(norm(x, "norm1"), "look").reshape(options.batch, options.context, 3, heads, width // heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if hasattr(f, "scaled_dot_product_attention"):
            seen = f.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-2, -1) / math.sqrt(width // heads)
            seen = torch.softmax(scores.masked_fill(self.later, -math.inf), -1) @ value
        x = x + line(seen.transpose(1, 2).reshape(x.shape), "join")
        return x + line(f.gelu(line(norm(x, "norm2"), "wide"), approximate="tanh"), "narrow")

    def transformer(self, tokens):
        p, f = self.params, self.torch.nn.functional
        x = f.embedding(tokens, p["tokens"]) + p["places"]
        for i in range(self.options.layers):
            if self.options.checkpoints:
                x = self.torch.utils.checkpoint.checkpoint(self.layer, x, i)
            else:
                x = self.layer(x, i)
        x = f.layer_norm(x, (self.options.width,), p["norm.scale"], p["norm.bias"])
        return x.reshape(-1, self.options.width) @ p["scores"]

    def digits(self, x):
        p, f = self.params, self.torch.nn.functional
        for i in (1, 2):
            x = f.max_pool2d(f.relu(f.conv2d(x, p[f"conv{i}.weight"], p[f"conv{i}.bias"], padding=1)), 2)
        return x.reshape(DIGITS, 64) @ p["out.weight"] + p["out.bias"]

    def step(self):
        inputs, targets = self.batch
        self.optimiser.zero_grad(set_to_none=True)
        self.value = self.torch.nn.functional.cross_entropy(self.forward(inputs), targets)
        self.value.backward()
        self.optimiser.step()

    def wait(self):
        if self.options.cuda:
            self.torch.cuda.synchronize()

    def begin_peak(self):
        if self.options.cuda:
            self.torch.cuda.reset_peak_memory_stats()

    def device_peak(self):
        return self.torch.cuda.max_memory_allocated() if self.options.cuda else 0

    def loss(self):
        return float(self.value.detach())


def serve(options):
    """Answers lines of standard input: `run N` with the seconds of a step, `peak` and then `device` with bytes, `profile`
    with a list of lines."""
    side = {"kiln": OfKiln, "torch": OfTorch}[options.side](options)
    gc.collect()
    base = resident_kib("VmRSS:")
    side.build()
    losses = []
    for _ in range(options.warm):  # from one start both sides lose alike
        side.step()
        losses.append(side.loss())
    print(json.dumps({"version": side.version, "losses": losses}), flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "run":
            begin = time.perf_counter()
            for _ in range(int(rest[0])):
                side.step()
            side.loss()
            side.wait()
            print((time.perf_counter() - begin) / int(rest[0]), flush=True)
        elif word == "peak":
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # the peak begins anew
            side.begin_peak()
            side.step()
            side.loss()
            side.wait()
            print((resident_kib("VmHWM:") - base) * 1024, flush=True)
        elif word == "device":
            print(side.device_peak(), flush=True)
        elif word == "profile":
            print(json.dumps(side.profile()), flush=True)


# ---- who tells them ----

class Side:
    def __init__(self, name, options, checkpoints):
        command = [sys.executable, os.path.abspath(__file__), "--side", name, *options.passed]
        command += ["--checkpoints"] if checkpoints else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"train.py: {name} did not start")
        self.facts = json.loads(line)
        self.seconds = []

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(options):
    """The two sides, or Kiln with and without checkpoints."""
    pair = ([Side("kiln", options, True), Side("kiln", options, False)] if options.layer_checkpoints else
            [Side("kiln", options, False), Side("torch", options, False)])
    worst = max(abs(a - b) / abs(b) for a, b in zip(*(side.facts["losses"] for side in pair)))
    for _ in range(options.rounds):
        for side in pair:
            side.seconds.append(side.ask(f"run {options.steps}"))
    peaks = [side.ask("peak") for side in pair]
    devices = [side.ask("device") for side in pair]
    profile = pair[0].ask("profile") if options.profile else []
    for side in pair:
        side.end()
    medians = [float(np.median(side.seconds)) for side in pair]
    ours, theirs = ("checkpointed", "whole") if options.layer_checkpoints else ("kiln", "torch")
    print(f"{options.model}: {ours} {medians[0] * 1e3:.2f} ms, {theirs} {pair[1].facts['version']} "
          f"{medians[1] * 1e3:.2f} ms a step, {theirs} to {ours} {medians[1] / medians[0]:.2f}; peak "
          f"{peaks[0] / 2**20:.1f} and {peaks[1] / 2**20:.1f} MiB, {ours} to {theirs} {peaks[0] / peaks[1]:.2f}; "
          f"device {devices[0] / 2**20:.1f} and {devices[1] / 2**20:.1f} MiB; "
          f"losses of {options.warm} steps differ by {worst:.1g}", *profile, sep="\n")
    return worst < 1e-3


def parser_of():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SHAPES, default="transformer")
    for name, default in (("layers", 4), ("width", 256), ("heads", 4), ("batch", 16), ("context", 64), ("rounds", 7),
                          ("steps", 3), ("warm", 4), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("layer-checkpoints", "cuda", "compiled", "profile"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--checkpoints", action="store_true", help=argparse.SUPPRESS)
    return parser


def main():
    options = parser_of().parse_args()
    options.passed = sys.argv[1:]
    if options.side:
        return serve(options)
    return 0 if compare(options) else 1


if __name__ == "__main__":
    sys.exit(main())
