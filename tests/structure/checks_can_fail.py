#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every structure check is shown a small tree that breaks its rule, and must say so."""
import os
import subprocess
import sys
import tempfile

import call_graph
import cl_calls
import exported_symbols
import header_alone
import include_graph
import source_rules
import structure
import walk

HEAD = "// SPDX-License-Identifier: MIT OR Apache-2.0\n"
FREE = "/// x: numbers. Any thread may call these functions.\n\n"
DOC = FREE + "/// Does x.\n"
GOOD = {
    "CMakeLists.txt": "# SPDX-License-Identifier: MIT OR Apache-2.0\n",
    "base/base.h": HEAD + DOC + "KILN_API int kiln_x(void);\n",
    "base/arena.c": HEAD + '// Decides how memory\n// is cut into pieces.\n#include "base.h"\n',
    "base/arena_internal.h": HEAD,
    "ir/ir.h": HEAD + '#include "base.h"\n',
    "base/README.md": "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n",
    "cl_backend/README.md": "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n",
    "base/CMakeLists.txt": "# SPDX-License-Identifier: MIT OR Apache-2.0\nkiln_module(base arena.c)\n",
    "cl_backend/CMakeLists.txt": "# SPDX-License-Identifier: MIT OR Apache-2.0\n(device.c)\n",
    "plugin_sdk/kiln_fuser.h": HEAD + "#include <stdint.h>\n",
    "cl_backend/device.c": HEAD + "// Opens\n// devices.\n#include <CL/cl.h>\n#include \"ir.h\"\n",
}


def make_tree(folder, extra):
    for name, text in {**GOOD, **extra}.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    return structure.Tree(folder)


def graph_messages(tree):
    return [p for problems in include_graph.problems(tree).values() for p in problems]


def call_messages(tree):
    return [p for problems in call_graph.problems(tree).values() for p in problems]


def walk_messages(tree):
    return [p for problems in walk.problems(tree).values() for p in problems]


def layer_messages(tree):
    return [p for problems in cl_calls.problems(tree).values() for p in problems]


