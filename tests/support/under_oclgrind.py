#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a test program on oclgrind's device and fails when a kernel touched memory that it may not, or
when two work-items raced; with --strict in front also when an uninitialised value was used.

oclgrind reports to a log and leaves the exit status alone, so the log decides too. With --strict
kernels are compiled without optimisation, for oclgrind's watch over uninitialised values stops at
instructions that only the optimiser makes (freeze). It also takes memory that is given out again for
what lay there before, and a buffer that is written in pieces for one never written.
"""
import os
import shutil
import subprocess
import sys
import tempfile


STRICT = ["--uninitialized", "--build-options", "-cl-opt-disable"]


def run(program, strict):
    """Exit status, and what oclgrind wrote."""
    with tempfile.TemporaryDirectory(prefix="kiln-oclgrind-") as folder:
        log = os.path.join(folder, "log")
        env = dict(os.environ, KILN_CACHE_DIR=os.path.join(folder, "cache"), KILN_TEST_OCLGRIND="1")
        watch = ["--log", log, "--max-errors", "20", "--data-races", *(STRICT if strict else [])]
        done = subprocess.run(["oclgrind", *watch, *program], env=env, check=False)
        text = ""
        if os.path.exists(log):
            with open(log, errors="replace") as file:
                text = file.read().strip()
    return done.returncode, text


def main():
    strict = sys.argv[1] == "--strict"
    program = sys.argv[2 if strict else 1:]
    name = os.path.basename(program[0])
    if not shutil.which("oclgrind"):
        print(f"SKIP oclgrind {name}: oclgrind is not installed")
        print("kiln-test: 0 passed, 0 failed, 1 skipped")
        return 0
    status, text = run(program, strict)
    if text:
        print(f"FAIL oclgrind {name}")
        print("\n".join("    " + line for line in text.splitlines()[:80]))
        print("kiln-test: 0 passed, 1 failed, 0 skipped")
        return 1
    return status


sys.exit(main())
