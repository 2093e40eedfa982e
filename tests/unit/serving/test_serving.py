#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln serve --models` from outside: the protocol over gRPC and HTTP, batches, the folder, metrics, hostile requests.
Clients are made from the .proto file and curl; Triton's own clients where KILN_TEST_PYTHON has them.
Arguments: kiln, the source folder."""
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

import grpc
import numpy

from models_fixture import KILN, SOURCE, Models, call, curl, http_infer, infer, messages
from serve_fixture import PATIENCE, Server, Skip, make_certificates, run_cases
import serving_models

PYTHON = os.environ.get("KILN_TEST_PYTHON", "/usr/bin/python3")


# ---- over gRPC


def case_metadata_and_index(folder):
    pb = messages()
    with Models(serving_models.usual(folder)) as server:
        assert call(server, pb, "ServerLive").live and call(server, pb, "ServerReady").ready
        assert call(server, pb, "ServerMetadata").name == "kiln"
        rows = {(row.name, row.version): row for row in call(server, pb, "RepositoryIndex").models}
        assert rows["scale", "1"].state == rows["scale", "2"].state == "READY", rows
        assert rows["broken", "1"].state == "UNAVAILABLE" and "not an ONNX file" in rows["broken", "1"].reason
        assert "Mystery" in rows["unknown", "1"].reason
        assert "another" in rows["other", ""].reason, rows
        ready = call(server, pb, "RepositoryIndex", ready=True).models
        assert {row.state for row in ready} == {"READY"} and "broken" not in {row.name for row in ready}
        meta = call(server, pb, "ModelMetadata", name="scale")
        assert sorted(meta.versions) == ["1", "2"] and meta.platform == "kiln_onnx"
        assert meta.inputs[0].datatype == "FP32" and list(meta.inputs[0].shape) == [-1, 4]
        config = call(server, pb, "ModelConfig", name="scale").config
        assert config.max_batch_size == 16 and list(config.input[0].dims) == [4]
        assert list(config.dynamic_batching.preferred_batch_size) == [8, 16]
        assert call(server, pb, "ModelConfig", name="fixed").config.max_batch_size == 0
        assert list(call(server, pb, "ModelMetadata", name="fixed").inputs[0].shape) == [1, 4]
        assert call(server, pb, "ModelReady", name="scale").ready
        assert not call(server, pb, "ModelReady", name="broken").ready
        assert not call(server, pb, "ModelReady", name="nobody").ready


def case_infer_raw(folder):
    pb = messages()
    with Models(serving_models.usual(folder)) as server:
        x = numpy.arange(8, dtype=numpy.float32).reshape(2, 4)
        assert (infer(server, pb, "scale", x, "FP32") == 3 * x).all()
        assert (infer(server, pb, "scale", x, "FP32", model_version="1") == 2 * x).all()
        for kind, dtype in (("FP16", "f2"), ("FP64", "f8"), ("INT64", "i8"), ("INT32", "i4"), ("UINT8", "u1"),
                            ("INT8", "i1"), ("UINT16", "u2")):
            y = numpy.array([[1, 2], [3, 4]], dtype)
            assert (infer(server, pb, "twice_" + kind.lower(), y, kind) == y * 2).all(), kind
        flags = numpy.array([True, False, True])
        assert (infer(server, pb, "negation", flags, "BOOL") == ~flags).all()
        answer = call(server, pb, "ModelInfer", model_name="negation", id="abc", raw_input_contents=[flags.tobytes()],
                      inputs=[pb.ModelInferRequest.InferInputTensor(name="x", datatype="BOOL", shape=[3])],
                      outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="y")])
        assert answer.id == "abc" and answer.model_version == "1" and answer.outputs[0].name == "y"


def case_infer_typed(folder):
    pb = messages()
    with Models(serving_models.usual(folder)) as server:
        for kind, field, values in (("FP32", "fp32_contents", [1, 2]), ("FP64", "fp64_contents", [1, -2]),
                                    ("INT64", "int64_contents", [-1, 1 << 40]), ("INT32", "int_contents", [-7, 9]),
                                    ("INT8", "int_contents", [-7, 9]), ("UINT8", "uint_contents", [7, 9]),
                                    ("UINT16", "uint_contents", [7, 999])):
            tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype=kind, shape=[1, 2],
                                                           contents=pb.InferTensorContents(**{field: values}))
            answer = call(server, pb, "ModelInfer", model_name="twice_" + kind.lower(), inputs=[tensor])
            dtype = {"F": "f", "I": "i", "U": "u"}[kind[0]] + str(int(kind.lstrip("FPINTU")) // 8)
            got = numpy.frombuffer(answer.raw_output_contents[0], dtype)
            assert got.tolist() == [2 * each for each in values], (kind, got)


def case_hostile_requests(folder):
    """Each is refused in words, and the next one is answered."""
    pb = messages()
    bad = grpc.StatusCode.INVALID_ARGUMENT
    x = numpy.ones((1, 4), numpy.float32)
    tensor = pb.ModelInferRequest.InferInputTensor
    with Models(serving_models.usual(folder), "--max-request", "1") as server:
        def refused(words, code=bad, **fields):
            said = call(server, pb, "ModelInfer", code, **{"model_name": "scale", **fields})
            assert words in said, said

        assert "nobody" in infer(server, pb, "nobody", x, "FP32", grpc.StatusCode.NOT_FOUND)
        assert "no version 9" in infer(server, pb, "scale", x, "FP32", grpc.StatusCode.NOT_FOUND, model_version="9")
        assert "no version" in infer(server, pb, "scale", x, "FP32", bad, model_version="first")
        assert "not ready" in infer(server, pb, "broken", x, "FP32", grpc.StatusCode.UNAVAILABLE)
        assert "[1,3]" in infer(server, pb, "scale", x[:, :3], "FP32", bad)
        assert "batch size 17" in infer(server, pb, "scale", numpy.ones((17, 4), numpy.float32), "FP32", bad)
        assert "batch size 0" in infer(server, pb, "scale", x[:0], "FP32", bad)
        assert "FP64" in infer(server, pb, "scale", x.astype("f8"), "FP64", bad)
        assert "no input" in call(server, pb, "ModelInfer", bad, model_name="scale", raw_input_contents=[x.tobytes()],
                                  inputs=[tensor(name="z", datatype="FP32", shape=[1, 4])])
        refused("is missing")
        given = tensor(name="x", datatype="FP32", shape=[1, 4])
        refused("no contents", inputs=[given])
        refused("has 8 bytes", inputs=[given], raw_input_contents=[b"12345678"])
        refused("twice", inputs=[given, given], raw_input_contents=[x.tobytes()] * 2)
        refused("more raw contents", inputs=[given], raw_input_contents=[x.tobytes()] * 2)
        refused("dimension of -1", inputs=[tensor(name="x", datatype="FP32", shape=[-1, 4])],
                raw_input_contents=[x.tobytes()])
        refused("more than 8 dimensions", inputs=[tensor(name="x", datatype="FP32", shape=[1] * 9)])
        refused("larger than any memory", model_name="open",
                inputs=[tensor(name="x", datatype="FP32", shape=[1 << 62, 2])], raw_input_contents=[b"1234"])
        refused("batch size", model_name="twice_fp32",
                inputs=[tensor(name="x", datatype="FP32", shape=[1 << 40, 2])], raw_input_contents=[b"1234"])
        refused("which is none", inputs=[tensor(name="x", datatype="FP33", shape=[1, 4])])
        refused("texts are not served", grpc.StatusCode.UNIMPLEMENTED,
                inputs=[tensor(name="x", datatype="BYTES", shape=[1, 4])])
        refused("longer than", inputs=[tensor(name="x" * 200, datatype="FP32", shape=[1, 4])])
        refused("more than 64 inputs", inputs=[given] * 65)
        refused("another datatype", inputs=[tensor(name="x", datatype="FP32", shape=[1, 4],
                                                   contents=pb.InferTensorContents(int_contents=[1, 2, 3, 4]))])
        refused("no output", inputs=[given], raw_input_contents=[x.tobytes()],
                outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="z")])
        refused("--shared-memory", grpc.StatusCode.PERMISSION_DENIED,
                inputs=[tensor(name="x", datatype="FP32", shape=[1, 4],
                               parameters={"shared_memory_region": pb.InferParameter(string_param="r"),
                                           "shared_memory_byte_size": pb.InferParameter(int64_param=16)})])
        big = call(server, pb, "ModelInfer", grpc.StatusCode.RESOURCE_EXHAUSTED, model_name="scale", inputs=[given],
                   raw_input_contents=[bytes(4 << 20)])
        assert "larger than max" in big, big
        method = "/inference.GRPCInferenceService/ModelInfer"
        for damage in (b"\xff" * 40, b"\x2a\xff\xff\xff\xff\x0f", b"\x0a\x7f"):
            try:
                server.channel.unary_unary(method)(damage, timeout=20 * PATIENCE)
                assert False, damage
            except grpc.RpcError as error:
                assert error.code() == bad, error
        call(server, pb, "RepositoryModelLoad", grpc.StatusCode.NOT_FOUND, model_name="../scale")
        call(server, pb, "RepositoryModelLoad", grpc.StatusCode.UNIMPLEMENTED, model_name="scale",
             parameters={"config": pb.ModelRepositoryParameter(string_param="{}")})
        assert (infer(server, pb, "scale", x, "FP32") == 3 * x).all()


def case_stream(folder):
    pb = messages()
    x = numpy.ones((1, 4), numpy.float32)

    def requests():
        for name in ("scale", "nobody", "scale"):
            yield pb.ModelInferRequest(
                model_name=name, id=name, raw_input_contents=[x.tobytes()],
                inputs=[pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 4])])

    with Models(serving_models.usual(folder)) as server:
        stub = server.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer",
                                            request_serializer=lambda m: m.SerializeToString(),
                                            response_deserializer=pb.ModelStreamInferResponse.FromString)
        answers = list(stub(requests(), timeout=60 * PATIENCE))
        assert [bool(each.error_message) for each in answers] == [False, True, False], answers
        assert answers[0].infer_response.parameters["triton_final_response"].bool_param
        assert numpy.frombuffer(answers[2].infer_response.raw_output_contents[0], "f4").tolist() == [3] * 4


def case_shared_memory(folder):
    pb = messages()
    key = f"/kiln_test_{os.getpid()}"
    x = numpy.arange(4, dtype=numpy.float32)
    with open("/dev/shm" + key, "wb") as file:
        file.write(x.tobytes() + bytes(16))
    try:
        with Models(serving_models.usual(folder), "--shared-memory") as server:
            call(server, pb, "SystemSharedMemoryRegister", name="r", key=key, offset=0, byte_size=32)
            call(server, pb, "SystemSharedMemoryRegister", grpc.StatusCode.ALREADY_EXISTS, name="r", key=key, offset=0,
                 byte_size=32)
            for wrong in ({"key": "/../etc/passwd"}, {"byte_size": 1 << 40}, {"key": "/kiln_no_such"}):
                call(server, pb, "SystemSharedMemoryRegister", grpc.StatusCode.INVALID_ARGUMENT,
                     **{"name": "s", "key": key, "offset": 0, "byte_size": 32, **wrong})
            regions = call(server, pb, "SystemSharedMemoryStatus").regions
            assert regions["r"].key == key and regions["r"].byte_size == 32

            def run(offset, size, code=grpc.StatusCode.OK):
                def place(at, count):
                    return {"shared_memory_region": pb.InferParameter(string_param="r"),
                            "shared_memory_offset": pb.InferParameter(int64_param=at),
                            "shared_memory_byte_size": pb.InferParameter(int64_param=count)}
                return call(server, pb, "ModelInfer", code, model_name="scale",
                            inputs=[pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 4],
                                                                          parameters=place(0, 16))],
                            outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="y",
                                                                                     parameters=place(offset, size))])

            answer = run(16, 16)
            assert not answer.raw_output_contents and \
                answer.outputs[0].parameters["shared_memory_byte_size"].int64_param == 16
            with open("/dev/shm" + key, "rb") as file:
                assert numpy.frombuffer(file.read()[16:], "f4").tolist() == (3 * x).tolist()
            run(24, 16, grpc.StatusCode.INVALID_ARGUMENT)
            run(16, 8, grpc.StatusCode.INVALID_ARGUMENT)
            os.truncate("/dev/shm" + key, 8)  # the client's own fault, and nobody else's
            run(16, 16, grpc.StatusCode.FAILED_PRECONDITION)
            call(server, pb, "SystemSharedMemoryUnregister", name="")
            run(16, 16, grpc.StatusCode.NOT_FOUND)
    finally:
        os.unlink("/dev/shm" + key)


# ---- batches


def case_batches_form(folder):
    """Requests that come together run together, and each gets its own rows."""
    pb = messages()
    with Models(serving_models.usual(folder)) as server, concurrent.futures.ThreadPoolExecutor(32) as pool:
        def one(i):
            x = numpy.full((1 + i % 3, 4), i, numpy.float32)
            return (infer(server, pb, "scale", x, "FP32") == 3 * x).all()
        assert all(pool.map(one, range(200)))
        stats = call(server, pb, "ModelStatistics", name="scale", version="2").model_stats[0]
        rows = sum(1 + i % 3 for i in range(200))
        assert stats.inference_count == rows and stats.inference_stats.success.count == 200, stats
        assert stats.execution_count < 150, stats.execution_count
        assert sum(each.batch_size * each.compute_infer.count for each in stats.batch_stats) == rows
        assert max(each.batch_size for each in stats.batch_stats) <= 16
        bad = numpy.ones((1, 3), numpy.float32)
        infer(server, pb, "scale", bad, "FP32", grpc.StatusCode.INVALID_ARGUMENT)
        assert call(server, pb, "ModelStatistics", name="scale", version="2").model_stats[0].inference_stats.fail.count \
            == 1


def case_queue_has_bounds(folder):
    """A request that waits for others longer than it may is refused; a full queue takes no more."""
    pb = messages()
    serving_models.put(folder, "slow", serving_models.scale(2), 1, """
        max_batch_size: 8
        dynamic_batching { max_queue_delay_microseconds: 3000000 default_queue_policy { max_queue_size: 2 } }""")
    x = numpy.ones((1, 4), numpy.float32)
    with Models(folder) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = {"timeout": pb.InferParameter(int64_param=200000)}
        begun = time.monotonic()
        said = infer(server, pb, "slow", x, "FP32", grpc.StatusCode.DEADLINE_EXCEEDED, parameters=waiting)
        assert "queue" in said and time.monotonic() - begun < 2, said
        first = [pool.submit(infer, server, pb, "slow", x, "FP32") for _ in range(2)]
        time.sleep(0.5)
        assert "most allowed" in infer(server, pb, "slow", x, "FP32", grpc.StatusCode.UNAVAILABLE)
        assert all((each.result() == 2 * x).all() for each in first)


def case_batch_dimension_is_kept(folder):
    """A model whose results have no rows is named, and the server goes on."""
    pb = messages()
    serving_models.put(folder, "sum", serving_models.sum_of_rows())
    serving_models.put(folder, "scale", serving_models.scale(2))
    x = numpy.ones((2, 2), numpy.float32)
    with Models(folder) as server:
        said = infer(server, pb, "sum", x, "FP32", grpc.StatusCode.INTERNAL)
        assert "max_batch_size" in said, said
        assert infer(server, pb, "scale", numpy.ones((2, 4), numpy.float32), "FP32").sum() == 16


# ---- the folder


def case_load_and_unload(folder):
    pb = messages()
    x = numpy.ones((1, 4), numpy.float32)
    serving_models.put(folder, "scale", serving_models.scale(2))
    with Models(folder, "--load", "none") as server:
        assert "not loaded" in infer(server, pb, "scale", x, "FP32", grpc.StatusCode.UNAVAILABLE)
        call(server, pb, "RepositoryModelLoad", model_name="scale")
        assert infer(server, pb, "scale", x, "FP32")[0, 0] == 2
        serving_models.put(folder, "scale", serving_models.scale(7), 2)
        call(server, pb, "RepositoryModelLoad", model_name="scale")
        assert infer(server, pb, "scale", x, "FP32")[0, 0] == 7
        infer(server, pb, "scale", x, "FP32", grpc.StatusCode.NOT_FOUND, model_version="1")  # the newest alone
        serving_models.put(folder, "scale", b"damaged", 3)
        call(server, pb, "RepositoryModelLoad", grpc.StatusCode.UNAVAILABLE, model_name="scale")
        assert infer(server, pb, "scale", x, "FP32")[0, 0] == 7  # what ran goes on
        call(server, pb, "RepositoryModelUnload", model_name="scale")
        assert "unloaded" in infer(server, pb, "scale", x, "FP32", grpc.StatusCode.UNAVAILABLE)
        call(server, pb, "RepositoryModelUnload", grpc.StatusCode.NOT_FOUND, model_name="nobody")


def case_load_while_serving(folder):
    """Nobody who asks for a model notices that it is loaded again."""
    pb = messages()
    x = numpy.ones((1, 4), numpy.float32)
    serving_models.put(folder, "scale", serving_models.scale(2))
    with Models(folder) as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
        stop = threading.Event()

        def ask():
            count = 0
            while not stop.is_set():
                assert infer(server, pb, "scale", x, "FP32")[0, 0] == 2
                count += 1
            return count

        asking = [pool.submit(ask) for _ in range(4)]
        for _ in range(10):
            call(server, pb, "RepositoryModelLoad", model_name="scale")
        stop.set()
        assert all(each.result() > 0 for each in asking)


def case_folder_is_followed(folder):
    pb = messages()
    x = numpy.ones((1, 4), numpy.float32)
    serving_models.put(folder, "scale", serving_models.scale(2))
    with Models(folder, "--poll", "1") as server:
        assert "--poll" in call(server, pb, "RepositoryModelUnload", grpc.StatusCode.FAILED_PRECONDITION,
                                model_name="scale")
        serving_models.put(folder, "scale", serving_models.scale(9), 2)
        serving_models.put(folder, "new", serving_models.scale(4))
        deadline = time.monotonic() + 30 * PATIENCE
        while infer(server, pb, "scale", x, "FP32")[0, 0] != 9 or not call(server, pb, "ModelReady", name="new").ready:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        subprocess.run(["rm", "-r", os.path.join(folder, "new")], check=True)
        while call(server, pb, "ModelReady", name="new").ready:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert infer(server, pb, "new", x, "FP32", grpc.StatusCode.UNAVAILABLE)


def case_configurations_are_checked(folder):
    """Each is listed with its reason; none of them is served."""
    pb = messages()
    wrong = {
        "no_end": ("input [ { name: \"x\" ", "without its"),
        "bad_number": ("max_batch_size: many", "is a number"),
        "other_backend": ("backend: \"tensorrt\"", "only ONNX"),
        "ensemble": ("ensemble_scheduling { step [] }", "not served"),
        "cache": ("response_cache { }", "not served"),
        "no_input": ("input { name: \"z\" dims: 4 }", "no input \"z\""),
        "type": ("max_batch_size: 4 input { name: \"x\" data_type: TYPE_INT8 dims: 4 }", "TYPE_FP32"),
        "dims": ("max_batch_size: 4 input { name: \"x\" data_type: TYPE_FP32 dims: [ 4, 4 ] }", "dims"),
        "preferred": ("max_batch_size: 4 dynamic_batching { preferred_batch_size: 8 }", "from 1 to 4"),
        "device": ("instance_group { gpus: 7 }", "from 0 to 0"),
        "file": ("default_model_filename: \"../x\"", "beside the others"),
        "kept": ("parameters { key: \"model-dtype\" value { string_value: \"i8\" } }", "f32, f16 or bf16"),
        "deep": ("a {" * 30, "in each other"),
        "versions": ("version_policy { specific { versions: [ 5 ] } }", "no version"),
    }
    for name, (config, _) in wrong.items():
        serving_models.put(folder, name, serving_models.scale(2), 1, config)
    serving_models.put(folder, "fixed", serving_models.scale(2, first=1), 1, "max_batch_size: 4")
    serving_models.put(folder, "good", serving_models.scale(2), 1, "max_batch_size: 4 # short\n")
    os.makedirs(os.path.join(folder, "empty"))
    with Models(folder) as server:
        rows = {row.name: row for row in call(server, pb, "RepositoryIndex").models}
        for name, (_, words) in wrong.items():
            assert rows[name].state == "UNAVAILABLE" and words in rows[name].reason, rows[name]
        assert "set it to 0" in rows["fixed"].reason and "no version" in rows["empty"].reason, rows
        assert rows["good"].state == "READY"


# ---- over HTTP


def case_http(folder):
    with Models(serving_models.usual(folder)) as server:
        def get(path, code=200):
            got, text = curl(server.http + path)
            assert got == code, (path, got, text)
            return json.loads(text) if text else None

        get("/v2/health/live")
        assert get("/v2")["name"] == "kiln"
        assert get("/v2/models/scale")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
        assert get("/v2/models/scale/versions/1")["versions"] == ["2", "1"]
        get("/v2/models/scale/versions/1/ready")
        get("/v2/models/broken/ready", 503)
        assert "nobody" in get("/v2/models/nobody", 404)["error"]
        assert get("/v2/models/scale/config")["dynamic_batching"]["preferred_batch_size"] == [8, 16]
        get("/v2/nothing", 404)
        get("/", 404)
        get("/" + "a/" * 200, 404)
        body = {"id": "7", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [[1, 2, 3, 4.5]]}]}
        code, text = http_infer(server, "scale", body)
        answer = json.loads(text)
        assert code == 200 and answer["outputs"][0]["data"] == [3, 6, 9, 13.5] and answer["id"] == "7", text
        code, text = curl(f"{server.http}/v2/models/scale/versions/1/infer", body=json.dumps(body).encode())
        assert json.loads(text)["outputs"][0]["data"] == [2, 4, 6, 9], text
        flags = {"inputs": [{"name": "x", "datatype": "BOOL", "shape": [3], "data": [True, False, 1]}]}
        assert json.loads(http_infer(server, "negation", flags)[1])["outputs"][0]["data"] == [False, True, False]
        big = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 2], "data": [-5, 1 << 40]}]}
        assert json.loads(http_infer(server, "twice_int64", big)[1])["outputs"][0]["data"] == [-10, 1 << 41]
        head = json.dumps({"inputs": [{"name": "x", "datatype": "FP16", "shape": [1, 2],
                                       "parameters": {"binary_data_size": 4}}],
                           "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
        code, text = curl(f"{server.http}/v2/models/twice_fp16/infer", "-H",
                          f"Inference-Header-Content-Length: {len(head)}",
                          body=head + numpy.array([1, 2], "f2").tobytes())
        assert code == 200 and numpy.frombuffer(text[-4:], "f2").tolist() == [2, 4], text
        assert json.loads(text[:-4])["outputs"][0]["parameters"]["binary_data_size"] == 4
        assert curl(f"{server.http}/v2/repository/models/scale/unload", body=b"")[0] == 200
        assert http_infer(server, "scale", body)[0] == 503
        assert curl(f"{server.http}/v2/repository/models/scale/load", body=b"")[0] == 200
        rows = json.loads(curl(f"{server.http}/v2/repository/index", body=b'{"ready": true}')[1])
        assert {"name": "scale", "version": "2", "state": "READY"} in rows, rows
        assert json.loads(curl(f"{server.http}/v2/models/stats")[1])["model_stats"]


def case_http_hostile(folder):
    with Models(serving_models.usual(folder), "--max-request", "1") as server:
        good = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
        for change, words in (({"data": [1, 2, 3]}, "12 bytes"), ({"data": [1] * 5}, "20 bytes"),
                              ({"data": ["a"] * 4}, "no FP32"), ({"data": 7}, "no list"),
                              ({"shape": [-1, 4]}, "no length"), ({"shape": "x"}, "no shape"),
                              ({"datatype": "FP9"}, "which is none"), ({"name": "z"}, "no input"),
                              ({"name": "x" * 200}, "text of less"), ({"data": [[[[[[[[[[[1]]]]]]]]]]]}, ""),
                              ({"datatype": "UINT8", "data": [300] * 4}, "UINT8")):
            code, text = http_infer(server, "scale", {"inputs": [{**good, **change}]})
            assert code == 400 and words in json.loads(text)["error"], (change, code, text)
        for body in (b"", b"{", b"[]", b"\xff\xfe", b'{"inputs": 5}', b'{"inputs":' + b"[" * 100000):
            code, text = curl(f"{server.http}/v2/models/scale/infer", body=body)
            assert code == 400 and json.loads(text)["error"], (body[:20], code, text)
        url = f"{server.http}/v2/models/scale/infer"
        for length in ("99999", "-1", "x"):
            assert curl(url, "-H", f"Inference-Header-Content-Length: {length}", body=b"{}")[0] == 400
        assert curl(url, body=bytes(2 << 20))[0] == 413
        assert curl(url, "-H", "Transfer-Encoding: chunked", body=bytes(2 << 20))[0] == 413
        assert curl(url, "-H", "Content-Encoding: gzip", body=b"x")[0] == 415
        assert curl(url)[0] == 405
        infinite = {"inputs": [{**good, "data": [3e38] * 4}]}
        code, text = http_infer(server, "scale", infinite)
        assert code == 400 and "binary data" in json.loads(text)["error"], text
        host, port = server.http.split("://")[1].split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(50)]
        for each in idle:
            each.sendall(b"POST /v2/models/scale/infer HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
        assert http_infer(server, "scale", {"inputs": [good]})[0] == 200
        for each in idle:
            each.close()


def case_metrics(folder):
    pb = messages()
    with Models(serving_models.usual(folder)) as server:
        x = numpy.ones((2, 4), numpy.float32)
        infer(server, pb, "scale", x, "FP32")
        infer(server, pb, "scale", x[:, :1], "FP32", grpc.StatusCode.INVALID_ARGUMENT)
        code, text = curl(f"{server.http}/metrics")
        lines = text.decode().splitlines()
        label = 'model="scale",version="2"'
        for line in (f"kiln_requests_total{{{label}}} 1", f"kiln_inferences_total{{{label}}} 2",
                     f'kiln_request_failures_total{{{label},cause="invalid argument"}} 1',
                     f'kiln_batch_rows_bucket{{{label},le="2"}} 1', f'kiln_batch_rows_bucket{{{label},le="1"}} 0',
                     f"kiln_compute_seconds_count{{{label}}} 1", 'kiln_model_versions{state="unavailable"} 3'):
            assert code == 200 and line in lines, line
        for name in ("kiln_sessions", "kiln_calls_total", "kiln_calls_refused_total", "kiln_session_bytes",
                     "kiln_raw_bytes", "kiln_session_operations_total", "kiln_sessions_resumed_total"):
            assert any(line.startswith(name + " ") for line in lines), name
        assert int(next(line for line in lines if line.startswith("kiln_calls_total ")).split()[1]) >= 1, lines
        assert int(next(line for line in lines if line.startswith("kiln_device_plans{")).split()[1]) >= 1, lines
        for name in ("programs", "programs_idle", "program_bytes", "kernels"):
            assert any(line.startswith(f"kiln_device_{name}{{") for line in lines), name
        typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
        for name in {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}:
            assert name in typed or name.rpartition("_")[0] in typed, name


def case_who_may(folder):
    """Tokens and TLS go for HTTP as for gRPC; probes of health need none."""
    path = make_certificates(folder)
    models = os.path.join(folder, "models")
    serving_models.put(models, "scale", serving_models.scale(2))
    with open(path("tokens"), "w", encoding="ascii") as file:
        file.write("one\ntwo\n")
    with Models(models, "--token-file", path("tokens")) as server:
        url = f"{server.http}/v2/models/scale"
        assert curl(url)[0] == 401 and curl(url, "-H", "Authorization: Bearer wrong")[0] == 401
        for word in ("Bearer", "bearer", "BEARER"):  # RFC 7235
            assert curl(url, "-H", f"Authorization: {word} two")[0] == 200
        stub = server.channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        for word in ("Bearer", "bearer"):
            assert stub(b"", metadata=[("authorization", f"{word} one")], timeout=20 * PATIENCE)
        try:
            stub(b"", timeout=20 * PATIENCE)
            assert False
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED
    tls = ["--tls-cert", path("server.pem"), "--tls-key", path("server.key")]
    with Models(models, *tls, wait=False) as server:
        assert server.http.startswith("https://")
        assert curl(f"{server.http}/v2", "--cacert", path("ca.pem"))[0] == 200
        assert curl(f"{server.http}/v2")[0] == 0
    refused = subprocess.run([KILN, "serve", "--device", "reference", "--models", models, "--http", "0.0.0.0:0",
                              "--listen", "127.0.0.1:0"], capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
    assert refused.returncode == 1 and "beyond loopback" in refused.stderr, refused


def is_refused_soon(server, name, body, token):
    """Whether one of many requests is, over one connection: a process for each may be slower than the limit."""
    connection = http.client.HTTPConnection(server.http.split("://")[1], timeout=60 * PATIENCE)
    codes = []
    while 503 not in codes and len(codes) < 1000:
        connection.request("POST", f"/v2/models/{name}/infer", json.dumps(body), {"Authorization": token})
        answer = connection.getresponse()
        answer.read()
        codes.append(answer.status)
    connection.close()
    return set(codes) <= {200, 503} and 503 in codes


def case_identities(folder):
    """Over HTTP as over gRPC: which models somebody may use, how often, and what the log says of it."""
    pb = messages()
    models = serving_models.usual(os.path.join(folder, "models"))
    path = {}
    for name, text in (("tokens", "alice one\nbob two\n"), ("access", "alice models=scale,twice_* requests=3\nbob\n")):
        path[name] = os.path.join(folder, name)
        with open(path[name], "w", encoding="ascii") as file:
            file.write(text)
    log = os.path.join(folder, "log")
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}]}
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    alice, bob = ("-H", "Authorization: Bearer one"), ("-H", "Authorization: Bearer two")
    file_of_trace = os.path.join(folder, "trace.json")
    with Models(models, "--token-file", path["tokens"], "--access", path["access"], "--log", log, "--trace",
                file_of_trace) as server:
        assert curl(f"{server.http}/v2/models/open", *alice)[0] == 403
        assert curl(f"{server.http}/v2/models/open", *bob)[0] == 200
        shown = json.loads(curl(f"{server.http}/v2/repository/index", *alice, body=b"{}")[1])
        assert {row["name"] for row in shown} == {"scale", *(f"twice_{kind.lower()}" for kind in serving_models.TYPES)}
        codes = [http_infer(server, "scale", body, *alice, "-H", f"traceparent: {trace}")[0] for _ in range(3)]
        assert codes == [200] * 3, codes
        assert is_refused_soon(server, "scale", body, "Bearer one")
        stub = server.channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata")
        try:
            stub(pb.ModelMetadataRequest(name="open").SerializeToString(), metadata=[("authorization", "Bearer one")],
                 timeout=20 * PATIENCE)
            assert False
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED and "alice may not use model open" in error.details()
        stub = server.channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata")
        stub(pb.ModelMetadataRequest(name="twice_fp32").SerializeToString(), timeout=20 * PATIENCE,
             metadata=[("authorization", "Bearer two"), ("traceparent", trace.replace("0af7", "1af7"))])
        assert curl(f"{server.http}/v2/models/open")[0] == 401
        assert server.stop() == 0
    with open(file_of_trace, encoding="utf-8") as file:
        spans = [each for each in json.load(file)["traceEvents"] if each.get("cat") == "note"]
    for name, expected in (("scale", trace), ("twice_fp32", trace.replace("0af7", "1af7"))):
        assert any(each["name"] == name and each["args"]["detail"] == expected and each["dur"] > 0 for each in spans), name
    with open(log, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    first = next(line for line in lines if line["method"].endswith("/scale/infer"))
    assert first["identity"] == "alice" and first["model"] == "scale" and first["status"] == "ok", first
    assert first["trace_id"] == trace.split("-")[1] and first["peer"].startswith("http:127.0.0.1:"), first
    over_grpc = next(line for line in lines if line["method"].endswith("/ModelMetadata"))
    assert over_grpc["model"] == "open" and over_grpc["status"] == "permission denied", over_grpc
    assert any(line["event"] == "refused" and line["status"] == "unauthenticated" for line in lines), lines


def case_answers_are_given_before_the_end(folder):
    """What was asked before SIGTERM is answered, at once; what is asked later is refused."""
    pb = messages()
    serving_models.put(folder, "slow", serving_models.scale(2), 1, """
        max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 20000000 }""")
    x = numpy.ones((1, 4), numpy.float32)
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}]}
    with Models(folder, "--grace", "15") as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(infer, server, pb, "slow", x, "FP32"), pool.submit(http_infer, server, "slow", body)]
        deadline = time.monotonic() + 20 * PATIENCE
        while b'kiln_requests_queued{model="slow",version="1"} 2' not in curl(f"{server.http}/metrics")[1]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert (asked[0].result() == 2 * x).all() and asked[1].result()[0] == 200
        assert server.process.wait(timeout=30 * PATIENCE) == 0
        assert time.monotonic() - begun < 10 * PATIENCE


def case_drain_and_refusals(folder):
    serving_models.put(folder, "scale", serving_models.scale(2))
    with Models(folder, "--grace", "1") as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=30 * PATIENCE) == 0
    for options, words in ((["--models", os.path.join(folder, "nothing")], "no folder"), (["--http", "x"], "--models")):
        done = subprocess.run([KILN, "serve", "--device", "reference", "--listen", "127.0.0.1:0", *options],
                              capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
        assert done.returncode != 0 and words in done.stderr, done
    with Server(KILN) as server, grpc.insecure_channel(server.target) as channel:
        try:
            channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=20 * PATIENCE)
            assert False
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED and "--models" in error.details(), error


# ---- Triton's own clients


def triton(folder, kind, extra=()):
    """Runs triton_client.py in the interpreter that has the packages."""
    package = {"grpc": "tritonclient.grpc", "http": "tritonclient.http"}[kind]
    if subprocess.run([PYTHON, "-c", f"import {package}"], capture_output=True, check=False).returncode != 0:
        raise Skip(f"{PYTHON} has no {package} (KILN_TEST_PYTHON)")
    script = os.path.join(SOURCE, "tests/unit/serving/triton_client.py")
    with Models(serving_models.usual(folder), "--shared-memory", *extra) as server:
        address = server.target if kind == "grpc" else server.http.split("://")[1]
        done = subprocess.run([PYTHON, script, kind, address], capture_output=True, text=True, check=False, timeout=240 * PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr


def case_triton_grpc(folder):
    triton(folder, "grpc")


def case_triton_http(folder):
    triton(folder, "http")


run_cases("unit/serving/serving",
          [case_metadata_and_index, case_infer_raw, case_infer_typed, case_hostile_requests, case_stream,
           case_shared_memory, case_batches_form, case_queue_has_bounds, case_batch_dimension_is_kept,
           case_load_and_unload, case_load_while_serving, case_folder_is_followed, case_configurations_are_checked,
           case_http, case_http_hostile, case_metrics, case_who_may, case_identities, case_answers_are_given_before_the_end,
           case_drain_and_refusals, case_triton_grpc,
           case_triton_http])
