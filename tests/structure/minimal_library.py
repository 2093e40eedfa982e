#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds -DKILN_MINIMAL=ON as a user would: the library needs the C library and OpenCL alone, is small, and works without
the parts that are left out. The folder is kept below the build folder, so a second run compiles only what changed."""
import os
import shutil
import subprocess
import sys

import exported_symbols
import packages
import structure

SUITE = "packages/minimal"
MAY_NEED = ("libc.so", "libm.so", "libOpenCL.so", "ld-linux")
MOST_KIB = 1075

PROGRAM = r"""
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
    float v[] = {1, 2, 3, 4};
    kiln_error err;
    kiln_device *device;
    kiln_tensor *x, *y, *z;
    bool failed = kiln_open(NULL, &device, &err) ||
                  kiln_tensor_create(device, KILN_DTYPE_F32, 2, (int64_t[]){2, 2}, v, &x, &err) ||
                  kiln_matmul(x, x, false, false, &y, &err) || kiln_relu(y, &z, &err) ||
                  kiln_read(z, v, sizeof(v), &err);
    failed ? puts(err.message) : printf("%g %g %g %g\n", v[0], v[1], v[2], v[3]);
    kiln_close(device);
    return failed;
}
"""


def size(library, build):
    stripped = os.path.join(build, "stripped.so")
    bad = packages.run(["strip", "-o", stripped, library])
    kib = 0 if bad else os.path.getsize(stripped) / 1024
    return bad or ([f"{kib:.0f} KiB, more than {MOST_KIB}"] if kib > MOST_KIB else [])


def product_runs(build, prefix, device):
    """A product, which a BLAS library does elsewhere, on the backend's own kernels."""
    source, program = os.path.join(build, "product.c"), os.path.join(build, "product")
    with open(source, "w", encoding="ascii") as file:
        file.write(PROGRAM)
    libraries = os.path.join(prefix, "lib")
    bad = packages.run(["cc", source, "-o", program, f"-I{prefix}/include", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lkiln"])
    if bad:
        return bad
    run = subprocess.run([program], env={**os.environ, "KILN_DEVICE": device}, capture_output=True, text=True, check=False,
                         timeout=200)
    return [] if run.stdout == "7 10 15 22\n" else [f"{device}: {run.stdout}{run.stderr}"]


def main():
    config = structure.load(sys.argv).config
    build = os.path.join(config["build_dir"], "minimal-library")
    prefix = os.path.join(build, "prefix")
    shutil.rmtree(prefix, ignore_errors=True)
    cases = {"configure": packages.run(["cmake", "-S", config["source_dir"], "-B", build, "-G", "Ninja",
                                        "-DCMAKE_BUILD_TYPE=Release", "-DKILN_MINIMAL=ON", "-DCMAKE_INSTALL_LIBDIR=lib"])}
    if not cases["configure"]:
        cases["compile"] = packages.run(["ninja", "-C", build, "-j2"])
    if not any(cases.values()):
        library = os.path.join(build, "lib/libkiln.so")
        cases["needs"] = [f"libkiln.so needs {name}" for name in exported_symbols.needed(library)
                          if not name.startswith(MAY_NEED)]
        cases["size"] = size(library, build)
        cases["install"] = packages.run(["cmake", "--install", build, "--prefix", prefix])
        cases["reference"] = cases["install"] or product_runs(build, prefix, "reference")
        cases["opencl"] = product_runs(build, prefix, "opencl:0")
    structure.report(SUITE, cases)


if __name__ == "__main__":
    main()
