#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln serve` from outside: where it listens, whom it lets in, health and reflection, a client in another language,
and the library that links no OpenCL. Arguments: kiln, the source folder, client_only, libkiln_client.so."""
import concurrent.futures
import contextlib
import importlib
import json
import os
import queue
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from serve_fixture import PATIENCE, UNDER_TSAN, Server, Skip, make_certificates, measures_memory, run_cases

KILN, SOURCE, CLIENT_ONLY, CLIENT_LIBRARY = sys.argv[1:5]


def run(*command, env=None, code=0):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False,
                          timeout=120 * PATIENCE)
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def compute(address, env=None, code=0):
    return run(CLIENT_ONLY, address, env=env, code=code)


def same(channel, method, request, answer=grpc.StatusCode.OK):
    """A call of bytes."""
    try:
        reply = channel.unary_unary(method)(request, timeout=20 * PATIENCE)
        assert answer == grpc.StatusCode.OK, reply
        return reply
    except grpc.RpcError as error:
        assert error.code() == answer, error
        return None


# ---- listening


def case_one_line_says_where(folder):
    path = os.path.join(folder, "socket")
    with Server(KILN, "--listen", f"unix:{path}") as server:
        assert server.line.startswith("kiln serve: reference at grpc://127.0.0.1:"), server.line
        assert server.addresses[1] == f"unix:{path}", server.line
        assert os.stat(path).st_mode & 0o777 == 0o600, oct(os.stat(path).st_mode)
        for address in server.addresses:
            assert compute(address) == "2 4 6\n"
        refused = run(KILN, "serve", "--device", "reference", "--listen", f"unix:{path}", code=1)
        assert "listens" in refused and refused.count("\n") == 1, refused
        assert server.stop() == 0


def case_group_has_a_number(_):
    with Server(KILN, "--device", "reference:1", "--group", device="reference:0") as server:
        assert server.line.startswith("kiln serve: reference:0 reference:1 as group 1 at "), server.line


def case_refuses_beyond_loopback(folder):
    where = ["--device", "reference", "--listen", "0.0.0.0:0"]
    refused = run(KILN, "serve", *where, code=1)
    assert refused.count("\n") == 1 and "beyond loopback" in refused and "--insecure-i-know" in refused, refused
    path = make_certificates(folder)
    tls = ["--tls-cert", path("server.pem"), "--tls-key", path("server.key")]
    assert "beyond loopback" in run(KILN, "serve", *where, *tls, code=1)
    with Server(KILN, "--insecure-i-know", listen="0.0.0.0:0") as server:
        assert compute(server.address.replace("0.0.0.0", "127.0.0.1")) == "2 4 6\n"
    with Server(KILN, *tls, "--client-ca", path("ca.pem"), listen="0.0.0.0:0") as server:
        assert server.address.startswith("grpcs://")
    assert "certificate" in run(KILN, "serve", "--device", "reference", "--tls-cert", path("server.pem"), code=1)


def case_default_address(_):
    with Server(KILN) as server:
        assert compute("grpc:", {"KILN_REMOTE_ADDRESS": server.address}) == "2 4 6\n"
        assert "127.0.0.1:1" in compute("grpc:", {"KILN_REMOTE_ADDRESS": "grpc://127.0.0.1:1"}, code=1)


def case_devices_of_a_server(folder):
    models = os.path.join(folder, "models")
    for name in ("digits", "broken"):
        os.makedirs(os.path.join(models, name, "1"))
    shutil.copy(os.path.join(SOURCE, "examples", "digits", "digits.onnx"), os.path.join(models, "digits", "1", "model.onnx"))
    with open(os.path.join(models, "broken", "1", "model.onnx"), "w", encoding="ascii") as file:
        file.write("no model")
    path = os.path.join(folder, "socket")
    with Server(KILN, "--device", "reference:1", "--listen", f"unix:{path}", "--models", models,
                device="reference:0") as server:
        said = run(KILN, "devices", "--device", server.address)
        deadline = time.monotonic() + 30 * PATIENCE
        while "(not loaded)" in said and time.monotonic() < deadline:  # models are loaded while the server answers
            said = run(KILN, "devices", "--device", server.address)
        assert said.startswith("kiln 0."), said
        for index in range(2):
            assert f"\n{server.address}/{index} reference evaluator\n" in said, said
        assert "\nmodel digits 1: READY\n" in said and re.search(r"\nmodel broken.*: UNAVAILABLE \(.+\)\n", said), said
        assert said == run(KILN, "devices", "grpc:", env={"KILN_REMOTE_ADDRESS": server.address})
        rows = json.loads(run(KILN, "devices", "--json", f"unix:{path}"))
        assert [row["address"] for row in rows[:2]] == [f"unix:{path}#0", f"unix:{path}#1"], rows
        assert "f32" in rows[0]["stores"] and {row["model"] for row in rows[2:]} == {"digits", "broken"}, rows
        for row in rows[:2]:
            assert compute(row["address"]) == "2 4 6\n"
        assert "reference" in run(KILN, "devices", f"{server.address}/1"), "with a device: that one"
    with Server(KILN) as server:
        assert "model" not in run(KILN, "devices", server.address)
    assert "127.0.0.1:1" in run(KILN, "devices", "grpc://127.0.0.1:1", code=1)


def case_weights_are_kept(folder):
    model = os.path.join(SOURCE, "examples", "digits", "digits.onnx")
    cache = os.path.join(folder, "cache")
    said = []
    for _ in range(2):
        with Server(KILN, env={"KILN_CACHE_DIR": cache}) as server:
            said.append(run(KILN, "run", model, "--input", os.path.join(SOURCE, "examples", "digits", "three.npy"),
                            "--device", server.address).splitlines()[0])
            said.append(sorted(os.listdir(os.path.join(cache, "weights"))))
    assert said[0] == said[2] and said[1] == said[3] and len(said[1]) >= 2, said


# ---- who may


def case_client_certificates(folder):
    path = make_certificates(folder)
    with Server(KILN, "--tls-cert", path("server.pem"), "--tls-key", path("server.key"),
                "--client-ca", path("ca.pem")) as server:
        known = {"KILN_REMOTE_CA": path("ca.pem"), "KILN_REMOTE_CERT": path("client.pem"),
                 "KILN_REMOTE_KEY": path("client.key")}
        assert compute(server.address, known) == "2 4 6\n"
        assert compute(server.address.replace("127.0.0.1", "localhost"), known) == "2 4 6\n"
        stranger = {**known, "KILN_REMOTE_CERT": path("stranger.pem"), "KILN_REMOTE_KEY": path("stranger.key")}
        for env in (stranger, {"KILN_REMOTE_CA": path("ca.pem")}, {**known, "KILN_REMOTE_CA": path("other.pem")}):
            said = compute(server.address, env, code=1)
            assert said.count("\n") >= 1, said
        assert compute(server.address.replace("grpcs", "grpc"), {}, code=1)
        assert "both" in compute(server.address, {"KILN_REMOTE_CERT": path("client.pem")}, code=1)


def case_tokens(folder):
    path = make_certificates(folder)
    for name, text in (("tokens", "first-token\nsecond-token\n"), ("good", "second-token\n"), ("bad", "second-toke\n"),
                       ("empty", "\n")):
        with open(path(name), "w", encoding="ascii") as file:
            file.write(text)
    with Server(KILN, "--tls-cert", path("server.pem"), "--tls-key", path("server.key"),
                "--token-file", path("tokens")) as server:
        trust = {"KILN_REMOTE_CA": path("ca.pem")}
        assert compute(server.address, {**trust, "KILN_REMOTE_TOKEN_FILE": path("good")}) == "2 4 6\n"
        assert "token" in compute(server.address, {**trust, "KILN_REMOTE_TOKEN_FILE": path("bad")}, code=1)
        assert "token" in compute(server.address, trust, code=1)
        assert "token" in compute(server.address, {**trust, "KILN_REMOTE_TOKEN_FILE": path("empty")}, code=1)
    with Server(KILN, "--token-file", path("tokens")) as server:
        with grpc.insecure_channel(server.target) as channel:
            assert same(channel, "/grpc.health.v1.Health/Check", b"") == b"\x08\x01"
            same(channel, "/kiln.v1.Compute/Info", b"", grpc.StatusCode.UNAUTHENTICATED)
    said = compute("grpc://192.0.2.1:9", {"KILN_REMOTE_TOKEN_FILE": path("good")}, code=1)
    assert "in the clear" in said, said


def case_renewed_while_serving(folder):
    """Certificates, authorities and tokens are read again when their files change; what is damaged changes nothing."""
    path = make_certificates(folder)

    def put(target, text):
        with open(path(target + ".new"), "w", encoding="ascii") as file:
            file.write(text)
        os.replace(path(target + ".new"), path(target))

    def text_of(name):
        with open(path(name), encoding="ascii") as file:
            return file.read()

    def until(env, code, expected):
        for _ in range(40 * PATIENCE):
            done = subprocess.run([CLIENT_ONLY, server.address], capture_output=True, text=True,
                                  env={**os.environ, **env}, check=False, timeout=60 * PATIENCE)
            if (done.returncode, done.stdout) == (code, expected):
                return
            time.sleep(0.1)
        assert False, (env, done)

    put("live.pem", text_of("server.pem"))
    put("live.key", text_of("server.key"))
    put("live.ca", text_of("ca.pem"))
    put("tokens", "old-token\n")
    put("old", "old-token\n")
    put("new", "new-token\n")
    known = {"KILN_REMOTE_CA": path("ca.pem"), "KILN_REMOTE_CERT": path("client.pem"),
             "KILN_REMOTE_KEY": path("client.key"), "KILN_REMOTE_TOKEN_FILE": path("old")}
    with Server(KILN, "--tls-cert", path("live.pem"), "--tls-key", path("live.key"), "--client-ca", path("live.ca"),
                "--token-file", path("tokens")) as server:
        assert compute(server.address, known) == "2 4 6\n"
        put("tokens", "new-token\n")
        until(known, 1, "")
        known["KILN_REMOTE_TOKEN_FILE"] = path("new")
        until(known, 0, "2 4 6\n")
        for damaged in ("live.pem", "live.ca", "tokens"):
            put(damaged, "" if damaged == "tokens" else "no certificate\n")
            time.sleep(0.5)
            assert compute(server.address, known) == "2 4 6\n", damaged
        put("tokens", "new-token\n")
        put("live.ca", text_of("other.pem"))  # now the stranger is known, and the client is not
        put("live.pem", text_of("server.pem"))
        stranger = {**known, "KILN_REMOTE_CERT": path("stranger.pem"), "KILN_REMOTE_KEY": path("stranger.key")}
        until(stranger, 0, "2 4 6\n")
        until(known, 1, "")


def case_one_line_says_why(folder):
    """Each mistake of a user ends with status 1 or 2 and a line that says what to do."""
    path = make_certificates(folder)
    with open(path("garbage"), "w", encoding="ascii") as file:
        file.write("garbage\n")
    serve = ["serve", "--device", "reference"]
    with Server(KILN) as server:
        taken = ["--listen", server.target]
        for arguments, words in (
                (["--listen", "nowhere"], "no HOST:PORT"),
                (["--listen", "127.0.0.1:99999"], "no HOST:PORT"),
                (taken, "taken"),
                (["--listen", "unix:/nonexistent/folder/socket"], "folder"),
                (["--tls-cert", path("garbage"), "--tls-key", path("garbage")], "PEM"),
                (["--tls-cert", path("server.pem"), "--tls-key", path("client.key")], "belongs"),
                (["--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"], "No such file"),
                (["--token-file", path("garbage") + "x"], "No such file"),
                (["--client-ca", path("ca.pem")], "certificate and its key"),
                (["--fetch-peers", "http://x"], "grpc://HOST:PORT"),
                (["--advertise", "x"], "grpc://HOST:PORT")):
            listen = [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
            said = run(KILN, *serve, *listen, *arguments, code=1)
            assert words in said and said.count("\n") == 1, (arguments, said)
    for address, words in (("grpc://127.0.0.1:1", "nobody answers at 127.0.0.1:1"),
                           ("grpc://nobody.invalid:1", "nobody answers at nobody.invalid:1"),
                           ("grpcs://127.0.0.1:1", "certificate"), ("unix:/nonexistent", "nobody answers"),
                           ("grpc://host:99999", "port is malformed"), ("http://host", "")):
        said = compute(address, code=1)
        assert words in said and said.count("\n") == 1, (address, said)
    for arguments in (["--nonsense"], ["argument"], ["--max-sessions", "0"], ["--session-memory", "5Q"]):
        assert "Try `kiln serve --help'" in run(KILN, "serve", *arguments, code=2)


def case_many_connections(_):
    """More idle connections than files were allowed at first, and then a client."""
    command = ["sh", "-c", f"ulimit -Sn 128; exec {KILN} serve --device reference --listen 127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[-1]
        host, port = address.split("://")[1].split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(300)]
        assert compute(address) == "2 4 6\n"
        for each in idle:
            each.close()
        assert compute(address) == "2 4 6\n"
    finally:
        process.terminate()
        process.wait(timeout=60 * PATIENCE)
        process.stdout.close()


# ---- systemd


def case_service_manager(folder):
    """Sockets that were handed over, readiness, the watchdog, the end: as sd_listen_fds(3) and sd_notify(3) say."""
    path = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, socket.socket(socket.AF_UNIX) as handed, \
            socket.create_server(("127.0.0.1", 0)) as port:
        told.bind(os.path.join(folder, "notify"))
        told.settimeout(20 * PATIENCE)
        handed.bind(path)
        handed.listen(8)
        # `exec` keeps the process that LISTEN_PID names; descriptors begin at 3.
        script = (f'exec 3<&{handed.fileno()} 4<&{port.fileno()}; export LISTEN_PID=$$ LISTEN_FDS=2; '
                  f'exec "{KILN}" serve --device reference')
        env = {**os.environ, "NOTIFY_SOCKET": told.getsockname(), "WATCHDOG_USEC": "400000"}
        with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, text=True, env=env,
                              pass_fds=[handed.fileno(), port.fileno()]) as server:
            try:
                addresses = server.stdout.readline().strip().split(" at ")[1].split()
                assert addresses == [f"unix:{path}", f"grpc://127.0.0.1:{port.getsockname()[1]}"], addresses
                assert told.recv(100) == b"READY=1"
                for address in addresses:
                    assert compute(address) == "2 4 6\n"
                assert [told.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
                server.send_signal(signal.SIGTERM)
                said = b"WATCHDOG=1"
                while said == b"WATCHDOG=1":
                    said = told.recv(100)
                assert said == b"STOPPING=1" and server.wait(timeout=30 * PATIENCE) == 0, said
            finally:
                server.kill()
        with socket.create_server(("0.0.0.0", 0)) as public:  # no TLS there
            script = (f'exec 3<&{public.fileno()}; export LISTEN_PID=$$ LISTEN_FDS=1; '
                      f'exec "{KILN}" serve --device reference')
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60 * PATIENCE, check=False,
                                  pass_fds=[public.fileno()])
            assert done.returncode == 1 and "beyond loopback" in done.stderr, done


def case_service_manager_that_does_not_read(folder):
    """Its socket is full after some ten messages; the server serves, and ends."""
    path = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(os.path.join(folder, "notify"))
        env = {**os.environ, "NOTIFY_SOCKET": told.getsockname(), "WATCHDOG_USEC": "20000"}
        with subprocess.Popen([KILN, "serve", "--device", "reference", "--listen", f"unix:{path}"],
                              stdout=subprocess.PIPE, text=True, env=env) as server:
            try:
                server.stdout.readline()
                time.sleep(1)
                assert compute(f"unix:{path}") == "2 4 6\n"
                server.send_signal(signal.SIGTERM)
                assert server.wait(timeout=30 * PATIENCE) == 0
            finally:
                server.kill()


def case_units(folder):
    """The units and the container's file name what there is."""
    service = os.path.join(SOURCE, "cmake/service")
    with open(os.path.join(service, "Containerfile"), encoding="utf-8") as file:
        packages = set(re.findall(r"\b(\S+)_\*\.deb", file.read()))
    with open(os.path.join(SOURCE, "cmake/KilnPackages.cmake"), encoding="utf-8") as file:
        made = set(re.findall(r"kiln_package\(\w+ (\S+)", file.read()))
    assert packages and packages <= made, (packages, made)
    if shutil.which("systemd-analyze") is None:
        raise Skip("systemd-analyze is not on this machine")
    for name in ("kiln.service", "kiln.socket"):
        with open(os.path.join(service, name), encoding="utf-8") as file:
            text = file.read()
        assert not re.search(r"^Exec\w+=(?!/usr/bin/kiln serve)", text, re.M)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text.replace("/usr/bin/kiln", os.path.abspath(KILN)))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", os.path.join(folder, "kiln.service"),
                           os.path.join(folder, "kiln.socket")], capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
    assert done.returncode == 0 and "kiln" not in done.stderr, done
    # What the sandbox is worth, in systemd's own measure: 0 is safe, 10 is not.
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=40",
                           os.path.join(folder, "kiln.service")], capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
    assert done.returncode == 0, done.stdout[-600:] + done.stderr


