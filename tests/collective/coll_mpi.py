#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln coll check` under mpirun of Open MPI and of MPICH, groups and jobs again and again in one
process, and what the others say when one of four processes is killed; and without MPI: nothing is
linked with it, and who asks for it reads why not. Launchers that are not installed are skipped,
visibly."""
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

KILN = os.path.realpath(sys.argv[1])
NO_MPI = sys.argv[2]  # preloaded, it hides MPI
AGAIN = sys.argv[3]  # mpi_again.c
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
                          text=True, timeout=600, env=environment())
    ok = done.returncode == 0 and "cases passed" in done.stdout and "hierarchical  " in done.stdout
    tell("passed" if ok else "failed", name, (done.stdout + done.stderr)[-2000:])


def again(name, command, processes=2, arguments=()):
    """Each process says that all went well; without a failure the launcher agrees."""
    if shutil.which(command[0]) is None:
        tell("skipped", name, f"{command[0]} is not installed")
        return
    done = subprocess.run([*command, "-np", str(processes), AGAIN, *arguments], capture_output=True,
                          text=True, timeout=600, env=environment())
    ended = done.returncode == 0 or "failing" in arguments
    ok = done.stdout.count("again: ok\n") == processes and ended
    tell("passed" if ok else "failed", name, (done.stdout + done.stderr)[-2000:])


def ranks_of(pid):
    """The processes of Kiln that a launcher started, or its proxies."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                parents[int(entry)] = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found = []
    for process, parent in parents.items():
        while parent in parents and parent != pid:
            parent = parents[parent]
        try:
            if parent == pid and os.readlink(f"/proc/{process}/exe") == KILN:
                found.append(process)
        except OSError:
            continue
    return sorted(found)


def place_of(pid):
    """Which of the launcher's processes it is."""
    with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
        found = dict(item.split("=", 1) for item in file.read().split("\0") if "=" in item)
    return int(found.get("OMPI_COMM_WORLD_RANK", found.get("PMI_RANK", -1)))


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


def kill_one(name, command, tries=3):
    if shutil.which(command[0]) is None:
        tell("skipped", name, f"{command[0]} is not installed")
        return
    arguments = [KILN, "coll", "check", "--seconds", "60", "--deadline", str(int(DEADLINE_S * 1000))]
    job = subprocess.Popen(command + arguments + DEVICES, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, env=environment())
    first = job.stdout.readline()  # the group stands, and calls are under way
    time.sleep(0.5)
    pids = ranks_of(job.pid)
    if len(pids) != 4:
        job.kill()
        tell("failed", name, f"{len(pids)} processes, first line {first!r}: {job.stderr.read()}")
        return
    ranks = [f"rank {2 * place_of(pids[1]) + i}:" for i in range(2)]  # two devices in each
    errors = Reader(job.stderr)
    killed = time.monotonic()
    os.kill(pids[1], signal.SIGKILL)
    job.stdout.read()
    job.wait(timeout=60)
    errors.join()
    if tries > 1 and any("process_vm_readv" in line[1] for line in errors.lines):
        # UCX, below MPICH, ends who is just reading the killed process's memory.
        print(f"{name}: UCX ended a survivor, tried again")
        kill_one(name, command, tries - 1)
        return
    said = [line for line in errors.lines if line[1].startswith("kiln coll:")]
    took = max([line[0] for line in said], default=killed + 1000) - killed
    words = {line[1] for line in said}
    ok = (took < DEADLINE_S + 1 and len(said) == 3 and len(words) == 1
          and any(name in said[0][1] for name in ranks))
    tell("passed" if ok else "failed", name, f"after {took:.2f} s: {errors.lines}")


def without(name, signs, expected):
    """No MPI can be found; `signs` say which launcher it would be."""
    done = subprocess.run([KILN, "coll", "check"] + DEVICES, capture_output=True, text=True,
                          timeout=600, env={**environment(), **signs, "LD_PRELOAD": NO_MPI})
    if expected is None:
        ok = done.returncode == 0 and "cases passed" in done.stdout
    else:
        ok = done.returncode == 1 and done.stderr.strip() == f"kiln coll: {expected}"
    tell("passed" if ok else "failed", name, f"{done.returncode} {done.stdout}{done.stderr}"[-2000:])


def not_linked():
    libraries = os.path.join(os.path.dirname(KILN), "..", "lib")
    files = [KILN] + [os.path.join(libraries, file) for file in sorted(os.listdir(libraries))
                      if file.startswith("libkiln") and file.endswith(".so")]
    bad = []
    for file in files:
        said = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said.stdout)
        bad += [f"{file}: {name}" for name in needed if re.match("lib(open-)?(mpi|mpich|pmi)", name)]
        bad += [] if needed else [f"{file}: nothing is needed"]
    ok = not bad and any("libkiln_mpi.so" in file for file in files)
    tell("passed" if ok else "failed", "nothing is linked with MPI", f"{bad} {files}")


def main():
    not_linked()
    without("without MPI", {}, None)
    without("without MPI, as under Open MPI", {"OMPI_COMM_WORLD_SIZE": "2"},
            "this process was started by Open MPI, whose library libmpi.so.40 is not installed")
    without("without MPI, as under MPICH", {"PMI_SIZE": "2"},
            "this process was started by MPICH, whose library libmpich.so.12 is not installed")
    check("open mpi, four processes", OPEN_MPI + ["-np", "4"])
    check("open mpi, three processes", OPEN_MPI + ["-np", "3"])
    check("mpich, four processes", MPICH + ["-np", "4"])
    again("open mpi, again and again", OPEN_MPI)
    again("mpich, again and again", MPICH)
    again("open mpi, three processes once", OPEN_MPI, 3, ["once"])
    again("mpich, three processes once", MPICH, 3, ["once"])
    again("open mpi, again after a failure", OPEN_MPI, arguments=["failing"])
    # A process that ends without MPI_Finalize would take the other along.
    again("mpich, again after a failure", MPICH + ["-disable-auto-cleanup"], arguments=["failing"])
    kill_one("open mpi, one of four is killed", OPEN_MPI + ["--enable-recovery", "-np", "4"])
    # MPICH's launcher ends the job, and sends SIGUSR1, where what it started itself is killed.
    shell = ["sh", "-c", "trap '' USR1; \"$0\" \"$@\"; exit $?"]
    kill_one("mpich, one of four is killed",
             MPICH + ["-disable-auto-cleanup", "-np", "4"] + shell)
    print(f"kiln-test: {count['passed']} passed, {count['failed']} failed, "
          f"{count['skipped']} skipped")
    return 1 if count["failed"] else 0


sys.exit(main())
