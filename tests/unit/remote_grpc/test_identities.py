#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln serve` and who its clients are: names of tokens and certificates, rules, quotas, fair turns, the log, and what
an idle server costs. Arguments: kiln, the source folder."""
import importlib
import json
import math
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time

import grpc

from serve_fixture import PATIENCE, UNDER_TSAN, Server, make_certificates, measures_memory, run_cases

KILN, SOURCE = sys.argv[1:3]
sys.path.insert(0, os.path.join(SOURCE, "examples/remote_python"))
client = importlib.import_module("kiln_client")

FLOOD = 65536 // PATIENCE  # floats of a step
TOKENS = "alice alice-token\nbob bob-token\nnameless-token\n"


def put(folder, name, text):
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)
    return path


def as_(token):
    return [("authorization", f"Bearer {token}")]


def info_of(server, token=None, credentials=None):
    """Info as messages, by a session's class that has made them from the .proto files."""
    pb, _, _ = client.load_protocol(SOURCE)
    channel = grpc.insecure_channel(server.target) if credentials is None else \
        grpc.secure_channel(server.target, credentials)
    with channel:
        call = channel.unary_unary("/kiln.v1.Compute/Info", request_serializer=lambda m: m.SerializeToString(),
                                   response_deserializer=pb.InfoResponse.FromString)
        return call(pb.InfoRequest(), timeout=20 * PATIENCE, metadata=as_(token) if token else None)


def refused(code, words, function, *arguments):
    try:
        function(*arguments)
    except grpc.RpcError as error:
        assert error.code() == code and words in error.details(), error
        return
    assert False, f"{words}: it was not refused"


def session(server, token, device=0):
    return client.Session(SOURCE, server.target, token=token, device=device)


# ---- names and rules


def case_names(folder):
    """A token's name, what is made of a token without one, a certificate's names, and anonymous."""
    tokens = put(folder, "tokens", TOKENS)
    with Server(KILN, "--token-file", tokens) as server:
        assert info_of(server, "alice-token").identity == "alice"
        made = info_of(server, "nameless-token").identity
        assert re.fullmatch("token-[0-9a-f]{12}", made) and "nameless" not in made, made
        refused(grpc.StatusCode.UNAUTHENTICATED, "token", info_of, server, "alice")
        refused(grpc.StatusCode.UNAUTHENTICATED, "token", info_of, server, "alice alice-token")
    path = make_certificates(folder)

    def credentials(name):
        texts = []
        for each in ("ca.pem", f"{name}.key", f"{name}.pem"):
            with open(path(each), "rb") as file:
                texts.append(file.read())
        return grpc.ssl_channel_credentials(*texts)

    with Server(KILN, "--tls-cert", path("server.pem"), "--tls-key", path("server.key"), "--client-ca",
                path("ca.pem")) as server:
        assert info_of(server, credentials=credentials("client")).identity == "client"
        assert info_of(server, credentials=credentials("nameless")).identity == "machine.example"
    with Server(KILN) as server:
        assert info_of(server).identity == "anonymous"


def case_rules(folder):
    """Devices, sessions and memory of an identity; one without a row; rules that change."""
    tokens = put(folder, "tokens", TOKENS)
    access = put(folder, "access", "alice sessions=2 memory=1M devices=1\nbob sessions=1 # one\n")
    with Server(KILN, "--device", "reference:1", "--token-file", tokens, "--access", access,
                device="reference:0") as server:
        refused(grpc.StatusCode.PERMISSION_DENIED, "no row", info_of, server, "nameless-token")
        refused(grpc.StatusCode.PERMISSION_DENIED, "device 0", session, server, "alice-token")
        first, second = session(server, "alice-token", 1), session(server, "alice-token", 1)
        refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "2 sessions", session, server, "alice-token", 1)
        session(server, "bob-token").close()
        assert info_of(server, "alice-token").limits.own_sessions == 2
        first.write([0.0] * 200000)  # 800,000 bytes: the next ones are too many, in whichever session
        first.fence()
        second.write([0.0] * 100000)
        try:
            second.fence()
            assert False, "a quota of memory was passed"
        except client.RemoteError as told:
            assert told.code == 8 and "sessions of alice" in str(told), told
        first.close()
        deadline = time.monotonic() + 20 * PATIENCE
        while info_of(server, "alice-token").load.sessions > 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        second.write([0.0] * 100000)
        second.fence()
        second.close()
        put(folder, "access", "nonsense=1\n")  # what cannot be read changes nothing
        time.sleep(1.5)
        refused(grpc.StatusCode.PERMISSION_DENIED, "no row", info_of, server, "nameless-token")
        put(folder, "access", "* devices=0\n")
        deadline = time.monotonic() + 20 * PATIENCE
        while True:
            try:
                info_of(server, "nameless-token")
                break
            except grpc.RpcError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    said = subprocess.run([KILN, "serve", "--device", "reference", "--listen", "127.0.0.1:0", "--access",
                           put(folder, "bad", "alice\nbob sesions=3\n")], capture_output=True, text=True, check=False,
                          timeout=60 * PATIENCE)
    assert said.returncode == 1 and "line 2" in said.stderr and said.stderr.count("\n") == 1, said


