#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who may include whom: reads every #include and compares with the law of the architecture page."""
import os
import re
import sys

import structure

LAW = {
    "base": set(),
    "ir": {"base"},
    "cl_backend": {"base", "ir"},
    "plugin_sdk": set(),
    "fusion_host": {"base", "ir", "plugin_sdk"},
    "plugins": {"plugin_sdk"},
    "collective": {"base"},
    "runtime": {"base", "ir", "cl_backend", "fusion_host", "collective"},
    "autodiff": {"base", "ir", "runtime"},
    "remote_grpc": {"base", "ir", "runtime"},
    "onnx": {"base", "ir", "runtime"},
    "cli": set(structure.MODULES) | {"bench"},  # bench/bench.h: `kiln bench` lists and runs them
    "python": set(structure.MODULES),
    "examples": set(structure.MODULES),
}
# Plugins that are built from another one's files, too.
BUILT_FROM = {"plugins/nvidia_tensor": "plugins/matmul"}
# Outside headers that only some folders may see, by prefix or name.
RESERVED = {
    "CL/": {"cl_backend", "examples", "python"},  # programs with OpenCL of their own, DLPack's kDLOpenCL
    "clblast": {"cl_backend"},
    "grpc/": {"remote_grpc"},
    "grpcpp/": set(),
    "pb.h": {"ir", "onnx", "remote_grpc"},
    "pb_": {"ir", "onnx", "remote_grpc"},
    "sqlite3.h": {"base"},
    "microhttpd.h": {"cli"},
    "xxhash.h": {"base"},
    "CUnit/": set(),
    "Python.h": {"python"},
}
# Headers that other folders see and that are not installed.
FOR_OUR_MODULES = {"attr_make.h", "base_files.h", "base_wait.h", "bench.h", "recurrent.h", "rt_graph_again.h", "rt_observe.h",
                   "samples.h"}
SDK_MAY_INCLUDE = {"stdint.h", "stddef.h", "stdbool.h", "string.h", "stdio.h", "stdlib.h",
                   "math.h", "inttypes.h", "limits.h", "stdarg.h", "assert.h", "float.h"}
SDK_INSTALLED = re.compile(r"kiln/(kf_\w+|kiln_fuser)\.(h|hpp)")  # as the templates name it, being for authors
CXX = re.compile(r"[a-z_]+")  # of the library of C++: <cstdint>, <vector>


def unit_of(name):
    """The folder that owns a file; each plugin is a folder of its own."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "plugins" and len(parts) > 2 else parts[0]


def owners(tree):
    """basename -> set of (folder, file, is public)."""
    found = {}
    public = {os.path.basename(n) for n in tree.public_headers()}
    public |= {os.path.basename(n) for n in tree.config.get("public_headers", [])} | FOR_OUR_MODULES
    for name in tree.sources(".h", ".hpp", ".def", ".inc", ".cl", ".c"):
        base = os.path.basename(name)
        found.setdefault(base, set()).add((unit_of(name), name, base in public))
    for module, folders in tree.config.get("generated_dirs", {}).items():
        for folder in folders:
            for inside, _, names in os.walk(folder):
                for base in names:
                    if base.endswith((".h", ".hpp", ".inc", ".def")):
                        found.setdefault(base, set()).add(
                            (module, os.path.join(inside, base), base in public or
                             base.endswith(".pb.h")))
    return found


def outside_problem(unit, header):
    folder = unit.split("/")[0]
    for prefix, allowed in RESERVED.items():
        if header.startswith(prefix) and folder not in allowed:
            return f"only {', '.join(sorted(allowed)) or 'tests'} may include <{header}>"
    if folder == "plugin_sdk" and SDK_INSTALLED.fullmatch(header):
        return None
    if folder in ("plugin_sdk", "plugins") and header not in SDK_MAY_INCLUDE and not CXX.fullmatch(header):
        return f"a plugin stands alone: <{header}> is not part of the C library's plain headers"
    return None


def inside_problem(unit, header, candidates):
    folder = unit.split("/")[0]
    if any(owner in (unit, BUILT_FROM.get(unit)) for owner, _, _ in candidates):
        return None
    allowed = LAW[folder]
    near = [c for c in candidates if c[0].split("/")[0] in allowed]
    if not near:
        owner = sorted(candidates)[0][0]
        return f'{unit} may not include "{header}" of {owner}'
    if not any(public for _, _, public in near):
        return f'"{header}" is private to {sorted(near)[0][0]}'
    return None


def problems(tree):
    found = owners(tree)
    result = {}
    for folder in LAW:
        if tree.sources(".c", ".h", ".hpp", top=(folder,)):
            result[folder] = []
    for name in tree.sources(".c", ".h", ".hpp", ".def", ".inc", top=tuple(LAW)):
        unit = unit_of(name)
        text = structure.without_comments(tree.read(name))
        for match in structure.INCLUDE.finditer(text):
            quote, header = match.groups()
            base = os.path.basename(header)
            if quote == '"' and base in found:
                problem = inside_problem(unit, header, found[base])
            elif quote == '"':
                problem = f'"{header}" is nowhere in the tree'
            else:
                problem = outside_problem(unit, header)
                if problem is None and base in found and not header.startswith("kiln/"):
                    if "/" not in header and base not in SDK_MAY_INCLUDE:
                        problem = inside_problem(unit, header, found[base])
            if problem:
                line = structure.line_of(text, match.start(1))
                result.setdefault(unit.split("/")[0], []).append(f"{name}:{line}: {problem}")
    return result


if __name__ == "__main__":
    structure.report("structure/include_graph", problems(structure.load(sys.argv)))