C_HEAD = HEAD + "// Decides\n// nothing.\n"
# name: (check, files added to the good tree, words that a message must contain)
VIOLATIONS = {
    "edge up": (graph_messages, {"base/up.c": C_HEAD + '#include "ir.h"\n'}, "may not include"),
    "edge aside": (graph_messages, {"cl_backend/a.c": C_HEAD + '#include "kiln_fuser.h"\n'},
                   "may not include"),
    "private header": (graph_messages, {"ir/a.c": C_HEAD + '#include "arena_internal.h"\n'},
                       "private"),
    "angle brackets hide nothing": (graph_messages, {"base/a.c": C_HEAD + "#include <ir.h>\n"},
                                    "may not include"),
    "opencl outside": (graph_messages, {"ir/a.c": C_HEAD + "#include <CL/cl.h>\n"}, "CL/cl.h"),
    "grpc outside": (graph_messages, {"ir/a.c": C_HEAD + "#include <grpc/grpc.h>\n"}, "grpc"),
    "unknown header": (graph_messages, {"ir/a.c": C_HEAD + '#include "lost.h"\n'}, "nowhere"),
    "plugin includes ir": (graph_messages, {"plugins/p/p.c": C_HEAD + '#include "ir.h"\n'},
                           "may not include"),
    "plugin includes a plugin": (graph_messages, {
        "plugins/p/p.c": C_HEAD + '#include "other.h"\n', "plugins/q/other.h": HEAD},
        "may not include"),
    "plugin includes pthread": (graph_messages,
                                {"plugins/p/p.c": C_HEAD + "#include <pthread.h>\n"}, "alone"),
    "circle of files": (call_messages, {
        "ir/a.c": C_HEAD + "int kiln_a(void)\n{\n    return kiln_b();\n}\n",
        "ir/b.c": C_HEAD + "int kiln_b(void)\n{\n    return kiln_a();\n}\n"},
        "a.c calls kiln_b of b.c, b.c calls kiln_a of a.c"),
    "circle through a table": (call_messages, {
        "ir/a.c": C_HEAD + "const kiln_ops kiln_a = {.f = kiln_b};\n",
        "ir/b.c": C_HEAD + "int kiln_b(void)\n{\n    return kiln_a.f();\n}\n"},
        "circle of 2 files"),
    "circle through a header": (call_messages, {
        "ir/a.h": HEAD + "static inline int kiln_i(void)\n{\n    return kiln_b();\n}\n",
        "ir/a.c": C_HEAD + "int kiln_a(void)\n{\n    return kiln_i();\n}\n",
        "ir/b.c": C_HEAD + "int kiln_b(void)\n{\n    return kiln_a();\n}\n"},
        "circle of 2 files"),
    "circle of folders": (call_messages, {
        "ir/x/a.c": C_HEAD + "int kiln_a(void)\n{\n    return kiln_b();\n}\n",
        "ir/y/b.c": C_HEAD + "int kiln_b(void)\n{\n    return 0;\n}\n",
        "ir/y/c.c": C_HEAD + "int kiln_c(void)\n{\n    return kiln_d();\n}\n",
        "ir/x/d.c": C_HEAD + "int kiln_d(void)\n{\n    return 0;\n}\n"},
        "circle of folders"),
    "known circle that is gone": (call_messages, {call_graph.KNOWN_FILE: "x.c y.c\n"},
                                  "no circle has these files"),
    "walk that is cut": (walk_messages, {
        walk.DOCUMENT: walk.TITLE + "\n\n1. `a.c`: `one` and\n2. `b.c`: `two`\n",
        "ir/a.c": C_HEAD + "void one(void)\n{\n}\n",
        "runtime/b.c": C_HEAD + "void two(void)\n{\n}\n"}, "one does not lead to two"),
    "call that cannot fail": (layer_messages, {
        cl_calls.LAYER: C_HEAD + "TAKES(clFlush);\n", "cl_backend/a.c": C_HEAD + "int a(void) { return clFinish(q); }\n"},
        "cl_backend/a.c calls clFinish, which"),
    "fault without a call": (layer_messages, {cl_calls.LAYER: C_HEAD + "table.clFlush = flush;\n"},
                             "lets clFlush fail, which cl_backend does not call"),
    "unfinished merge": (source_rules.merged, {"docs/a.md": "a\n<<<<" "<<< HEAD\nb\n"}, "mark of a merge"),
    "no licence": (source_rules.spdx, {"ir/a.c": "int x;\n"}, "SPDX"),
    "same name twice": (source_rules.unique_basenames, {"ir/arena.c": C_HEAD},
                        "arena.c"),
    "an old contract": (source_rules.contracts,
                        {"base/base.h": HEAD + FREE + "/// Does y. Ownership: none.\nKILN_API int kiln_y(void);\n"},
                        "kiln_y says 'Ownership:', which is the default"),
    "no contract of an installed header": (source_rules.contracts, {
        "base/CMakeLists.txt": HEAD.replace("//", "#") + "arena.c PUBLIC_HEADERS op/one.h)\n",
        "base/op/one.h": HEAD + "KILN_API int kiln_y(void);\n"}, "kiln_y: the head does not say who may call it"),
    "no defaults": (source_rules.contracts,
                    {"ir/ir.h": HEAD + "/// Does y.\nKILN_API int kiln_y(void);\n"},
                    "kiln_y: the head does not say who may call it"),
    "two functions under one paragraph": (source_rules.contracts, {
        "ir/ir.h": HEAD + FREE + "/// Does y.\nKILN_API int kiln_y(void);\nKILN_API int kiln_z(void);\n"},
        "kiln_z has no paragraph directly above it"),
    "a default said again": (source_rules.contracts, {
        "ir/ir.h": HEAD + FREE + "/// Does y. Errors: none.\nKILN_API int kiln_y(void);\n"},
        "kiln_y says 'Errors: none', which is the default"),
    "long header": (source_rules.short_headers, {"ir/long.h": HEAD + "int x;\n" * 400},
                    "long.h has 401 lines"),
    "long header in C++": (source_rules.short_headers, {"ir/long.hpp": HEAD + "int x;\n" * 400},
                           "long.hpp has 401 lines"),
    "many long headers": (source_rules.short_headers,
                          {f"ir/long{i}.h": HEAD + "int x;\n" * 310 for i in range(3)},
                          "one header in ten has more than 311 lines"),
    "many files": (source_rules.short_folders, {f"ir/n{i}.def": HEAD for i in range(25)}, "ir holds 26 files"),
    "a room without a page": (source_rules.room_pages, {"ir/op/a.c": C_HEAD}, "ir/op has no README.md"),
    "banned everywhere": (source_rules.banned_calls,
                          {"cli/a.c": C_HEAD + "void f(char *x) { strcpy(x, x); }\n"}, "strcpy"),
    "raw heap": (source_rules.banned_calls,
                 {"ir/a.c": C_HEAD + "void *f(void) { return malloc(1); }\n"}, "malloc"),
    "library prints": (source_rules.banned_calls,
                       {"ir/a.c": C_HEAD + 'void f(void) { printf("x"); }\n'}, "printf"),
    "unfinished": (source_rules.unfinished, {"ir/a.c": C_HEAD + "// TO" "DO x\n"},
                   "TO" "DO"),
    "no file comment": (source_rules.file_comments, {"ir/a.c": HEAD + "int x;\n"},
                        "a.c"),
    "another dialect": (source_rules.one_dialect, {"ir/a.c": C_HEAD + "/* x */\nint x;\n"}, "ir/a.c"),
    "orphan": (source_rules.orphans, {"ir/orphan.c": C_HEAD}, "orphan.c"),
    "glob": (source_rules.cmake_rules, {"ir/CMakeLists.txt": "file(GLOB x *.c)\n"},
             "globbed"),
    "long line": (source_rules.formatted_text,
                  {"ir/a.c": C_HEAD + "// " + "x" * 100 + "\n"}, "columns"),
    "long line of a page": (source_rules.page_columns,
                            {"docs/a.md": "a " * 61 + "\n"}, "docs/a.md:1: 122 columns"),
    "a page with a lost link": (source_rules.page_paths,
                               {"docs/a.md": "[b](b.md)\n"}, "docs/a.md:1: there is no docs/b.md"),
    "a fuzz target in no row": (source_rules.bad_inputs, {"tests/fuzz/fuzz_x.c": C_HEAD, "SECURITY.md": HEAD},
                                "fuzz_x is in no row"),
    "a row with a lost test": (source_rules.bad_inputs, {"SECURITY.md": "| x | `unit/ir/test_gone` |\n"},
                               "there is no test test_gone"),
    "a page with a lost file": (source_rules.page_paths,
                               {"docs/a.md": "\n`ir/lost.c`\n"}, "docs/a.md:2: there is no ir/lost.c"),
    "unknown environment": (source_rules.environment_names,
                            {"cli/a.sh": "x=${KILN_" "ODD:-1}\n",
                             "base/environment/unknown_names.c": C_HEAD + '"KILN_TEST_",\n'}, "KILN_ODD"),
    "unknown for a script": (source_rules.environment_names,
                             {"dev": "export KILN_TEST_A=1 KILN_" "ODD=1\n",
                              "base/environment/unknown_names.c": C_HEAD + '"KILN_TEST_",\n'}, "KILN_ODD"),
}


