# SPDX-License-Identifier: MIT OR Apache-2.0
"""Triton's stock clients against a server of the test models. Arguments: grpc or http, and the server's address."""
import importlib
import os
import queue
import sys

import numpy
from tritonclient.utils import InferenceServerException

KIND, ADDRESS = sys.argv[1:3]
LIBRARY = importlib.import_module("tritonclient." + KIND)


def infer(client, name, x, kind, **options):
    tensor = LIBRARY.InferInput("x", x.shape, kind)
    tensor.set_data_from_numpy(x)
    result = client.infer(name, [tensor], **options)
    return result.as_numpy("y")


def refused(call, words):
    try:
        call()
    except InferenceServerException as error:
        assert words in str(error), error
        return
    assert False, words


def state_of(client, name):
    rows = client.get_model_repository_index()
    rows = [(row.name, row.version, row.state) for row in rows.models] if KIND == "grpc" else \
        [(row["name"], row.get("version", ""), row["state"]) for row in rows]
    return {version: state for each, version, state in rows if each == name}


def basics(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("scale")
    assert not client.is_model_ready("broken")
    assert client.get_server_metadata() and client.get_model_metadata("scale") and client.get_model_config("scale")
    assert state_of(client, "scale") == {"1": "READY", "2": "READY"} and state_of(client, "broken") == {
        "1": "UNAVAILABLE"}
    x = numpy.arange(8, dtype=numpy.float32).reshape(2, 4)
    assert (infer(client, "scale", x, "FP32", request_id="a") == 3 * x).all()
    assert (infer(client, "scale", x, "FP32", model_version="1", outputs=[LIBRARY.InferRequestedOutput("y")])
            == 2 * x).all()
    for kind, dtype in (("FP16", "f2"), ("INT64", "i8"), ("FP64", "f8"), ("UINT8", "u1")):
        y = numpy.array([[1, 2]], dtype)
        assert (infer(client, "twice_" + kind.lower(), y, kind) == 2 * y).all(), kind
    assert infer(client, "negation", numpy.array([True, False, True]), "BOOL").tolist() == [False, True, False]
    refused(lambda: infer(client, "nobody", x, "FP32"), "nobody")
    refused(lambda: infer(client, "scale", x[:, :2].copy(), "FP32"), "shape")
    assert client.get_inference_statistics("scale")
    client.unload_model("scale")
    assert not client.is_model_ready("scale")
    client.load_model("scale")
    assert client.is_model_ready("scale")
    refused(lambda: client.load_model("broken"), "not an ONNX file")


def sequences(client):
    """Over gRPC a name, too."""
    x = numpy.float32([1, 2])
    for each in (7, "name") if KIND == "grpc" else (7,):
        assert infer(client, "adder", x, "FP32", sequence_id=each, sequence_start=True).tolist() == [2, 4]
        assert infer(client, "adder", x, "FP32", sequence_id=each).tolist() == [4, 8]
        assert infer(client, "adder", x, "FP32", sequence_id=each, sequence_end=True).tolist() == [6, 12]
        refused(lambda id=each: infer(client, "adder", x, "FP32", sequence_id=id), "no sequence")
    refused(lambda: infer(client, "adder", x, "FP32"), "sequence_id")


def shared_memory(client):
    key = f"kiln_triton_{os.getpid()}"
    x = numpy.arange(4, dtype=numpy.float32)
    with open("/dev/shm/" + key, "wb") as file:
        file.write(x.tobytes() + bytes(16))
    try:
        client.register_system_shared_memory("region", "/" + key, 32)
        assert client.get_system_shared_memory_status("region")
        tensor = LIBRARY.InferInput("x", [1, 4], "FP32")
        tensor.set_shared_memory("region", 16)
        output = LIBRARY.InferRequestedOutput("y")
        output.set_shared_memory("region", 16, 16)
        client.infer("scale", [tensor], outputs=[output])
        with open("/dev/shm/" + key, "rb") as file:
            assert numpy.frombuffer(file.read()[16:], "f4").tolist() == (3 * x).tolist()
        client.unregister_system_shared_memory()
        refused(lambda: client.infer("scale", [tensor], outputs=[output]), "region")
    finally:
        os.unlink("/dev/shm/" + key)


def asynchronous(client):
    x = numpy.ones((1, 4), numpy.float32)
    tensor = LIBRARY.InferInput("x", x.shape, "FP32")
    tensor.set_data_from_numpy(x)
    if KIND == "http":
        pending = [client.async_infer("scale", [tensor]) for _ in range(20)]
        assert all(each.get_result().as_numpy("y")[0, 0] == 3 for each in pending)
        return
    done = queue.Queue()
    for _ in range(20):
        client.async_infer("scale", [tensor], lambda result, error: done.put((result, error)))
    for _ in range(20):
        result, error = done.get(timeout=30)
        assert error is None and result.as_numpy("y")[0, 0] == 3
    client.start_stream(callback=lambda result, error: done.put((result, error)))
    client.async_stream_infer("scale", [tensor])
    client.async_stream_infer("nobody", [tensor])
    result, error = done.get(timeout=30)
    assert error is None and result.as_numpy("y")[0, 0] == 3
    result, error = done.get(timeout=30)
    assert error is not None and "nobody" in str(error)
    client.stop_stream()


options = {"concurrency": 4} if KIND == "http" else {}
with LIBRARY.InferenceServerClient(ADDRESS, **options) as made:
    basics(made)
    sequences(made)
    shared_memory(made)
    asynchronous(made)
