# SPDX-License-Identifier: MIT OR Apache-2.0
"""The promise "a 1.x plugin loads in every 1.y host": sources of an earlier day, built with the headers of that
day by every compiler here, are taken by today's host, win their block and pass its checks."""
import os
import shutil
import subprocess
import sys
import tempfile

KILN, ROOT, SOURCE = sys.argv[1:4]
MODEL = os.path.join(ROOT, "plugin_sdk/template/example.onnx")


def run(command, cache):
    env = {**os.environ, "KILN_CACHE_DIR": cache, "KILN_TUNE": "off"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)


def problem(compiler, work):
    plugin = os.path.join(work, f"{compiler}.so")
    # Only the frozen folder is searched: a header of today would not be found.
    built = run([compiler, "-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,defs", SOURCE, "-o",
                 plugin], work)
    if built.returncode:
        return built.stderr[:500]
    listed = run([KILN, "plugin", "list", "--plugin", plugin], work)
    if "test.frozen-1-0" not in listed.stdout:
        return f"not taken: {listed.stdout}{listed.stderr}"
    told = run([KILN, "explain", MODEL, "--plugin", plugin], os.path.join(work, "cache"))
    if "winner    test.frozen-1-0/frozen" not in told.stdout:
        return f"does not win: {told.stdout[:800]}{told.stderr}"
    checked = run([KILN, "plugin", "check", "--level", "4", plugin], work)
    return checked.stdout if checked.returncode else None


def main():
    compilers = [c for c in ("gcc", "clang-14") if shutil.which(c)]
    with tempfile.TemporaryDirectory(prefix="kiln-frozen-") as work:
        problems = {c: problem(c, work) for c in compilers}
    for compiler, text in problems.items():
        if text:
            print(f"FAIL frozen 1.0 by {compiler}: {text}")
    failed = sum(1 for text in problems.values() if text)
    print(f"kiln-test: {len(problems) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not problems else 0


if __name__ == "__main__":
    sys.exit(main())
