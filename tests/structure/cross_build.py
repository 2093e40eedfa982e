#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds everything but the tests for 64-bit ARM with Debian's cross compiler, and runs the command under qemu.

The libraries of that machine are unpacked once, by mmdebstrap, below the build folder; the build is kept beside them, so
that a second run compiles only what changed. Without the compilers or a network it is skipped."""
import os
import re
import shutil
import subprocess
import sys

import packages
import structure

SUITE = "packages/aarch64"
PROGRAMS = ("aarch64-linux-gnu-gcc", "qemu-aarch64-static", "mmdebstrap")
# Of the packages that ./dev installs: those with libraries to link, of the other machine.
LIBRARIES = re.compile(r"^((?:lib|ocl-|opencl-c-|zlib)\S+) build$", re.M)


def sysroot(config, folder):
    """Where the libraries of the machine are; why they are not."""
    path = os.path.join(folder, "sysroot")
    if os.path.isdir(path):
        return path, None
    with open(os.path.join(config["source_dir"], "tools/packages.txt"), encoding="utf-8") as file:
        wanted = LIBRARIES.findall(file.read()) + ["libgcc-12-dev"]
    shutil.rmtree(path + ".new", ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    bad = packages.run(["mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract", f"--include={','.join(wanted)}",
                        "bookworm", path + ".new"], timeout=600)
    if bad:
        return None, f"the libraries cannot be had: {bad[-1]}"
    os.rename(path + ".new", path)
    return path, None


def configure(config, root, build):
    toolchain = os.path.join(config["source_dir"], "cmake/aarch64-linux-gnu.cmake")
    return packages.run(["cmake", "-S", config["source_dir"], "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                         f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DKILN_SYSROOT={root}", "-DKILN_TESTS=OFF",
                         "-DKILN_PYTHON=OFF", "-DKILN_WERROR=ON"])


def machine(build):
    """What is installed for users is for that machine."""
    bad = []
    for folder, _, names in os.walk(build):
        for name in names:
            path = os.path.join(folder, name)
            if (name == "kiln" or name.endswith(".so")) and "CMakeFiles" not in path and os.path.isfile(path):
                with open(path, "rb") as file:
                    head = file.read(20)
                if head[:4] == b"\x7fELF" and head[18:20] != b"\xb7\x00":
                    bad.append(f"{path} is for another machine")
    return bad


def command(root, build, *arguments):
    """The command under qemu, on the reference device: what it prints, or its problems."""
    emulated = ["qemu-aarch64-static", "-L", root, os.path.join(build, "bin/kiln"), *arguments]
    env = {**os.environ, "KILN_DEVICE": "reference", "KILN_CACHE_DIR": "off"}
    return subprocess.run(emulated, env=env, capture_output=True, text=True, check=False, timeout=300)


def runs_a_model(config, root, build):
    digits = os.path.join(config["source_dir"], "examples/digits")
    arguments = ("run", f"{digits}/digits.onnx", "--input", f"{digits}/three.npy")
    there = command(root, build, *arguments)
    here = subprocess.run([os.path.join(config["build_dir"], "bin/kiln"), *arguments], env={**os.environ,
                          "KILN_DEVICE": "reference", "KILN_CACHE_DIR": "off"}, capture_output=True, text=True, check=False)
    if there.returncode:
        return [f"status {there.returncode}", there.stderr[-400:]]
    results = [run.stdout.split("first run")[0] for run in (there, here)] # what follows are times
    return [] if results[0] == results[1] and results[0].strip() else ["other results than here:", *results]


def main():
    config = structure.load(sys.argv).config
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        structure.report(SUITE, {"aarch64": f"no {' '.join(missing)}"})
    folder = os.path.join(config["build_dir"], "cross")
    root, why = sysroot(config, folder)
    if why:
        structure.report(SUITE, {"aarch64": why})
    build = os.path.join(folder, "build")
    cases = {"configure": configure(config, root, build)}
    if not cases["configure"]:
        cases["compile"] = packages.run(["ninja", "-C", build, "-j2"])
    if not any(cases.values()):
        cases["machine"] = machine(build)
        started = command(root, build, "--version")
        cases["starts"] = [] if started.returncode == 0 else [started.stderr[-300:]]
        cases["runs a model"] = runs_a_model(config, root, build)
    structure.report(SUITE, cases)


if __name__ == "__main__":
    main()
