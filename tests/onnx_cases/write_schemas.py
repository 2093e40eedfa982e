#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes onnx_schemas.txt from the schemas of an installed onnx.

usage: write_schemas.py: to standard output
       write_schemas.py --attributes: onnx/ops/onnx_attrs.def, from onnx_schemas.txt and onnx_ops.def
       write_schemas.py --check: compares the file with what would be written, for the operator sets that it has. Exit
status 77: there is no onnx, or none with as many operator sets.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "onnx_schemas.txt")
HEAD = """# SPDX-License-Identifier: MIT OR Apache-2.0
# ONNX's standard domain up to operator set {newest}, as the schemas of ONNX {version} have it; write_schemas.py wrote it:
# an operator, a version at which it came or changed, how many inputs it has (least-most, * where there is no limit),
# `function` where ONNX itself writes it with simpler operators, `deprecated` where it ended, and its attributes.
# tests/onnx_cases/coverage.py holds onnx/ops/onnx_ops.def and the cases against it.
"""


def line_of(schema):
    most = "*" if schema.max_input > 1 << 30 else schema.max_input
    flags = [f"{schema.min_input}-{most}"]
    flags += ["function"] * bool(schema.has_function or schema.has_context_dependent_function)
    flags += ["deprecated"] * bool(schema.deprecated)
    return " ".join([schema.name, str(schema.since_version), *flags, ":", *sorted(schema.attributes)])


def facts(lines):
    """(operator, version) -> the rest, up to a newest operator set. A function body that came later is no change."""
    out = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name, version, rest = line.split(maxsplit=2)
            out[(name, int(version))] = re.sub(" function| deprecated", "", rest).strip()
    return out


ATTRIBUTES = """// SPDX-License-Identifier: MIT OR Apache-2.0
// Which attributes the served operators have in the newest operator set that Kiln knows: KILN_ONNX_ATTRS(type, names).
// In a newer set a node with any other is refused, because then its operator has changed. Operators without attributes
// have no row. Written by tests/onnx_cases/write_schemas.py --attributes; tests/onnx_cases/coverage.py compares.
// clang-format off

"""


def attributes():
    """The text of onnx_attrs.def."""
    newest = {}
    with open(FILE, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                head, names = line.split(":")
                newest[head.split()[0]] = "" if "deprecated" in head else names.strip()  # the last line stays
    with open(os.path.join(HERE, "..", "..", "onnx", "ops", "onnx_ops.def"), encoding="utf-8") as file:
        served = set(re.findall(r"^KILN_ONNX_(?:WAY|UNARY|BINARY|FOLD)\((\w+)", file.read(), re.M))
    rows = [f'KILN_ONNX_ATTRS({name}, "{newest[name]}")' for name in sorted(served) if newest.get(name)]
    return ATTRIBUTES + "\n".join(rows) + "\n\n// clang-format on\n"


def main():
    if sys.argv[1:] == ["--attributes"]:
        print(attributes(), end="")
        return 0
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != os.path.abspath(os.path.join(HERE, "..", ".."))]
    try:
        import onnx
        import onnx.defs
    except ImportError as why:
        print(f"SKIP {why}: pip install onnx")
        return 77
    newest = onnx.defs.onnx_opset_version()
    schemas = sorted((s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""),
                     key=lambda s: (s.name, s.since_version))
    lines = [line_of(s) for s in schemas]
    if len(sys.argv) < 2:
        print(HEAD.format(newest=newest, version=onnx.__version__) + "\n".join(lines))
        return 0
    with open(FILE, encoding="utf-8") as file:
        text = file.read()
    ours = int(re.search(r"up to operator set (\d+)", text)[1])
    if newest < ours:
        print(f"SKIP onnx {onnx.__version__} knows operator sets up to {newest}, the table those up to {ours}: "
              "pip install --upgrade onnx")
        return 77
    have, want = facts(text.splitlines()), {k: v for k, v in facts(lines).items() if k[1] <= ours}
    wrong = sorted(k for k in set(have) | set(want) if have.get(k) != want.get(k))
    for name, version in wrong:
        print(f"FAIL {name} at version {version}: onnx_schemas.txt has '{have.get((name, version))}', onnx has "
              f"'{want.get((name, version))}'")
    print(f"{len(want)} versions of operators up to set {ours} held against onnx {onnx.__version__}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
