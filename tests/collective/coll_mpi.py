#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln coll check` under mpirun of Open MPI and of MPICH, and what the others say when one of four
processes is killed. Launchers that are not installed are skipped, visibly."""
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

KILN = sys.argv[1]
DEVICES = ["-d", "reference:0", "-d", "reference:1"]
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
MPICH = ["mpirun.mpich"]
DEADLINE_S = 4.0
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


class Reader(threading.Thread):
    """The lines of a stream, each with the time at which it came."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream
        self.lines = []
        self.start()

    def run(self):
        for line in self.stream:
            self.lines.append((time.monotonic(), line.rstrip()))


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
        tell("failed", name, f"{len(pids)} processes, first line {first!r}: {job.stderr.read()}")
        return
    errors = Reader(job.stderr)
    killed = time.monotonic()
    os.kill(pids[1], signal.SIGKILL)
    job.stdout.read()
    job.wait(timeout=60)
    errors.join()
    said = [line for line in errors.lines if line[1].startswith("kiln coll:")]
    took = max([line[0] for line in said], default=killed + 1000) - killed
    words = {line[1] for line in said}
    ok = (took < DEADLINE_S + 1 and len(said) == 3 and len(words) == 1
          and any(name in said[0][1] for name in ("rank 2:", "rank 3:")))
    tell("passed" if ok else "failed", name, f"after {took:.2f} s: {errors.lines}")


def main():
    check("open mpi, four processes", OPEN_MPI + ["-np", "4"])
    check("open mpi, three processes", OPEN_MPI + ["-np", "3"])
    check("mpich, four processes", MPICH + ["-np", "4"])
    kill_one("open mpi, one of four is killed", OPEN_MPI + ["--enable-recovery", "-np", "4"])
    print(f"kiln-test: {count['passed']} passed, {count['failed']} failed, "
          f"{count['skipped']} skipped")
    return 1 if count["failed"] else 0


sys.exit(main())
