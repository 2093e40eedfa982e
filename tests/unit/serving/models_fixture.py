# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the scripts that test models of `kiln serve` share: a server of a folder, calls over gRPC and HTTP. The first two
arguments of the script are kiln and the source folder."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

import grpc
import numpy

KILN, SOURCE = sys.argv[1:3]
sys.path.insert(0, os.path.join(SOURCE, "tests/unit/remote_grpc"))
from serve_fixture import PATIENCE, Server  # pylint: disable=wrong-import-position


class Models(Server):
    """A server of a folder's models; ready."""

    def __init__(self, folder, *options, wait=True, **others):
        super().__init__(KILN, "--models", folder, "--http", "127.0.0.1:0", *options, **others)
        self.http = next(each for each in self.addresses if each.startswith("http"))
        self.channel = grpc.insecure_channel(self.target)
        deadline = time.monotonic() + 60 * PATIENCE
        while wait and curl(f"{self.http}/v2/health/ready")[0] != 200:
            assert time.monotonic() < deadline, "the server is not ready"
            time.sleep(0.05)

    def stop(self):
        self.channel.close()
        return super().stop()


def messages():
    """The protocol's messages, from the .proto file alone."""
    module = sys.modules.get("inference_pb2")
    if module is None:
        with tempfile.TemporaryDirectory(prefix="kiln-serving-") as made:
            subprocess.run(["protoc", f"-I{SOURCE}/remote_grpc/proto/kserve", f"--python_out={made}",
                            "inference.proto"], check=True)
            spec = importlib.util.spec_from_file_location("inference_pb2", os.path.join(made, "inference_pb2.py"))
            module = importlib.util.module_from_spec(spec)
            sys.modules["inference_pb2"] = module
            spec.loader.exec_module(module)
    return module


def call(server, pb, method, code=grpc.StatusCode.OK, **fields):
    """A unary call by names."""
    request = getattr(pb, method + "Request")(**fields)
    reply = getattr(pb, method + "Response")
    stub = server.channel.unary_unary(f"/inference.GRPCInferenceService/{method}",
                                      request_serializer=lambda m: m.SerializeToString(),
                                      response_deserializer=reply.FromString)
    try:
        answer = stub(request, timeout=60 * PATIENCE)
        assert code == grpc.StatusCode.OK, f"{method}: {answer}"
        return answer
    except grpc.RpcError as error:
        assert error.code() == code, error
        return error.details()


def infer(server, pb, name, array, kind, code=grpc.StatusCode.OK, **fields):
    """x in raw form; gives y."""
    tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype=kind, shape=array.shape)
    answer = call(server, pb, "ModelInfer", code, model_name=name, inputs=[tensor],
                  raw_input_contents=[array.tobytes()], **fields)
    if code != grpc.StatusCode.OK:
        return answer
    return numpy.frombuffer(answer.raw_output_contents[0], array.dtype).reshape(answer.outputs[0].shape)


def curl(url, *options, body=None):
    """The status and the body of a call."""
    data = ["--data-binary", "@-"] if body is not None else []
    done = subprocess.run(["curl", "-s", "-o", "-", "-w", "\n%{http_code}", "-m", str(60 * PATIENCE), *options, *data, url],
                          input=body, capture_output=True, check=False)
    text, _, code = done.stdout.rpartition(b"\n")
    return int(code), text


def http_infer(server, name, body, *options):
    return curl(f"{server.http}/v2/models/{name}/infer", *options, body=json.dumps(body).encode())