# ---- health, reflection


def case_health_and_drain(_):
    with Server(KILN, "--grace", str(20 * PATIENCE)) as server, grpc.insecure_channel(server.target) as channel:
        assert same(channel, "/grpc.health.v1.Health/Check", b"") == b"\x08\x01"
        assert same(channel, "/grpc.health.v1.Health/Check", b"\x0a\x0fkiln.v1.Compute") == b"\x08\x01"
        same(channel, "/grpc.health.v1.Health/Check", b"\x0a\x01x", grpc.StatusCode.NOT_FOUND)
        same(channel, "/kiln.v1.Compute/Nothing", b"", grpc.StatusCode.UNIMPLEMENTED)
        unknown = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"\x0a\x01x", timeout=60 * PATIENCE)
        assert next(unknown) == b"\x08\x03"
        unknown.cancel()
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=60 * PATIENCE)
        assert next(watch) == b"\x08\x01"
        hello = b"\x12\x02\x08\x01"
        outgoing = queue.Queue()
        session = channel.stream_stream("/kiln.v1.Compute/Session")(iter(outgoing.get, None), timeout=60 * PATIENCE)
        outgoing.put(b"\x08\x01" + hello)
        next(session)
        server.process.send_signal(signal.SIGTERM)
        assert next(watch) == b"\x08\x02"
        assert same(channel, "/grpc.health.v1.Health/Check", b"") == b"\x08\x02"
        try:  # new sessions are refused, the one that runs goes on
            next(channel.stream_stream("/kiln.v1.Compute/Session")(iter([b"\x08\x01" + hello]), timeout=20 * PATIENCE))
            assert False, "a session was begun while the server drains"
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        outgoing.put(b"\x08\x02\x42\x00")  # a fence
        assert b"\x08\x02" in next(session)
        begun = time.monotonic()
        outgoing.put(None)
        assert server.process.wait(timeout=30 * PATIENCE) == 0
        assert time.monotonic() - begun < 15 * PATIENCE


