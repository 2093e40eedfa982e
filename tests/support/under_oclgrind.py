#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a test program on oclgrind's device and fails when a kernel touched memory that it may not.

oclgrind reports to a log and leaves the exit status alone, so the log decides too.
"""
import os
import shutil
import subprocess
import sys
import tempfile


def main():
    if not shutil.which("oclgrind"):
        print(f"SKIP oclgrind {os.path.basename(sys.argv[1])}: oclgrind is not installed")
        print("kiln-test: 0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="kiln-oclgrind-") as folder:
        log = os.path.join(folder, "log")
        env = dict(os.environ, KILN_CACHE_DIR=os.path.join(folder, "cache"), KILN_TEST_OCLGRIND="1")
        done = subprocess.run(["oclgrind", "--log", log, "--max-errors", "20", *sys.argv[1:]],
                              env=env, check=False)
        text = ""
        if os.path.exists(log):
            with open(log, errors="replace") as file:
                text = file.read().strip()
    if text:
        print(f"FAIL oclgrind {os.path.basename(sys.argv[1])}")
        print("\n".join("    " + line for line in text.splitlines()[:80]))
        print("kiln-test: 0 passed, 1 failed, 0 skipped")
        return 1
    return done.returncode


sys.exit(main())
