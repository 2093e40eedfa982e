#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The simulation of many clients, in small: test_scaling.py KILN ROOT. What it must give whatever the costs are, and
that costs can be measured."""
import json
import os
import subprocess
import sys

KILN, ROOT = os.path.abspath(sys.argv[1]), sys.argv[2]
SCRIPT = os.path.join(ROOT, "bench/scaling.py")
SERVERS = 4
PLACES = 64  # for sessions, at each
cases = []


def case(function):
    cases.append(function)
    return function


def run(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=500,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def simulate(*arguments):
    return json.loads(run("--servers", str(SERVERS), "--seconds", "0.1", "--json", *arguments))


@case
def the_same_again():
    assert simulate("--clients", "40") == simulate("--clients", "40")
    assert simulate("--clients", "40") != simulate("--clients", "40", "--seed", "2")


@case
def no_more_than_servers_can():
    said = simulate("--clients", "100")
    most = SERVERS * said["held"]["capacity_per_s"]
    rows = {(row["load"], row["spread"]): row for row in said["models"]}
    for row in said["models"]:
        assert 0 < row["answered"] <= row["asked"] and row["per_s"] <= 1.02 * most, row
        assert row["p50_us"] <= row["p99_us"] and 1 <= row["rows"] <= 32, row
    for spread in ("round_robin", "random"):
        assert rows[1.2, spread]["p50_us"] > 2 * rows[0.3, spread]["p50_us"], rows
        assert rows[1.2, spread]["rows"] > rows[0.3, spread]["rows"], rows


@case
def every_client_has_a_session():
    said = simulate("--clients", "100")
    for row in said["sessions"]:
        ended = row["what"].startswith("and")
        assert row["refused"] == 0 and row["least"] <= row["most"] <= PLACES, row
        assert ended or row["opened"] == 100, row
    slow = [row for row in said["sessions"] if row["what"] == "opened within 10 s" and row["asks"] > SERVERS]
    assert slow and slow[0]["most"] - slow[0]["least"] <= 2, slow


@case
def as_many_as_there_are_places():
    said = simulate("--clients", str(SERVERS * PLACES + 10))
    for row in said["sessions"]:
        if not row["what"].startswith("and"):
            assert (row["refused"], row["most"]) == (10, PLACES), row
    assert said["held"]["servers_needed"] == SERVERS + 1


@case
def costs_are_measured():
    build = os.path.dirname(os.path.dirname(KILN))
    costs = json.loads(run("--measure", build, "--device", "reference", "--calls", "4"))
    assert set(costs) == {"call_us", "run_us", "row_us", "info_us", "session_us", "session_kib", "network_us"}, costs
    assert all(value >= 0 for value in costs.values()), costs


def main():
    failed = 0
    for each in cases:
        try:
            each()
        except (AssertionError, ValueError, KeyError, OSError, subprocess.TimeoutExpired) as why:
            failed += 1
            print(f"FAIL unit/bench/scaling {each.__name__}\n    {str(why)[:2000]}", flush=True)
    print(f"kiln-test: {len(cases) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
