#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kiln in turns with itself or with ONNX Runtime: what other work on the machine costs it, what a door of another
library costs, by models as write_models.py makes them.

    in_turns.py facts  [OPTION...] KILN FOLDER/NAME...
    in_turns.py beside [OPTION...] KILN FOLDER/NAME...
    in_turns.py doors  [OPTION...] KILN FOLDER/NAME...

`facts`: two caches, each filled by ten processes that tune lazily; the first of one cache runs beside busy processes
(8, or --busy), all others do not. Then a process on either cache runs in turns with the other. The ratio is the time
with the quiet cache to that with the other: 1 says that the load left nothing behind.

`beside`: Kiln and ONNX Runtime in turns, each alone and beside one busy process (or --busy). The ratio is ONNX
Runtime's time to Kiln's: above 1 Kiln is ahead.

`doors`: `kiln run`, Kiln as a provider of ONNX Runtime, and Kiln under torch.compile, in turns. The ratio is the time
of `kiln run` to that of the door. The interpreter needs ONNX Runtime, PyTorch and the package kiln.

NAME may be productN, an N x N x N product, which is written. Times are medians of turns (and their least), in wall
time; on a machine with other work only the ratio means something. With --json one object a line.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SPIN = "while True: pass"


class Busy:
    """Processes that only need the processors."""

    def __init__(self, count):
        self.children = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()


class Speaker:
    """A process that runs a model when it is told: `kiln run --turns`, or a peer of bench_models_peers.py."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        self.ready = self.process.stdout.readline()
        if not self.ready.startswith("ready"):
            self.process.wait()
            raise RuntimeError(f"{' '.join(command)} does not run")

    def run(self, seconds):
        print(f"run {seconds}", file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline().split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def write_product(folder, n):
    import numpy as np
    from onnx import TensorProto, helper, save
    os.makedirs(folder, exist_ok=True)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [n, n]) for name in "abc"]
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    model = helper.make_model(helper.make_graph([node], "product", infos[:2], infos[2:]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, folder + "/model.onnx")
    generator = np.random.default_rng(1)
    for name in "ab":
        np.save(f"{folder}/{name}.npy", generator.standard_normal((n, n), dtype=np.float32))


def kiln_command(kiln, folder, *more):
    inputs = sorted(name[:-4] for name in os.listdir(folder) if name.endswith(".npy"))
    given = [word for name in inputs for word in ("--input", f"{name}={folder}/{name}.npy")]
    return [kiln, "run", folder + "/model.onnx", *given, *more]


def fill(options, folder, cache, busy):
    """Ten processes (or --processes), the first of them beside busy ones."""
    command = kiln_command(options.kiln, folder, "--tune", "lazy", "--repeat", str(options.repeat))
    for number in range(options.processes - 1):
        with Busy(busy if number == 0 else 0):
            subprocess.run(command, env={**os.environ, "KILN_CACHE_DIR": cache}, check=True,
                           stdout=subprocess.DEVNULL)


def facts(options, folder):
    times = {"quiet": [], "loaded": []}
    with tempfile.TemporaryDirectory() as caches:
        for side in times:
            fill(options, folder, f"{caches}/{side}", options.busy if side == "loaded" else 0)
        command = kiln_command(options.kiln, folder, "--tune", "lazy", "--turns")
        with Speaker(command, {"KILN_CACHE_DIR": caches + "/quiet"}) as quiet, \
                Speaker(command, {"KILN_CACHE_DIR": caches + "/loaded"}) as loaded:
            for turn in range(options.turns):
                pair = [("quiet", quiet), ("loaded", loaded)]
                for side, speaker in pair if turn % 2 == 0 else reversed(pair):
                    times[side].append(speaker.run(options.seconds))
    return [("quiet", "loaded", times)]


def beside(options, folder):
    found = []
    peers = os.path.join(HERE, "../cases/bench_models_peers.py")
    threads = str(len(os.sched_getaffinity(0)))
    with Speaker(kiln_command(options.kiln, folder, "--turns")) as kiln, \
            Speaker([options.python, peers, "onnxruntime", threads, folder]) as peer:
        for name, count in (("alone", 0), ("beside", options.busy)):
            times = {f"ONNX Runtime {name}": [], f"Kiln {name}": []}
            with Busy(count):
                for turn in range(options.turns):
                    pair = list(zip(times, (peer, kiln)))
                    for side, speaker in pair if turn % 2 == 0 else reversed(pair):
                        times[side].append(speaker.run(options.seconds))
            found.append((*times, times))
    return found


def doors(options, folder):
    peers = os.path.join(HERE, "../cases/bench_models_peers.py")
    threads = str(len(os.sched_getaffinity(0)))
    with Speaker(kiln_command(options.kiln, folder, "--turns")) as kiln, \
            Speaker([options.python, peers, "provider", threads, folder]) as provider, \
            Speaker([options.python, peers, "compiled", threads, folder]) as compiled:
        sides = {"kiln run": kiln, "provider": provider, "torch.compile": compiled}
        times = {name: [] for name in sides}
        for turn in range(options.turns + options.warm):
            order = list(sides.items())
            for name, speaker in order if turn % 2 == 0 else reversed(order):
                took = speaker.run(options.seconds)
                if turn >= options.warm:
                    times[name].append(took)
    return [("kiln run", door, times) for door in ("provider", "torch.compile")]


def tell(options, case, upper, lower, times):
    ratios = [a / b for a, b in zip(times[upper], times[lower])]
    row = {"case": case, "ratio": statistics.median(ratios), "against": upper, "value": statistics.median(times[lower]),
           "unit": "ms", "turns": len(ratios), "ratio_of_least": min(times[upper]) / min(times[lower])}
    if options.json:
        print(json.dumps(row), flush=True)
    else:
        print(f"{case:12s} {lower}: {row['value']:.2f} ms; {upper} to {lower} {row['ratio']:.2f} in the median of "
              f"{row['turns']} turns, {row['ratio_of_least']:.2f} of the least", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("facts", "beside", "doors"))
    parser.add_argument("kiln")
    parser.add_argument("folders", nargs="+", metavar="FOLDER/NAME")
    parser.add_argument("--busy", type=int, help="processes beside (default 8 for facts, 1 for beside)")
    parser.add_argument("--processes", type=int, default=10, help="that use a cache, the last of them timed")
    parser.add_argument("--repeat", type=int, default=30, help="runs of each of the others")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--warm", type=int, default=3, help="turns of doors before those that count")
    parser.add_argument("--seconds", type=float, default=0.3, help="of one turn")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has ONNX Runtime")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.busy = options.busy if options.busy is not None else 8 if options.what == "facts" else 1
    for folder in options.folders:
        case = os.path.basename(folder.rstrip("/"))
        if case.startswith("product") and not os.path.exists(folder + "/model.onnx"):
            write_product(folder, int(case[7:]))
        for found in {"facts": facts, "beside": beside, "doors": doors}[options.what](options, folder):
            tell(options, case, *found)


if __name__ == "__main__":
    main()
