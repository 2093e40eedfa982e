#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""compare.py HEADER PROGRAM COMPILER: whether quirks/cl_builtins.c declares what the driver's opencl-c.h declares.

Every function that it declares has the overloads, attributes and types that it has in the header, none more and none
less; and it knows every other function of the header by name. PROGRAM says what is declared for the text of its
standard input, and fails where the text is for the header; COMPILER is one of C. The last line is "N passed, N failed";
without the header nothing is compared."""
import os
import re
import subprocess
import sys

# As PoCL calls clang for a text of OpenCL C 1.2 on a processor.
DEFINES = ["__OPENCL_C_VERSION__=120", "CL_VERSION_1_0=100", "CL_VERSION_1_1=110", "CL_VERSION_1_2=120",
           "CL_VERSION_2_0=200", "CL_VERSION_3_0=300", "cl_khr_fp64=1", "cl_khr_byte_addressable_store=1",
           "cl_khr_global_int32_base_atomics=1", "cl_khr_global_int32_extended_atomics=1",
           "cl_khr_local_int32_base_atomics=1", "cl_khr_local_int32_extended_atomics=1", "cl_khr_3d_image_writes=1",
           "cl_khr_int64_base_atomics=1", "cl_khr_int64_extended_atomics=1", "__opencl_c_3d_image_writes=1",
           "__opencl_c_images=1", "__opencl_c_atomic_order_acq_rel=1", "__opencl_c_atomic_order_seq_cst=1",
           "__opencl_c_atomic_scope_device=1", "__opencl_c_read_write_images=1", "__opencl_c_int64=1",
           "__opencl_c_fp64=1"]
OPTIONS = "-cl-std=CL1.2"
WORDS = {"void", "half", "float", "double", "char", "short", "int", "long", "uchar", "ushort", "uint", "ulong", "size_t"}


def preprocessed(text, *arguments):
    command = [sys.argv[3], "-E", "-P", "-undef", "-x", "c", *(f"-D{define}" for define in DEFINES), *arguments, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return "\n".join(line for line in done.stdout.split("\n") if not line.startswith("#"))


def argument(text):
    """Its type, without a name."""
    words = re.findall(r"\w+|\*", text.replace("global", "__global").replace("____global", "__global"))
    if len(words) > 1 and words[-1] != "*" and re.sub(r"\d+$", "", words[-1]) not in WORDS | {"cl_mem_fence_flags"}:
        words.pop()
    space = {"local": "__local", "constant": "__constant", "private": "__private"}
    return " ".join(space.get(word, word) for word in words)


def functions(text):
    """A set of (attributes, result, arguments) for each name."""
    found = {}
    for declaration in text.split(";"):
        attributes = sorted(word.strip() for group in re.findall(r"__attribute__\s*\(\((.*?)\)\)", declaration)
                            for word in group.split(","))
        plain = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", declaration)
        match = re.fullmatch(r"\s*([\w\s*]+?)\s*\b(\w+)\s*\(([^()]*)\)\s*", plain)
        if match and attributes:
            taken = tuple(argument(part) for part in match[3].split(","))
            found.setdefault(match[2], set()).add((tuple(attributes), " ".join(match[1].split()), taken))
    return found


def text_of(program, text):
    """What declares for a text; None: it is for the header."""
    done = subprocess.run([program, OPTIONS], input=text, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def declared(program, text):
    return functions(preprocessed(text_of(program, text) or ""))


def main():
    header, program, _ = sys.argv[1:]
    if not os.path.exists(header):
        print(f"SKIP headers: there is no {header}\nkiln-test: 0 passed, 0 failed, 1 skipped")
        return 0
    with open(header, encoding="utf-8") as file:
        real = functions(preprocessed(file.read(), "-I", header.rsplit("/", 1)[0]))
    passed = failed = 0
    known = {name for name in real if text_of(program, f"{name}(x)") is not None}
    mine = declared(program, " ".join(known))
    for name in sorted(known | mine.keys()):
        if mine.get(name) == real.get(name):
            passed += 1
            continue
        failed += 1
        differ = sorted(mine.get(name, set()) ^ real.get(name, set()))[:3]
        print(f"{name}: {len(mine.get(name, set()))} overloads, {len(real.get(name, set()))} in the header: {differ}")
    if len(known) < 700 or len(real) < 800:
        failed += 1
        print(f"only {len(known)} of {len(real)} functions")
    # Names that are put together.
    for text, wants in (("#define W 8\na##b vload convert_", {"vload2", "vload16", "convert_float8", "convert_uchar"}),
                        ("a##b vstore_half convert_int", {"vstore_half", "vstore_half8_rte", "convert_int16"}),
                        ("vload /* a##b */ exp // sin\n", {"exp"})):
        missing = wants - declared(program, text).keys()
        passed += not missing
        failed += bool(missing)
        if missing:
            print(f"{text!r}: not declared: {sorted(missing)}")
    if "sin" in declared(program, "exp // sin\n"):
        failed += 1
        print("a comment is read as code")
    if text_of(program, "printf(x)") is not None:
        failed += 1
        print("what is not known here is not left to the header")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