def violation_problems(check, extra, words):
    with tempfile.TemporaryDirectory() as folder:
        messages = check(make_tree(folder, extra))
    if not any(words in message for message in messages):
        return [f"expected a message with '{words}', got {messages}"]
    return []


def good_tree_problems():
    with tempfile.TemporaryDirectory() as folder:
        tree = make_tree(folder, {})
        messages = graph_messages(tree) + call_messages(tree)
        for check in source_rules.CHECKS:
            messages += check(tree)
    return messages


def build_object(folder, text, name, *flags):
    source = os.path.join(folder, "x.c")
    with open(source, "w") as file:
        file.write(text)
    path = os.path.join(folder, name)
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, "-o", path, source], check=True)
    return path


def symbol_problems():
    with tempfile.TemporaryDirectory() as folder:
        tree = make_tree(folder, {"ir/ir.h": HEAD + "KILN_API int kiln_missing(void);\n"})
        library = build_object(folder, "int stray(void) { return 0; }\n", "libx.so")
        messages = exported_symbols.library_problems(library, tree, {"base", "ir"})
        messages += exported_symbols.plugin_problems(library)
        for kept in ("# of another\nlibx.so.7\n", "\nlibx.so.1\nkiln_gone\n"):
            library = build_object(folder, "int kiln_new(void) { return 0; }\n", "libx.so", "-Wl,-soname,libx.so.1")
            messages += exported_symbols.kept_problems(library, make_tree(folder, {exported_symbols.KEPT: kept}))
    wanted = ("exports stray", "kiln_missing of ir/ir.h", "does not export kf_plugin_query_v1",
              "is of libx.so.7: begin it anew", "kiln_gone is gone")
    return [f"no message '{w}' in {messages}" for w in wanted
            if not any(w in message for message in messages)]


def header_problems():
    with tempfile.TemporaryDirectory() as folder:
        make_tree(folder, {"ir/bad.h": HEAD + "typedef size_t kiln_x;\n"})
        bad = header_alone.problems(os.path.join(folder, "ir/bad.h"), [])
        good = header_alone.problems(os.path.join(folder, "plugin_sdk/kiln_fuser.h"), [])
    result = [] if len(bad) == len(header_alone.COMPILERS) else [f"bad.h gave {bad}"]
    return result + [f"a good header gave {good}"] * bool(good)


def main():
    cases = {name: violation_problems(*what) for name, what in VIOLATIONS.items()}
    cases["good tree"] = good_tree_problems()
    cases["symbols"] = symbol_problems()
    cases["headers"] = header_problems()
    structure.report("structure/checks_can_fail", cases)


if __name__ == "__main__":
    sys.exit(main())
