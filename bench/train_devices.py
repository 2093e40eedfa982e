#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Data parallel: the transformer of train.py on several devices, each with a batch of its own, beside the same on the
first device alone. The two take turns in one process; the ratio is the examples of a second to those of one device,
medians of the rounds (the bar for two GPUs is 1.8). The members first learn from equal batches, by which their losses
have to be those of the one device.

    train_devices.py opencl:0 opencl:1                             100 million parameters
    train_devices.py opencl:0 opencl:1 --ways averaged shared --bucket-mib 8 25 64
    POCL_DEVICES="pthread pthread" train_devices.py opencl:0 opencl:1 --small

With `--ways averaged` each device keeps the whole state of AdamW, and the means are taken in the graph of backward
(`kiln.collective.Group.average`); with `shared` the members share the state out (`kiln.train.ShardedOptimiser`), which
averages after backward; with `apart` nothing is averaged, which is the most that devices and host allow. Each member
is driven by a thread of its own. Each way is measured with each of `--bucket-mib`, and a ledger of one step is printed:
a line for each call of the first member, in milliseconds. `behind` other calls, `computing` what it needs, `agreeing`
with the others, `travelling`, and of that: `copying` to and from the device, `combining`, `waiting` for messages,
`settling`; `fetching` from the device goes on beside these. `beside` is how much of travelling ran while the member's
own queue computed. Before the calls stand the step, what the queue computed, and how long it stood still."""
import argparse
import json
import statistics
import sys
import time

import train

HUNDRED_MILLION = ["--layers", "14", "--width", "768", "--heads", "12", "--batch", "8", "--context", "512"]
SMALL = ["--layers", "1", "--width", "32", "--heads", "2", "--batch", "2", "--context", "16"]
PARTS = ("behind", "computing", "agreeing", "travelling", "copying", "combining", "waiting", "settling", "fetching")
RULE = {"rate": 1e-3, "decay": 0.1}


class Member(train.OfKiln):
    """A device's parameters, batch and compiled gradient, which `after` goes through."""

    def __init__(self, kiln, options, device, after=lambda gradients: gradients):
        self.kiln, self.options, self.device = kiln, options, kiln.device(device)
        self.params = kiln.train.Params(device=self.device)
        for name, values in train.start_values(options):
            self.params[name] = kiln.asarray(values, device=self.device)
        inputs, targets = train.batch_of(options)
        self.batch = [kiln.asarray(inputs.astype("int32"), device=self.device),
                      kiln.asarray(targets.astype("int32").reshape(-1, 1), device=self.device)]
        both = kiln.value_and_grad(lambda p, x, y: self.cross_entropy(self.transformer(p, x), y))

        def averaged(p, x, y):
            value, gradients = both(p, x, y)
            return value, after(gradients)

        self.gradient = kiln.compile(averaged)

    def gradients(self):
        self.value, gradients = self.gradient(self.params.tree(), *self.batch)
        return gradients


