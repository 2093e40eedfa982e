# SPDX-License-Identifier: MIT OR Apache-2.0
"""A client of `kiln serve` from the .proto files alone: no library of Kiln is used.

Everything that is needed: a session is one stream; buffers are numbers of ours; operations travel as a graph; only
reads and fences are answered. docs/wire.md has the rules, docs/ops.md the operators and their attributes.
"""
import functools
import importlib
import os
import queue
import struct
import subprocess
import sys
import tempfile

try:
    import grpc
except ImportError:
    sys.exit("kiln_client: Python's gRPC is missing; install python3-grpcio (Debian) or grpcio (PyPI)")

F32 = "f32"
DTYPES = {"f32": (12, "f")}  # number in base/dtype.def, struct's letter


@functools.cache
def load_protocol(root):
    """Compiles the .proto files with Debian's protoc; gives the modules of messages and of the service."""
    out = tempfile.mkdtemp(prefix="kiln-proto-")
    protos = [os.path.join(root, "ir/proto"), os.path.join(root, "remote_grpc/proto")]
    subprocess.run(["protoc", f"-I{protos[0]}", f"-I{protos[1]}", f"--python_out={out}",
                    f"--grpc_python_out={out}", "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin",
                    "kiln/v1/ir.proto", "kiln/v1/kiln.proto"], check=True)
    sys.path.insert(0, out)
    return (importlib.import_module("kiln.v1.kiln_pb2"), importlib.import_module("kiln.v1.ir_pb2"),
            importlib.import_module("kiln.v1.kiln_pb2_grpc"))


class RemoteError(Exception):
    """What the server answered: a status number, its text, and the frame that failed."""

    def __init__(self, answer):
        super().__init__(answer.message)
        self.code = answer.code
        self.frame = answer.frame


class Session:
    """One stream. `write`, `run` and `free` return at once; `read` and `fence` wait. A `token` says who the client is,
    and `device` which of the server's it uses."""

    def __init__(self, root, address, credentials=None, token=None, device=0):
        self.pb, self.ir, service = load_protocol(root)
        self.channel = (grpc.secure_channel(address, credentials) if credentials is not None
                        else grpc.insecure_channel(address))
        self.stub = service.ComputeStub(self.channel)
        self.outgoing = queue.Queue()
        self.request = 0
        self.buffers = 0
        self.frames = 0  # sent after Hello
        self.identity = [("authorization", f"Bearer {token}")] if token is not None else []
        self.replies = self.stub.Session(iter(self.outgoing.get, None), metadata=self.identity)
        self.welcome = self.ask(hello=self.pb.Hello(version=1, client="remote_python", device=device))[0].welcome
        self.frames = 0

    def send(self, **fields):
        self.outgoing.put(self.pb.Frame(**fields))
        self.frames += 1

    def ask(self, **fields):
        """Sends what is answered; gives the last frame of the answer and all its data."""
        self.request += 1
        self.send(request=self.request, **fields)
        data = b""
        for frame in self.replies:
            assert frame.request == self.request
            data += frame.data
            if frame.HasField("answer") and frame.answer.code != 0:
                raise RemoteError(frame.answer)
            if frame.WhichOneof("body") is not None:
                return frame, data
        raise ConnectionError("the server ended the session")

    def info(self):
        return self.stub.Info(self.pb.InfoRequest(), metadata=self.identity)

    def new_buffer(self):
        self.buffers += 1
        return self.buffers

    def write(self, values):
        """A buffer of floats, in pieces of at most what the server takes."""
        data = struct.pack(f"<{len(values)}f", *values)
        buffer = self.new_buffer()
        step = self.welcome.max_data_bytes
        for at in range(0, len(data) or 1, step):
            self.send(write=self.pb.Write(buffer=buffer, offset=at, total=len(data)), data=data[at:at + step])
        return buffer

    def read(self, buffer, count):
        _, data = self.ask(read=self.pb.Read(buffer=buffer, offset=0, length=4 * count))
        return list(struct.unpack(f"<{count}f", data))

    def fence(self):
        self.ask(fence=self.pb.Fence())

    def free(self, *buffers):
        self.send(free=self.pb.Free(buffers=buffers))

    def run(self, graph, inputs, outputs, number=0):
        """Runs a Graph. `inputs` and `outputs` are pairs of value and buffer. With `number` the server keeps the graph."""
        fields = {"graph": graph} if graph is not None else {}
        self.send(run=self.pb.Run(inputs=[self.pb.Binding(value=v, buffer=b) for v, b in inputs],
                                  outputs=[self.pb.Binding(value=v, buffer=b) for v, b in outputs],
                                  graph=number), **fields)

    def close(self):
        self.send(close=self.pb.Close())
        self.outgoing.put(None)
        self.channel.close()


class GraphBuilder:
    """A Graph of float operations; values are numbered from 1."""

    def __init__(self, session):
        self.ir = session.ir
        self.since = {row.name: row.since for row in session.info().operators}
        self.graph = self.ir.Graph(version=1, n_inputs=0, n_outputs=0, n_operations=0)
        self.values = {}

    def tensor(self, dims):
        number = len(self.values) + 1
        self.values[number] = self.ir.Tensor(id=number, dtype=DTYPES[F32][0], dims=dims)
        return number

    def input(self, dims):
        number = self.tensor(dims)
        self.graph.inputs.append(self.values[number])
        self.graph.n_inputs += 1
        return number

    def op(self, name, inputs, dims, **attributes):
        """One operation with one result of shape `dims`; attributes are numbers or truths."""
        number = self.tensor(dims)
        made = []
        for key, value in attributes.items():
            if isinstance(value, bool):
                made.append(self.ir.Attribute(name=key, type=self.ir.ATTRIBUTE_TYPE_BOOL, integer=int(value)))
            else:
                made.append(self.ir.Attribute(name=key, type=self.ir.ATTRIBUTE_TYPE_F64, real=value))
        self.append(name, inputs, number, made)
        return number

    def custom(self, name, version, inputs, dims, attributes=""):
        """An operator of a plugin of the server, "domain::name"; `attributes` is all of them as canonical text, such
        as "clip=4.0, axes=[0,1]"."""
        number = self.tensor(dims)
        attribute = self.ir.Attribute
        self.append("custom", inputs, number, [
            attribute(name="name", type=self.ir.ATTRIBUTE_TYPE_STRING, text=name),
            attribute(name="version", type=self.ir.ATTRIBUTE_TYPE_I64, integer=version),
            attribute(name="attributes", type=self.ir.ATTRIBUTE_TYPE_STRING, text=attributes)])
        return number

    def append(self, name, inputs, number, attributes):
        self.graph.operations.append(self.ir.Operation(
            name=name, since=self.since.get(name, 1), inputs=[self.values[i] for i in inputs],
            outputs=[self.values[number]], attributes=attributes, n_attributes=len(attributes)))
        self.graph.n_operations += 1

    def output(self, number):
        self.graph.outputs.append(number)
        self.graph.n_outputs += 1
        return number