def case_operations_each_second(folder):
    """A session that records more than its identity may waits, and nothing fails."""
    tokens = put(folder, "tokens", TOKENS)
    access = put(folder, "access", "alice operations=200\nbob\n")
    with Server(KILN, "--token-file", tokens, "--access", access) as server:
        def seconds_of(name):
            with_rules = session(server, f"{name}-token")
            step = Step(with_rules, 8, 4)
            begun = time.monotonic()
            for _ in range(100):  # 400 operations: one second's at once, and then another's
                step.run()
            step.read()
            took = time.monotonic() - begun
            with_rules.close()
            return took

        assert seconds_of("alice") > 0.9
        fastest = math.inf  # a busy machine may make one round slow, a rule all of them
        for _ in range(10):
            fastest = min(fastest, seconds_of("bob"))
            if fastest < 0.9 * PATIENCE:
                break
        assert fastest < 0.9 * PATIENCE, fastest


def case_nobody_takes_all_places(folder):
    """Streams that never say Hello, as many as the server has places: another identity comes in at once."""
    tokens = put(folder, "tokens", TOKENS)
    with Server(KILN, "--token-file", tokens) as server:
        channels = [grpc.insecure_channel(server.target, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(3)]
        hello = threading.Event()

        def silence():
            hello.wait(20 * PATIENCE)
            yield from ()

        calls = [each.stream_stream("/kiln.v1.Compute/Session")(silence(), timeout=30 * PATIENCE, metadata=as_("alice-token"))
                 for each in channels for _ in range(50)]
        deadline = time.monotonic() + 4 * PATIENCE
        while sum(each.done() for each in calls) < 80:  # half of 64 + 64 places, and no more
            assert time.monotonic() < deadline, sum(each.done() for each in calls)
            time.sleep(0.02)
        codes = {each.code() for each in calls if each.done()}
        if UNDER_TSAN:  # five seconds have gone without a Hello
            codes.discard(grpc.StatusCode.DEADLINE_EXCEEDED)
        assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}, codes
        begun = time.monotonic()
        session(server, "bob-token").close()
        assert time.monotonic() - begun < 4 * PATIENCE
        hello.set()
        for each in channels:
            each.close()


# ---- turns


class Step:
    """A chain of negations of `count` floats, in one Run."""

    def __init__(self, of, count, length):
        self.of, self.count = of, count
        build = client.GraphBuilder(of)
        self.x = value = build.input([count])
        for _ in range(length):
            value = build.op("neg", [value], [count])
        self.y = build.output(value)
        self.graph = build.graph
        self.source = of.write([1.0] * count)
        self.result = of.new_buffer()

    def run(self):
        self.of.run(self.graph, [(self.x, self.source)], [(self.y, self.result)])

    def read(self):
        return self.of.read(self.result, 1)


def rate_of(step, seconds):
    """Steps a second, each waited for."""
    done, begun = 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        step.run()
        assert step.read() == [1.0]
        done += 1
    return done / (time.monotonic() - begun)


def flood(target, token):
    """Many sessions that always have work on its way; a process of its own, which is ended. It stands for clients on
    other machines, so what it computes itself goes behind all else here."""
    os.nice(19)
    own = [client.Session(SOURCE, target, token=token) for _ in range(6)]
    steps = [Step(each, FLOOD, 100) for each in own]
    for _ in range(3):
        for step in steps:
            step.run()
    print("flooding", flush=True)
    while True:
        for step in steps:
            step.read()
            for _ in range(2):
                step.run()


