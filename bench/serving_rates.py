#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The digits model behind `kiln serve` and behind a plain grpcio server with ONNX Runtime, with the same messages.

bench/serving_rates.py BUILD [--python PEERS] [--clients 1 4 16] [--seconds 2] [--rounds 5]

Clients are processes that send one request after another over a Unix socket; rounds of both servers take turns, and the
median of each is shown. PEERS is an interpreter with onnxruntime; without one Kiln is measured alone. Both sides take
their processor time from the same cores as the clients do."""
import argparse
import importlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "examples/digits/digits.onnx")
METHOD = "/inference.GRPCInferenceService/ModelInfer"
DEBIAN = "/usr/lib/python3/dist-packages"  # has grpcio, where the interpreter of peers has none
READY_S = 120


def load(folder):
    """grpcio, and the protocol's messages in `folder`."""
    sys.path[:0] = [folder]
    sys.path.append(DEBIAN)
    return importlib.import_module("grpc"), importlib.import_module("inference_pb2")


def request_of(pb):
    tensor = pb.ModelInferRequest.InferInputTensor(name="image", datatype="FP32", shape=[1, 1, 8, 8])
    return pb.ModelInferRequest(model_name="digits", inputs=[tensor],
                                raw_input_contents=[bytes(4 * 64)]).SerializeToString()


def answer(folder, address):
    """The peer: ONNX Runtime behind grpcio."""
    numpy, runtime = importlib.import_module("numpy"), importlib.import_module("onnxruntime")
    grpc, pb = load(folder)
    futures = importlib.import_module("concurrent.futures")
    session = runtime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    output = session.get_outputs()[0].name

    def infer(request, _):
        tensor = request.inputs[0]
        x = numpy.frombuffer(request.raw_input_contents[0], "f4").reshape(tuple(tensor.shape))
        y = session.run([output], {tensor.name: x})[0]
        made = pb.ModelInferResponse(model_name=request.model_name, raw_output_contents=[y.tobytes()])
        made.outputs.add(name=output, datatype="FP32", shape=y.shape)
        return made

    handler = grpc.unary_unary_rpc_method_handler(infer, pb.ModelInferRequest.FromString,
                                                  pb.ModelInferResponse.SerializeToString)
    server = grpc.server(futures.ThreadPoolExecutor(8))
    service, method = METHOD.strip("/").split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def first_answer(grpc, call, body):
    """A server listens before its models are loaded."""
    end = time.monotonic() + READY_S
    while True:
        try:
            return call(body, timeout=READY_S, wait_for_ready=True)
        except grpc.RpcError as why:
            if why.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                raise
        time.sleep(0.01)


def ask(folder, address, seconds):
    """A client: prints how many answers came in how many seconds, and the median time of one in microseconds."""
    grpc, pb = load(folder)
    body = request_of(pb)
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(METHOD)
        first_answer(grpc, call, body)
        times = []
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds:
            start = time.perf_counter()
            call(body, timeout=READY_S)
            times.append(time.perf_counter() - start)
        print(len(times), time.perf_counter() - begun, 1e6 * statistics.median(times))


def measure(folder, address, clients, seconds):
    """Answers a second, and the median time of one."""
    command = [sys.executable, __file__, "--ask", folder, address, str(seconds)]
    with_pipes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # pylint: disable=consider-using-with
                  for _ in range(clients)]
    rows = [[float(word) for word in each.communicate()[0].split()] for each in with_pipes]
    return sum(count / took for count, took, _ in rows), statistics.median(row[2] for row in rows)


def rounds(options, folder):
    models = os.path.join(folder, "models/digits/1")
    os.makedirs(models)
    shutil.copy(MODEL, os.path.join(models, "model.onnx"))
    addresses = {"kiln": f"unix:{folder}/kiln.sock"}
    servers = [subprocess.Popen([f"{options.build}/bin/kiln", "serve", "--models", f"{folder}/models", "--listen",
                                 addresses["kiln"]], stdout=subprocess.DEVNULL)]
    if options.python is not None:
        addresses["onnxruntime"] = f"unix:{folder}/peer.sock"
        servers.append(subprocess.Popen([options.python, __file__, "--answer", folder, addresses["onnxruntime"]]))
    figures = {(name, clients): [] for clients in options.clients for name in addresses}
    try:
        for name, address in addresses.items():  # connects and warms up
            measure(folder, address, 1, 0.2)
        for _ in range(options.rounds):
            for name, clients in figures:
                figures[name, clients].append(measure(folder, addresses[name], clients, options.seconds))
    finally:
        for server in servers:
            server.terminate()
            server.wait()
    return {case: [statistics.median(column) for column in zip(*rows)] for case, rows in figures.items()}


def main():
    if sys.argv[1:2] == ["--answer"]:
        answer(*sys.argv[2:4])
        return
    if sys.argv[1:2] == ["--ask"]:
        ask(sys.argv[2], sys.argv[3], float(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("build")
    parser.add_argument("--python", help="interpreter that has onnxruntime")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16], help="at a time; several cases")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kiln-rates-") as folder:
        subprocess.run(["protoc", f"-I{ROOT}/remote_grpc/proto/kserve", f"--python_out={folder}", "inference.proto"],
                       check=True)
        figures = rounds(options, folder)
    for (name, clients), (rate, median_us) in figures.items():
        peer = figures.get(("onnxruntime", clients)) if name == "kiln" else None
        ratio = f", {rate / peer[0]:.2f} times onnxruntime" if peer else ""
        print(f"{name:12} {clients:3} clients {rate:9.0f} answers a second, {median_us:7.0f} us each{ratio}")


if __name__ == "__main__":
    main()
