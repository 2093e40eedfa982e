#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Disks that are full, broken or slow, and processes that are killed while they write.

io_faults.py KILN TREE IO_FAULTS [CASES]. The k-th call of the system about a file below a folder fails, once or from
then on. What a user asked for either is there and right or is told as lost; the cache is never worth more than a
message. A few k of each kind by default, with KILN_TEST_LONG=1 every k, of a smaller model where the cache is tried."""
import array
import filecmp
import functools
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

KILN, TREE, IO_FAULTS = sys.argv[1:4]
sys.path.append(os.path.join(TREE, "tests", "structure"))
import structure  # noqa: E402

MODEL = os.path.join(TREE, "examples/digits/digits.onnx")
INPUT = os.path.join(TREE, "examples/digits/three.npy")
LONG = os.environ.get("KILN_TEST_LONG") == "1"
KINDS = ("ENOSPC", "EIO", "EINTR", "short")
WORDS = {"ENOSPC": "No space left on device", "EIO": "Input/output error", "EINTR": "Interrupted system call"}
REPLACED = ("y.npy", "y.npz", "t.json")  # files that take the place of what was there when they are whole
RANDOM = random.Random(1)
# Ten programs, or one: what is written is of the same kinds.
CACHED = (os.path.join(TREE, "plugin_sdk/template/example.onnx"), "--random") if LONG else (MODEL, "--input", INPUT)


def under(kind, k, folder, *command, **environment):
    """Runs a command on that disk: (exit status, standard error, calls)."""
    try:
        done = subprocess.run([IO_FAULTS, kind, str(k), folder + "/", *command], capture_output=True, text=True,
                              check=False, env={**os.environ, **environment}, timeout=300)
    except subprocess.TimeoutExpired:
        return 124, "it does not end", 0
    lines = done.stderr.splitlines()
    if done.returncode == 125 or not lines or not lines[-1].startswith("io_faults: "):
        raise AssertionError(f"io_faults itself: {done.returncode} {done.stderr}")
    return done.returncode, "\n".join(lines[:-1]), int(lines[-1].split()[1])


def chosen(calls, few):
    """Which calls fail: all of them, or the first, the last and some between."""
    if LONG or calls <= few:
        return list(range(1, calls + 1))
    return sorted({1, calls, *RANDOM.sample(range(2, calls), few - 2)})


def is_whole(path, whole):
    """A trace and a page have times in them, and so no two are equal."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".json"):
        return len(json.loads(data)["traceEvents"]) > 0
    if path.endswith(".html"):
        return data.rstrip().endswith(b"</html>")
    return filecmp.cmp(path, whole, shallow=False)


def output_case(folder, name, arguments):
    """A file that the user asked for, on a disk that fails: (problems, tries)."""
    bad, tries = [], 0
    whole, path = os.path.join(folder, "whole-" + name), os.path.join(folder, "out", name)
    os.mkdir(os.path.dirname(path))
    command = [KILN, *arguments, path]
    code, said, calls = under("count", 0, os.path.dirname(path), *command, KILN_CACHE_DIR="off")
    assert code == 0 and calls > 0, f"{name}: without a fault {code}, {calls} calls: {said}"
    shutil.move(path, whole)
    for kind in KINDS:
        for k in chosen(calls, 2):
            for again in ("", "+"):
                tries += 1
                shutil.copy(INPUT, path)
                where = f"{name}, {kind} at {k}{again} of {calls}"
                code, said, _ = under(kind, f"{k}{again}", os.path.dirname(path), *command, KILN_CACHE_DIR="off")
                if code == 0 and not is_whole(path, whole):
                    bad.append(f"{where}: it says that all is well, and the file is wrong")
                elif code == 1 and name in REPLACED and not filecmp.cmp(path, INPUT, shallow=False):
                    bad.append(f"{where}: what was there before is lost")
                elif code not in (0, 1):
                    bad.append(f"{where}: ends with {code}: {said}")
                elif code == 1 and WORDS.get(kind, "") not in said:
                    bad.append(f"{where}: the cause is not told: {said}")
                elif kind == "short" and again == "" and code != 0:
                    bad.append(f"{where}: the rest could have been written: {said}")
                left = [f for f in os.listdir(os.path.dirname(path)) if f != name]
                if left:
                    bad.append(f"{where}: leaves {left}")
                for file in os.listdir(os.path.dirname(path)):
                    os.remove(os.path.join(os.path.dirname(path), file))
    os.rmdir(os.path.dirname(path))
    return bad, tries


