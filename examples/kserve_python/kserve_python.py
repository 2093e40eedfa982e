#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which digit is on a picture, asked of a model of `kiln serve --models`, from KServe's .proto file alone.

    kiln serve --models MODELS --listen 127.0.0.1:3000 &
    examples/kserve_python/kserve_python.py 127.0.0.1:3000 digits examples/digits/three.npy

No library of Kiln and no client of KServe is used: Debian's python3-grpcio and python3-protobuf, and protoc.
"""
import importlib
import os
import subprocess
import sys
import tempfile

try:
    import grpc
    import numpy
except ImportError as missing:
    sys.exit(f"kserve_python: {missing.name} is missing; install python3-grpcio and python3-numpy")

SERVICE = "/inference.GRPCInferenceService/"
DTYPES = {"BOOL": "?", "UINT8": "u1", "INT8": "i1", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4",
          "FP64": "<f8"}


def load_messages():
    """Compiles the .proto file, of the tree or of an installation."""
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(here, "../../remote_grpc/proto"), os.path.join(here, "../../proto")]
    folder = next(place for place in places if os.path.exists(os.path.join(place, "kserve/inference.proto")))
    made = tempfile.mkdtemp(prefix="kserve-proto-")
    subprocess.run(["protoc", f"-I{folder}", f"--python_out={made}", "kserve/inference.proto"], check=True)
    sys.path.insert(0, made)
    return importlib.import_module("kserve.inference_pb2")


class Client:
    """One call for each method; a message in, a message out."""

    def __init__(self, address):
        self.messages = load_messages()
        self.channel = grpc.insecure_channel(address)

    def call(self, method, **fields):
        request = getattr(self.messages, f"{method}Request")(**fields)
        reply = getattr(self.messages, f"{method}Response")
        return self.channel.unary_unary(SERVICE + method, type(request).SerializeToString, reply.FromString)(request)

    def infer(self, model, arrays):
        """Arrays by the names of the model's inputs; gives those of its outputs."""
        described = {each.name: each for each in self.call("ModelMetadata", name=model).inputs}
        tensor = self.messages.ModelInferRequest.InferInputTensor
        inputs, raw = [], []
        for name, array in arrays.items():
            datatype = described[name].datatype
            inputs.append(tensor(name=name, datatype=datatype, shape=array.shape))
            raw.append(numpy.ascontiguousarray(array, DTYPES[datatype]).tobytes())
        reply = self.call("ModelInfer", model_name=model, inputs=inputs, raw_input_contents=raw)
        return {each.name: numpy.frombuffer(data, DTYPES[each.datatype]).reshape(each.shape)
                for each, data in zip(reply.outputs, reply.raw_output_contents)}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    client = Client(sys.argv[1])
    model, picture = sys.argv[2], numpy.load(sys.argv[3])
    if not client.call("ModelReady", name=model).ready:
        sys.exit(f"{model} is not ready: " + ", ".join(
            f"{row.name} {row.state} {row.reason}".strip() for row in client.call("RepositoryIndex").models))
    name = client.call("ModelMetadata", name=model).inputs[0].name
    scores, = client.infer(model, {name: picture}).values()
    print(f"{int(scores.argmax())}")


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
