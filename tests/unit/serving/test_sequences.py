#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models that keep states between the requests of a sequence, over gRPC and HTTP: whose states they are, when they end,
how many there are, what else a configuration may say. Arguments: kiln, the source folder."""
import concurrent.futures
import json
import os
import time

import grpc
import numpy
from onnx import TensorProto, helper

from models_fixture import Models, call, curl, http_infer, messages
from serve_fixture import PATIENCE, run_cases
import serving_models

F32 = TensorProto.FLOAT
BAD = grpc.StatusCode.INVALID_ARGUMENT


def state(put_in, out, dims, more="", kind="FP32"):
    return f'state {{ input_name: "{put_in}" output_name: "{out}" data_type: TYPE_{kind} dims: {dims} {more} }}'


def sequences(*parts, idle=600000000, more="max_batch_size: 0"):
    return f"{more} sequence_batching {{ max_sequence_idle_microseconds: {idle} {' '.join(parts)} }}"


def cache():
    """present = past with x behind it; y = the sum of its rows."""
    nodes = [helper.make_node("Concat", ["past", "x"], ["present"], axis=0),
             helper.make_node("ReduceSum", ["present", "axis"], ["y"], keepdims=0)]
    return serving_models.model(nodes, [("past", F32, ["p", 2]), ("x", F32, ["n", 2])],
                                [("y", F32, [2]), ("present", F32, ["q", 2])], [("axis", numpy.int64([0]))])


def controlled():
    """What the server says of each request, in rows."""
    inputs = [("begins", F32, ["b", 1]), ("ends", TensorProto.INT32, ["b", 1]), ("there", TensorProto.BOOL, ["b", 1]),
              ("id", TensorProto.UINT64, ["b", 1]), ("x", F32, ["b", 1]), ("count", F32, ["b", 1])]
    outputs = [("is_" + name, kind, dims) for name, kind, dims in inputs]
    nodes = [helper.make_node("Identity", [name], ["is_" + name]) for name, *_ in inputs[:-1]]
    nodes.append(helper.make_node("Add", ["count", "x"], ["is_count"]))
    return serving_models.model(nodes, inputs, outputs)


def rows_adder():
    """adder, in rows."""
    nodes = [helper.make_node("Add", ["total", "x"], ["next"]), helper.make_node("Add", ["next", "next"], ["y"])]
    return serving_models.model(nodes, [("x", F32, ["b", 2]), ("total", F32, ["b", 2])],
                                [("y", F32, ["b", 2]), ("next", F32, ["b", 2])])


def batches(server, name):
    """How many runs there were of each number of rows."""
    said = json.loads(curl(f"{server.http}/v2/models/{name}/stats")[1])["model_stats"][0]
    return {int(each["batch_size"]): int(each["compute_infer"]["count"]) for each in said["batch_stats"]}


ADDER = serving_models.ADDER
CACHE = sequences(state("past", "present", "[ -1, 2 ]",
                        "initial_state { name: \"none\" dims: [ 0, 2 ] zero_data: true }"))


def parameters(pb, sequence=None, start=False, end=False):
    made = {"sequence_start": pb.InferParameter(bool_param=start), "sequence_end": pb.InferParameter(bool_param=end)}
    if isinstance(sequence, int):
        made["sequence_id"] = pb.InferParameter(int64_param=sequence)
    elif sequence is not None:
        made["sequence_id"] = pb.InferParameter(string_param=sequence)
    return made


def ask(server, pb, name, x, sequence=None, start=False, end=False, code=grpc.StatusCode.OK):
    """y for an x of floats; what the server says where it refuses."""
    x = numpy.asarray(x, numpy.float32)
    tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=x.shape)
    answer = call(server, pb, "ModelInfer", code, model_name=name, inputs=[tensor], raw_input_contents=[x.tobytes()],
                  parameters=parameters(pb, sequence, start, end))
    if code != grpc.StatusCode.OK:
        return answer
    assert [each.name for each in answer.outputs] == ["y"], answer
    return numpy.frombuffer(answer.raw_output_contents[0], numpy.float32).tolist()


def ask_http(server, name, x, *options, **sequence):
    x = numpy.asarray(x, numpy.float32)
    code, text = http_infer(server, name, {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": x.shape, "data": x.ravel().tolist()}],
        "parameters": sequence}, *options)
    said = json.loads(text)
    return said["outputs"][0]["data"] if code == 200 else (code, said["error"])


def held(server, name):
    """How many sequences the metrics show."""
    text = curl(f"{server.http}/metrics")[1].decode()
    return int(text.split(f'kiln_sequences{{model="{name}",version="1"}} ')[1].split("\n", 1)[0])


def wait_held(server, name, count):
    deadline = time.monotonic() + 120 * PATIENCE
    while held(server, name) != count:
        assert time.monotonic() < deadline, held(server, name)
        time.sleep(0.02)


def case_states_are_kept(folder):
    pb = messages()
    serving_models.put(folder, "adder", serving_models.adder(), 1, ADDER)
    with Models(folder) as server:
        assert ask(server, pb, "adder", [1, 2], 5, start=True) == [2, 4]
        assert ask(server, pb, "adder", [10, 20], "six", start=True) == [20, 40]
        assert ask(server, pb, "adder", [1, 1], 5) == [4, 6]
        assert ask_http(server, "adder", [1, 1], sequence_id=5) == [6, 8]  # the same, by the other door
        assert ask_http(server, "adder", [1, 1], sequence_id="six") == [22, 42]
        whole = {"sequence_id": 1 << 62, "sequence_start": True, "sequence_end": True}
        assert ask_http(server, "adder", [7, 7], **whole) == [14, 14]
        assert held(server, "adder") == 2
        assert ask(server, pb, "adder", [0, 0], 5, end=True) == [6, 8]
        said = ask(server, pb, "adder", [0, 0], 5, code=BAD)
        assert 'no sequence "5"' in said and "sequence_start" in said, said
        assert ask(server, pb, "adder", [3, 3], "six", start=True) == [6, 6]  # anew
        assert held(server, "adder") == 1
        assert "sequence_id" in ask(server, pb, "adder", [0, 0], code=BAD)
        assert "sequence_id" in ask(server, pb, "adder", [0, 0], 0, start=True, code=BAD)
        assert "longer" in ask(server, pb, "adder", [0, 0], "s" * 200, start=True, code=BAD)
        code, said = ask_http(server, "adder", [0, 0], sequence_id="s" * 200)
        assert code == 400 and "sequence_id" in said, said


def case_caches_grow(folder):
    """On the device, past the room that was kept at first; sequences differ in length."""
    pb = messages()
    serving_models.put(folder, "cache", cache(), 1, CACHE)
    with Models(folder) as server:
        sums = {1: 0, 2: 0}
        for i in range(24):
            for each in (1, 2):
                if each == 1 or i % 3 == 0:
                    rows = 3 if i == 0 else 1
                    sums[each] += rows * (i + each)
                    got = ask(server, pb, "cache", [[i + each, 0]] * rows, each, start=i == 0)
                    assert got == [sums[each], 0], (i, each, got, sums)


def case_descriptions(folder):
    """States and controls do not travel; the configuration shows them."""
    pb = messages()
    serving_models.put(folder, "cache", cache(), 1, CACHE)
    serving_models.put(folder, "scale", serving_models.scale(2))
    with Models(folder) as server:
        meta = call(server, pb, "ModelMetadata", name="cache")
        assert [each.name for each in meta.inputs] == ["x"] and [each.name for each in meta.outputs] == ["y"]
        config = call(server, pb, "ModelConfig", name="cache").config
        assert not config.HasField("dynamic_batching") and config.sequence_batching.state[0].output_name == "present"
        assert config.sequence_batching.oldest.max_candidate_sequences == 128
        assert not call(server, pb, "ModelConfig", name="scale").config.HasField("sequence_batching")
        shown = json.loads(curl(f"{server.http}/v2/models/cache/config")[1])["sequence_batching"]
        assert shown["state"] == [{"input_name": "past", "output_name": "present", "data_type": "TYPE_FP32",
                                   "dims": [0, 2]}], shown
        assert "sequence" in call(server, pb, "ServerMetadata").extensions
        x = pb.ModelInferRequest.InferInputTensor(name="past", datatype="FP32", shape=[1, 2])
        said = call(server, pb, "ModelInfer", BAD, model_name="cache", inputs=[x], raw_input_contents=[bytes(8)],
                    parameters=parameters(pb, 1, True))
        assert 'no input "past"' in said, said
        # a model without states ignores a sequence, as others do
        tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 4])
        call(server, pb, "ModelInfer", model_name="scale", inputs=[tensor], raw_input_contents=[bytes(16)],
             parameters=parameters(pb, 9))


def case_controls(folder):
    pb = messages()

    def control(name, kind, more):
        return f'{{ name: "{name}" control [ {{ kind: CONTROL_SEQUENCE_{kind} {more} }} ] }}'

    serving_models.put(folder, "told", controlled(), 1, sequences(
        "control_input [", control("begins", "START", "fp32_false_true: [ -1, 2 ]"), ",",
        control("ends", "END", "int32_false_true: [ 0, 7 ]"), ",",
        control("there", "READY", "bool_false_true: [ false, true ]"), ",",
        control("id", "CORRID", "data_type: TYPE_UINT64"), "]", state("count", "is_count", "[ 1 ]"),
        more="max_batch_size: 4"))

    with Models(folder) as server:
        def told(sequence, start=False, end=False, rows=2, code=grpc.StatusCode.OK):
            tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[rows, 1])
            answer = call(server, pb, "ModelInfer", code, model_name="told", inputs=[tensor],
                          raw_input_contents=[bytes(4 * rows)], parameters=parameters(pb, sequence, start, end))
            if code != grpc.StatusCode.OK:
                return answer
            kinds = {"FP32": "f4", "INT32": "i4", "BOOL": "?", "UINT64": "u8"}
            return {each.name: numpy.frombuffer(raw, kinds[each.datatype]).tolist()
                    for each, raw in zip(answer.outputs, answer.raw_output_contents)}

        assert told(3, start=True) == {"is_begins": [2, 2], "is_ends": [0, 0], "is_there": [True, True],
                                       "is_id": [3, 3], "is_x": [0, 0]}
        middle = told(3)
        assert middle["is_begins"] == [-1, -1] and middle["is_ends"] == [0, 0], middle
        said = told(3, rows=1, code=BAD)
        assert "1 rows" in said and "has 2" in said, said  # and nothing is lost by it:
        assert told(3, end=True)["is_ends"] == [7, 7]
        said = told("word", start=True, code=BAD)
        assert "UINT64" in said and "word" in said, said
        assert held(server, "told") == 0


def case_bounds(folder):
    pb = messages()
    serving_models.put(folder, "adder", serving_models.adder(), 1,
                       sequences(state("total", "next", "[ 2 ]"), "oldest { max_candidate_sequences: 2 }"))
    serving_models.put(folder, "brief", serving_models.adder(), 1,
                       sequences(state("total", "next", "[ 2 ]"), idle=1000))
    with Models(folder) as server:
        ask(server, pb, "adder", [1, 1], 1, start=True)
        ask(server, pb, "adder", [1, 1], 2, start=True)
        said = ask(server, pb, "adder", [1, 1], 3, start=True, code=grpc.StatusCode.UNAVAILABLE)
        assert "2 sequences" in said, said
        assert ask_http(server, "adder", [1, 1], sequence_id=3, sequence_start=True)[0] == 503
        ask(server, pb, "adder", [1, 1], 1, start=True)  # takes its own place
        ask(server, pb, "adder", [1, 1], 1, end=True)
        ask(server, pb, "adder", [1, 1], 3, start=True)
        ask(server, pb, "brief", [1, 1], 1, start=True)
        wait_held(server, "brief", 0)  # nobody asks for it
        said = ask(server, pb, "brief", [1, 1], 1, code=BAD)
        assert "rests for 1000 us" in said, said
        assert ask(server, pb, "adder", [1, 1], 2) == [4, 4]


def case_failures(folder):
    """A refused request changes nothing; a run that fails ends its own sequence."""
    pb = messages()
    serving_models.put(folder, "adder", serving_models.adder(), 1, ADDER)
    with Models(folder) as server:
        ask(server, pb, "adder", [1, 1], 1, start=True)
        ask(server, pb, "adder", [1, 1], 2, start=True)
        assert "shape" in ask(server, pb, "adder", [[1, 1]], 1, code=BAD)
        assert ask(server, pb, "adder", [1, 1], 1) == [4, 4]
        assert "Add" in ask(server, pb, "adder", [1, 1, 1], 1, code=BAD)
        assert 'no sequence "1"' in ask(server, pb, "adder", [1, 1], 1, code=BAD)
        assert "Add" in ask(server, pb, "adder", [1, 1, 1], 3, start=True, code=BAD)
        assert held(server, "adder") == 1
        assert ask(server, pb, "adder", [1, 1], 2, end=True) == [4, 4]


def case_an_answer_is_lost(folder):
    """A state that went on unseen is of no use to its client."""
    pb = messages()
    key = f"/kiln_sequences_{os.getpid()}"
    serving_models.put(folder, "adder", serving_models.adder(), 1, ADDER)
    with open("/dev/shm" + key, "wb") as file:
        file.write(bytes(8))
    try:
        with Models(folder, "--shared-memory") as server:
            call(server, pb, "SystemSharedMemoryRegister", name="r", key=key, offset=0, byte_size=8)

            def ask_into(size, code=grpc.StatusCode.OK):
                place = {"shared_memory_region": pb.InferParameter(string_param="r"),
                         "shared_memory_byte_size": pb.InferParameter(int64_param=size)}
                tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[2])
                wanted = pb.ModelInferRequest.InferRequestedOutputTensor(name="y", parameters=place)
                return call(server, pb, "ModelInfer", code, model_name="adder", inputs=[tensor], outputs=[wanted],
                            raw_input_contents=[bytes(8)], parameters=parameters(pb, 1))

            ask(server, pb, "adder", [1, 1], 1, start=True)
            ask_into(8)
            assert "its shared memory 4" in ask_into(4, BAD)
            assert 'no sequence "1"' in ask(server, pb, "adder", [1, 1], 1, code=BAD)
    finally:
        os.unlink("/dev/shm" + key)


def case_callers(folder):
    """A sequence belongs to the identity that began it."""
    serving_models.put(os.path.join(folder, "models"), "adder", serving_models.adder(), 1, ADDER)
    tokens = os.path.join(folder, "tokens")
    with open(tokens, "w", encoding="ascii") as file:
        file.write("alice one\nbob two\n")
    with Models(os.path.join(folder, "models"), "--token-file", tokens) as server:
        alice, bob = ("-H", "Authorization: Bearer one"), ("-H", "Authorization: Bearer two")
        assert ask_http(server, "adder", [1, 1], *alice, sequence_id=1, sequence_start=True) == [2, 2]
        assert 'no sequence "1" of yours' in ask_http(server, "adder", [1, 1], *bob, sequence_id=1)[1]
        assert ask_http(server, "adder", [5, 5], *bob, sequence_id=1, sequence_start=True) == [10, 10]
        assert ask_http(server, "adder", [1, 1], *alice, sequence_id=1) == [4, 4]


def case_instances_and_streams(folder):
    """Each sequence stays at one instance, whatever comes at the same time, and its requests in their order."""
    pb = messages()
    serving_models.put(folder, "cache", cache(), 1, CACHE + " instance_group [ { count: 3 } ]")
    with Models(folder) as server:
        stub = server.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer",
                                            request_serializer=lambda m: m.SerializeToString(),
                                            response_deserializer=pb.ModelStreamInferResponse.FromString)

        def requests(which):
            tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 2])
            for i in range(20):
                x = numpy.float32([which, i])
                yield pb.ModelInferRequest(model_name="cache", inputs=[tensor], raw_input_contents=[x.tobytes()],
                                           parameters=parameters(pb, which, i == 0, i == 19))

        def talk(which):
            return [numpy.frombuffer(each.infer_response.raw_output_contents[0], "f4").tolist()
                    for each in stub(requests(which), timeout=120 * PATIENCE)]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for which, answers in enumerate(pool.map(talk, range(1, 9)), 1):
                expected = [[which * (i + 1), i * (i + 1) / 2] for i in range(20)]
                assert answers == expected, (which, answers)
        assert held(server, "cache") == 0


def case_sequences_are_joined(folder):
    """Requests of four sequences are rows of one run, whoever begins, ends or is refused; more rows than one request
    has, too."""
    pb = messages()
    for strategy in ("oldest", "direct"):
        serving_models.put(folder, strategy, rows_adder(), 1, sequences(
            state("total", "next", "[ 2 ]"),
            f"{strategy} {{ preferred_batch_size: [ 6 ] max_queue_delay_microseconds: 2000000 }}",
            more="max_batch_size: 8"))
    with Models(folder) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        config = call(server, pb, "ModelConfig", name="oldest").config
        assert list(config.sequence_batching.oldest.preferred_batch_size) == [6]
        assert config.sequence_batching.oldest.max_queue_delay_microseconds == 2000000
        assert not config.HasField("dynamic_batching")
        for strategy in ("oldest", "direct"):
            before = batches(server, strategy).get(6, 0)
            sums = {}

            def step(which, number, end=False, strategy=strategy, sums=sums):
                """Sequences of odd numbers have two rows."""
                x = numpy.float32([[which, number + row] for row in range(1 + which % 2)])
                start = which not in sums
                sums[which] = x if start else sums[which] + x
                said = ask(server, pb, strategy, x, which, start=start, end=end)
                assert said == (2 * sums[which]).ravel().tolist(), (which, number, said, sums[which])

            members = [1, 2, 3, 4]
            for number in range(8):
                ends = members[1] if number % 3 == 1 else 0
                list(pool.map(lambda which, at=number, last=ends: step(which, at, end=which == last), members))
                if ends:  # a new one takes the place of an old one, and the others theirs in another order
                    members = [*members[2:], members[0], ends + 4]
            assert batches(server, strategy)[6] > before, batches(server, strategy)
            # One of them has the wrong number of rows: it alone is refused, and nobody has taken two steps.
            wrong = pool.submit(ask, server, pb, strategy, numpy.ones((2 - members[0] % 2, 2)), members[0], code=BAD)
            list(pool.map(lambda which: step(which, 9), members[1:]))
            assert "rows in sequence" in wrong.result()
            step(members[0], 10)


def case_load_and_unload(folder):
    """A version takes its sequences along."""
    pb = messages()
    serving_models.put(folder, "adder", serving_models.adder(), 1, ADDER)
    with Models(folder) as server:
        ask(server, pb, "adder", [1, 1], 1, start=True)
        call(server, pb, "RepositoryModelUnload", model_name="adder")
        call(server, pb, "RepositoryModelLoad", model_name="adder")
        assert 'no sequence "1"' in ask(server, pb, "adder", [1, 1], 1, code=BAD)
        assert server.stop() == 0


WRONG = {
    "open": (cache, sequences(state("past", "present", "[ -1, 2 ]")), "initial_state"),
    "file": (cache, sequences(state("past", "present", "[ -1, 2 ]", "initial_state { data_file: \"f\" }")),
             "data_file"),
    "input": (serving_models.adder, sequences(state("nobody", "next", "[ 2 ]")), 'no input "nobody"'),
    "output": (serving_models.adder, sequences(state("total", "nobody", "[ 2 ]")), 'no output "nobody"'),
    "twice": (serving_models.adder, sequences(state("total", "next", "[ 2 ]"), state("total", "y", "[ -1 ]")), "twice"),
    "type": (serving_models.adder, sequences(state("total", "next", "[ 2 ]", kind="FP16")), "TYPE_FP32"),
    "dims": (serving_models.adder, sequences(state("total", "next", "[ 3 ]")), "dims"),
    "listed": (serving_models.adder, ADDER + ' output [ { name: "next" data_type: TYPE_FP32 dims: [ 2 ] } ]',
               "does not travel"),
    "both": (serving_models.adder, ADDER + " dynamic_batching { }", "exclude"),
    "kind": (serving_models.adder, sequences('control_input { name: "total" control { kind: CONTROL_NONE } }'),
             "CONTROL_NONE"),
    "place": (serving_models.adder, sequences('control_input { name: "total" control { kind: CONTROL_SEQUENCE_START '
                               'fp32_false_true: [ 0, 1 ] } }'), "no place"),
    "values": (lambda: serving_models.scale(2, first=1, width=1), sequences(
        'control_input { name: "x" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0 ] } }'), "[ no, yes ]"),
    "loops": (serving_models.adder, sequences("iterative_sequence: true"), "iterative_sequence"),
    "rows": (lambda: serving_models.scale(2, width=1), sequences(
        'control_input { name: "x" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }',
        more="max_batch_size: 2"), "how many rows"),
}


def case_configurations_are_checked(folder):
    pb = messages()
    for name, (model, config, _) in WRONG.items():
        serving_models.put(folder, name, model(), 1, config)
    with Models(folder) as server:
        rows = {row.name: row.reason for row in call(server, pb, "RepositoryIndex").models}
        for name, (_, _, words) in WRONG.items():
            assert words in rows[name], (name, rows[name])


run_cases("unit/serving/sequences",
          [case_states_are_kept, case_caches_grow, case_descriptions, case_controls, case_bounds, case_failures,
           case_an_answer_is_lost, case_callers, case_instances_and_streams,
           case_sequences_are_joined, case_load_and_unload, case_configurations_are_checked])
