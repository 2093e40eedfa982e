#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles each public header alone: gcc and clang, C11 and C++17 (.hpp: C++17), with every warning an error."""
import os
import shutil
import subprocess
import sys

import structure

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only"]
COMPILERS = (("gcc", "c", "c11"), ("g++", "c++", "c++17"), ("clang-14", "c", "c11"),
             ("clang-14", "c++", "c++17"))


def problems(header, folders):
    """Messages of the compilers that refuse `#include "header"` as a whole program."""
    bad = []
    text = f'#include "{os.path.basename(header)}"\n#include "{os.path.basename(header)}"\n'
    includes = [flag for folder in folders for flag in ("-I", folder)]
    # clang's driver names a stray C++ library as an error of its own, so only headers are looked up.
    for compiler, language, standard in COMPILERS:
        if header.endswith(".hpp") and language == "c":
            continue
        command = [compiler, f"-std={standard}", *WARNINGS, *includes, "-I",
                   os.path.dirname(header), "-x", language, "-"]
        run = subprocess.run(command, input=text + "int kiln_alone;\n", capture_output=True,
                             text=True, check=False)
        if run.returncode:
            bad.append(f"{compiler} -std={standard}: "
                       + "; ".join(line for line in run.stderr.splitlines() if "error:" in line))
    return bad


def main():
    tree = structure.load(sys.argv)
    missing = [c for c in sorted({c for c, _, _ in COMPILERS}) if not shutil.which(c)]
    headers = [os.path.join(tree.root, n) for n in tree.public_headers()]
    headers += [h for h in tree.config["public_headers"] if h.endswith((".h", ".hpp")) and h not in headers]
    cases = {}
    for header in headers:
        name = os.path.basename(header)
        cases[name] = (f"no {' '.join(missing)}" if missing
                       else problems(header, tree.config["include_dirs"]))
    structure.report("structure/header_alone", cases)


if __name__ == "__main__":
    main()
