# SPDX-License-Identifier: MIT OR Apache-2.0
"""The promise "a 1.x plugin loads in every 1.y host": sources of an earlier day, built with the headers of that
day by every compiler here, are taken by today's host, win their block and pass its checks. And a host of 1.0, which
is host_1_0.c with the headers of that day, gets along with plugins of today."""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

KILN, ROOT = sys.argv[1:3] # then the samples, as CMake has them
HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = {"draft/frozen_1_0.c": "test.frozen-1-0", "1.0/fuser_1_0.c": "test.fuser-1-0"}
OF_TODAY = {"test_plugins/chain_claims.so": 2, "test_plugins/chain_learns.so": 1, "test_plugins/chain_options.so": 1,
             "plugins/elementwise.so": 1}
MODEL = os.path.join(ROOT, "plugin_sdk/template/example.onnx")


def run(command, cache):
    env = {**os.environ, "KILN_CACHE_DIR": cache, "KILN_TUNE": "off"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)


def build(compiler, source, plugin, *more):
    """Only the source's folder is searched: a header of today would not be found."""
    built = run([compiler, "-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,defs", *more, source,
                 "-o", plugin], os.path.dirname(plugin))
    return built.stderr[:500] if built.returncode else None


def draft(folder):
    """Writes the files of the draft: those of 1.0 with the differences in draft.diff, to the byte as they were."""
    with open(os.path.join(HERE, "draft.diff"), encoding="utf-8") as file:
        parts = re.split(r"(?m)^file (\S+) from (\S+) sha256 (\w+)\n", file.read())[1:]
    os.makedirs(folder)
    for name, origin, digest, hunks in zip(*[iter(parts)] * 4):
        with open(os.path.join(HERE, "1.0", origin), encoding="utf-8") as file:
            old = file.read().splitlines(keepends=True)
        new, at = [], 0
        for first, count, lines in re.findall(r"(?m)^@@ -(\d+)(?:,(\d+))? \+\S+ @@.*\n((?:[-+].*\n)*)", hunks):
            n_old = int(count or 1)
            begin = int(first) - (n_old > 0)
            new += old[at:begin] + [line[1:] for line in lines.splitlines(keepends=True) if line[0] == "+"]
            at = begin + n_old
        text = "".join(new + old[at:]).encode()
        assert hashlib.sha256(text).hexdigest() == digest, f"{name} is not as it was written"
        with open(os.path.join(folder, name), "wb") as file:
            file.write(text)


def problem(compiler, name, work):
    plugin = os.path.join(work, f"{compiler}-{os.path.basename(name)}.so")
    failed = build(compiler, os.path.join(work if name.startswith("draft/") else HERE, name), plugin)
    if failed:
        return failed
    listed = run([KILN, "plugin", "list", "--plugin", plugin], work)
    if SAMPLES[name] not in listed.stdout:
        return f"not taken: {listed.stdout}{listed.stderr}"
    told = run([KILN, "explain", MODEL, "--plugin", plugin], os.path.join(work, "cache"))
    if f"winner    {SAMPLES[name]}/frozen" not in told.stdout:
        return f"does not win: {told.stdout[:800]}{told.stderr}"
    checked = run([KILN, "plugin", "check", "--level", "4", plugin], work)
    return checked.stdout if checked.returncode else None


def old_host_problem(compiler, work):
    """Today's plugins that have what 1.0 has not, and one that ships, in the host of 1.0."""
    host, lib = os.path.join(work, f"{compiler}-host"), os.path.join(os.path.dirname(KILN), "../lib/kiln")
    built = run([compiler, "-std=c11", "-O1", f"-I{HERE}/1.0", os.path.join(HERE, "host_1_0.c"), "-o", host, "-ldl"],
                work)
    if built.returncode:
        return built.stderr[:500]
    for plugin, variants in OF_TODAY.items():
        done = run([host, os.path.join(lib, plugin)], work)
        if done.returncode or done.stdout != f"{variants} variants\n":
            return f"{plugin}: {done.returncode} {done.stdout}{done.stderr}"
    return None


def structs(layout):
    """Name: size, alignment, fields in order."""
    found, name = {}, None
    for line in layout.splitlines():
        head = re.match(r"(\w+) size (\d+) align (\d+)$", line)
        if head:
            name = head.group(1)
            found[name] = [int(head.group(2)), int(head.group(3)), []]
        elif line.startswith("  "):
            found[name][2].append(line)
    return found


def layout_problem(kiln, work):
    """Is every struct of 1.0 the beginning of the host's, and a frozen one all of it?"""
    with open(os.path.join(HERE, "1.0/layout.txt"), encoding="utf-8") as file:
        old = structs(file.read())
    with open(os.path.join(HERE, "1.0/kiln_fuser_v1_0.h"), encoding="utf-8") as file:
        frozen = re.findall(r"^typedef struct (kf_\w+) \{ // frozen", file.read(), re.M)
    new = structs(run([kiln, "plugin", "abi"], work).stdout)
    if len(old) < 20 or len(frozen) < 8:
        return f"only {len(old)} structs, {len(frozen)} of them frozen"
    old.pop("kf_note")  # the ELF note's own layout: the manifest is its last field
    for name, (size, align, fields) in old.items():
        now = new.get(name, [0, 0, []])
        if now[0] < size or now[1] != align or now[2][:len(fields)] != fields:
            return f"{name} of 1.0 is no beginning of today's: {fields} {now}"
        if name in frozen and now != [size, align, fields]:
            return f"{name} is frozen and has changed: {now}"
    return None


def main():
    compilers = [c for c in ("gcc", "clang-14") if shutil.which(c)]
    with tempfile.TemporaryDirectory(prefix="kiln-frozen-") as work:
        draft(os.path.join(work, "draft"))
        problems = {f"{name} by {c}": problem(c, name, work) for c in compilers for name in SAMPLES}
        problems |= {f"host by {c}": old_host_problem(c, work) for c in compilers}
        problems["layout"] = layout_problem(KILN, work)
    for case, text in problems.items():
        if text:
            print(f"FAIL frozen {case}: {text}")
    failed = sum(1 for text in problems.values() if text)
    print(f"kiln-test: {len(problems) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not compilers else 0


if __name__ == "__main__":
    sys.exit(main())