def case_wrong_frames_are_named(_):
    with Server(KILN) as server, grpc.insecure_channel(server.target) as channel:
        hello = b"\x12\x02\x08\x01"
        for body, words in ((b"\x4a\x00", "a client sent Answer"), (hello, "a second Hello"),
                            (b"\xa2\x06\x00", "request 2 has body 0")):
            try:
                for _ in channel.stream_stream("/kiln.v1.Compute/Session")(
                        iter([b"\x08\x01" + hello, b"\x08\x02" + body]), timeout=20 * PATIENCE):
                    pass
                assert False, f"{words}: the server took it"
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and words in error.details(), error


def case_grace_is_kept(_):
    """A client that does not go is waited for as long as was said."""
    with Server(KILN, "--grace", "2") as server, grpc.insecure_channel(server.target) as channel:
        outgoing = queue.Queue()
        session = channel.stream_stream("/kiln.v1.Compute/Session")(iter(outgoing.get, None), timeout=60 * PATIENCE)
        outgoing.put(b"\x08\x01\x12\x02\x08\x01")
        next(session)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=30 * PATIENCE) == 0
        took = time.monotonic() - begun
        outgoing.put(None)
        assert 1.9 < took < 2 + 1.9 * PATIENCE, took  # twice as long is what it must not be


