#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/soak: a short run of everything that it has, its lines and its picture; and that it does say what grew.
Arguments: build folder, source folder."""
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

from serve_fixture import PATIENCE, UNDER_TSAN, run_cases

BUILD, SOURCE = sys.argv[1:3]
SVG = "{http://www.w3.org/2000/svg}"


def soak(*arguments):
    return subprocess.run(["/usr/bin/python3", f"{SOURCE}/tools/soak", *arguments], capture_output=True, text=True,
                          check=False, timeout=500 * PATIENCE)


def lines_of(path):
    with open(path, encoding="ascii") as file:
        return [json.loads(line) for line in file]


def case_all_of_it(folder):
    """One client of each kind and the training beside a server, for a few seconds."""
    done = soak(BUILD, folder, "--minutes", "0.05", "--device", "reference", "--clients", "5", "--interval", "0.1",
                "--bar", "none")
    assert done.returncode == 0, done.stdout + done.stderr
    samples = lines_of(os.path.join(folder, "samples.jsonl"))
    server = [each for each in samples if each["process"] == "server"]
    assert server and {each["process"] for each in samples} <= {"server", "train"}, samples
    assert all(each["memory_kib"] > 1024 and each["threads"] >= 2 and each["handles"] >= 3 for each in server), server
    assert all(a["seconds"] < b["seconds"] for a, b in zip(server, server[1:]))
    counted = [each["counts"] for each in server if each["counts"]]
    for count in ("plans", "programs", "idle", "program_bytes", "kernels", "heap_used", "sessions"):
        assert counted and all(count in each for each in counted), (count, server)
    assert counted[-1]["plans"] > 0, counted[-1]
    assert UNDER_TSAN or counted[-1]["heap_used"] > 1 << 20, counted[-1]  # ThreadSanitizer's heap counts nothing
    root = xml.etree.ElementTree.parse(os.path.join(folder, "soak.svg")).getroot()
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 3 * len({each["process"] for each in samples}), len(lines)
    for line in lines:
        for x, y in (map(float, point.split(",")) for point in line.get("points").split()):
            assert 70 <= x <= 870 and 30 <= y <= 580, (x, y)


def case_one_kind_alone(folder):
    """Nothing but sessions from the .proto files: no model is asked, no call made, nothing trained."""
    done = soak(BUILD, folder, "--minutes", "0.05", "--device", "reference", "--clients", "2", "--interval", "0.1",
                "--bar", "none", "--only", "frames")
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {what: int(number) for number, what in
              (each.split() for each in done.stdout.splitlines()[0].split(", "))}
    assert counts["sessions"] + counts["cancels"] > 0, counts
    assert not any(counts[what] for what in ("steps", "models", "calls", "runs", "epochs")), counts
    assert {each["process"] for each in lines_of(os.path.join(folder, "samples.jsonl"))} == {"server"}


def judged(folder, bar, **series):
    """What is said of a server whose measures are these functions of the minute, of 100."""
    usual = {"memory_kib": lambda _: 200000, "handles": lambda _: 40, "threads": lambda _: 30}
    path = os.path.join(folder, "lines")
    with open(path, "w", encoding="ascii") as file:
        for minute in range(101):
            values = {name: of(minute) for name, of in {**usual, **series}.items()}
            file.write(json.dumps({"seconds": 60 * minute, "process": "server", **values}) + "\n")
    return soak("--again", path, folder, "--bar", bar)


def case_growth_is_told(folder):
    """What grows after warming up; not what has grown before, nor what comes and goes."""
    assert judged(folder, "1").returncode == 0
    assert judged(folder, "1", memory_kib=lambda minute: 100000 if minute < 5 else 200000).returncode == 0
    assert judged(folder, "1", handles=lambda minute: 40 + minute % 7).returncode == 0
    for measure, of in (("memory_kib", lambda minute: 200000 + 50 * minute), ("handles", lambda minute: 40 + minute),
                        ("threads", lambda minute: 30 + minute // 4)):
        said = judged(folder, "1", **{measure: of})
        assert said.returncode == 1 and f"{measure} of server grew by" in said.stdout, said
    assert judged(folder, "3", memory_kib=lambda minute: 200000 + 50 * minute).returncode == 0


run_cases("unit/remote_grpc/soak_tool", [case_all_of_it, case_one_kind_alone, case_growth_is_told])