class Team:
    """Members whose gradients are averaged as they come, each with an optimiser of its own; or one device alone."""

    def __init__(self, kiln, options, devices, bucket_bytes=0):
        self.kiln, self.seconds = kiln, []
        self.name = "one device"
        if len(devices) > 1:
            self.name = f"{len(devices)} devices, buckets of {bucket_bytes / 2**20:g} MiB"
            self.group = kiln.collective.Group(devices, deadline=120.0)
            self.members = [Member(kiln, options, device, lambda gradients, m=m:
                                   self.group.average(m, gradients, bucket_bytes=bucket_bytes))
                            for m, device in enumerate(devices)]
        else:
            self.members = [Member(kiln, options, devices[0])]
        self.make_optimisers()

    def make_optimisers(self):
        self.optimisers = [self.kiln.train.Optimiser(one.params, "adamw", captured=True, **RULE)
                           for one in self.members]

    def each(self, function):
        """`function` of each member's number, by a thread for each, which may have to wait for room in a queue."""
        return [function(0)] if len(self.members) == 1 else self.group.each(function)

    def step(self):
        """All of it is enqueued, not awaited."""
        self.each(lambda m: self.optimisers[m].step(self.members[m].gradients()))

    def losses(self):
        return [float(one.value) for one in self.members]

    def settle(self):
        for one in self.members:
            one.device.sync()

    def run(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.settle()
        self.seconds.append((time.perf_counter() - begin) / steps)

    def ledger(self):
        """Lines about one step, of the first member. Queues measure from here on, so all timing comes before."""
        self.step()
        self.settle()
        with self.kiln.trace() as before:
            pass
        begin = time.perf_counter()
        with self.kiln.trace() as trace:
            self.step()
            recorded = time.perf_counter() - begin
            self.settle()
            whole = time.perf_counter() - begin
        return lines_of(before.text, trace.text, self.members[0].device.address, recorded, whole)


class Apart(Team):
    """Members that know nothing of each other."""

    def __init__(self, kiln, options, devices, bucket_bytes=0):
        self.kiln, self.seconds = kiln, []
        self.name = f"{len(devices)} devices apart"
        self.group = kiln.collective.Group(devices)
        self.members = [Member(kiln, options, device) for device in devices]
        self.make_optimisers()


class Sharing(Team):
    """Members that share the state out."""

    def __init__(self, kiln, options, devices, bucket_bytes=0):
        self.kiln, self.seconds = kiln, []
        self.name = f"{len(devices)} devices, shared state, buckets of {bucket_bytes / 2**20:g} MiB"
        self.members = [Member(kiln, options, device) for device in devices]
        self.group = kiln.collective.Group(devices, deadline=120.0)
        self.optimiser = kiln.train.ShardedOptimiser(self.group, [one.params for one in self.members], "adamw",
                                                     bucket_bytes=bucket_bytes, **RULE)

    def step(self):
        self.optimiser.step(self.each(lambda m: self.members[m].gradients()))


WAYS = {"averaged": Team, "shared": Sharing, "apart": Apart}

# ---- the ledger ----

def span_of(event):
    return event["ts"] / 1e3, (event["ts"] + event.get("dur", 0)) / 1e3


def joined(spans):
    """Spans that do not meet, of the same time."""
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def within(spans, begin, end):
    return sum(max(0.0, min(end, b) - max(begin, a)) for a, b in spans)


def lines_of(before, text, address, recorded, whole):
    mark = max((span_of(event)[1] for event in json.loads(before)["traceEvents"] if "ts" in event), default=0.0)
    events = json.loads(text)["traceEvents"]
    process = next(event["pid"] for event in events
                   if event["name"] == "process_name" and event["args"]["name"].split(" ")[0] == address)
    events = [event for event in events if event.get("ph") == "X" and span_of(event)[0] > mark]
    busy = joined(span_of(event) for event in events if event["pid"] == process)
    first, last = (busy[0][0], busy[-1][1]) if busy else (0.0, 0.0)
    took = within(busy, first, last)
    lines = [f"  step {whole * 1e3:.2f} ms, recorded after {recorded * 1e3:.2f}; the queue computed {took:.2f} in "
             f"{len(busy)} stretches and stood still {last - first - took:.2f}"]
    calls = [event for event in events if event.get("cat") == "note" and event["args"]["device"] == process - 2
             and event["args"]["detail"].startswith("bytes ")]
    if calls:
        lines.append("  " + " ".join(f"{word:>10}" for word in ("MiB", "at", *PARTS, "beside")) + "  call")
    total = dict.fromkeys(PARTS, 0.0)
    for event in sorted(calls, key=span_of):
        facts = {word: float(number) for word, number in
                 (part.split(" ") for part in event["args"]["detail"].split(", "))}
        parts = {word: facts.get(word, 0.0) / 1e3 for word in PARTS}
        begin, end = span_of(event)
        beside = within(busy, end - parts["travelling"], end)
        row = (facts["bytes"] / 2**20, begin - first, *parts.values(), beside)
        lines.append("  " + " ".join(f"{number:10.2f}" for number in row) + f"  {event['name']}")
        total = {word: total[word] + parts[word] for word in PARTS}
        total["beside"] = total.get("beside", 0.0) + beside
    if calls:
        lines.append("  " + " ".join(f"{text:>10}" for text in ("all", f"{len(calls)} calls",
                                                                *(f"{number:.2f}" for number in total.values()))))
    return lines


# ---- who measures ----

def learn(sides, steps):
    """The largest relative difference of a member's loss from the first side's, from one start and equal batches."""
    worst = 0.0
    for _ in range(steps):
        for side in sides:
            side.step()
        wanted = sides[0].losses()[0]
        worst = max([worst] + [abs(loss - wanted) / abs(wanted) for side in sides[1:] for loss in side.losses()])
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs="+", metavar="DEVICE")
    parser.add_argument("--base", metavar="DEVICE", help="the one device (the first)")
    parser.add_argument("--small", action="store_true", help="a model of 20 thousand parameters")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["averaged"])
    parser.add_argument("--bucket-mib", nargs="+", type=float, default=[25], metavar="MIB")
    for name, default in (("rounds", 7), ("steps", 5), ("warm", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    ours, more = parser.parse_known_args()
    options = train.parser_of().parse_args((SMALL if ours.small else HUNDRED_MILLION) + more)
    import kiln
    sides = [Team(kiln, options, [ours.base or ours.devices[0]])]
    for mib in ours.bucket_mib:
        sides += [WAYS[way](kiln, options, ours.devices, int(mib * 2**20)) for way in ours.ways
                  if way != "apart" or mib == ours.bucket_mib[0]]
    worst = learn(sides, ours.warm)
    for _ in range(ours.rounds):
        for side in sides:
            side.run(ours.steps)
    alone, *teams = (statistics.median(side.seconds) for side in sides)
    count = sum(int(values.size) for _, values in train.start_values(options))
    print(f"{count / 1e6:.1f} M parameters, {options.batch} x {options.context} a device; one device "
          f"{alone * 1e3:.2f} ms a step; losses of {ours.warm} steps differ by {worst:.1g}")
    for side, seconds in zip(sides[1:], teams):
        print(f"{side.name}: {seconds * 1e3:.2f} ms, {len(ours.devices) * alone / seconds:.2f} times the examples")
    for side in sides:
        print(f"{side.name}:", *side.ledger(), sep="\n", flush=True)
    return 0 if worst < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
