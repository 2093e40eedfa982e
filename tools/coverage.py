#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lines that tests have run, from a build with counters (--coverage): a table of folders, and one of the files that read
what comes from outside.

coverage.py TREE BUILD [TESTS]: reads BUILD's counters with gcov and prints a page; TESTS says which tests ran. Code that
no program ran counts, too."""
import collections
import json
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

# Files that read what comes from outside.
DECODERS = ("base/arrays/npy.c", "base/arrays/npz.c", "base/arrays/npy_text.c", "base/environment/config.c",
            "ir/graph/codec_decode.c", "ir/graph/parse.c", "ir/graph/verify.c", "ir/replay/replay_file.c",
            "fusion_host/load/elf_note.c", "fusion_host/plan/plan_disk.c", "fusion_host/plugin/plugin_record.c",
            "cl_backend/program/cl_binary.c", "autodiff/train/safetensors.c", "onnx/decode/onnx_decode.c",
            "onnx/decode/onnx_decode_graph.c", "onnx/decode/onnx_decode_tensor.c", "onnx/decode/onnx_decode_type.c",
            "onnx/decode/onnx_decode_value.c", "runtime/bundle/bundle_facts.c", "runtime/bundle/bundle_files.c",
            "runtime/bundle/bundle_json.c", "runtime/bundle/bundle_manifest.c", "remote_grpc/link/rpc_frame.c",
            "remote_grpc/link/rpc_wire.c", "remote_grpc/kserve/kserve_infer.c", "cli/serving/http/serving_json.c",
            "cli/serving/config/serving_text.c")

# Outside of the tree, made by the build, or run by hand and by builds: tests, examples, benches, generators.
NOT_COUNTED = ("..", "build", "tests/", "examples/", "bench/", "tools/")


def notes(build):
    """What the compiler wrote of each object; gcov finds the counters beside it, if there are any."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(build) for name in names
            if name.endswith(".gcno")]


def read(path):
    """Source -> line -> whether it ran, of one object."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", os.path.basename(path)], capture_output=True, check=False,
                          cwd=os.path.dirname(path))
    found = collections.defaultdict(dict)
    for text in done.stdout.splitlines():
        data = json.loads(text)
        for file in data["files"]:
            name = os.path.realpath(os.path.join(data["current_working_directory"], file["file"]))
            for line in file["lines"]:
                number = line["line_number"]
                found[name][number] = found[name].get(number, False) or line["count"] > 0
    return found


def gather(tree, build):
    """Source below the tree -> (lines that ran, lines)."""
    lines = collections.defaultdict(dict)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(read, notes(build)):
            for name, ran in found.items():
                for number, count in ran.items():
                    lines[name][number] = lines[name].get(number, False) or count
    result = {}
    for name, ran in lines.items():
        inside = os.path.relpath(name, tree)
        if inside.endswith(".c") and not inside.startswith(NOT_COUNTED):
            result[inside] = (sum(ran.values()), len(ran))
    return result


def row(name, parts):
    ran, all_lines = (sum(column) for column in zip(*parts))
    return f"| {name} | {all_lines} | {100 * ran / max(all_lines, 1):.1f} % |"


def main():
    tree, build = (os.path.realpath(path) for path in sys.argv[1:3])
    files = gather(tree, build)
    words = sys.argv[3:]
    ran = ("all tests" if not words else "the tests but those that compile kernels of many shapes"
           if words == ["--quick"] else "the tests that match " + ", ".join(f"`{word}`" for word in words))
    folders = collections.defaultdict(list)
    for name, counts in files.items():
        folders[name.split("/")[0]].append(counts)
    page = ["<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->", "# Coverage", "",
            *textwrap.wrap(f"Lines that {ran} ran, as gcov counts them. `{' '.join(['./dev coverage', *words])}` writes "
                           "this page; all tests run at least these lines. Fusers are built as outsiders build theirs, and "
                           "not counted.", 118), "",
            "| folder | lines | run |", "|---|---|---|", *(row(name, folders[name]) for name in sorted(folders)),
            row("all", list(files.values())), ""]
    known = [name for name in DECODERS if name in files]
    if known:
        page += ["What reads bytes from outside:", "", "| file | lines | run |", "|---|---|---|",
                 *(row(name, [files[name]]) for name in known), row("all", [files[name] for name in known])]
    print("\n".join(page))


if __name__ == "__main__":
    main()
