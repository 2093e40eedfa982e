#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""bench/train_devices.py ROOT WAY DEVICE... in small: losses like those of one device, and a ledger of every call; no
times."""
import os
import re
import subprocess
import sys

root, way, *devices = sys.argv[1:]
done = subprocess.run([sys.executable, os.path.join(root, "bench/train_devices.py"), *devices, "--small", "--ways", way,
                       "--bucket-mib", "0.02", "--rounds", "1", "--steps", "1", "--warm", "2"], capture_output=True,
                      text=True, timeout=550, check=False)
assert done.returncode == 0, done.stdout + done.stderr
differ = re.search(r"losses of 2 steps differ by (\S+)\n", done.stdout)
assert differ and float(differ.group(1)) < 1e-4, done.stdout
assert re.search(r"\n2 devices.* times the examples\n", done.stdout), done.stdout
calls = [line.split()[-1] for line in done.stdout.splitlines() if re.match(r" +[0-9.]+ .*[a-z]$", line)]
kinds = {"averaged": {"all_reduce"}, "shared": {"reduce_scatter", "all_gather"}}[way]
assert len(calls) > 2 and set(calls) == kinds, done.stdout
print("1 passed, 0 failed")
