#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""kiln.hpp under other compilers and standards, what it leaves behind, and the programs of its page.

Usage: test_headers.py build/structure.json"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../structure"))
import structure  # noqa: E402

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
COMPILERS = ("g++", "clang++-14")
ALONE = "#include <kiln/kiln.hpp>\n#include <kiln/kiln.hpp>\n"
NAMED = ALONE + """kiln::Tensor same(const kiln::Tensor &x, const kiln::Tensor &w);
kiln::Tensor same(const kiln::Tensor &x, const kiln::Tensor &w)
{
    return kiln::conv(x, w, {}, {.strides = {2, 2}, .groups = 1});
}
"""
PAGE = """#include <cstdint>
#include <iostream>
#include <kiln/kiln.hpp>

template <class T> void print(const T &value) { std::cout << value << '\\n'; }
template <class T> void print(const std::vector<T> &values)
{
    for (size_t i = 0; i < values.size(); i++) {
        std::cout << (i > 0 ? " " : "") << values[i];
    }
    std::cout << '\\n';
}

int main()
{
    using namespace kiln; // and none of its names is in the way
    (void)f32;
"""


class Build:
    def __init__(self, config, work):
        self.config, self.work = config, work
        folders = [os.path.join(config["build_dir"], "include"), os.path.join(HERE, "../../support"),
                   os.path.join(config["build_dir"], "tests/unit/cpp/generated"), *config["include_dirs"]]
        self.includes = [f"-I{folder}" for folder in folders]

    def compiled(self, command, text):
        """Problems of a compiler with a text, in lines."""
        done = subprocess.run([*command, *self.includes, "-x", "c++", "-"], input=text, text=True,
                              capture_output=True, check=False)
        return done.stderr.splitlines()[:20] if done.returncode or done.stderr else []

    def syntax(self, compiler, standard, text, *flags):
        return self.compiled([compiler, f"-std={standard}", *WARNINGS, "-fsyntax-only", *flags], text)

    def macros(self, text):
        done = subprocess.run(["g++", "-std=c++17", "-dM", "-E", *self.includes, "-x", "c++", "-"], input=text,
                              text=True, capture_output=True, check=True)
        return set(re.findall(r"(?m)^#define (\w+)", done.stdout))

    def output(self, text):
        """What a program prints on the reference device; its problems when it does not."""
        program = os.path.join(self.work, "program")
        libraries = os.path.dirname(self.config["libkiln"])
        bad = self.compiled(["g++", "-std=c++17", *WARNINGS, "-o", program, f"-L{libraries}",
                             f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed", "-lkiln"], text)
        if bad:
            return "\n".join(bad)
        return self.ran(program, "reference")

    def ran(self, program, device):
        env = {**os.environ, "KILN_DEVICE": device, "KILN_CACHE_DIR": os.path.join(self.work, "cache")}
        done = subprocess.run([program], env=env, text=True, capture_output=True, check=False, timeout=120)
        return done.stdout + done.stderr + (f"status {done.returncode}" if done.returncode else "")


def read(*names):
    with open(os.path.join(*names), encoding="utf-8") as file:
        return file.read()


def folder_of(build):
    return os.path.join(build.config["build_dir"], "include/kiln")


def parts(build):
    """The headers that kiln.hpp includes."""
    return re.findall(r'(?m)^#include "(.*)"', read(folder_of(build), "kiln.hpp"))


def left_macros(build):
    """Nothing but the guards is defined after the header that its own includes do not define."""
    own = {line for name in parts(build)
           for line in re.findall(r"(?m)^#include <\w+>", read(folder_of(build), name))}
    left = build.macros(ALONE) - build.macros("\n".join(sorted(own)) + '\n#include "kiln.h"\n')
    guards = {"KILN_KILN_HPP"} | {name.upper().replace(".", "_") for name in parts(build)}
    return [f"{name} is left defined" for name in sorted(left - guards)]


def initialisers(build):
    """Including the header makes no code that runs before main."""
    made = os.path.join(build.work, "alone.o")
    bad = build.compiled(["g++", "-std=c++17", "-O0", "-c", "-o", made], ALONE)
    sections = subprocess.run(["objdump", "-h", made], capture_output=True, text=True, check=False).stdout
    return bad + [line for line in sections.splitlines() if re.search(r"init_array|\.ctors", line)]


def differs(said, wanted):
    return [] if said == wanted else [f"printed {said!r}", f"not {wanted!r}"]


def page(build):
    blocks = re.findall(r"(?ms)^```cpp\n(.*?)^```", read(build.config["source_dir"], "docs/cpp.md"))
    text = "".join(blocks)
    wanted = "".join(line + "\n" for line in re.findall(r"// -> (.*)", text))
    return differs(build.output(PAGE + text + "}\n"), wanted) + ([] if len(blocks) > 3 else ["blocks are missing"])


def main():
    config = structure.load(sys.argv).config
    missing = " ".join(c for c in COMPILERS if not shutil.which(c))
    cases = {}
    with tempfile.TemporaryDirectory(prefix="kiln-cpp-") as work:
        build = Build(config, work)
        for compiler in COMPILERS:
            for standard in ("c++17", "c++20"):
                cases[f"{compiler} {standard}"] = f"no {missing}" if missing else (
                    build.syntax(compiler, standard, ALONE)
                    + build.syntax(compiler, standard, read(HERE, "test_cpp.cpp"))
                    + build.syntax(compiler, standard, read(HERE, "test_cpp_kept_errors.cpp"),
                                   "-DKILN_NO_EXCEPTIONS", "-fno-exceptions"))
            cases[f"{compiler} named members"] = build.syntax(compiler, "c++20", NAMED)
        cases["macros"] = left_macros(build)
        cases["initialisers"] = initialisers(build)
        first = read(config["source_dir"], "examples/cpp/first.cpp")
        cases["first program"] = differs(build.output(first), "0\n0\n3\n6\n")
        # The default device stores its kernels before the libraries of its driver end.
        cases["end of a program"] = ("this build has no OpenCL" if "cl_backend" not in config["modules"] else
                                     differs(build.ran(os.path.join(work, "program"), "opencl:0"), "0\n0\n3\n6\n"))
        cases["page"] = page(build)
    structure.report("unit/cpp/headers", cases)


if __name__ == "__main__":
    main()
