#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`./dev test` runs a few failed programs once more, alone: who passes then is told as unsteady, who does not has
failed, and where many fail none runs again. Where all pass, it says so."""
import os
import subprocess
import sys
import tempfile

ROOT, BUILD = sys.argv[1], sys.argv[2]
RUN = 'set -euo pipefail; source <(sed -n "/^run_ctest()/,/^}/p" dev); root=$PWD test_jobs=2; run_ctest "$1"'


def run(folder, programs):
    """Exit status and output of run_ctest over {name: shell command}."""
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        for name, command in programs.items():
            file.write(f'add_test({name} sh -c "{command}")\n')
    done = subprocess.run(["bash", "-c", RUN, "-", os.path.relpath(folder, ROOT)], cwd=ROOT, capture_output=True,
                          text=True, check=False, timeout=120)
    return done.returncode, done.stdout


def main():
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        status, said = run(folder, {"good": "exit 0", "fine": "exit 0"})
        assert status == 0 and said.endswith("2 passed, 0 failed\n"), (status, said)
        once = os.path.join(folder, "once")
        unsteady = f"test -e {once} && echo 'kiln-test: 3 passed, 0 failed, 0 skipped' || (touch {once}; echo first; exit 1)"
        status, said = run(folder, {"good": "exit 0", "leans": unsteady})
        assert status == 0 and said.endswith("1 unsteady: leans\n4 passed, 0 failed\n"), said
        assert "UNSTEADY" in said and "first" in said, said
        status, said = run(folder, {"good": "exit 0", "bad": "echo no; exit 1"})
        assert status == 1 and said.endswith("1 passed, 1 failed\n") and "unsteady" not in said, said
        os.remove(once)
        status, said = run(folder, {"leans": unsteady, "a": "exit 1", "b": "exit 1", "c": "exit 1"})
        assert status == 1 and said.endswith("0 passed, 4 failed\n"), said
    print("kiln-test: 4 passed, 0 failed, 0 skipped")


main()
