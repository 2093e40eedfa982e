#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The peers of `kiln bench models`, each in a process of its own that runs a model when it is told.

    bench_models_peers.py WHO THREADS FOLDER      WHO: onnxruntime, openvino, torch, tinygrad; or Kiln by another door:
                                                  provider (of ONNX Runtime), compiled (by torch.compile)
    bench_models_peers.py exact FOLDER FILE       the first output in 64 bits, by PyTorch, as .npy
    bench_models_peers.py apart A B               the largest difference, over the largest value of B

The first form speaks as `kiln run --turns` does: after the first run "ready MILLISECONDS VERSION"; then to "run
SECONDS" the median and the least milliseconds of a run, their number, and three zeros; to "write FILE" the first
output as .npy. Without the library it says nothing.
"""
import glob
import os
import sys
import time

sys.dont_write_bytecode = True  # these lie beside sources

try:
    import numpy as np
except ImportError:
    sys.exit(0)


def read_inputs(folder):
    return {os.path.basename(path)[:-4]: np.load(path) for path in glob.glob(folder + "/*.npy")}


def onnxruntime(threads, path, inputs):
    import onnxruntime as ort
    ort.set_default_logger_severity(4)
    yield ort.__version__
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    yield lambda: session.run(None, inputs)


def openvino(threads, path, inputs):
    import openvino as ov
    yield ov.__version__.split("-")[0]
    core = ov.Core()
    # Without hints OpenVINO may compute in bf16 or f16 where the processor has it.
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    model = core.compile_model(core.read_model(path), "CPU", settings)
    request = model.create_infer_request()

    def run():
        request.infer(inputs, share_inputs=True)
        return [np.array(request.get_output_tensor(i).data) for i in range(len(model.outputs))]
    yield run


def torch(threads, path, inputs):
    import torch as library
    yield library.__version__
    library.set_num_threads(threads)
    from bench_models_torch import Graph
    graph = Graph(path, library.float32)
    yield lambda: graph.run(inputs)


def tinygrad(_, path, inputs):
    os.environ.setdefault("DEV", "CL")  # the same OpenCL device, with its own threads
    from importlib.metadata import version
    from tinygrad import Tensor, TinyJit
    from tinygrad.nn.onnx import OnnxRunner
    yield version("tinygrad")
    runner = OnnxRunner(path)
    step = TinyJit(lambda **tensors: [value.realize() for value in runner(tensors).values()])
    yield lambda: [value.numpy() for value in
                   step(**{name: Tensor(array).realize() for name, array in inputs.items()})]


def provider(_, path, inputs):
    import onnxruntime as ort
    from kiln.onnx import provider_library
    yield ort.__version__
    ort.register_execution_provider_library("Kiln", provider_library())
    options = ort.SessionOptions()
    options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "Kiln"][:1], {})
    session = ort.InferenceSession(path, options)
    yield lambda: session.run(None, inputs)


def compiled(threads, path, inputs):
    import torch as library
    from kiln.torch import backend
    yield library.__version__
    library.set_num_threads(threads)
    from bench_models_torch import Graph, Module
    run = library.compile(Module(Graph(path, library.float32)).eval(), backend=backend, dynamic=False)
    tensors = {name: library.from_numpy(array) for name, array in inputs.items()}

    def outputs():
        with library.no_grad():
            return [value.numpy() for value in run(tensors)]
    yield outputs


WHO = {who.__name__: who for who in (onnxruntime, openvino, torch, tinygrad, provider, compiled)}


def speak(who, threads, folder):
    peer = WHO[who](threads, folder + "/model.onnx", read_inputs(folder))
    try:
        version = next(peer)
    except ImportError:
        return
    start = time.perf_counter()
    run = next(peer)
    outputs = run()
    print(f"ready {1e3 * (time.perf_counter() - start):.6f} {version}", flush=True)
    for line in sys.stdin:
        word, rest = line.split(maxsplit=1)
        if word == "write":
            np.save(rest.strip(), outputs[0])
            print("wrote", rest.strip(), flush=True)
            continue
        seconds, times = float(rest), []
        run()
        while not times or sum(times) < seconds:
            start = time.perf_counter()
            outputs = run()
            times.append(time.perf_counter() - start)
        print(f"{1e3 * np.median(times):.6f} {1e3 * min(times):.6f} {len(times)} 0 0 0", flush=True)


def exact(folder, path):
    try:
        import torch as library
    except ImportError:
        return
    from bench_models_torch import Graph
    np.save(path, Graph(folder + "/model.onnx", library.float64).run(read_inputs(folder))[0])
    print("exact", library.__version__)


def main():
    if sys.argv[1] == "exact":
        exact(*sys.argv[2:])
    elif sys.argv[1] == "apart":
        a, b = (np.load(path).astype(np.float64) for path in sys.argv[2:])
        print("apart", np.abs(a - b).max() / np.abs(b).max() if a.shape == b.shape else np.nan)
    else:
        speak(sys.argv[1], int(sys.argv[2]), sys.argv[3])


if __name__ == "__main__":
    main()
