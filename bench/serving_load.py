#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A model behind `kiln serve` under load, beside the same model alone, and an identity beside one that floods.

bench/serving_load.py BUILD [--model FILE] [--batches 1 2 4 8] [--clients 16] [--seconds 20]

With a model whose batch is open: answers a second to many clients with dynamic batching, to `kiln benchmark` at the
best of some batches; and the times of answers when requests come at half that rate. Always: how many answers of the
digits model one identity gets while another has eight clients, to what it gets alone. Clients are processes on the
same cores."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import serving_rates as rates

FLOOD = 8  # clients of the identity that floods
ROUNDS = 3
STARTING_S = 0.4  # of a processor, until a client has asked for the first time
TOKENS = {"quiet": "3b9c0e41c2a85f6e", "loud": "93d1f00b7a4e2c68"}


def request_of(pb, model, shape):
    count = 4
    for extent in shape:
        count *= extent
    tensor = pb.ModelInferRequest.InferInputTensor(name=model["inputs"][0]["name"], datatype="FP32", shape=shape)
    return pb.ModelInferRequest(model_name=model["name"], inputs=[tensor],
                                raw_input_contents=[bytes(count)]).SerializeToString()


def ask(options):
    """A client: asks again and again, or each `every` seconds; prints what each answer took, and all together."""
    grpc, pb = rates.load(options["folder"])
    body = request_of(pb, options["model"], options["shape"])
    header = [("authorization", f"Bearer {options['token']}")] if options["token"] else []
    with grpc.insecure_channel(options["address"]) as channel:
        call = channel.unary_unary(rates.METHOD)
        end = time.monotonic() + rates.READY_S
        while True:
            try:
                call(body, timeout=rates.READY_S, wait_for_ready=True, metadata=header)
                break
            except grpc.RpcError as why:
                if why.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                    raise
            time.sleep(0.05)
        time.sleep(max(0.0, options["begin"] - time.monotonic()))  # others are starting
        times, begun = [], time.perf_counter()
        due = begun + options["first"]
        while time.perf_counter() - begun < options["seconds"]:
            if options["every"] > 0:
                time.sleep(max(0.0, due - time.perf_counter()))
            start = due if options["every"] > 0 else time.perf_counter()  # what comes late has waited
            call(body, timeout=rates.READY_S, metadata=header)
            times.append(time.perf_counter() - start)
            due += options["every"]
        print(json.dumps({"times": times, "took": time.perf_counter() - begun}))


def begin_of(count):
    """When so many clients that start now are all there."""
    return time.monotonic() + 0.5 + STARTING_S * count


def start(options):
    return subprocess.Popen([sys.executable, __file__, "--ask", json.dumps(options)], stdout=subprocess.PIPE, text=True)


def gather(processes):
    said = [json.loads(each.communicate()[0]) for each in processes]
    return sum(len(each["times"]) / each["took"] for each in said), sorted(t for each in said for t in each["times"])


def serve(build, folder, config, model, *words):
    name = os.path.splitext(os.path.basename(model))[0]
    home = os.path.join(folder, "models", name, "1")
    os.makedirs(home)
    shutil.copy(model, os.path.join(home, "model.onnx"))
    with open(os.path.join(folder, "models", name, "config.pbtxt"), "w", encoding="utf-8") as file:
        file.write(config)
    address = f"unix:{folder}/kiln.sock"
    process = subprocess.Popen([f"{build}/bin/kiln", "serve", "--models", f"{folder}/models", "--listen", address,
                                *words], stdout=subprocess.DEVNULL)
    return process, {"folder": folder, "address": address, "model": {"name": name}, "every": 0, "first": 0,
                     "begin": 0, "token": None}


def alone(build, model, batches, seconds):
    best = 0, 0
    for batch in batches:
        said = subprocess.run([f"{build}/bin/kiln", "benchmark", "--json", "-t", str(seconds), "-b", str(batch), model],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        figures = json.loads(said)
        best = max(best, (figures["samples_per_second"], batch))
    return best


def heavy(options, folder):
    """One model, many clients."""
    _, batch = alone(options.build, options.model, options.batches, options.seconds / 4)
    process, base = serve(options.build, folder,
                          f"max_batch_size: {batch}\ndynamic_batching {{ max_queue_delay_microseconds: 2000 }}\n",
                          options.model)
    base["model"]["inputs"] = [{"name": options.input}]
    base["shape"] = [1, *options.shape]
    try:
        gather([start(dict(base, seconds=1))])
        pairs = []
        for _ in range(ROUNDS):  # machines are not equally quick from one minute to the next
            by_itself, _ = alone(options.build, options.model, [batch], options.seconds / 4)
            base["begin"] = begin_of(options.clients)
            rate, _ = gather([start(dict(base, seconds=options.seconds / 2)) for _ in range(options.clients)])
            pairs.append((rate / by_itself, rate, by_itself))
        ratio, rate, batch_rate = sorted(pairs)[ROUNDS // 2]
        every = options.clients / (rate / 2)
        base["begin"] = begin_of(options.clients)
        _, times = gather([start(dict(base, seconds=options.seconds, every=every, first=every * i / options.clients))
                           for i in range(options.clients)])
    finally:
        process.terminate()
        process.wait()
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    print(f"{options.clients} clients  {rate:8.1f} answers a second, {ratio:.2f} times the "
          f"{batch_rate:.1f} rows of runs of {batch}")
    print(f"half load   p50 {p50 * 1e3:8.1f} ms, p99 {p99 * 1e3:.1f} ms, {p99 / p50:.2f} times")


def fair(options, folder):
    """Two identities."""
    tokens = os.path.join(folder, "tokens")
    with open(tokens, "w", encoding="utf-8") as file:
        file.writelines(f"{name} {token}\n" for name, token in TOKENS.items())
    process, base = serve(options.build, folder, "max_batch_size: 4\ndynamic_batching { }\n", rates.MODEL,
                          "--token-file", tokens)
    base["model"]["inputs"] = [{"name": "image"}]
    base.update(shape=[1, 1, 8, 8], seconds=options.seconds / 4)
    try:
        quiet = dict(base, token=TOKENS["quiet"])
        loud = dict(base, token=TOKENS["loud"], seconds=options.seconds / 4 + 2)
        gather([start(dict(quiet, seconds=0.5))])
        pairs = []
        for _ in range(ROUNDS):
            by_itself, _ = gather([start(quiet)])
            begin = begin_of(FLOOD + 1)
            flood = [start(dict(loud, begin=begin)) for _ in range(FLOOD)]
            beside, _ = gather([start(dict(quiet, begin=begin + 1))])
            gather(flood)
            pairs.append((beside / by_itself, beside, by_itself))
    finally:
        process.terminate()
        process.wait()
    ratio, beside, by_itself = sorted(pairs)[ROUNDS // 2]
    print(f"flooded     {beside:8.0f} answers a second, {ratio:.2f} times the {by_itself:.0f} alone")


def main():
    if sys.argv[1:2] == ["--ask"]:
        ask(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("build")
    parser.add_argument("--model", help="with one input of f32 whose first extent is open")
    parser.add_argument("--input", default="image", help="its name")
    parser.add_argument("--shape", type=int, nargs="+", default=[3, 224, 224], help="of a row")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    for part in (heavy, fair) if options.model else (fair,):
        with tempfile.TemporaryDirectory(prefix="kiln-load-") as folder:
            subprocess.run(["protoc", f"-I{rates.ROOT}/remote_grpc/proto/kserve", f"--python_out={folder}",
                            "inference.proto"], check=True)
            part(options, folder)


if __name__ == "__main__":
    main()
