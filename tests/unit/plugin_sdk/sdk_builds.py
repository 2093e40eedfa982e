#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an author of fusers relies on: the headers compile alone in every language they promise,
those of the ABI without padding, and the templates against nothing but the installed headers."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SDK = os.path.join(ROOT, "plugin_sdk")
INCLUDE = ["-I", sys.argv[1], "-I", SDK, "-I", os.path.join(SDK, "abi"), "-I", os.path.join(SDK, "parts")]
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wpadded", "-Werror", "-fsyntax-only"]
MATRIX = [(compiler, language, standard) for compiler in ("gcc", "clang-14")
          for language, standards in (("c", ("c99", "c11", "c17")),
                                      ("c++", ("c++11", "c++17", "c++20")))
          for standard in standards]
PROGRAM = """#include "{header}"
KF_MANIFEST("org.example.test", "1", 0, 1, 0, 0);
const kf_plugin *kf_plugin_query_v1(uint32_t minor) {{ (void)minor; return 0; }}
"""


def matrix(header, crosses_abi=True):
    """The combinations of compiler and language that refuse a plugin with this header."""
    bad = []
    flags = [flag for flag in FLAGS if crosses_abi or flag != "-Wpadded"]
    for compiler, language, standard in MATRIX:
        run = subprocess.run([compiler, f"-std={standard}", *flags, *INCLUDE, "-x", language, "-"],
                             input=PROGRAM.format(header=header), capture_output=True, text=True,
                             check=False)
        if run.returncode:
            bad.append(f"{compiler} {standard}: {run.stderr.splitlines()[:1]}")
    return bad


def wrapper():
    """The compilers and standards that refuse a C++ fuser on kiln_fuser.hpp; exceptions off, too."""
    bad = []
    source = os.path.join(SDK, "template/cpp/my_fuser.cpp")
    for compiler in ("g++", "clang++-14"):
        for flags in (["-std=c++17"], ["-std=c++20"]):
            run = subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Wpedantic", "-Wconversion",
                                  "-Wshadow", "-Werror", "-fsyntax-only", *INCLUDE, source],
                                 capture_output=True, text=True, check=False)
            if run.returncode:
                bad.append(f"{compiler} {flags}: {run.stderr.splitlines()[:2]}")
    return bad


FORMS = """#include "kiln_fuser.hpp"
int main()
{
    kiln::program p("x", 2), q("x", 2);
    const auto s = p.source("text");
    p.binary(s, "board", "", "bits");
    p.run(s, "wide").single(s, "task").value(kiln::expr(3));
    q.run(q.source("text"), "wide");
    const kiln::sealed_program forms(std::move(p)), plain(std::move(q));
    const kf_launch *launch = forms.view().launches[0], *other = plain.view().launches[0];
    const kf_source *source = forms.view().sources[0];
    if (forms.view().n_launches != 1 || launch->single == nullptr || launch->single->n_args != 1 ||
        launch->single->kernel.len != 4 || other->single != nullptr) {
        return 1;
    }
    if (source->n_binaries != 1 || source->binaries[0]->code.len != 4 || source->binaries[0]->device.len != 5) {
        return 2;
    }
    return forms.info().key.len > plain.info().key.len ? 0 : 3;
}
const kf_plugin *kf_plugin_query_v1(std::uint32_t) { return nullptr; }
"""


def forms():
    """A program with a binary and a single-work-item form, through the C++ wrapper."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "forms")
        run = subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Werror", *INCLUDE, "-x", "c++",
                              "-", "-o", program], input=FORMS, capture_output=True, text=True, check=False)
        if run.returncode:
            return [run.stderr[-300:]]
        code = subprocess.run([program], check=False).returncode
        return [f"ends with {code}"] if code else []


def template():
    """Builds the template as an author without CMake would, and looks at the library."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "my_fuser.so")
        sources = [os.path.join(SDK, "template/c", name) for name in ("my_fuser.c", "abi.c")]
        run = subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror",
                              "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-Wl,-z,defs",
                              f"-Wl,--version-script={SDK}/kiln_fuser.map", *INCLUDE, *sources, "-o",
                              library], capture_output=True, text=True, check=False)
        if run.returncode:
            return [run.stderr[-300:]]
        names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                               text=True, check=True).stdout
        exported = re.findall(r" [A-Z] (\w+)", names)
        notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True,
                               check=True).stdout
    bad = [] if exported == ["kf_plugin_query_v1"] else [f"exports {exported}"]
    return bad if "KFU" in notes else bad + ["no manifest note"]


def main():
    results = {header: matrix(header) for header in ("kiln_fuser.h", "kf_util.h")}
    for header in ("kf_elementwise.h", "kf_chain.h", "kf_row_space.h", "kf_row_parts.h", "kf_rows.h",
                   "kf_plugin.h"):
        results[header] = matrix(header, crosses_abi=False)
    results["kiln_fuser.hpp"] = wrapper()
    results["forms in C++"] = forms()
    results["template"] = template()
    for name, bad in results.items():
        for text in bad:
            print(f"FAIL {name}: {text}")
    failed = sum(1 for bad in results.values() if bad)
    print(f"kiln-test: {len(results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
