# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command as tests run it: KILN TREE are their arguments, further words choose cases by name."""
import os
import subprocess
import sys

KILN, ROOT = sys.argv[1], sys.argv[2]
BUILD = os.path.dirname(os.path.dirname(os.path.abspath(KILN)))
MODEL = os.path.join(ROOT, "examples/digits/digits.onnx")
INPUT = os.path.join(ROOT, "examples/digits/three.npy")
FAST = ["--device", "reference"]
CASES = []


def case(function):
    CASES.append(function)
    return function


def kiln(*arguments, **environment):
    return subprocess.run([KILN, *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment}, timeout=300)


def expect(run, code, *parts, stream="stdout"):
    text = getattr(run, stream)
    assert run.returncode == code, f"rc {run.returncode}, not {code}: {run.stdout}{run.stderr}"
    for part in parts:
        assert part in text, f"no {part!r} in {text!r}"


def expect_error(run, *parts, code=1):
    expect(run, code, *parts, stream="stderr")
    assert len(run.stderr.strip().splitlines()) == 1, f"not one line: {run.stderr!r}"


def main(name):
    failed = 0
    cases = [f for f in CASES if len(sys.argv) < 4 or any(word in f.__name__ for word in sys.argv[3:])]
    for function in cases:
        try:
            function()
        except (AssertionError, subprocess.TimeoutExpired, ValueError, LookupError) as error:
            failed += 1
            print(f"FAIL unit/cli/{name} {function.__name__}\n    {error}")
    print(f"kiln-test: {len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0