def case_the_end_has_an_end(folder):
    """What a server does last may take for ever, as writing to a pipe that nobody reads; it ends all the same."""
    pipe = os.path.join(folder, "trace")
    with Server(KILN, "--grace", "1", "--trace", pipe) as server:
        os.remove(pipe) # it was tried whether it can be written
        os.mkfifo(pipe)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=120 * PATIENCE) == 0
        assert "the end took too long" in server.process.stderr.read()


def case_the_end_waits_for_no_reader(folder):
    """Nobody reads what is said of that, and the pipe is full."""
    trace = os.path.join(folder, "trace")
    unread, full = os.pipe()
    with subprocess.Popen([KILN, "serve", "--device", "reference", "--listen", "127.0.0.1:0", "--grace", "1", "--trace",
                           trace], stdout=subprocess.PIPE, stderr=full) as server:
        server.stdout.readline()
        os.remove(trace)
        os.mkfifo(trace)
        os.set_blocking(full, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, bytes(4096))
        os.set_blocking(full, True)
        server.terminate()
        try:
            assert server.wait(timeout=60 * PATIENCE) == 0
        finally:
            server.kill()
            os.close(unread)
            os.close(full)


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def case_the_end_waits_for_no_poller(_):
    """gRPC helps with a write that a slow reader holds up by a thread that polls for ten seconds."""
    parts, part = 64, 1 << 20
    total = varint(parts * part)
    with Server(KILN, "--grace", "5") as server, grpc.insecure_channel(server.target) as channel:
        session = channel.stream_stream("/kiln.v1.Compute/Session")(
            iter([b"\x08\x01\x12\x02\x08\x01",
                  b"\x22" + bytes([5 + len(total)]) + b"\x08\x01\x10\x00\x18" + total + b"\x7a\x01\x00",
                  b"\x08\x02\x2a" + bytes([3 + len(total)]) + b"\x08\x01\x18" + total]), timeout=60 * PATIENCE)
        next(session)
        time.sleep(0.5)
        assert sum(len(answer) for answer in session) > parts * part
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=60 * PATIENCE) == 0
        assert "the end took too long" not in server.process.stderr.read()


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


