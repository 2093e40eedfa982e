#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""examples/train_gpt on 1, 2 and 4 devices and under mpirun on two processes: the loss of every step must be that of
one device within rounding. Two processes that are interrupted stop at one step, and go on as if nothing had been."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, TEXT = sys.argv[1:3]
STEPS = 40
TOLERANCE = 2e-5  # relative, at every step
SMALL = ["-t", TEXT, "-n", str(STEPS), "-s", "100", "-b", "8", "-c", "12", "-w", "16", "-a", "2", "-k", "1", "-r", "0.02",
         "-x", "0"]
MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
count = {"passed": 0, "failed": 0, "skipped": 0}


def tell(outcome, name, text=""):
    count[outcome] += 1
    if outcome != "passed":
        print(f"{'FAIL' if outcome == 'failed' else 'SKIP'} collective/train_gpt_devices {name}\n    {text}")


def command(folder, name, devices):
    state, log = (os.path.join(folder, f"{name}.{end}") for end in ("safetensors", "jsonl"))
    return [PROGRAM, *SMALL, *devices, "-f", state, "-l", log]


def read_curve(folder, name):
    path = os.path.join(folder, f"{name}.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file if line.endswith("\n")]


def compare(name, curve, base):
    if len(curve) != STEPS:
        return tell("failed", name, f"{len(curve)} steps")
    worst = max(abs(a - b) / b for a, b in zip(curve, base))
    return tell("passed" if worst < TOLERANCE else "failed", name, f"a loss is {worst:.2g} from that of one device")


def check_interrupted(folder, base):
    """The interrupt reaches one process alone; the other stops at the same step."""
    name = "interrupted"
    run = MPIRUN + command(folder, name, ["-d", "reference:0"])
    with subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
        while job.poll() is None and len(read_curve(folder, name)) < 5:
            time.sleep(0.01)
        ranks = subprocess.run(["pgrep", "-P", str(job.pid), "train_gpt"], capture_output=True, text=True,
                               check=False).stdout.split()
        os.kill(int(ranks[-1]), signal.SIGINT)
        said = job.stderr.read()
        job.wait(timeout=60)
    first = len(read_curve(folder, name))
    if "the same command goes on from there" not in said or not 5 <= first < STEPS:
        tell("failed", name, f"{first} steps: {said}")
        return
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    curve = read_curve(folder, name)
    if done.returncode != 0:
        tell("failed", name, done.stderr)
    compare(name, curve, base)


def main():
    with tempfile.TemporaryDirectory() as folder:
        base = None
        for name, launcher, devices in (("1", [], ["-m", "1"]), ("2", [], ["-m", "2"]), ("4", [], ["-m", "4"]),
                                        ("reference and OpenCL", [], ["-d", "opencl:0", "-d", "reference:0"]),
                                        ("2 processes of 2", MPIRUN, ["-m", "2"])):
            if launcher and shutil.which(launcher[0]) is None:
                tell("skipped", name, f"{launcher[0]} is not installed")
                continue
            done = subprocess.run(launcher + command(folder, name, devices), capture_output=True, text=True,
                                  timeout=240, check=False)
            if done.returncode != 0:
                tell("failed", name, done.stderr)
                continue
            base = base or read_curve(folder, name)
            compare(name, read_curve(folder, name), base)
        if shutil.which(MPIRUN[0]) is not None and base is not None:
            check_interrupted(folder, base)
    print(f"kiln-test: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


sys.exit(main())
