#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""bench/train_devices.py ROOT in small, on two reference devices: losses like those of one device, no times."""
import os
import re
import subprocess
import sys

done = subprocess.run([sys.executable, os.path.join(sys.argv[1], "bench/train_devices.py"), "reference", "reference",
                       "--small", "--rounds", "1", "--steps", "1", "--warm", "2"], capture_output=True, text=True,
                      timeout=550, check=False)
assert done.returncode == 0, done.stdout + done.stderr
differ = re.search(r"2 devices .* losses of 2 steps differ by (\S+)\n", done.stdout)
assert differ and float(differ.group(1)) < 1e-4, done.stdout
print("1 passed, 0 failed")
