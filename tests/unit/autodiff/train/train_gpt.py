#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""examples/train_gpt in small: its loss falls; a training that was interrupted once and killed once
has the same curve and the same state, bit for bit; the curve is drawn, and text is written. With products in f16 and
bf16 the curve is nearly the same."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, TEXT = sys.argv[1:3]
STEPS = 60
SMALL = ["-d", "reference:0", "-t", TEXT, "-n", str(STEPS), "-s", "10", "-b", "4", "-c", "12", "-w", "16", "-a", "2",
         "-k", "1", "-r", "0.02"]


def files(folder, name):
    return [os.path.join(folder, f"{name}.{end}") for end in ("safetensors", "jsonl", "svg")]


def command(folder, name):
    state, log, picture = files(folder, name)
    return [PROGRAM, *SMALL, "-f", state, "-l", log, "-p", picture, "-x", "20"]


def read_curve(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [(line["step"], line["loss"], line["rate"]) for line in lines]


def end_after(folder, name, line, sign):
    """Ends a training when its log has so many lines."""
    with subprocess.Popen(command(folder, name), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as job:
        path = files(folder, name)[1]
        for _ in range(3000):
            if os.path.exists(path) and len(open(path, encoding="utf-8").readlines()) >= line:
                break
            time.sleep(0.01)
        job.send_signal(sign)
        said = job.stderr.read()
        return job.wait(timeout=60), said


def main():
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        whole = subprocess.run(command(folder, "whole"), capture_output=True, text=True, timeout=200, check=False)
        curve = read_curve(files(folder, "whole")[1])
        first = sum(loss for _, loss, _ in curve[:10]) / 10
        last = sum(loss for _, loss, _ in curve[-10:]) / 10
        if whole.returncode != 0 or len(curve) != STEPS or not last < first - 0.5:
            bad.append(f"whole: {whole.returncode}, {len(curve)} steps, {first} to {last}: {whole.stderr}")
        if len(whole.stdout) < 20:
            bad.append(f"written: {whole.stdout!r}")
        with open(files(folder, "whole")[2], encoding="utf-8") as file:
            if len(re.findall(r"[\d.]+,[\d.]+ ", file.read())) != STEPS:
                bad.append("the picture has another number of points")
        status, said = end_after(folder, "parts", 13, signal.SIGINT)
        if status != 1 or "the same command goes on from there" not in said:
            bad.append(f"interrupted: {status}, {said}")
        status, said = end_after(folder, "parts", 36, signal.SIGKILL)
        if status != -signal.SIGKILL or "going on after step" not in said:
            bad.append(f"killed: {status}, {said}")
        rest = subprocess.run(command(folder, "parts"), capture_output=True, text=True, timeout=200, check=False)
        if rest.returncode != 0 or read_curve(files(folder, "parts")[1]) != curve:
            bad.append(f"the curve of the parts is another: {rest.stderr}")
        states = [open(files(folder, name)[0], "rb").read() for name in ("whole", "parts")]
        if states[0] != states[1] or rest.stdout != whole.stdout:
            bad.append("the state of the parts is another")
        for dtype, bound in (("f16", 0.01), ("bf16", 0.04)):  # bf16 rounds eight times as coarsely
            mixed = subprocess.run([*command(folder, dtype), "-q", dtype], capture_output=True, text=True, timeout=200,
                                   check=False)
            losses = [loss for _, loss, _ in read_curve(files(folder, dtype)[1])]
            worst = max(abs(a - b) for a, (_, b, _) in zip(losses[:20], curve)) if len(losses) == STEPS else 1
            if mixed.returncode != 0 or not 0 < worst < bound or abs(sum(losses[-10:]) / 10 - last) > 0.1:
                bad.append(f"{dtype}: a loss is {worst} from that of f32: {losses}, {mixed.stderr}")
        wild = subprocess.run([*command(folder, "wild"), "-r", "1e30"], capture_output=True, text=True, timeout=200,
                              check=False)
        if wild.returncode != 0 or None not in [loss for _, loss, _ in read_curve(files(folder, "wild")[1])]:
            bad.append(f"a loss that is no number is null in JSON: {wild.returncode}, {wild.stderr}")
        if "nan" in open(files(folder, "wild")[2], encoding="utf-8").read():
            bad.append("the picture has points that are no numbers")
    for text in bad:
        print(f"FAIL unit/autodiff/train/train_gpt\n    {text}")
    print(f"kiln-test: {0 if bad else 1} passed, {len(bad)} failed, 0 skipped")
    return 1 if bad else 0


sys.exit(main())