def case_free_memory_goes_back(_):
    """What sessions have freed between small pieces that they keep is the system's again while they go on."""
    measures_memory()
    sys.path.insert(0, os.path.join(SOURCE, "examples/remote_python"))
    client = importlib.import_module("kiln_client")
    large, small, pieces = bytes(96 << 10), bytes(64), 120 # a Free names at most 128
    with Server(KILN) as server:
        sessions = [client.Session(SOURCE, server.target) for _ in range(4)]
        before = resident_kib(server)
        for session in sessions:
            buffers = []
            for _ in range(pieces):
                for data in (large, small):
                    buffer = session.new_buffer()
                    session.send(write=session.pb.Write(buffer=buffer, offset=0, total=len(data)), data=data)
                    buffers.append(buffer)
            session.fence()
            session.free(*buffers[::2])
            session.fence()
        written = len(sessions) * pieces * len(large) >> 10
        end = time.monotonic() + 120
        while resident_kib(server) > before + written / 2 and time.monotonic() < end:
            time.sleep(0.1)
        after = resident_kib(server)
        for session in sessions:
            session.close()
        assert after <= before + written / 2, (before, written, after)


def open_watches(target, channels, each):
    """Calls of Health/Watch over connections of their own; gives those that are answered, and the codes of others."""
    made = [grpc.insecure_channel(target, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(channels)]
    calls = [channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=60 * PATIENCE) for channel in made
             for _ in range(each)]
    watches, codes = [], []
    for call in calls:
        try:
            assert next(call) == b"\x08\x01"
            watches.append(call)
        except grpc.RpcError as error:
            codes.append(error.code())
    return made, watches, codes


def threads_of(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"Threads:\s+(\d+)", file.read()).group(1))


def case_open_calls_have_places_of_their_own(folder):
    """However many calls without a token stay, those with one come through, and so do short ones. None costs a thread."""
    tokens = os.path.join(folder, "tokens")
    with open(tokens, "w", encoding="ascii") as file:
        file.write("token\n")
    with Server(KILN, "--token-file", tokens) as server:
        with grpc.insecure_channel(server.target) as channel:
            assert same(channel, "/grpc.health.v1.Health/Check", b"") == b"\x08\x01"
            channels, watches, codes = open_watches(server.target, 4, 50)
            assert len(watches) == 128 and len(codes) == 72 and set(codes) == {grpc.StatusCode.RESOURCE_EXHAUSTED}, codes
            assert compute(server.address, {"KILN_REMOTE_TOKEN_FILE": tokens}) == "2 4 6\n"
            assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20 * PATIENCE) == b"\x08\x01"
            deadline = time.monotonic() + 30 * PATIENCE
            while threads_of(server) > 40:  # those that took the calls wait a while for others
                assert time.monotonic() < deadline, threads_of(server)
                time.sleep(0.2)
            watches[0].cancel()  # its place is free, within a second
            for _ in range(30 * PATIENCE):
                again, won, _ = open_watches(server.target, 1, 1)
                again[0].close()
                if won:
                    break
                time.sleep(0.1)
            assert won
            server.process.send_signal(signal.SIGTERM)
            assert next(watches[1]) == b"\x08\x02" and next(watches[-1]) == b"\x08\x02"
            for each in channels:
                each.close()


def frame_of(kind, flags, stream, payload):
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def reset_rapidly(target, seconds):
    """Calls of Health/Check that are taken back at once, as many as the line takes; gives how many until the end."""
    def field(name, value):
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    path = b"/grpc.health.v1.Health/Check"
    headers = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x01\x01x" + field(
        b"content-type", b"application/grpc") + field(b"te", b"trailers")
    host, port = target.split(":")
    sent, end = 0, time.monotonic() + seconds
    with socket.create_connection((host, int(port)), timeout=seconds) as line:
        try:
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame_of(4, 0, 0, b""))
            while time.monotonic() < end:
                line.sendall(b"".join(frame_of(1, 4, each, headers) + frame_of(3, 0, each, struct.pack(">I", 8))
                                      for each in range(2 * sent + 1, 2 * sent + 201, 2)))
                sent += 100
                while select.select([line], [], [], 0)[0]:
                    if not line.recv(65536):
                        return sent
        except OSError:
            return sent
    return None