def case_one_floods(folder):
    """The other identity keeps nearly half of what it has alone, whatever the number of the flood's sessions."""
    tokens = put(folder, "tokens", TOKENS)
    with Server(KILN, "--token-file", tokens) as server:
        own = session(server, "bob-token")
        step = Step(own, FLOOD, 50)
        rate_of(step, 0.3)
        ratios = []
        for _ in range(5):  # the machine is not still: alone and beside the flood in turns
            alone = rate_of(step, 0.5)
            with subprocess.Popen([sys.executable, __file__, KILN, SOURCE, "flood", server.target, "alice-token"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as other:
                said = other.stdout.readline()
                assert said == "flooding\n", said + other.stdout.read()
                beside = rate_of(step, 1)
                assert other.poll() is None, other.stdout.read()
                other.kill()
            ratios.append(round(beside / alone, 2))
        own.close()
        print(f"    throughput beside six flooding sessions, to that alone: {sorted(ratios)}")
        # Turns give half, less what the flood's messages cost the processors that compute as well.
        assert statistics.median(ratios) > 0.2 / PATIENCE, ratios


# ---- the log


def case_log(folder):
    """Sessions, refusals and who it was, a line of JSON each; a token is in none of them."""
    tokens = put(folder, "tokens", TOKENS)
    log = os.path.join(folder, "log")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with Server(KILN, "--token-file", tokens, "--log", log) as server:
        own = session(server, "alice-token")
        step = Step(own, 8, 3)
        step.run()
        step.read()
        own.close()
        refused(grpc.StatusCode.UNAUTHENTICATED, "token", info_of, server, "wrong-token")
        with grpc.insecure_channel(server.target) as channel:
            try:
                channel.unary_unary("/kiln.v1.Compute/Nothing")(
                    b"", timeout=20 * PATIENCE, metadata=[*as_("bob-token"), ("traceparent", trace)])
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNIMPLEMENTED
        assert server.stop() == 0
    with open(log, encoding="utf-8") as file:
        text = file.read()
    lines = [json.loads(line) for line in text.splitlines()]
    begun, ended = (next(line for line in lines if line["event"] == kind) for kind in ("session", "session-end"))
    assert begun["identity"] == ended["identity"] == "alice" and begun["session"] == ended["session"], lines
    assert begun["peer"].startswith("ipv4:127.0.0.1:") and begun["client"], begun
    assert ended["operations"] == 3 and ended["ms"] > 0, ended
    stranger, lost = [line for line in lines if line["event"] == "refused"]
    assert stranger["status"] == "unauthenticated" and stranger["method"] == "/kiln.v1.Compute/Info", stranger
    assert "identity" not in stranger and "token" in stranger["message"], stranger
    assert lost["identity"] == "bob" and lost["trace_id"] == trace.split("-")[1], lost
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines), lines
    assert "alice-token" not in text and "wrong-token" not in text, text


# ---- what a server costs that does nothing


def status_of(process, word):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return int(re.search(rf"^{word}:\s+(\d+)", file.read(), re.M).group(1))


def case_memory_goes_with_the_last_session(_):
    """All that the session held. One arena: of the others malloc_trim keeps what is free at their ends, up to 32 MiB
    each, and how much that is depends on which threads received what."""
    measures_memory()
    with Server(KILN, env={"MALLOC_ARENA_MAX": "1"}) as server:
        before = status_of(server.process, "VmRSS")
        own = session(server, None)
        part = struct.pack("<f", 1.0) * (1 << 18)
        for _ in range(8):  # of 32 MiB each
            buffer = own.new_buffer()
            for offset in range(0, 32 << 20, len(part)):
                own.send(write=own.pb.Write(buffer=buffer, offset=offset, total=32 << 20), data=part)
        own.fence()
        held = status_of(server.process, "VmRSS")
        own.close()
        deadline = time.monotonic() + 60
        while status_of(server.process, "VmRSS") > before + 65536:
            assert time.monotonic() < deadline, (before, held, status_of(server.process, "VmRSS"))
            time.sleep(0.1)
        assert held > before + 200000, (before, held)


def threads_of(process, only_waits=False):
    """Of each thread its name, and how often it has begun to run, perhaps only after waits of its own."""
    counted = ("^" if only_waits else "") + r"voluntary_ctxt_switches:\s+(\d+)"
    threads = {}
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        with open(f"/proc/{process.pid}/task/{thread}/status", encoding="ascii") as file:
            text = file.read()
        threads[thread] = (re.search(r"^Name:\s+(.*)$", text, re.M).group(1),
                           sum(map(int, re.findall(counted, text, re.M))))
    return threads


def wakes_each_second(process, seconds=5, only_waits=False):
    before = threads_of(process, only_waits)
    time.sleep(seconds)
    after = threads_of(process, only_waits)
    return sum(count - before.get(thread, ("", 0))[1] for thread, (_, count) in after.items()) / seconds


def has_grpc(process):
    return any(name.startswith(("grpc_global", "timer_manager")) for name, _ in threads_of(process).values())


def processor_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        numbers = file.read().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def rests(process, when, wakes=1, seconds=5, only_waits=False):
    """It hardly wakes, and computes for less than can be measured. ThreadSanitizer has a thread of its own that wakes:
    under it the servers rest and come back, and nothing is counted."""
    if UNDER_TSAN:
        time.sleep(1)
        return
    before = processor_seconds(process)
    rate = wakes_each_second(process, seconds, only_waits)
    busy = processor_seconds(process) - before
    print(f"    {when} a server wakes {rate:.2f} times a second, and computed for {busy:.2f} s of {seconds}")
    assert rate <= wakes, rate
    assert busy <= 0.03 + 0.01 * seconds, busy  # the clock counts ticks of 10 ms, whoever wakes in one


def case_idle_server_sleeps(folder):
    """One that nobody is connected to is not woken: gRPC, whose clocks tick, does not run. That is so before the first
    connection and after the last, with TLS too; 120 watchers cost neither a thread nor a wake each."""
    path = make_certificates(folder)
    models = os.path.join(folder, "models")
    os.mkdir(models)
    for kind in ("pem", "key"):
        shutil.copy(path(f"server.{kind}"), path(f"live.{kind}"))
    with open(path("ca.pem"), "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    with Server(KILN, "--models", models, "--http", "127.0.0.1:0") as server, \
            Server(KILN, "--tls-cert", path("server.pem"), "--tls-key", path("server.key"), "--client-ca",
                   path("ca.pem")) as closed, \
            Server(KILN, "--tls-cert", path("live.pem"), "--tls-key", path("live.key")) as secret:
        time.sleep(1)
        assert not has_grpc(server.process) and not has_grpc(secret.process)
        rests(server.process, "before its first connection")
        # These look at their files each second, and a busy machine may interrupt them.
        rests(secret.process, "with TLS", wakes=1.2, only_waits=True)
        rests(closed.process, "with clients' certificates", wakes=1.2, only_waits=True)
        channels = [grpc.insecure_channel(server.target, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(2)]
        watches = [each.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=120 * PATIENCE) for each in channels
                   for _ in range(60)]
        assert all(next(each) == b"\x08\x01" for each in watches)
        assert info_of(secret, credentials=credentials).identity == "anonymous"
        time.sleep(4)  # threads that took the calls have ended
        # One wake, in which some of them are looked at.
        rests(server.process, f"with {len(watches)} watchers", wakes=30, seconds=2)
        for each in channels:
            each.close()
        deadline = time.monotonic() + 40
        while has_grpc(server.process) or has_grpc(secret.process):
            assert time.monotonic() < deadline, threads_of(server.process)
            time.sleep(0.1)
        rests(server.process, "after its last connection")
        assert info_of(server).identity == "anonymous"
        shutil.copy(path("client.key"), path("live.key"))  # of another certificate: the pair before stays
        time.sleep(2)
        assert info_of(secret, credentials=credentials).identity == "anonymous"


if sys.argv[3:4] == ["flood"]:
    flood(*sys.argv[4:6])
run_cases("unit/remote_grpc/identities",
          [case_names, case_rules, case_operations_each_second,
           case_nobody_takes_all_places, case_one_floods, case_log,
           case_memory_goes_with_the_last_session, case_idle_server_sleeps])
