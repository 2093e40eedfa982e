#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same through grpc:// and grpcs:// as on the device itself: the operator suite, the digits, and ONNX's node tests.
Arguments: kiln, the source folder, the conformance program."""
import os
import re
import subprocess
import sys

from serve_fixture import PATIENCE, Server, make_certificates, run_cases

KILN, SOURCE, CONFORMANCE = sys.argv[1:4]
DATA = "/usr/share/libonnx-testdata/data"
ONNX = [f"{DATA}/{name}" for name in ("node", "simple", "pytorch-operator", "pytorch-converted")]
DTYPES = "f64,f32,f16,bf16,i64,i32,i16,i8,u64,u32,u16,u8,bool"


def run(*command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False,
                          timeout=1500 * PATIENCE)
    assert done.returncode == 0, (command, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def opencl_or(other):
    return "opencl:0" if "opencl:0" in run(KILN, "devices") else other


def both(folder, device, check):
    """Runs `check(address, environment)` against a plain server and one with TLS and client certificates."""
    path = make_certificates(folder)
    tls = ["--tls-cert", path("server.pem"), "--tls-key", path("server.key"), "--client-ca", path("ca.pem")]
    env = {"KILN_REMOTE_CA": path("ca.pem"), "KILN_REMOTE_CERT": path("client.pem"), "KILN_REMOTE_KEY": path("client.key")}
    with Server(KILN, device=device) as server:
        check(server.address, {})
    with Server(KILN, *tls, device=device) as server:
        assert server.address.startswith("grpcs://")
        check(server.address, env)


def case_operators(folder):
    def check(address, env):
        said = run(CONFORMANCE, f"--backend={address}", f"--dtypes={DTYPES}", env=env)
        passed, failed = map(int, re.search(r"(\d+) passed, (\d+) failed", said).groups())
        print(f"    {address.split(':')[0]}: {passed} cases, {DTYPES.count(',') + 1} dtypes")
        assert passed > 100 and failed == 0, said

    both(folder, "reference", check)


def digits(address, env=None):
    said = run(KILN, "run", f"{SOURCE}/examples/digits/digits.onnx", "--input", f"{SOURCE}/examples/digits/three.npy",
               "--device", address, env=env)
    return [line for line in said.split("\n") if line.startswith(("log_probability", "predicted"))]


def case_digits(folder):
    expected = digits("reference")
    assert expected[1] == "predicted class: 3", expected

    def check(address, env):
        assert digits(address, env) == expected, (digits(address, env), expected)

    both(folder, "reference", check)


def suite(address, folders, env=None):
    """Strict: what is skipped, and what the host computes, is on a list that says why."""
    return run(KILN, "check-onnx", "--strict", "--summary", "--device", address, *folders, env=env).strip().split("\n")[-1]


def case_onnx(folder):
    """All of them through grpc://; TLS changes nothing but the bytes on the way: the smaller folders through grpcs://."""
    device = opencl_or("reference")
    expected = {"grpc": suite(device, ONNX), "grpcs": suite(device, ONNX[1:])}
    passed, failed, skipped = map(int, re.findall(r"\d+", expected["grpc"]))
    assert passed > 1000 and failed == 0 and skipped < 50, expected
    print(f"    {device}: {expected['grpc']}")

    def check(address, env):
        scheme = address.split(":")[0]
        got = suite(address, ONNX if scheme == "grpc" else ONNX[1:], env)
        assert got == expected[scheme], (address, got, expected)

    both(folder, device, check)


def case_the_server_plans(folder):
    """What is said of plans, blocks and programs is the server's to say: here is one line, and no empty report."""
    model, x = f"{SOURCE}/examples/digits/digits.onnx", f"{SOURCE}/examples/digits/three.npy"
    stream = os.path.join(folder, "a.replay")
    with open(stream, "w", encoding="ascii") as file:
        file.write("kiln replay 1\ninput %1: f32[3,5]\n%2: f32[3,5] = neg(%1: f32[3,5])\noutput %2\nend\n")
    with Server(KILN, device=opencl_or("reference")) as server:
        def fails(*command):
            done = subprocess.run([KILN, *command], capture_output=True, text=True, timeout=300 * PATIENCE, check=False,
                                  env={**os.environ, "KILN_REMOTE_ADDRESS": server.address, "KILN_CACHE_DIR": folder})
            assert done.returncode == 1 and done.stdout == "", (command, done.stdout, done.stderr)
            return done.stderr.splitlines()

        for command in (["explain"], ["explain", "--runs", "0"], ["explain", "--json"], ["tune"], ["cache", "prepare"],
                        ["plugin", "bench"], ["plugin", "dump"]):
            file = stream if command[0] == "plugin" else model
            name = " ".join(word for word in command[:2] if word[0] != "-")
            for device in (server.address, "grpc:"):
                said = fails(*command, file, "--device", device)
                assert said == [f"kiln {name}: the server at {server.address}/0 plans and fuses, nothing of it is here; "
                                f"run `kiln {name}` on its machine"], said
        said = run(KILN, "run", model, "--input", x, "--device", server.address)
        assert re.search(r"^operations: \d+; the server plans, fuses and compiles$", said, re.M), said
        assert "fused blocks" not in said and "kernels launched" not in said and "compiling" not in said, said
        said = run(KILN, "replay", "--compare", stream, "--device", server.address)
        assert said.endswith("as the reference\noperations: 1; the server plans, fuses and compiles\n"), said
        streams = os.path.join(folder, "streams")
        done = subprocess.run([KILN, "plugin", "record", "-o", streams, "--", KILN, "run", model, "--input", x, "--device",
                               server.address], capture_output=True, text=True, timeout=300 * PATIENCE, check=False)
        assert done.returncode == 1 and "set it for its server" in done.stderr, (done.stdout, done.stderr)
        assert done.stderr.count("warning") == 1 and os.listdir(streams) == [], done.stderr
    env = {"KILN_RECORD": os.path.join(folder, "there")}
    with Server(KILN, device=opencl_or("reference"), env=env) as server:
        digits(server.address)
    assert any(name.endswith(".replay") for name in os.listdir(env["KILN_RECORD"]))


run_cases("unit/remote_grpc/models", [case_operators, case_digits, case_the_server_plans, case_onnx])
