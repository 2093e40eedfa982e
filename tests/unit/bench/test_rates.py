#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measurements of serving run and give figures, whatever these are: test_rates.py KILN ROOT."""
import os
import re
import subprocess
import sys

KILN, ROOT = os.path.abspath(sys.argv[1]), sys.argv[2]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def operations_beside_a_ping_pong():
    said = run(KILN, "bench", "remote", "operations", "--runs", "1")
    for row, unit in (("pipelined operations", "/s"), ("one operation and its result", "us")):
        assert float(re.search(rf"{row} +([0-9.]+) {unit}", said).group(1)) > 0, said


def answers_of_a_model():
    said = run(sys.executable, os.path.join(ROOT, "bench/serving_rates.py"), os.path.dirname(os.path.dirname(KILN)),
               "--seconds", "0.2", "--rounds", "1", "--clients", "2")
    assert float(re.match(r"kiln +2 clients +([0-9]+) answers", said).group(1)) > 0, said


operations_beside_a_ping_pong()
answers_of_a_model()
print("kiln-test: 2 passed, 0 failed, 0 skipped")
