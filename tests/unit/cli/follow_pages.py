# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pages of docs/ that lead from nothing to a result, word for word, outside the tree against an installed Kiln.

All commands of a page run in one shell, which ends at the first that fails."""
import os
import re
import socket
import subprocess
import sys
import tempfile

BUILD, ROOT, LIBDIR = sys.argv[1:4]
PAGES = sys.argv[4:]
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from pages import commands  # noqa: E402

# What a page needs that is not everywhere.
NEEDS = {"fusers/rust.md": ("/usr/bin/cargo", "/usr/bin/rustc")}
# A person is slower than a server that starts.
WAIT = "for try in $(seq 600); do (echo >/dev/tcp/127.0.0.1/PORT) 2>/dev/null && break; sleep 0.1; done\n"
PORT = re.compile(r"(?<=127\.0\.0\.1[:/])30\d\d\b")  # that pages name


def environment(work, prefix):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KILN_", "CARGO", "RUST"))}
    env.update(PATH=f"{prefix}/bin:/usr/bin:{env['PATH']}", CMAKE_PREFIX_PATH=prefix, LD_LIBRARY_PATH=f"{prefix}/{LIBDIR}",
               PKG_CONFIG_PATH=f"{prefix}/{LIBDIR}/pkgconfig", KILN_CACHE_DIR=f"{work}/cache",
               CARGO_HOME=f"{work}/cargo", PYTHONPATH=f"{BUILD}/python")
    return env


def free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def wait_after(command):
    port = re.search(r"127\.0\.0\.1:(\d+)", command)
    return WAIT.replace("PORT", port.group(1)) if port and command.endswith("&") else ""


def follow(page, work, prefix):
    folder = os.path.join(work, page)
    os.makedirs(folder)
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
        text = file.read()
    steps = commands(folder, text)
    assert steps, "no command"
    script = "".join(f"echo @{i}@\n{command}\n{wait_after(command)}" for i, (command, _) in enumerate(steps))
    named = sorted(set(PORT.findall(script)))
    free = dict(zip(named, free_ports(len(named))))
    script = PORT.sub(lambda match: free[match.group()], script)
    script = script.replace("/usr/share/kiln", f"{prefix}/share/kiln")
    script = f"trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\nexec 2>&1\n{script}echo @end@\n"
    done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment(work, prefix), capture_output=True,
                          text=True, check=False, timeout=400, stdin=subprocess.DEVNULL)
    said = re.split(r"(?m)^@(?:\d+|end)@\n", done.stdout)[1:]
    assert len(said) == len(steps) + 1, f"`{steps[len(said) - 1][0]}` fails: {said[-1][-2000:]}"
    for (command, promises), output in zip(steps, said):
        for promise in promises:
            assert promise in output, f"`{command}` does not print {promise!r}: {output[-2000:]}"


def main():
    failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="kiln-pages-") as work:
        prefix = os.path.join(work, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
        for page in PAGES:
            missing = [path for path in NEEDS.get(page, ()) if not os.path.exists(path)]
            if missing:
                skipped += 1
                print(f"SKIP {page}: {' and '.join(missing)} missing")
                continue
            try:
                follow(page, work, prefix)
            except AssertionError as problem:
                failed += 1
                print(f"FAIL {page}: {problem}")
    print(f"kiln-test: {len(PAGES) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