def outputs(folder):
    """Results, traces, pages."""
    bad, tries = [], 0
    run = ["run", MODEL, "--input", INPUT, "--device", "reference"]
    for name, arguments in (("y.npy", [*run, "--output"]), ("y.npz", [*run, "--output"]),
                            ("t.json", [*run, "--trace"]),
                            ("page.html", ["explain", MODEL, "--device", "reference", "--html"])):
        more, count = output_case(folder, name, arguments)
        bad += more
        tries += count
    return bad, tries


def numbers_of(path):
    """The numbers of a .npy file of f32."""
    with open(path, "rb") as file:
        data = file.read()
    return array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])


def agree(path, wanted):
    """Programs that win on another day add up in another order (docs/numerics.md), so bits may differ."""
    mine, theirs = numbers_of(path), numbers_of(wanted)
    return len(mine) == len(theirs) and all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-4)
                                            for a, b in zip(mine, theirs))


def cached_run(folder, kind, k):
    """A run with its cache below the folder: (problem or None, calls)."""
    out = os.path.join(folder, "y.npy")
    cache = os.path.join(folder, "cache")
    code, said, calls = under(kind, k, cache, KILN, "run", *CACHED, "--output", out, KILN_CACHE_DIR=cache)
    wanted = os.path.join(folder, "want.npy")
    if code == 0 and not os.path.exists(wanted):
        shutil.move(out, wanted)
    elif kind == "kill" and code == 137:
        return None, calls
    elif code != 0:
        return f"{kind} at {k}: the run ends with {code}: {said}", calls
    elif not agree(out, wanted):
        return f"{kind} at {k}: another result", calls
    return None, calls


def numbers(kind, calls, few):
    """Which calls fail, and how: once, or from then on. A signal that always interrupts is no fault of a disk, and
    SQLite would wait for ever."""
    if kind == "kill":
        return [str(RANDOM.randint(1, calls)) for _ in range(200 if LONG else few)]
    chose = chosen(calls, few) if few > 1 or LONG else [RANDOM.randint(1, calls)]
    if kind == "EINTR":
        return [str(k) for k in chose]
    return [f"{k}{again}" for k in chose for again in (("", "+") if LONG else (RANDOM.choice(("", "+")),))]


def cache(folder, kind, few):
    """The program runs whatever becomes of its cache, and so does the next one with what is left. Writes fail while an
    empty cache is filled, reads of one that is full; one in three kills comes to an empty one."""
    bad, tries = [], 0
    own, full = os.path.join(folder, "cache"), os.path.join(folder, "full")
    problem, calls = cached_run(folder, "count", 0)
    assert problem is None and calls > 0, problem or "nothing was written to the cache"
    shutil.copytree(own, full)
    if kind == "read":
        problem, calls = cached_run(folder, "read", 0)
        assert problem is None and calls > 0, problem or "nothing was read from the cache"
    for k in numbers(kind, calls, few):
        if kind != "kill" or tries % 3 == 0:
            shutil.rmtree(own, ignore_errors=True)
        if kind == "read":
            shutil.copytree(full, own)
        tries += 1
        problems = [cached_run(folder, kind, k)[0]]
        if kind in ("kill", "read"):
            problems.append(cached_run(folder, "count", 0)[0])
        bad += [p for p in problems if p is not None]
    return bad, tries


def bundle(folder):
    """Files of a bundle that cannot be read, and that are cut short while they are: told, with the file."""
    bad, tries = [], 0
    own, whole = os.path.join(folder, "bundle"), os.path.join(folder, "whole")
    wanted, out = os.path.join(folder, "want.npy"), os.path.join(folder, "y.npy")
    command = [KILN, "run", own, "--input", INPUT, "--output"]
    subprocess.run([KILN, "bundle", MODEL, "--input", INPUT, "-o", whole], check=True, capture_output=True, timeout=900)

    def run(kind, k, result):
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(whole, own)
        return under(kind, k, own, *command, result, KILN_CACHE_DIR="off")

    code, said, calls = run("read", 0, wanted)
    assert code == 0 and calls > 0, f"a bundle without a fault: {code}, {calls} calls: {said}"
    for kind, again in (("read", ""), ("read", "+"), ("cut", "")):
        for k in chosen(calls, 4):
            tries += 1
            where = f"{kind} at {k}{again} of {calls}"
            code, said, _ = run(kind, f"{k}{again}", out)
            if code not in (0, 1):
                bad.append(f"{where}: ends with {code}: {said}")
            elif code == 0 and not agree(out, wanted):
                bad.append(f"{where}: another result")
            elif code == 1 and own not in said:
                bad.append(f"{where}: the file is not told: {said}")
    return bad, tries


