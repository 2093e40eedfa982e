# SPDX-License-Identifier: MIT OR Apache-2.0
"""One folder of examples/fusers, as its reader would use it: copied out of the tree, built against an installed
Kiln and nothing else, checked at level 4, winning the blocks that its example.json names, with right results.

example.json: "plugin" is the library's path in the folder once it is built, "winners" has for each model or replayable
file beside it the fuser that must win a block of it. Every *.replay is run and compared with the reference: with all of
the plugin's fusers, and with each alone; one of these must fuse a block of it.
"forms" are compiler flags that make it write the kernels of another kind of device: these are only checked for their results.
CMakeLists.txt or Cargo.toml says how it is built."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD, FOLDER, LIBDIR = sys.argv[1:4]
DEBIAN_TOOLS = {"CARGO": "/usr/bin/cargo", "RUSTC": "/usr/bin/rustc"}


def run(command, env, cwd, seconds=300):
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=seconds)
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}: {output[-3000:]}"
    return done.stdout


def environment(work, prefix):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KILN_", "CARGO", "RUST"))}
    env.update(PATH=f"{prefix}/bin:{env['PATH']}", CMAKE_PREFIX_PATH=prefix, CMAKE_GENERATOR="Ninja",
               PKG_CONFIG_PATH=f"{prefix}/{LIBDIR}/pkgconfig", KILN_CACHE_DIR=f"{work}/cache", KILN_TUNE="off")
    return env


def use_installed_crates(folder, prefix):
    """As its Cargo.toml says for another folder than the installed one."""
    path = os.path.join(folder, "Cargo.toml")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert "../../../rust" in text, text
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("../../../rust", f"{prefix}/share/kiln/rust"))


def missing_tools(folder):
    """What this machine lacks to build the folder."""
    if not os.path.exists(os.path.join(folder, "Cargo.toml")):
        return []
    return [path for path in DEBIAN_TOOLS.values() if not os.path.exists(path)]


def by_hand(folder, env):
    """Without CMake: one call of the compiler, with what pkg-config says."""
    sources, compiler = sorted(glob.glob(os.path.join(folder, "*.c"))), "cc"
    if not sources:
        sources, compiler = sorted(glob.glob(os.path.join(folder, "*.cpp"))), "c++"
    words = [run(["pkg-config", flag, "kiln-fuser"], env, folder).split() for flag in ("--cflags", "--libs")]
    run([compiler, "-O2", *words[0], *sources, *words[1], "-o", "by_hand.so"], env, folder)
    run(["kiln", "plugin", "check", "--level", "1", os.path.join(folder, "by_hand.so")], env, folder)


def build(folder, env):
    if not os.path.exists(os.path.join(folder, "Cargo.toml")):
        run(["cmake", "-B", "build"], env, folder)
        run(["cmake", "--build", "build"], env, folder)
        by_hand(folder, env)
        return
    # Debian's, not one of the user's own: the oldest that must do.
    rust = {**env, **DEBIAN_TOOLS, "CARGO_HOME": os.path.join(folder, "cargo-home"), "CARGO_NET_OFFLINE": "true"}
    run([rust["CARGO"], "build", "--release", "--offline", "--locked"], rust, folder, 600)


def wins(plugin, model, fuser, denied, env, folder):
    words = ["--plugin", plugin]
    words += ["--set", "plugins=" + ",".join(f"-{name}" for name in denied)] if denied else []
    if model.endswith(".replay"):
        told = run(["kiln", "plugin", "dump", model, *words], env, folder)
        assert f" by {fuser}," in told, f"{model}: {fuser} wins nothing: {told[:2000]}"
        return
    told = json.loads(run(["kiln", "explain", model, *words, "--json"], env, folder))
    assert fuser in told["fusers"], f"{fuser} is not among {told['fusers']}"
    winners = [block["fuser"] for block in told["blocks"]]
    assert fuser in winners, f"{model}: {fuser} wins nothing; winners: {winners}; {json.dumps(told['ops'])[:2000]}"


def follow(work, prefix):
    env, folder = environment(work, prefix), os.path.join(work, "example")
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("build", "target"))
    use_installed_crates(folder, prefix)
    with open(os.path.join(folder, "example.json"), encoding="utf-8") as file:
        wanted = json.load(file)
    build(folder, env)
    plugin = os.path.join(folder, wanted["plugin"])
    checked = run(["kiln", "plugin", "check", "--level", "4", "--timeout", "300", plugin], env, folder, 1500)
    for line in ("ok    4  results", "ok    4  guards", " 0 failed"):
        assert line in checked, f"no {line!r} in {checked}"
    assert wanted["winners"], "example.json names no winner"
    for model, fuser in wanted["winners"].items():
        wins(plugin, model, fuser, wanted.get("denied", []), env, folder)
    streams = sorted(glob.glob(os.path.join(folder, "*.replay")))
    assert streams, "no stream to run"
    for stream in streams:
        compare(plugin, stream, sorted(set(wanted["winners"].values())), env, folder)
    other_forms(wanted, env, folder)


def other_forms(wanted, env, folder):
    """The kernels for GPUs, on a processor: slow, but with the right results."""
    for number, flag in enumerate(wanted.get("forms", [])):
        forced, place = {**env, "CFLAGS": flag, "CXXFLAGS": flag}, f"form{number}"
        run(["cmake", "-B", place], forced, folder)
        run(["cmake", "--build", place], forced, folder)
        plugin = os.path.join(folder, place, os.path.basename(wanted["plugin"]))
        told = run(["kiln", "plugin", "check", "--level", "4", "--include", "results|guards", "--timeout", "300", plugin],
                   env, folder, 1500)
        fused = [int(count) for count in re.findall(r"(\d+) fused blocks of", told)]
        assert " 2 passed, 0 failed" in told and len(fused) == 2 and min(fused) > 0, f"{flag}: {told}"


def compare(plugin, stream, fusers, env, folder):
    """Right results, whichever of the plugin's fusers may have a block; the shipped ones are not asked."""
    shipped = ["attention", "convolution", "elementwise", "matmul", "reduce", "rowwise"]
    fused = 0
    for alone in [None, *fusers]:
        denied = [f"org.kiln.{name}" for name in shipped] + [f for f in fusers if alone not in (None, f)]
        told = run(["kiln", "plugin", "run", "--compare", "--check", "always", "--plugin", plugin, "--set",
                    "plugins=" + ",".join(f"-{name}" for name in denied), stream], env, folder)
        fused += " in 0 fused blocks" not in told
    assert fused, f"{os.path.basename(stream)}: nothing was fused"


def main():
    missing = missing_tools(FOLDER)
    if missing:
        print(f"SKIP {os.path.basename(FOLDER)}: {' and '.join(missing)} missing; install Debian's rustc and cargo")
        print("kiln-test: 0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="kiln-example-") as work:
        prefix = os.path.join(work, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
        try:
            follow(work, prefix)
        except AssertionError as problem:
            print(f"FAIL {os.path.basename(FOLDER)}: {problem}")
            print("kiln-test: 0 passed, 1 failed, 0 skipped")
            return 1
    print("kiln-test: 1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
