# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/fusers/writing-a-fuser.md word for word: its commands and files, outside the tree, against an installed Kiln."""
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile

BUILD, ROOT, LIBDIR = sys.argv[1:4]
PAGE = os.path.join(ROOT, "docs/fusers/writing-a-fuser.md")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the page says of the output of a command, by the command and how often it came before.
PROMISES = {
    ("kiln plugin list --plugin build/running_sum.so", 0): ["org.example.running-sum", "taken"],
    ("kiln explain example.onnx --plugin build/running_sum.so", 0): ["unfused", "not the next operation"],
    ("kiln plugin check --level 4 build/running_sum.so", 0): ["ok    4  results", "ok    4  guards", " 0 failed"],
    ("kiln explain example.onnx --plugin build/running_sum.so", 1): [
        "block 0", "winner    org.example.running-sum/running-sum", "cum_sum"],
}


def hash_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def environment(work, prefix):
    env = {k: v for k, v in os.environ.items() if not k.startswith("KILN_")}
    env.update(PATH=f"{prefix}/bin:{env['PATH']}", CMAKE_PREFIX_PATH=prefix, CMAKE_GENERATOR="Ninja",
               PKG_CONFIG_PATH=f"{prefix}/{LIBDIR}/pkgconfig", KILN_CACHE_DIR=f"{work}/cache")
    return env


def follow(work, prefix):
    """Gives the number of commands; a problem ends it."""
    folder, seen, missing = work, {}, set(PROMISES)
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    for kind, name, text in BLOCK.findall(page):
        if kind != "console":
            assert name, f"a block of {kind} without a file name"
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
            continue
        for line in text.splitlines():
            assert line.startswith("$ "), f"no command: {line}"
            command = line[2:]
            if command.startswith("cd "):
                folder = os.path.join(folder, shlex.split(command)[1])
                continue
            run = subprocess.run(command, shell=True, cwd=folder, env=environment(work, prefix),
                                 capture_output=True, text=True, check=False, timeout=300)
            key = (command, seen.get(command, 0))
            seen[command] = key[1] + 1
            output = run.stdout + run.stderr
            assert run.returncode == 0, f"{command}: status {run.returncode}: {output[-2000:]}"
            for promise in PROMISES.get(key, []):
                assert promise in output, f"{command}: no {promise!r} in {output[-3000:]}"
            missing.discard(key)
    assert not missing, f"the page has no longer: {missing}"
    return sum(seen.values())


def main():
    with tempfile.TemporaryDirectory(prefix="kiln-tutorial-") as work:
        prefix = os.path.join(work, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
        before = [hash_of(os.path.join(folder, "bin/kiln")) for folder in (BUILD, prefix)]
        try:
            commands = follow(work, prefix)
            after = [hash_of(os.path.join(folder, "bin/kiln")) for folder in (BUILD, prefix)]
            assert before == after, "kiln itself was built again"
            assert commands >= 8, f"only {commands} commands"
        except AssertionError as problem:
            print(f"FAIL the page: {problem}")
            print("kiln-test: 0 passed, 1 failed, 0 skipped")
            return 1
    print("kiln-test: 1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