def case_rapid_resets(_):
    """Whoever takes calls back faster than anybody needs to is sent away; others are served, and memory is bounded."""
    count = 1 if UNDER_TSAN else 3  # a client waits five seconds for its greeting
    with Server(KILN) as server, concurrent.futures.ThreadPoolExecutor(count) as pool:
        floods = [pool.submit(reset_rapidly, server.target, 20 * PATIENCE) for _ in range(count)]
        for _ in range(4):
            begun = time.monotonic()
            assert compute(server.address) == "2 4 6\n"
            assert time.monotonic() - begun < 4.5 * PATIENCE
        sent = [each.result(timeout=60 * PATIENCE) for each in floods]
        assert all(each is not None and each < 200000 for each in sent), sent  # all were cut
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            assert int(re.search(r"^VmHWM:\s+(\d+)", file.read(), re.M).group(1)) < 500000 * PATIENCE
        with grpc.insecure_channel(server.target) as channel:  # one who takes back now and then is not
            stub = channel.unary_unary("/grpc.health.v1.Health/Check")
            for _ in range(40):
                stub.future(b"", timeout=20 * PATIENCE).cancel()
                assert stub(b"", timeout=20 * PATIENCE) == b"\x08\x01"


def reflect(channel, version, messages, **fields):
    method = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    call = channel.stream_stream(method, request_serializer=lambda m: m.SerializeToString(),
                                 response_deserializer=messages.ServerReflectionResponse.FromString)
    return next(call(iter([messages.ServerReflectionRequest(host="h", **fields)]), timeout=20 * PATIENCE))


def case_reflection(folder):
    """A client that knows only reflection: it finds the service, its messages, and calls Info."""
    subprocess.run(["protoc", "-I/usr/share/grpc-proto", f"--python_out={folder}",
                    "grpc/reflection/v1/reflection.proto", "grpc/reflection/v1alpha/reflection.proto"], check=True)
    # The package `grpc` is taken by grpcio: the generated modules are loaded by their path.
    with Server(KILN) as server, grpc.insecure_channel(server.target) as channel:
        for version in ("v1", "v1alpha"):
            spec = importlib.util.spec_from_file_location(
                f"reflection_{version}", os.path.join(folder, f"grpc/reflection/{version}/reflection_pb2.py"))
            messages = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(messages)
            listed = reflect(channel, version, messages, list_services="*").list_services_response.service
            names = {each.name for each in listed}
            assert {"kiln.v1.Compute", "inference.GRPCInferenceService", "grpc.health.v1.Health",
                    f"grpc.reflection.{version}.ServerReflection"} <= names
            for symbol in ("kiln.v1.Compute", "kiln.v1.Compute.Info", "kiln.v1.InfoResponse.Device", "kiln.v1.Graph",
                           "inference.ModelInferRequest.InferInputTensor"):
                reply = reflect(channel, version, messages, file_containing_symbol=symbol)
                assert reply.original_request.file_containing_symbol == symbol and reply.valid_host == "h"
                assert reply.file_descriptor_response.file_descriptor_proto, symbol
            missing = reflect(channel, version, messages, file_containing_symbol="kiln.v1.Nothing")
            assert missing.error_response.error_code == 5, missing
            by_name = reflect(channel, version, messages, file_by_filename="kiln/v1/ir.proto")
            assert len(by_name.file_descriptor_response.file_descriptor_proto) == 1
        reply = reflect(channel, version, messages, file_containing_symbol="kiln.v1.Compute")
        pool = descriptor_pool.DescriptorPool()
        files = [descriptor_pb2.FileDescriptorProto.FromString(each)
                 for each in reply.file_descriptor_response.file_descriptor_proto]
        for each in reversed(files):
            pool.Add(each)
        kind = message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("kiln.v1.InfoResponse"))
        info = kind.FromString(same(channel, "/kiln.v1.Compute/Info", b""))
        names = {row.name for row in info.operators}
        table = run(KILN, "ops").split("\n")
        assert {"add", "matmul"} <= names and info.devices[0].name == "reference evaluator", info
        assert any(line.startswith("add ") for line in table)


def case_wire_page_is_whole(_):
    """The page from which clients are written names every message and has the numbers of all dtypes that travel."""
    def text_of(path):
        with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
            return file.read()

    page = text_of("docs/wire.md")
    rows = {}
    for names, numbers in re.findall(r"^\| ((?:`\w+` ?)+)\| ([\d ]+) \|", page, re.M):
        rows.update(zip(re.findall(r"\w+", names), numbers.split()))
    dtypes = re.findall(r"^KILN_DTYPE\(\w+,\s*(\w+),\s*(\d+),\s*\d+,\s*(\w+),", text_of("base/dtype.def"), re.M)
    table = {name: number for name, number, kind in dtypes if kind != "SMALL"}  # small floats travel as u8
    assert len(table) > 15 and rows == table, (rows, table)
    protocol = {name.lower(): number for name, number in re.findall(r"^  DTYPE_(\w+) = (\d+);",
                                                                    text_of("ir/proto/kiln/v1/ir.proto"), re.M)}
    assert protocol.pop("unspecified") == "0" and protocol == table, (protocol, table)
    for proto in ("remote_grpc/proto/kiln/v1/kiln.proto", "ir/proto/kiln/v1/ir.proto",
                  "remote_grpc/proto/kserve/inference.proto"):
        assert "option go_package" in text_of(proto), proto
    for name in re.findall(r"^\s*(\w+) \w+ = \d+;", text_of("remote_grpc/proto/kiln/v1/kiln.proto").split("oneof body")[1]
                           .split("}")[0], re.M):
        assert f"`{name}" in page, name


