#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the smallest configuration with clang: no gRPC, no ONNX, no database, warnings are errors, and each file by
itself, so that one which lacks an #include fails.

The folder is kept below the build folder, so that a second run compiles only what changed.
"""
import os
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
    structure.report("structure/minimal_build", cases)


if __name__ == "__main__":
    main()
