#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The .proto files: what buf says of them by buf.yaml, where buf is installed, and that data come last in a message.
Arguments: the source folder."""
import os
import shutil
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

from serve_fixture import Skip, run_cases

SOURCE = sys.argv[1]
ROOTS = ["ir/proto", "remote_grpc/proto"]
FILES = ["kiln/v1/ir.proto", "kiln/v1/kiln.proto", "kserve/inference.proto"]


def case_buf_lint(_):
    buf = os.environ.get("KILN_TEST_BUF") or shutil.which("buf")
    if buf is None:
        raise Skip("buf is not on this machine (KILN_TEST_BUF)")
    said = subprocess.run([buf, "lint"], cwd=SOURCE, capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == 0, said.stdout + said.stderr


def messages_of(files):
    for file in files:
        waiting = [(f".{file.package}", each) for each in file.message_type]
        while waiting:
            scope, message = waiting.pop()
            name = f"{scope}.{message.name}"
            yield name, message
            waiting += [(name, each) for each in message.nested_type]


def case_data_is_the_last_field(_):
    """Both sides find data without decoding them: they are field 15 wherever a message has them."""
    with tempfile.TemporaryDirectory(prefix="kiln-schema-") as folder:
        made = os.path.join(folder, "set")
        subprocess.run(["protoc", *(f"-I{os.path.join(SOURCE, root)}" for root in ROOTS),
                        f"--descriptor_set_out={made}", *FILES], check=True, timeout=60)
        files = descriptor_pb2.FileDescriptorSet()
        with open(made, "rb") as file:
            files.ParseFromString(file.read())
    found = 0
    for name, message in messages_of(files.file):
        for field in message.field:
            if name.startswith(".kiln.v1.") and field.name == "data" and name != ".kiln.v1.TensorConst":
                found += 1
                assert field.number == 15, (name, field.number)
                behind = [each.number for each in message.field if each.number > 15 and not each.HasField("oneof_index")]
                assert not behind, f"{name}: fields {behind} stand behind the data"
    assert found == 2, found


run_cases("unit/remote_grpc/schema", [case_buf_lint, case_data_is_the_last_field])
