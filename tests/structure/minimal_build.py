#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the smallest configuration with clang: no gRPC, no ONNX, no database, warnings are errors, and each file by
itself, so that one which lacks an #include fails. Files of the parts that it leaves out are read by themselves, too.

The folder is kept below the build folder, so that a second run compiles only what changed.
"""
import concurrent.futures
import os
import shlex
import shutil
import subprocess
import sys

import exported_symbols
import structure

UNWANTED = ("libgrpc", "libgpr", "libsqlite3", "libmpi", "libstdc++")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        errors = [line for line in lines if "error:" in line or "undefined" in line]
        return [f"{' '.join(command)}: status {done.returncode}"] + (errors or lines[-20:])[:40]
    return []


def read_alone(entry):
    """What the compiler says of one entry of a database of compile commands, without making code."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    done = subprocess.run(words[:at] + words[at + 2:] + ["-fsyntax-only"], cwd=entry["directory"], capture_output=True,
                          text=True, check=False)
    return [line for line in done.stderr.splitlines() if "error:" in line][:3] if done.returncode else []


def each_of_the_rest(config):
    """Sources below the folders that the small build leaves out."""
    sys.path.insert(0, os.path.join(config["source_dir"], "tools"))
    import compile_database
    folders = tuple(os.path.join(config["source_dir"], part, "") for part in ("cli", "onnx", "remote_grpc"))
    found = [e for e in compile_database.entries(config["build_dir"]) if e["file"].startswith(folders)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [line for lines in pool.map(read_alone, found) for line in lines]
    return wrong if found else ["no file was found"]


def part_of_package(folder):
    """Python takes any folder of the name for a package."""
    whole = not os.path.exists(folder) or os.path.exists(os.path.join(folder, "__init__.py"))
    return [] if whole else [f"{folder} is there before the package is"]


def main():
    config = structure.load(sys.argv).config
    if not shutil.which("clang-14"):
        structure.report("structure/minimal_build", {"clang": "clang-14 is not installed"})
    build = os.path.join(config["build_dir"], "minimal")
    cases = {"configure": run([
        "cmake", "-S", config["source_dir"], "-B", build, "-G", "Ninja",
        "-DCMAKE_C_COMPILER=clang-14", "-DCMAKE_BUILD_TYPE=Debug", "-DKILN_REMOTE=OFF",
        "-DKILN_ONNX=OFF", "-DKILN_TESTS=OFF", "-DKILN_MINIMAL=OFF", "-DKILN_STORE=OFF", "-DKILN_UNITY=OFF", "-DKILN_WERROR=ON"])}
    if not cases["configure"]:
        cases["no part of the Python package"] = part_of_package(os.path.join(build, "python/kiln"))
        cases["compile"] = run(["ninja", "-C", build, "-j2", "-k", "0"])
        library = os.path.join(build, "lib/libkiln.so")
        if not cases["compile"] and os.path.exists(library):
            cases["needs little"] = [f"libkiln.so needs {name}"
                                     for name in exported_symbols.needed(library)
                                     if name.startswith(UNWANTED)]
            command = os.path.join(build, "bin/kiln")
            if os.path.exists(command):
                cases["command starts"] = run([command, "--help"])
    cases["each file of the rest"] = each_of_the_rest(config)
    structure.report("structure/minimal_build", cases)


if __name__ == "__main__":
    main()
