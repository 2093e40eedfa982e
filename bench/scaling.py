#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What many clients of many servers come to: a simulation in one process, in events, with costs that were measured.

bench/scaling.py [--clients 1000] [--servers 32] [--seconds 0.5] [--json]    the tables of docs/devices/scaling.md
bench/scaling.py --measure BUILD                                             the costs, on this machine

The clients are of two kinds. Clients of models call any server, as gRPC's round_robin or by chance; each server answers
calls on its processors and runs what waits as one batch on its device. Clients of devices ask the servers for their
load and open a session at the least busy one, as kiln does; then a server ends. Costs are processor time, so that other
work on the machine that measures does not count.
"""
import argparse
import heapq
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The median of three times --measure on two cores of an EPYC beside other work, with PoCL and the digits model. The
# network is not measured: what one switch takes.
COSTS = {"call_us": 450.0, "run_us": 690.0, "row_us": 9.7, "info_us": 550.0, "session_us": 1000.0, "session_kib": 68.0,
         "network_us": 100.0}
PROCESSORS = 2  # of a server, for calls; its device works beside them
MOST_ROWS = 32  # of a batch
# Of kiln serve and its clients: rpc_options.c, rpc_address.c, rpc_provider.c.
SESSIONS = 64
TRUSTED_CALLS = 64
NAMED_SERVERS = 16
COME_BACK_US = 10e6
READY_S = 120


class Clock:
    """Events in the order of their times; what happens at one time happens in the order in which it was planned."""

    def __init__(self):
        self.now = 0.0
        self.events = []
        self.count = 0

    def at(self, time, act, *what):
        self.count += 1
        heapq.heappush(self.events, (time, self.count, act, what))

    def run(self, until):
        while self.events and self.events[0][0] <= until:
            self.now, _, act, what = heapq.heappop(self.events)
            act(*what)


class Workers:
    """So many things at a time, each for as long as it takes; others wait in a row."""

    def __init__(self, clock, count):
        self.clock = clock
        self.free = [0.0] * count  # when each is free again

    def do(self, cost, act, *what):
        end = max(heapq.heappop(self.free), self.clock.now) + cost
        heapq.heappush(self.free, end)
        self.clock.at(end, act, *what)


# ---- clients of models


class Model:
    """A server of a model: calls on processors, then rows in a queue, then one batch of what waits on the device."""

    def __init__(self, clock, costs):
        self.clock = clock
        self.costs = costs
        self.calls = Workers(clock, PROCESSORS)
        self.queue = []
        self.busy = False
        self.batches = self.rows = 0

    def take(self, done):
        self.calls.do(self.costs["call_us"], self.wait, done)

    def wait(self, done):
        self.queue.append(done)
        self.begin()

    def begin(self):
        if self.busy or not self.queue:
            return
        batch, self.queue = self.queue[:MOST_ROWS], self.queue[MOST_ROWS:]
        self.busy = True
        self.batches += 1
        self.rows += len(batch)
        self.clock.at(self.clock.now + self.costs["run_us"] + len(batch) * self.costs["row_us"], self.end, batch)

    def end(self, batch):
        self.busy = False
        for done in batch:
            done()
        self.begin()


def capacity(costs):
    """Requests a second of one server: its device with full batches, or its processors with calls."""
    device = MOST_ROWS / (costs["run_us"] + MOST_ROWS * costs["row_us"])
    return 1e6 * min(device, PROCESSORS / costs["call_us"])


def simulate_models(options, costs, load, spread):
    """Requests come as by chance, `load` of what all servers could answer. Gives what became of them."""
    dice = random.Random(options.seed)
    clock = Clock()
    servers = [Model(clock, costs) for _ in range(options.servers)]
    each_us = 1e6 * options.clients / (load * options.servers * capacity(costs))  # between requests of one client
    end = options.seconds * 1e6
    next_server = [dice.randrange(options.servers) for _ in range(options.clients)]
    times, asked = [], [0]

    def send(client):
        if spread == "round_robin":
            at = next_server[client] = (next_server[client] + 1) % options.servers
        else:
            at = dice.randrange(options.servers)
        sent = clock.now
        asked[0] += 1
        clock.at(sent + costs["network_us"], servers[at].take, lambda: answer(sent))
        clock.at(sent + dice.expovariate(1 / each_us), send, client)

    def answer(sent):
        times.append(clock.now + costs["network_us"] - sent)

    for client in range(options.clients):
        clock.at(dice.expovariate(1 / each_us), send, client)
    clock.run(end)
    # What was asked for in the last part has not been answered yet.
    times.sort()
    rows = sum(each.rows for each in servers)
    return {"load": load, "spread": spread, "asked": asked[0], "answered": len(times),
            "per_s": round(len(times) / options.seconds), "p50_us": round(times[len(times) // 2]),
            "p99_us": round(times[len(times) * 99 // 100]), "rows": round(rows / sum(s.batches for s in servers), 2)}


# ---- clients of devices


class Places:
    """A server that has sessions: asked for its load, it has places for so many who ask."""

    def __init__(self, clock, costs):
        self.costs = costs
        self.calls = Workers(clock, PROCESSORS)
        self.sessions = self.asking = self.asked = 0
        self.is_there = True

    def ask(self, tell):
        self.asked += 1
        if self.asking >= TRUSTED_CALLS or not self.is_there:
            tell(None)
            return
        self.asking += 1
        self.calls.do(self.costs["info_us"], self.told, tell)

    def told(self, tell):
        self.asking -= 1
        tell(self.sessions)

    def open(self, tell):
        if self.sessions >= SESSIONS or not self.is_there:
            tell(False)
            return
        self.sessions += 1
        self.calls.do(self.costs["session_us"], tell, True)


class Client:
    """Asks the servers that it names, or the first few of them, one after the other from any of them on; the first that
    has nothing to do is taken at once. Where that one has no place any more, the next is tried, as kiln does."""

    def __init__(self, world, dice, asks):
        self.world = world
        self.asks = asks
        named = min(NAMED_SERVERS, len(world.servers))
        first = dice.randrange(len(world.servers))
        self.names = [(first + i) % len(world.servers) for i in range(named)]
        self.start = dice.randrange(named)
        self.server = None

    def begin(self):
        self.begun = self.world.clock.now
        self.best = self.start
        self.least = None
        self.ask(0)

    def later(self, act, *what):
        self.world.clock.at(self.world.clock.now + self.world.costs["network_us"], act, *what)

    def ask(self, count):
        if count == min(self.asks, len(self.names)) or self.least == 0:
            self.open(0)
            return
        at = (self.start + count) % len(self.names)
        self.later(self.world.servers[self.names[at]].ask, lambda load: self.later(self.heard, at, load, count))

    def heard(self, at, load, count):
        if load is not None and (self.least is None or load < self.least):
            self.best, self.least = at, load
        self.ask(count + 1)

    def open(self, tries):
        if tries == len(self.names):
            self.world.refused += 1
            return
        at = self.names[(self.best + tries) % len(self.names)]
        self.later(self.world.servers[at].open, lambda taken: self.later(self.opened, at, taken, tries))

    def opened(self, at, taken, tries):
        if not taken:
            self.open(tries + 1)
            return
        self.server = at
        self.world.took.append(self.world.clock.now - self.begun)


class World:
    """What clients of devices share."""

    def __init__(self, options, costs):
        self.clock = Clock()
        self.costs = costs
        self.servers = [Places(self.clock, costs) for _ in range(options.servers)]
        self.took = []
        self.refused = 0

    def row(self, what, asks):
        left = [each.sessions for each in self.servers if each.is_there]
        took = sorted(self.took) or [0]
        row = {"what": what, "asks": asks, "opened": len(self.took), "refused": self.refused, "least": min(left),
               "most": max(left), "asked": sum(each.asked for each in self.servers),
               "p50_us": round(took[len(took) // 2]), "p99_us": round(took[len(took) * 99 // 100])}
        self.took, self.refused = [], 0
        for each in self.servers:
            each.asked = 0
        return row


def simulate_sessions(options, costs, ramp_us, asks):
    """All clients open a session within `ramp_us`, each after asking so many servers; then one server ends, and its
    clients go to the others."""
    dice = random.Random(options.seed)
    world = World(options, costs)
    clients = [Client(world, dice, asks) for _ in range(options.clients)]
    for each in clients:
        world.clock.at(dice.random() * ramp_us, each.begin)
    world.clock.run(float("inf"))
    rows = [world.row(f"opened within {ramp_us / 1e6:g} s", asks)]
    if len(world.servers) > 1:
        gone = max(range(len(world.servers)), key=lambda at: world.servers[at].sessions)
        world.servers[gone].is_there = False
        for each in clients:
            if each.server == gone:
                world.clock.at(world.clock.now + COME_BACK_US, each.begin)
        world.clock.run(float("inf"))
        rows.append(world.row("and one server ends", asks))
    return rows


# ---- costs


class Measured:
    """Processor time that a server has used."""

    def __init__(self, process):
        self.path = f"/proc/{process.pid}"

    def used_us(self):
        with open(f"{self.path}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")

    def kib(self):
        with open(f"{self.path}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1024

    def each_us(self, count, act):
        act()  # what is made once
        before = self.used_us()
        for _ in range(count):
            act()
        return (self.used_us() - before) / count


def measure_models(server, kserve, count):
    """A call that does nothing, and runs of 1 and MOST_ROWS rows."""
    client = kserve.Client(server.target)
    used = Measured(server.process)
    tensor = client.messages.ModelInferRequest.InferInputTensor
    end = time.monotonic() + READY_S
    while not client.call("ServerReady").ready:
        if time.monotonic() > end:
            sys.exit("scaling: the server is not ready")
        time.sleep(0.05)

    def infer(rows):
        client.call("ModelInfer", model_name="digits", raw_input_contents=[bytes(4 * 64 * rows)],
                    inputs=[tensor(name="image", datatype="FP32", shape=[rows, 1, 8, 8])])

    call = used.each_us(count, lambda: client.call("ServerLive"))
    one = used.each_us(count, lambda: infer(1))
    row = max(0.0, (used.each_us(count, lambda: infer(MOST_ROWS)) - one) / (MOST_ROWS - 1))
    return {"call_us": call, "run_us": max(0.0, one - call - row), "row_us": row}


def measure_sessions(server, remote, count):
    used = Measured(server.process)
    asking = remote.Session(ROOT, server.target)
    info = used.each_us(count, asking.info)

    def open_one():
        session = remote.Session(ROOT, server.target)
        session.fence()
        session.close()

    opened = used.each_us(max(1, count // 4), open_one)
    before = used.kib()
    many = [remote.Session(ROOT, server.target) for _ in range(SESSIONS // 2)]
    kib = (used.kib() - before) / len(many)
    for each in (*many, asking):
        each.close()
    return {"info_us": info, "session_us": opened, "session_kib": max(0.0, kib)}


def measure(build, device, count):
    for folder in ("tests/unit/remote_grpc", "examples/remote_python", "examples/kserve_python"):
        sys.path.insert(0, os.path.join(ROOT, folder))
    fixture, remote, kserve = map(importlib.import_module, ("serve_fixture", "kiln_client", "kserve_python"))
    with tempfile.TemporaryDirectory(prefix="kiln-scaling-") as folder:
        os.makedirs(os.path.join(folder, "digits/1"))
        shutil.copy(os.path.join(ROOT, "examples/digits/digits.onnx"), os.path.join(folder, "digits/1/model.onnx"))
        with fixture.Server(os.path.join(build, "bin/kiln"), "--models", folder, "--max-batch", str(MOST_ROWS), "--set",
                            "awake=false", device=device) as server:
            costs = measure_models(server, kserve, count)
            costs.update(measure_sessions(server, remote, count))
    return {name: round(costs.get(name, known), 1) for name, known in COSTS.items()}


# ---- the command


def table(rows):
    heads = list(rows[0])
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        cells = (f"{row[head]:,}" if isinstance(row[head], int) else str(row[head]) for head in heads)
        print("| " + " | ".join(cells) + " |")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--servers", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.5, help="that are simulated, of clients of models")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--costs", help="a file as --measure writes it")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", metavar="BUILD")
    parser.add_argument("--device", default="opencl:0", help="that is measured")
    parser.add_argument("--calls", type=int, default=400, help="of each kind that are measured")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.device, options.calls)))
        return
    costs = dict(COSTS)
    if options.costs:
        with open(options.costs, encoding="utf-8") as file:
            costs.update(json.load(file))
    models = [simulate_models(options, costs, load, spread)
              for load in (0.3, 0.6, 0.9, 1.2) for spread in ("round_robin", "random")]
    sessions = [row for ramp in (0.01, 1, 10) for asks in (NAMED_SERVERS, 3)
                for row in simulate_sessions(options, costs, ramp * 1e6, asks)]
    held = {"per_server": SESSIONS, "servers_needed": -(-options.clients // SESSIONS),
            "kib": round(options.clients * costs["session_kib"]), "capacity_per_s": round(capacity(costs))}
    if options.json:
        print(json.dumps({"costs": costs, "models": models, "sessions": sessions, "held": held}))
        return
    table([costs])
    table(models)
    table(sessions)
    table([held])


if __name__ == "__main__":
    main()
