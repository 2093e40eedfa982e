#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`pip install .` in a clean virtual environment, as docs/python.md says: what it builds is whole, is one wheel for all
CPythons from 3.11 on, and computes the page's first program. The hooks that it calls are those of ./python, which pip
is asked about, too. pip asks its index for scikit-build-core; without an answer this is a skip. The build is kept, so
that only the first one takes its minutes of processor time."""
import os
import subprocess
import sys
import tempfile

ROOT, BUILD, VERSION = sys.argv[1:4]
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from pages import commands  # noqa: E402

PROGRAM = """
import importlib.metadata, os, sys, kiln
assert kiln.__file__.startswith(sys.prefix), kiln.__file__
assert (kiln.relu(kiln.asarray([-2.0, 1.0]) * 3) + 1).tolist() == [1.0, 4.0]
assert kiln.device().stats["blocks_fused"] == 1, kiln.device().stats
session = kiln.onnx.load(os.path.join(sys.argv[1], "examples/digits/digits.onnx"))
assert session.get_inputs()[0].name == "image"
assert kiln.grad(lambda x: kiln.sum(x * x))(kiln.asarray([3.0])).tolist() == [6.0]
assert os.path.exists(kiln.onnx.provider_library())
about = importlib.metadata.distribution("kiln")
print(about.version, kiln.__version__)
print(*[line for line in about.read_text("WHEEL").splitlines() if line.startswith("Tag: ")])
print(*[point.value for point in importlib.metadata.entry_points(group="torch_dynamo_backends")])
"""


def run(command, seconds, **how):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, **how)
    assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}: {(done.stdout + done.stderr)[-3000:]}"
    return done.stdout


def index_answers(pip, work):
    command = [*pip, "download", "--quiet", "--no-deps", "--retries", "1", "--dest", f"{work}/asked", "scikit-build-core"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def first_program(python, work, env):
    with open(os.path.join(ROOT, "docs/python.md"), encoding="utf-8") as file:
        page = file.read()
    assert "\n    venv/bin/pip install .\n" in page, "docs/python.md installs in another way"
    for command, promises in commands(work, page):
        told = run([python if word == "python3" else word for word in command.split()], 120, cwd=work, env=env)
        assert promises and told.splitlines() == promises, told


def install(work):
    """Gives why nothing was tried, or None."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KILN_", "PYTHON")) or k == "KILN_CACHE_DIR"}
    python = f"{work}/venv/bin/python"
    if subprocess.run(["/usr/bin/python3", "-m", "venv", f"{work}/venv"], capture_output=True, check=False).returncode:
        return "python3-venv is missing"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    if not index_answers(pip, work):
        return "pip's index does not answer"
    build = f"--config-settings=build-dir={BUILD}/pip"
    run([*pip, "install", "--quiet", build, ROOT], 1500, env=env)
    told = run([*pip, "install", "--dry-run", "--force-reinstall", "--no-deps", build, f"{ROOT}/python"], 300, env=env)
    assert f"Would install kiln-{VERSION}" in told, told
    first_program(python, work, env)
    told = run([python, "-c", PROGRAM, ROOT], 120, cwd=work, env=env).splitlines()
    assert told[0] == f"{VERSION} {VERSION}", told
    assert told[1].startswith("Tag: cp311-abi3-"), told
    assert told[2] == "kiln.torch:backend", told
    return None


def main():
    with tempfile.TemporaryDirectory(prefix="kiln-pip-") as work:
        why = install(work)
    if why:
        print(f"SKIP pip install .: {why}")
    print(f"kiln-test: {0 if why else 1} passed, 0 failed, {1 if why else 0} skipped")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as problem:
        print(f"FAIL pip install .: {problem}\nkiln-test: 0 passed, 1 failed, 0 skipped")
        sys.exit(1)