def case_info(_):
    """What a client learns before it opens a session: operators of plugins too, limits, and what the server does now."""
    plugin = os.path.join(os.path.dirname(KILN), "../lib/kiln/test_plugins/acme_operators.so")
    sys.path.insert(0, os.path.join(SOURCE, "examples/remote_python"))
    client = importlib.import_module("kiln_client")
    with Server(KILN, "--plugin", plugin, "--max-sessions", "7", "--session-memory", "3M", "--raw-memory",
                "5M") as server:
        session = client.Session(SOURCE, server.target)
        session.write([0.0] * 1000)
        session.fence()
        info = session.info()
        own = {row.name: row.since for row in info.operators if row.plugin}
        assert own.get("acme::mish_clip") == 1 and not any("::" in row.name for row in info.operators if not row.plugin)
        assert (info.limits.max_sessions, info.limits.max_bytes, info.limits.max_raw_bytes) == (7, 3 << 20, 5 << 20)
        assert info.load.sessions == 1 and info.load.raw_bytes >= 4000 and not info.load.draining, info.load
        session.close()
        again = client.Session(SOURCE, server.target)
        for _ in range(100 * PATIENCE):
            raw_bytes = again.info().load.raw_bytes
            if raw_bytes == 0:
                break
            time.sleep(0.05)
        assert raw_bytes == 0
        again.close()


def case_info_lists_what_is_on(folder):
    """The features that a session is told, less those that this server has not."""
    sys.path.insert(0, os.path.join(SOURCE, "examples/remote_python"))
    client = importlib.import_module("kiln_client")
    env = {"KILN_CACHE_DIR": os.path.join(folder, "cache")}
    socket_file = f"unix:{folder}/s"
    for options, others, off in (((), {"listen": socket_file}, set()), ((), {}, {"memory"}),
                                 (("--set", "weights-limit=0"), {"listen": socket_file}, {"weights"})):
        with Server(KILN, *options, env=env, **others) as server:
            session = client.Session(SOURCE, server.target)
            features = list(session.info().features)
            assert features == list(session.welcome.features), (features, session.welcome)
            assert {"resume", "graphs", "transfer", "weights", "memory"} - set(features) == off, (options, features)
            session.close()


def case_expired_certificate(folder):
    """A server does not start with one, and does not take one in the place of a good one."""
    path = make_certificates(folder)
    subprocess.run(["openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-out", "old.pem",
                    "-days", "-1", "-extfile", "server.ext"], cwd=folder, check=True, capture_output=True)
    shutil.copy(path("server.pem"), path("live.pem"))
    said = run(KILN, "serve", "--device", "reference", "--listen", "127.0.0.1:0", "--tls-cert", path("old.pem"),
               "--tls-key", path("server.key"), code=1)
    assert "expired" in said and "UTC" in said and said.count("\n") == 1, said
    with Server(KILN, "--tls-cert", path("live.pem"), "--tls-key", path("server.key")) as server:
        os.replace(path("old.pem"), path("live.pem"))
        time.sleep(1.5)
        assert compute(server.address, {"KILN_REMOTE_CA": path("ca.pem")}) == "2 4 6\n"
        server.process.terminate()
        assert "expired" in server.process.stderr.read()


def case_grpcurl(_):
    """The tools that people have: they know the server by its reflection alone."""
    grpcurl, grpc_cli = shutil.which("grpcurl"), shutil.which("grpc_cli")
    if grpcurl is None and grpc_cli is None:
        raise Skip("neither grpcurl nor grpc_cli is on this machine")
    with Server(KILN) as server:
        if grpcurl is not None:
            plain = [grpcurl, "-plaintext"]
            assert "kiln.v1.Compute" in run(*plain, server.target, "list")
            assert "rpc Session ( stream .kiln.v1.Frame )" in run(*plain, server.target, "describe", "kiln.v1.Compute")
            assert '"name": "reference evaluator"' in run(*plain, server.target, "kiln.v1.Compute/Info")
            assert "SERVING" in run(*plain, server.target, "grpc.health.v1.Health/Check")
            said = run(*plain, "-d", '{"request": 1, "hello": {"version": 1}}', server.target, "kiln.v1.Compute/Session")
            assert '"instance"' in said and "reference evaluator" in said, said
        if grpc_cli is not None:
            assert "kiln.v1.Compute" in run(grpc_cli, "ls", server.target)
            assert "reference evaluator" in run(grpc_cli, "call", server.target, "kiln.v1.Compute.Info", "")


# ---- clients


