#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds -DKILN_MINIMAL=ON as a user would: the library needs the C library and OpenCL alone, is small, and exports what
its map lists. It runs the bundles of tests/unit/cli/bundles.py under the layer that refuses to compile, those of boards,
and one from a program in C; with KILN_TEST_LONG=1 ResNet-50, too, and the times of first results. A program that needs
more does not link. The folder is kept below the build folder, so a second run compiles only what changed."""
import os
import re
import shutil
import subprocess
import sys

import exported_symbols
import packages
import structure

SUITE = "packages/minimal"
MAY_NEED = ("libc.so", "libm.so", "libOpenCL.so", "ld-linux")
MOST_KIB = 200
LONG = os.environ.get("KILN_TEST_LONG", "") not in ("", "0")
BOARDS = ("banks", *(("first_results", "resnet_50", "loops_in") if LONG else ()))
BUNDLES = ("digits_run", "residual", "transformer", "merged", "another_driver", "driver_refuses")

PROGRAM = r"""
#include <kiln/kiln.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    kiln_npy image = {0}, result = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_bundle *bundle = NULL;
    kiln_tensor *x = NULL, *y = NULL;
    float values[10];
    bool failed = argc != 4 || kiln_npy_read(argv[2], &image, &err) || kiln_open(NULL, &device, &err) ||
                  kiln_bundle_open(device, argv[1], NULL, &bundle, &err) ||
                  kiln_tensor_create(device, image.dtype, image.rank, image.dims, image.data, &x, &err) ||
                  kiln_bundle_run(bundle, &x, 1, &y, 1, &err) || kiln_read(y, values, sizeof(values), &err);
    result = (kiln_npy){.dtype = KILN_DTYPE_F32, .rank = 2, .dims = {1, 10}, .bytes = sizeof(values), .data = values};
    failed = failed || kiln_npy_write(argv[3], &result, &err);
    failed ? puts(err.message) : puts("it ran");
    kiln_bundle_close(bundle);
    kiln_close(device);
    kiln_npy_free(&image);
    return failed;
}
"""

MORE = r"""
#include <kiln/kiln.h>

int main(void)
{
    kiln_tensor *x = NULL;
    return kiln_relu(x, &x, NULL) != KILN_STATUS_OK;
}
"""


def size(library, build):
    stripped = os.path.join(build, "stripped.so")
    bad = packages.run(["strip", "-o", stripped, library])
    kib = 0 if bad else os.path.getsize(stripped) / 1024
    print(f"{SUITE}: {kib:.0f} KiB")
    return bad or ([f"{kib:.0f} KiB, more than {MOST_KIB}"] if kib > MOST_KIB else [])


def exports(library, tree):
    """Each line of the map is of something, and nothing else is there."""
    listed = re.findall(r"(?m)^ +(kiln_[\w*]+);$", tree.read("cmake/kiln_minimal.map"))
    there = exported_symbols.exported(library)
    patterns = {name: re.compile(name.replace("*", r"\w+") + "$") for name in listed}
    return ([f"nothing is {name}" for name, pattern in patterns.items() if not any(map(pattern.match, there))] +
            [f"{symbol} is in no line" for symbol in sorted(there) if not any(p.match(symbol) for p in patterns.values())])


def compiled(text, name, build, prefix):
    source, program = os.path.join(build, name + ".c"), os.path.join(build, name)
    with open(source, "w", encoding="ascii") as file:
        file.write(text)
    libraries = os.path.join(prefix, "lib")
    return program, packages.run(["cc", source, "-o", program, f"-I{prefix}/include", f"-L{libraries}",
                                  f"-Wl,-rpath,{libraries}", "-lkiln"])


def more_does_not_link(build, prefix):
    _, said = compiled(MORE, "more", build, prefix)
    return [] if "undefined reference to `kiln_relu'" in "".join(said) else ["a program with an operator links"] + said


def told(command, limit=600, **environment):
    """What is wrong with a command; empty when it succeeds."""
    env = {**os.environ, "KILN_CACHE_DIR": "off", **environment}
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=limit)
    print("".join(line for line in run.stdout.splitlines(True) if "first result" in line), end="")
    return [] if run.returncode == 0 else [f"{' '.join(command)}: status {run.returncode}"] + (run.stdout + run.stderr).splitlines()[-20:]


def program_runs(config, build, prefix):
    """Made by the whole Kiln, compiled by the minimal one, and run by a program from binaries alone."""
    whole, minimal = os.path.join(config["build_dir"], "bin/kiln"), os.path.join(prefix, "bin/kiln")
    digits = os.path.join(config["source_dir"], "examples/digits")
    bundle, image = os.path.join(build, "digits"), os.path.join(digits, "three.npy")
    model = [os.path.join(digits, "digits.onnx"), "--input", image]
    of_model, of_program = os.path.join(build, "model.npy"), os.path.join(build, "program.npy")
    shutil.rmtree(bundle, ignore_errors=True)
    program, bad = compiled(PROGRAM, "program", build, prefix)
    layer = os.path.join(config["build_dir"], "tests/bin/no_compiler_layer.so")
    bad = (bad or told([whole, "bundle", *model, "--merge", "-o", bundle]) or told([minimal, "bundle", "compile", bundle]) or
           told([whole, "run", *model, "--tune", "off", "--set", "compiler=prepare", "--runs", "0", "--output", of_model]) or
           told([program, bundle, image, of_program], OPENCL_LAYERS=layer, KILN_TEST_LAYER=""))
    if not bad:
        with open(of_model, "rb") as one, open(of_program, "rb") as other:
            bad = [] if one.read() == other.read() else ["the program's numbers are not the model's"]
    return bad


def bundles_run(config, prefix, name, cases):
    script = os.path.join(config["source_dir"], "tests/unit/cli", name)
    kiln = os.path.join(config["build_dir"], "bin/kiln")
    return told(["/usr/bin/python3", script, kiln, config["source_dir"], config["build_dir"], *cases],
                limit=3600 if LONG else 600, KILN_TEST_RUNNER=os.path.join(prefix, "bin/kiln"))


def main():
    tree = structure.load(sys.argv)
    config = tree.config
    build = os.path.join(config["build_dir"], "minimal-library")
    prefix = os.path.join(build, "prefix")
    shutil.rmtree(prefix, ignore_errors=True)
    cases = {"configure": packages.run(["cmake", "-S", config["source_dir"], "-B", build, "-G", "Ninja", "-DKILN_WERROR=ON",
                                        "-DCMAKE_BUILD_TYPE=Release", "-DKILN_MINIMAL=ON", "-DCMAKE_INSTALL_LIBDIR=lib"])}
    if not cases["configure"]:
        cases["compile"] = packages.run(["ninja", "-C", build, "-j2"])
    if not any(cases.values()):
        library = os.path.join(build, "lib/libkiln.so")
        cases["needs"] = [f"libkiln.so needs {name}" for name in exported_symbols.needed(library)
                          if not name.startswith(MAY_NEED)]
        cases["size"] = size(library, build)
        cases["exports"] = exports(library, tree)
        cases["install"] = packages.run(["cmake", "--install", build, "--prefix", prefix])
        cases["more does not link"] = more_does_not_link(build, prefix)
        cases["program"] = program_runs(config, build, prefix)
        cases["bundles"] = bundles_run(config, prefix, "bundles.py", BUNDLES)
        cases["boards"] = bundles_run(config, prefix, "bundle_boards.py", BOARDS)
    structure.report(SUITE, cases)


if __name__ == "__main__":
    main()
