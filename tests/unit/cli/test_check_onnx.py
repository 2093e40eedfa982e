# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln check-onnx` over ONNX's own node tests: how many pass is a floor that may only rise."""
import os
import re
import subprocess
import sys

FOLDER = "/usr/share/libonnx-testdata/data/node"
FLOOR = 750  # of the 932 cases in Debian 12's libonnx-testdata


def main():
    kiln = sys.argv[1]
    if not os.path.isdir(FOLDER):
        print(f"SKIP unit/cli/check_onnx: no {FOLDER} (package libonnx-testdata)")
        print("kiln-test: 0 passed, 0 failed, 1 skipped")
        return 0
    run = subprocess.run([kiln, "check-onnx", FOLDER], capture_output=True, text=True, check=False)
    lines = run.stdout.splitlines()
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1] if lines else "")
    if counts is None:
        print(f"FAIL unit/cli/check_onnx: rc {run.returncode}, no counts; {run.stderr.strip()}")
        print("kiln-test: 0 passed, 1 failed, 0 skipped")
        return 1
    passed, failed, _ = map(int, counts.groups())
    good = run.returncode == 0 and failed == 0 and passed >= FLOOR
    if not good:
        print(f"FAIL unit/cli/check_onnx: rc {run.returncode}; at least {FLOOR} must pass, none fail")
        print("\n".join(lines[:20]))
    print(f"check-onnx: {lines[-1]}")
    print(f"kiln-test: {passed if good else 0} passed, {0 if good else 1} failed, 0 skipped")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
