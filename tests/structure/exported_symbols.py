#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the built objects export and need, read with nm and readelf."""
import re
import subprocess
import sys

import structure

PLUGIN_SYMBOL = "kf_plugin_query_v1"
KEPT = "tests/golden/exports.txt"
PLUGIN_MAY_NEED = re.compile(r"^(libc|libm|libgcc_s|ld-linux-x86-64|libpthread)\.so")


def exported(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True,
                         check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.split()}


def needed(path):
    out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", out)


def declared(tree, modules):
    """Functions that the public headers of these modules promise."""
    names = {}
    for header in tree.public_headers():
        if header.split("/")[0] not in modules:
            continue
        text = structure.without_comments(tree.read(header))
        text = re.sub(r"(?m)^\s*#(?:\\\n|.)*$", "", text)
        for match in re.finditer(r"\bKILN_API\b([^;{]*)", text):
            function = re.search(r"\b(kiln_\w+)\s*\(", match.group(1))
            if function:
                names[function.group(1)] = header
    return names


def library_problems(path, tree, modules):
    symbols = exported(path)
    bad = [f"exports {name}" for name in sorted(symbols) if not name.startswith("kiln_")]
    for name, header in sorted(declared(tree, modules).items()):
        if name not in symbols:
            bad.append(f"{name} of {header} is declared and not exported")
    return bad


def soname(path):
    out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return "".join(re.findall(r"\(SONAME\).*\[(.+)\]", out))


def kept_problems(path, tree):
    """What tests/golden/exports.txt lists stays for as long as the soname does."""
    lines = [line for line in tree.read(KEPT).splitlines() if line and not line.startswith("#")]
    if soname(path) != lines[0]:
        return [f"the soname is {soname(path)}, {KEPT} is of {lines[0]}: begin it anew"]
    there = exported(path)  # reading a library takes its time
    return [f"{name} is gone, and the soname is the same" for name in lines[1:] if name not in there]


def plugin_problems(path):
    bad = [f"exports {name}" for name in sorted(exported(path)) if name != PLUGIN_SYMBOL]
    if PLUGIN_SYMBOL not in exported(path):
        bad.append(f"does not export {PLUGIN_SYMBOL}")
    return bad + [f"needs {lib}" for lib in needed(path) if not PLUGIN_MAY_NEED.match(lib)]


def main():
    tree = structure.load(sys.argv)
    config = tree.config
    cases = {}
    if config["libkiln"]:
        inside = set(config["modules"]) - {"remote_grpc", "plugin_sdk"}
        cases["libkiln.so"] = library_problems(config["libkiln"], tree, inside)
        if {"cl_backend", "onnx"} <= inside:
            cases["libkiln.so keeps"] = kept_problems(config["libkiln"], tree)
        cases["libkiln.so needs"] = [
            f"needs {lib}: it is for libkiln_remote.so alone" for lib in needed(config["libkiln"])
            if re.match(r"lib(grpc|gpr|protobuf\.|mpi|stdc\+\+\.)", lib)]
    if config["libkiln_remote"]:
        cases["libkiln_remote.so"] = library_problems(config["libkiln_remote"], tree,
                                                      {"remote_grpc"})
    for path in config["plugins"]:
        cases[path.rsplit("/", 1)[-1]] = plugin_problems(path)
    structure.report("structure/exported_symbols", cases)


if __name__ == "__main__":
    main()
