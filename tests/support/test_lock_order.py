#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lock_order.c against scenes of one thread, which would never hang: wrong orders end the program, right ones do
not, and mutexes of programs elsewhere do not count. test_lock_order.py LIBRARY SCENE."""
import os
import signal
import subprocess
import sys

LIBRARY, SCENE = (os.path.realpath(path) for path in sys.argv[1:3])
HERE = os.path.dirname(SCENE)
GOOD = ("same", "trying", "again")
WRONG = {"turned": "make a circle", "circle": "make a circle", "waiting": "make a circle",
         "siblings": "in both orders", "twice": "a lock that it holds"}


def run(scene, folder):
    environment = {**os.environ, "LD_PRELOAD": LIBRARY, "KILN_TEST_LOCK_ORDER": folder}
    return subprocess.run([SCENE, scene], env=environment, capture_output=True, text=True, check=False, timeout=120)


def problem(done, reason):
    told = [line for line in done.stderr.splitlines() if line.startswith("lock order: ")]
    if reason is None:
        return done.stderr or done.returncode
    if done.returncode != -signal.SIGABRT or not told or reason not in told[-1]:
        return f"status {done.returncode}, {done.stderr!r} instead of {reason!r}"
    places = [line for line in told if os.path.basename(SCENE) + "+0x" in line]
    return None if places or "both orders" in reason else f"no place in {done.stderr!r}"


def main():
    found = {scene: problem(run(scene, HERE), None) for scene in GOOD}
    found |= {scene: problem(run(scene, HERE), reason) for scene, reason in WRONG.items()}
    found["elsewhere"] = problem(run("turned", "/nowhere"), None)
    wrong = {name: text for name, text in found.items() if text}
    for name, text in wrong.items():
        print(f"FAIL {name}: {text}")
    print(f"kiln-test: {len(found) - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong else 0


sys.exit(main())
