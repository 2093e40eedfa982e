#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples of clients without a library of Kiln, against a server of a model: Python and curl for KServe's
protocol, Go for both protocols. Arguments: kiln, the source folder."""
import os
import shutil
import subprocess
import sys
import time

KILN, SOURCE = sys.argv[1:3]
sys.path.insert(0, os.path.join(SOURCE, "tests/unit/remote_grpc"))
from serve_fixture import PATIENCE, Server, Skip, run_cases  # pylint: disable=wrong-import-position

EXAMPLES = os.path.join(SOURCE, "examples")


def run(*command, code=0, cwd=None, timeout=60, env=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout * PATIENCE, cwd=cwd,
                          env={**os.environ, **(env or {})})
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def serve(folder):
    place = os.path.join(folder, "models", "digits", "1")
    os.makedirs(place)
    shutil.copy(os.path.join(EXAMPLES, "digits", "digits.onnx"), os.path.join(place, "model.onnx"))
    server = Server(KILN, "--models", os.path.join(folder, "models"), "--http", "127.0.0.1:0")
    deadline = time.monotonic() + 60 * PATIENCE
    while "digits 1: READY" not in run(KILN, "devices", server.address):
        assert time.monotonic() < deadline, "the model is not loaded"
        time.sleep(0.1)
    return server


def picture(word):
    return os.path.join(EXAMPLES, "digits", f"{word}.npy")


def case_python(folder):
    client = os.path.join(EXAMPLES, "kserve_python", "kserve_python.py")
    with serve(folder) as server:
        for word, digit in (("three", "3"), ("seven", "7")):
            assert run(client, server.target, "digits", picture(word)) == f"{digit}\n"
        assert "nothing is not ready: digits READY" in run(client, server.target, "nothing", picture("three"), code=1)
    assert "UNAVAILABLE" in run(client, server.target, "digits", picture("three"), code=1)


def case_curl(folder):
    if shutil.which("curl") is None:
        raise Skip("curl is not installed")
    client = os.path.join(EXAMPLES, "kserve_curl", "kserve_curl.sh")
    with serve(folder) as server:
        http = next((each for each in server.addresses if each.startswith("http")), None)
        if http is None:
            raise Skip("built without libmicrohttpd")
        for word, digit in (("three", 3), ("seven", 7)):
            said = run("sh", client, http, "digits", picture(word))
            assert said.endswith(f"\ndigit: {digit}\n") and '"shape":[1,10]' in said, said
        assert 'there is no model \\"nothing\\"' in run("sh", client, http, "nothing", picture("three"), code=22)


def case_go(folder):
    """Built in a copy; the modules come from Go's cache or its proxy, and need not be reachable."""
    if shutil.which("go") is None:
        raise Skip("go is not installed")
    here = os.path.join(folder, "examples", "remote_go")
    shutil.copytree(os.path.join(EXAMPLES, "remote_go"), here)
    for name in ("ir", "remote_grpc"):
        shutil.copytree(os.path.join(SOURCE, name, "proto"), os.path.join(folder, name, "proto"))
    env = {"GOFLAGS": "-mod=mod -buildvcs=false", "GOTOOLCHAIN": "local"}
    try:
        got = subprocess.run(["go", "mod", "download"], cwd=here, capture_output=True, text=True, check=False,
                             timeout=120, env={**os.environ, **env})
    except subprocess.TimeoutExpired as late:
        raise Skip("Go's module proxy does not answer") from late
    if got.returncode != 0:
        raise Skip(f"the modules of Go cannot be had: {got.stderr.strip().splitlines()[-1]}")
    run("sh", "generate.sh", cwd=here, timeout=300, env=env)
    run("go", "vet", ".", cwd=here, timeout=300, env=env)
    run("go", "build", "-o", "client", ".", cwd=here, timeout=300, env=env)
    with serve(folder) as server:
        said = run(os.path.join(here, "client"), server.target)
        assert "device 0: reference evaluator\nchain: [0 0 4 7]\n" in said, said
        assert "model digits: log_probability FP32[1 10] begins with -5.35" in said, said
    with Server(KILN) as server:
        assert run(os.path.join(here, "client"), server.target).endswith("chain: [0 0 4 7]\n")
    assert "remote_go:" in run(os.path.join(here, "client"), server.target, code=1)


run_cases("unit/serving/examples", [case_python, case_curl, case_go])
