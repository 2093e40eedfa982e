#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trains the digits on 1, 2 and 4 devices and under mpirun on two processes: the losses must agree
within rounding, and 97 % of the held-out digits be right each time."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM, DATA = sys.argv[1:3]
EPOCHS = 40
TOLERANCE = 2e-3  # of the loss after the last epoch; rounding grows with the steps
LINE = re.compile(r"(\d+) devices: loss ([\d.]+) after 1 epoch, ([\d.]+) after \d+; ([\d.]+) %")
count = {"passed": 0, "failed": 0, "skipped": 0}


def tell(outcome, name, text=""):
    count[outcome] += 1
    if outcome != "passed":
        print(f"{'FAIL' if outcome == 'failed' else 'SKIP'} collective/train_digits {name}\n    {text}")


def train(launcher, devices, picture):
    command = launcher + [PROGRAM, "-q", "-e", str(EPOCHS), "-n", str(devices), "-f", DATA]
    done = subprocess.run(command + ["-p", picture], capture_output=True, text=True, timeout=240)
    found = LINE.search(done.stdout)
    return (found and [float(x) for x in found.groups()]), done


def main():
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, "loss.svg")
        mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
        base = None
        for name, launcher, devices in (("1 device", [], 1), ("2 devices", [], 2),
                                        ("4 devices", [], 4), ("2 processes", mpirun, 1),
                                        ("2 processes of 2 devices", mpirun, 2)):
            if launcher and shutil.which(launcher[0]) is None:
                tell("skipped", name, f"{launcher[0]} is not installed")
                continue
            said, done = train(launcher, devices, picture)
            if said is None or done.returncode != 0:
                tell("failed", name, done.stdout + done.stderr)
                continue
            base = base or said
            near = (abs(said[1] - base[1]) < 1e-4 * base[1] and
                    abs(said[2] - base[2]) < TOLERANCE * (base[2] + 0.01))
            with open(picture, encoding="utf-8") as file:
                drawn = len(re.findall(r"[\d.]+,[\d.]+ ", file.read())) == EPOCHS
            ok = near and drawn and said[0] == devices * (2 if launcher else 1) and said[3] >= 97
            tell("passed" if ok else "failed", name, f"{said}, one device: {base}")
    print(f"kiln-test: {count['passed']} passed, {count['failed']} failed, "
          f"{count['skipped']} skipped")
    return 1 if count["failed"] else 0


sys.exit(main())