def case_python_from_proto(_):
    with Server(KILN) as server:
        said = run(os.path.join(SOURCE, "examples/remote_python/remote_python.py"), server.target)
        for part in ("a matrix product", "a fused chain", "a graph run ten times", "an error, and the session goes on"):
            assert part in said, said


def case_operator_of_a_plugin(_):
    """A client without the plugin states shape and attributes; the server has the plugin, and its own opinion."""
    plugin = os.path.join(os.path.dirname(KILN), "../lib/kiln/test_plugins/acme_operators.so")
    sys.path.insert(0, os.path.join(SOURCE, "examples/remote_python"))
    client = importlib.import_module("kiln_client")
    cases = ((True, "acme::mish_clip", [3], "clip=2.0", None), (True, "acme::mish_clip", [3], "clip=2", "clip=2.0"),
             (True, "acme::mish_clip", [2], "clip=2.0", "is not what the operation says"),
             (False, "acme::mish_clip", [3], "clip=2.0", "no plugin brings operator acme::mish_clip"))
    for loaded, name, dims, attributes, error in cases:
        with Server(KILN, *(["--plugin", plugin] if loaded else [])) as server:
            session = client.Session(SOURCE, server.target)
            build = client.GraphBuilder(session)
            x = build.input([3])
            y = build.output(build.custom(name, 1, [x], dims, attributes))
            made = session.new_buffer()
            session.run(build.graph, [(x, session.write([-1.0, 0.0, 9.0]))], [(y, made)])
            try:
                got = session.read(made, 3)
                assert error is None and abs(got[0] + 0.303402) < 1e-5 and got[1:] == [0, 2], got
            except client.RemoteError as told:
                assert error is not None and error in str(told), told
            session.close()


def case_servers_know_each_other(folder):
    """A server fetches from another one as itself: with its own certificate, and only where it may."""
    path = make_certificates(folder)
    sys.path.insert(0, os.path.join(SOURCE, "examples/remote_python"))
    client = importlib.import_module("kiln_client")
    texts = []
    for name in ("ca.pem", "client.key", "client.pem"):
        with open(path(name), "rb") as file:
            texts.append(file.read())
    credentials = grpc.ssl_channel_credentials(*texts)
    tls = ["--tls-cert", path("server.pem"), "--tls-key", path("server.key"), "--client-ca", path("ca.pem")]

    def move(source, target, address, transfer):
        """Eight bytes from one server to the other; gives what the target answered."""
        buffer = source.write([1.0, 2.0])
        secret = os.urandom(32)
        source.send(expose=source.pb.Expose(transfer=transfer, buffer=buffer, count=1, expiry_ms=20000, secret=secret))
        goal = target.new_buffer()
        try:
            target.ask(obtain=target.pb.Obtain(transfer=transfer, buffer=goal, total=8, wait_ms=3000, secret=secret,
                                               address=address))
            assert target.read(goal, 2) == [1.0, 2.0]
            return 0
        except client.RemoteError as told:
            return told.code

    with Server(KILN, *tls) as first, \
            Server(KILN, *tls, "--fetch-peers", first.address) as second, \
            Server(KILN, *tls, "--fetch-peers", first.address, "--set", f"remote-cert={path('stranger.pem')}",
                   "--set", f"remote-key={path('stranger.key')}") as stranger, \
            Server(KILN, *tls) as alone:
        source = client.Session(SOURCE, first.target, credentials)
        for server, transfer, codes in ((second, 1, {0}), (stranger, 2, {4, 14}), (alone, 3, {7})):
            target = client.Session(SOURCE, server.target, credentials)
            got = move(source, target, first.address, transfer)
            assert got in codes, (transfer, got)
            target.close()
        source.close()


def case_client_library_links_no_opencl(_):
    for path in (CLIENT_LIBRARY, CLIENT_ONLY):
        needed = run("ldd", path)
        assert "libgrpc" in needed and "not found" not in needed, needed
        assert "OpenCL" not in needed and "clblast" not in needed and "libkiln.so" not in needed, needed
    digits = os.path.join(SOURCE, "examples", "digits")
    with Server(KILN) as server: # the importer is in it
        assert run(CLIENT_ONLY, server.address, f"{digits}/digits.onnx", f"{digits}/three.npy") == "2 4 6\n3\n"
    mapped = run("sh", "-c", f"LD_DEBUG=files {CLIENT_ONLY} reference 2>&1")
    assert "2 4 6" in mapped and "libOpenCL" not in mapped and "clblast" not in mapped


run_cases("unit/remote_grpc/serve",
          [case_one_line_says_where, case_group_has_a_number, case_refuses_beyond_loopback, case_default_address,
           case_weights_are_kept, case_devices_of_a_server, case_client_certificates, case_tokens,
           case_renewed_while_serving, case_one_line_says_why, case_many_connections, case_service_manager,
           case_service_manager_that_does_not_read, case_units,
           case_health_and_drain, case_wrong_frames_are_named, case_grace_is_kept,
           case_the_end_has_an_end, case_the_end_waits_for_no_reader, case_the_end_waits_for_no_poller,
           case_free_memory_goes_back,
           case_open_calls_have_places_of_their_own, case_rapid_resets, case_reflection, case_wire_page_is_whole,
           case_info, case_info_lists_what_is_on, case_expired_certificate, case_grpcurl, case_python_from_proto, case_operator_of_a_plugin,
           case_servers_know_each_other, case_client_library_links_no_opencl])