def inputs(folder):
    """Arrays of an archive that cannot be read, and that are cut short while they are: told, with the file."""
    bad, tries = [], 0
    own, out = os.path.join(folder, "in"), os.path.join(folder, "y.npy")
    os.mkdir(own)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        whole, given = os.path.join(folder, "whole.npz"), os.path.join(own, "x.npz")
        with zipfile.ZipFile(whole, "w", method) as archive:
            archive.write(INPUT, "image.npy")
        command = [KILN, "run", MODEL, "--device", "reference", "--input", given, "--output", out]
        shutil.copy(whole, given)
        code, said, calls = under("read", 0, own, *command, KILN_CACHE_DIR="off")
        assert code == 0 and calls > 0, f"an archive without a fault: {code}, {calls} calls: {said}"
        for kind, again in (("read", ""), ("read", "+"), ("cut", "")):
            for k in range(1, calls + 1):
                tries += 1
                shutil.copy(whole, given)
                code, said, _ = under(kind, f"{k}{again}", own, *command, KILN_CACHE_DIR="off")
                if code != 1 or given not in said or WORDS["EIO"] not in said and kind == "read":
                    bad.append(f"{kind} at {k}{again} of {calls}, method {method}: ends with {code}: {said}")
    return bad, tries


def nowhere(folder):
    """Devices that are full, folders that are none, descriptors that are closed."""
    bad = []
    run = [KILN, "run", MODEL, "--input", INPUT, "--device", "reference"]

    def expect(what, command, code, part, **options):
        done = subprocess.run(command, capture_output="stdout" not in options, text=True, check=False, timeout=300,
                              **options)
        if done.returncode != code or part not in (done.stderr or ""):
            bad.append(f"{what}: ends with {done.returncode}, says {done.stderr!r}")

    for option in ("--output", "--trace"):
        expect(f"{option} /dev/full", [*run, option, "/dev/full"], 1, WORDS["ENOSPC"])
        expect(f"{option} below /proc", [*run, option, "/proc/kiln/x.npy"], 1, "No such file or directory")
        expect(f"{option} to a folder", [*run, option, folder], 1, "is a folder")
    expect("a cache below /proc", [KILN, "run", MODEL, "--input", INPUT], 0, "",
           env={**os.environ, "KILN_CACHE_DIR": "/proc/kiln"})
    for closed in ("1>&-", "2>&-", "0<&-"):
        done = subprocess.run(["/bin/sh", "-c", f'"$@" {closed}', "sh", *run], capture_output=True, text=True,
                              check=False, timeout=300)
        if done.returncode != (1 if closed[0] == "1" else 0):
            bad.append(f"{closed}: ends with {done.returncode}: {done.stderr}")
    return bad, 10


# What is tried: the name of a case, and what gives (problems, tries) in a folder.
CASES = {"outputs": outputs, "inputs": inputs, "nowhere": nowhere, "bundle": bundle,
         **{f"cache-{kind}": functools.partial(cache, kind=kind, few=few)
            for kind, few in (("ENOSPC", 2), ("EIO", 2), ("EINTR", 1), ("short", 1), ("read", 2), ("kill", 10))}}


def main():
    cases = {}
    probe = subprocess.run([IO_FAULTS, "count", "0", "/", "/bin/true"], capture_output=True, text=True, check=False)
    if probe.returncode == 125:
        structure.report("faults/io", {name: probe.stderr.strip() for name in CASES})
    for name, function in CASES.items():
        if len(sys.argv) > 4 and name not in sys.argv[4:]:
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                bad, tries = function(folder)
            except AssertionError as error:
                bad, tries = [str(error)], 0
            cases[f"{name} ({tries} faults)"] = bad
        print(f"    {name}: {tries} faults, {len(bad)} problems, {time.monotonic() - begun:.0f} s", flush=True)
    structure.report("faults/io", cases)


if __name__ == "__main__":
    main()
