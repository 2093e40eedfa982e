#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln coll check` under mpirun of Open MPI and of MPICH, and what the others say when one of four
processes is killed. Launchers that are not installed are skipped, visibly."""
import os
import shutil
import signal
import subprocess
import sys
import time

KILN = sys.argv[1]
DEVICES = ["-d", "reference:0", "-d", "reference:1"]
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
MPICH = ["mpirun.mpich"]
DEADLINE_S = 2.0
count = {"passed": 0, "failed": 0, "skipped": 0}


def tell(outcome, name, text=""):
    count[outcome] += 1
    if outcome != "passed":
        print(f"{'FAIL' if outcome == 'failed' else 'SKIP'} collective/mpi {name}\n    {text}")


def environment():
    # Whoever started this test under a launcher is not asked.
    return {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE_"))}


def check(name, command):
    if shutil.which(command[0]) is None:
        tell("skipped", name, f"{command[0]} is not installed")
        return
    done = subprocess.run(command + [KILN, "coll", "check"] + DEVICES, capture_output=True,
                          text=True, timeout=240, env=environment())
    ok = done.returncode == 0 and "cases passed" in done.stdout and "hierarchical  " in done.stdout
    tell("passed" if ok else "failed", name, (done.stdout + done.stderr)[-2000:])


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid:
            found.append(int(entry))
    return sorted(found)


def wait_for_end(pids, limit_s):
    """Seconds until none of the processes runs any more, at most `limit_s`."""
    begin = time.monotonic()
    while time.monotonic() - begin < limit_s:
        states = []
        for pid in pids:
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    states.append(file.read().rsplit(")", 1)[1].split()[0])
            except OSError:
                pass
        if all(state == "Z" for state in states):
            break
        time.sleep(0.02)
    return time.monotonic() - begin


def kill_one(name, command):
    if shutil.which(command[0]) is None:
        tell("skipped", name, f"{command[0]} is not installed")
        return
    arguments = [KILN, "coll", "check", "--seconds", "60", "--deadline", str(int(DEADLINE_S * 1000))]
    job = subprocess.Popen(command + arguments + DEVICES, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, env=environment())
    first = job.stdout.readline()  # the group stands, and calls are under way
    time.sleep(0.5)
    pids = children_of(job.pid)
    if len(pids) != 4:
        job.kill()
        tell("failed", name, f"{len(pids)} processes, first line {first!r}: {job.communicate()[1]}")
        return
    os.kill(pids[1], signal.SIGKILL)
    took = wait_for_end([pids[0]] + pids[2:], DEADLINE_S + 10)
    _, errors = job.communicate(timeout=60)
    said = [line for line in errors.splitlines() if line.startswith("kiln coll:")]
    ok = (took < DEADLINE_S + 1 and len(said) == 3 and len(set(said)) == 1
          and ("rank 2:" in said[0] or "rank 3:" in said[0]))
    tell("passed" if ok else "failed", name, f"after {took:.2f} s: {errors[-2000:]}")


def main():
    check("open mpi, four processes", OPEN_MPI + ["-np", "4"])
    check("open mpi, three processes", OPEN_MPI + ["-np", "3"])
    check("mpich, four processes", MPICH + ["-np", "4"])
    kill_one("open mpi, one of four is killed", OPEN_MPI + ["--enable-recovery", "-np", "4"])
    print(f"kiln-test: {count['passed']} passed, {count['failed']} failed, "
          f"{count['skipped']} skipped")
    return 1 if count["failed"] else 0


sys.exit(main())
