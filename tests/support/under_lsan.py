#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a test of the address sanitizer build, and once more when LeakSanitizer itself died, in the
test's program or in one that its script started.

At the end of a process its tracer now and then meets a thread that is just going, and is killed by its
own read ("Tracer caught signal 11"; seen once in some 300 programs). Nothing was looked
for then, so the program runs again; anything else, reports of leaks among them, stays as it is.
"""
import subprocess
import sys

DIED = b"LeakSanitizer has encountered a fatal error"


def main():
    for _ in range(3):
        done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        if done.returncode == 0 or DIED not in done.stdout:
            break
        print(f"LeakSanitizer died in {sys.argv[1]}: once more", flush=True)
    sys.stdout.buffer.write(done.stdout)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


sys.exit(main())
