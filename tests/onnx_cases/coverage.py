#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds the importer against ONNX's own schemas (onnx_schemas.txt): every operator is served at every version or refused
with a reason; a row takes as many inputs as its versions have; every attribute is asked for by the handler, or by what
it calls, or stands in the table with a reason; and every version from 18 on has a case of our own (make_cases.py).
Of operators in no standard (onnx_contrib.def) it asks for a case and for readers of the attributes.

usage: coverage.py
"""
import os
import re
import subprocess
import sys
import tempfile

import write_schemas

HERE = os.path.dirname(os.path.abspath(__file__))
ONNX = os.path.join(HERE, "..", "..", "onnx")
NEWEST, DEBIANS = 28, 17  # of ours; of libonnx-testdata, which has cases up to it


def schemas(text):
    """[(operator, version, flags, attributes)], the first flag its numbers of inputs"""
    out = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            head, attributes = line.split(":")
            name, version, *flags = head.split()
            out.append((name, int(version), flags, attributes.split()))
    return out


def limit(word):
    return float("inf") if word in ("*", "MANY") else int(word)


def table(text):
    """Rows [(operator, first, last, handler, inputs)], the refused, and the attributes that nobody reads."""
    rows = [(m[1], int(m[2]), int(m[3]), m[6], (int(m[4]), limit(m[5]))) for m in re.finditer(
        r"^KILN_ONNX_WAY\((\w+),\s*(\d+),\s*(\d+),\s*(\d+),\s*(\w+),\s*(\w+)\)", text, re.M)]
    simple = {"UNARY": ("unary", (1, 1)), "BINARY": ("binary", (2, 2)), "FOLD": ("variadic", (1, limit("MANY")))}
    rows += [(m[2], 1, NEWEST, *simple[m[1]]) for m in re.finditer(
        r"^KILN_ONNX_(UNARY|BINARY|FOLD)\((\w+),\s*\w+\)", text, re.M)]
    refused = re.findall(r"^KILN_ONNX_REFUSED\((\w+),", text, re.M)
    unread = re.findall(r"^KILN_ONNX_UNREAD\((\w+),\s*(\w+),", text, re.M)
    return rows, set(refused), set(unread)


def contributed(text):
    """[(domain:operator, handler, attributes)], and the attributes that nobody reads."""
    found = re.findall(r'^KILN_ONNX_(MICROSOFT|CONTRIB|ML)\((?:"([\w.]*)", )?(\w+),.*, (\w+), "([^"]*)"\)$', text, re.M)
    domains = {"MICROSOFT": "com.microsoft", "ML": "ai.onnx.ml"}
    rows = [(f"{domains.get(family, domain)}:{name}", handler, attributes.split())
            for family, domain, name, handler, attributes in found]
    return rows, set(re.findall(r"^KILN_ONNX_UNREAD\((\w+),\s*(\w+),", text, re.M))


MAPS = {"ai.onnx.ml:ZipMap", "ai.onnx.ml:DictVectorizer", "ai.onnx.ml:CastMap"}  # no file of a case holds a map:
# tests/unit/onnx/test_onnx_text.c has them


def contributed_problems(rows, unread, known, cases):
    found = []
    for name, handler, attributes in rows:
        found += [] if name in cases | MAPS else [f"{name} has no case"]
        for attribute in attributes:
            if (attribute not in texts_of(known, handler)) != ((name.split(":")[1], attribute) in unread):
                found.append(f"{name}: attribute {attribute} has no reader, or one and stands among those without")
    return found


def functions(folder):
    """(file, function) -> its text; a name alone finds a function that other files see."""
    out = {}
    for at, name in sorted((at, name) for at, _, names in os.walk(folder) for name in names):
        if name.endswith(".c"):
            with open(os.path.join(at, name), encoding="utf-8") as file:
                text = file.read()
            for m in re.finditer(r"^(static )?[\w ]+\**\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", text, re.M | re.S):
                out[(name if m[1] else "", m[2])] = (name, m[3])
    return out


def texts_of(known, handler):
    """Every literal in a handler and in what it calls. `known` keeps the answer."""
    answer = ("answer", handler)
    if answer not in known:
        known[answer] = texts_in(known, handler)
    return known[answer]


def texts_in(known, handler):
    todo, done, literals = [("", "kilni_onnx_op_" + handler)], set(), set()
    while todo:
        key = todo.pop()
        if key in done or key not in known:
            continue
        done.add(key)
        file, body = known[key]
        literals |= set(re.findall(r'"(\w+)"', body))
        for name in re.findall(r"\b([a-z]\w+)\b", body):
            todo += [(file, name), ("", name)]
    return literals


def inputs_of(facts, row):
    """The range over the versions that a row serves."""
    found = []
    for name, version, flags, _ in facts:
        end = min([v for n, v, _, _ in facts if n == name and v > version], default=NEWEST + 1) - 1
        if name == row[0] and "deprecated" not in flags and version <= row[2] and end >= row[1]:
            found.append([limit(word) for word in flags[0].split("-")])
    return min((f[0] for f in found), default=0), max((f[1] for f in found), default=0)


def problems(facts, rows, refused, unread, known, cases):
    found = []
    names = {name for name, _, _, _ in facts}
    found += [f"onnx_ops.def has {name}, which ONNX has not" for name in
              sorted({r[0] for r in rows} | refused) if name not in names]
    found += [f"{r[0]} from version {r[1]} on takes {r[4]} inputs, which ONNX says otherwise: {inputs_of(facts, r)}"
              for r in rows if r[0] in names and r[4] != inputs_of(facts, r)]
    literals = {row[3]: texts_of(known, row[3]) for row in rows}
    read = set()
    for name, version, flags, attributes in facts:
        end = min([v for n, v, _, _ in facts if n == name and v > version], default=NEWEST + 1) - 1
        if name in refused or "deprecated" in flags:
            continue
        for at in range(version, end + 1):
            serving = [r for r in rows if r[0] == name and r[1] <= at <= r[2]]
            if len(serving) != 1:
                found.append(f"{name} at version {at} is served by {len(serving)} rows")
            for attribute in attributes:
                pairs = {(name, attribute), ("_", attribute)} & unread
                read |= pairs
                if not pairs and serving and attribute not in literals[serving[0][3]]:
                    found.append(f"{name} at version {at}: nobody asks for attribute {attribute}")
        if version > DEBIANS and (name, version) not in cases:
            found.append(f"{name} has no case of version {version}")
    found += [f"KILN_ONNX_UNREAD({a}, {b}): no such attribute" for a, b in sorted(unread - read)]
    return found


def cases_of(facts, folder):
    """(operator, version) of each node in the cases."""
    out = set()
    with open(os.path.join(folder, "operators.txt"), encoding="utf-8") as file:
        for name, opset in (line.split() for line in file):
            out.add((name, max([v for n, v, _, _ in facts if n == name and v <= int(opset)], default=0)))
    return out


def main():
    with open(os.path.join(HERE, "onnx_schemas.txt"), encoding="utf-8") as file:
        facts = schemas(file.read())
    with open(os.path.join(ONNX, "ops", "onnx_ops.def"), encoding="utf-8") as file:
        rows, refused, unread = table(file.read())
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.executable, "-B", os.path.join(HERE, "make_cases.py"), folder], check=False)
        if made.returncode == 77:
            print("kiln-test: 0 passed, 0 failed, 1 skipped")
            return 0
        cases = cases_of(facts, folder) if made.returncode == 0 else set()
        with open(os.path.join(folder, "domains.txt"), encoding="utf-8") as file:
            tried = set(file.read().split())
    rest = (functions(ONNX), cases)
    found = problems(facts, rows, refused, unread, *rest)
    with open(os.path.join(ONNX, "ops", "onnx_contrib.def"), encoding="utf-8") as file:
        more, silent = contributed(file.read())
    found += contributed_problems(more, silent, rest[0], tried)
    with open(os.path.join(ONNX, "ops", "onnx_attrs.def"), encoding="utf-8") as file:
        if file.read() != write_schemas.attributes():
            found.append("onnx_attrs.def is stale: write_schemas.py --attributes writes it")
    # the check can fail: one row, one attribute, one case, one refusal less
    blind = [what for what, less in (
        ("a row", problems(facts, [r for r in rows if r[0] != "Gelu"], refused, unread, *rest)),
        ("an attribute", problems(facts + [("Gelu", 20, ["1-1"], ["nonesuch"])], rows, refused, unread, *rest)),
        ("an input", problems(facts, [(*r[:4], (1, 2)) if r[0] == "Gelu" else r for r in rows], refused, unread, *rest)),
        ("a case", problems(facts, rows, refused, unread, rest[0], cases - {("Gelu", 20)})),
        ("a refusal", problems(facts, rows, refused - {"ImageDecoder"}, unread, *rest)),
        ("a case of a row in no standard", contributed_problems(more, silent, rest[0], tried - {more[0][0]}) + found),
        ("its attribute", contributed_problems([(*more[0][:2], ["nonesuch"])], silent, rest[0], tried) + found),
    ) if len(less) <= len(found)]
    for line in found + [f"the check does not see that {what} is missing" for what in blind]:
        print("FAIL", line)
    served = sum(1 for name, _, flags, _ in facts if name not in refused and "deprecated" not in flags)
    print(f"{len(facts)} versions of {len({f[0] for f in facts})} operators: {served} served, "
          f"{sum(1 for f in facts if f[0] in refused)} refused, {sum(1 for f in facts if 'deprecated' in f[2])} ended")
    failed = bool(found or blind)
    print(f"kiln-test: {int(not failed)} passed, {int(failed)} failed, 0 skipped")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
