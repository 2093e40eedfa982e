#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an author of fusers relies on: the headers compile alone in every language they promise,
those of the ABI without padding, and the template builds on its own against nothing but the SDK's folder."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SDK = os.path.join(ROOT, "plugin_sdk")
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
        run = subprocess.run([compiler, f"-std={standard}", *flags, "-I", SDK, "-x", language, "-"],
                             input=PROGRAM.format(header=header), capture_output=True, text=True,
                             check=False)
        if run.returncode:
            bad.append(f"{compiler} {standard}: {run.stderr.splitlines()[:1]}")
    return bad


def template():
    """Builds a copy of the template as an author would, and looks at the library."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "mine")
        shutil.copytree(os.path.join(SDK, "template"), source)
        for command in (["cmake", "-S", source, "-B", f"{source}/build", f"-DKILN_SDK_DIR={SDK}"],
                        ["cmake", "--build", f"{source}/build"]):
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode:
                return [f"{' '.join(command[:2])}: {run.stdout[-300:]} {run.stderr[-300:]}"]
        library = os.path.join(source, "build", "my_fuser.so")
        names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                               text=True, check=True).stdout
        exported = re.findall(r" [A-Z] (\w+)", names)
        notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True,
                               check=True).stdout
    bad = [] if exported == ["kf_plugin_query_v1"] else [f"exports {exported}"]
    return bad if "KFU" in notes else bad + ["no manifest note"]


def main():
    results = {header: matrix(header) for header in ("kiln_fuser.h", "kf_util.h")}
    for header in ("kf_elementwise.h", "kf_chain.h", "kf_rows.h"):
        results[header] = matrix(header, crosses_abi=False)
    results["template"] = template()
    for name, bad in results.items():
        for text in bad:
            print(f"FAIL {name}: {text}")
    failed = sum(1 for bad in results.values() if bad)
    print(f"kiln-test: {len(results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
