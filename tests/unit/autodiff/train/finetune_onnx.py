#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""examples/finetune_onnx: the loss falls, the written model gives under `kiln run` what the training had, can be trained
on, and differs from the first in the trained weights alone."""
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

PROGRAM, KILN, ROOT = sys.argv[1:4]
MODEL = os.path.join(ROOT, "examples/digits/digits.onnx")
DATA = os.path.join(ROOT, "examples/train_digits")
HELD_OUT = 360
SAID = re.compile(r"(\d+) weights trained; of 360 held-out digits (\d+) were right before, (\d+) after")
count = {"passed": 0, "failed": 0, "skipped": 0}


def tell(ok, name, text=""):
    count["passed" if ok else "failed"] += 1
    if not ok:
        print(f"FAIL unit/autodiff/train/finetune_onnx {name}\n    {text}")


def tune(model, tuned, *more):
    """Numbers of weights, and of digits that were right before and after."""
    done = subprocess.run([PROGRAM, "-f", DATA, *more, model, tuned], capture_output=True, text=True, timeout=280,
                          check=False)
    found = SAID.search(done.stdout)
    if done.returncode != 0 or found is None:
        tell(False, "run", done.stdout + done.stderr)
        return 0, 0, 0
    return tuple(int(number) for number in found.groups())


def read_right(folder, model):
    """How many bright digits the command gets right with a model's file."""
    held, output = (os.path.join(folder, name) for name in ("held.npy", "output.npy"))
    images = np.load(os.path.join(DATA, "images.npy"))[-HELD_OUT:]
    np.save(held, (16 - images.astype(np.float32)).reshape(HELD_OUT, 1, 8, 8))
    subprocess.run([KILN, "run", model, "--input", held, "--output", output, "--runs", "0"], check=True,
                   capture_output=True, timeout=280)
    labels = np.load(os.path.join(DATA, "labels.npy"))[-HELD_OUT:]
    return int((np.load(output).argmax(axis=1) == labels).sum())


def check_contents(first, second, trained):
    """By ONNX's own reader, where it is installed."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        count["skipped"] += 1
        print(f"SKIP unit/autodiff/train/finetune_onnx contents\n    {error}")
        return
    models = [onnx.load(path) for path in (first, second)]
    onnx.checker.check_model(models[1])
    weights = [{w.name: numpy_helper.to_array(w) for w in model.graph.initializer} for model in models]
    changed = sorted(name for name in weights[0] if not np.array_equal(weights[0][name], weights[1][name]))
    tell(changed == sorted(trained), "contents", f"changed are {changed}")
    for model in models:
        del model.graph.initializer[:]
    tell(models[0] == models[1], "the rest", "differs")


def main():
    with tempfile.TemporaryDirectory() as folder:
        tuned, later, last = (os.path.join(folder, name) for name in ("tuned.onnx", "later.onnx", "last.onnx"))
        log = os.path.join(folder, "log.jsonl")
        weights, before, after = tune(MODEL, tuned, "-n", "80", "-l", log)
        with open(log, encoding="utf-8") as file:
            losses = [json.loads(line)["loss"] for line in file]
        tell(weights == 9 and before < HELD_OUT // 3 and after > HELD_OUT * 0.9, "digits",
             f"{weights} weights, {before} to {after} digits")
        tell(len(losses) == 80 and sum(losses[-5:]) < sum(losses[:5]) / 10, "loss", f"{losses}")
        found = read_right(folder, MODEL), read_right(folder, tuned)
        tell(found == (before, after), "kiln run", f"{found}, in training {before}, {after}")
        check_contents(MODEL, tuned, ["conv1.weight", "conv1.bias", "conv2.weight", "norm.scale", "norm.bias",
                                      "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"])
        weights, before, _ = tune(tuned, later, "-n", "1")
        tell(before == after, "once more", f"{before} right, {after} were")
        weights, _, _ = tune(MODEL, last, "-n", "3", "-o", "linear2")
        tell(weights == 2, "few", f"{weights} weights")
        check_contents(MODEL, last, ["linear2.weight", "linear2.bias"])
    print(f"kiln-test: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


sys.exit(main())
