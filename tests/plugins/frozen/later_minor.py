# SPDX-License-Identifier: MIT OR Apache-2.0
"""A later minor version of the fuser ABI, made out of today's header: every struct that may grow has grown, the
minor is LATER, hosts offer services and facts that nobody knows today. Its host, built below the build folder so that a second run compiles
only what changed, meets plugins of today, and plugins built with its headers meet today's host."""
import glob
import os
import re
import subprocess
import sys
import tempfile

import frozen

KILN, ROOT, BUILD = sys.argv[1:4]
LATER = 7
MINOR = f"#define KF_ABI_MINOR {LATER}u"
STREAM = """kiln replay 1
input %1: f32[256,1024]
input %2: f32[256,1024]
%3: f32[256,1024] = mul(%1: f32[256,1024], %2: f32[256,1024])
%4: f32[256,1024] = cum_sum(%3: f32[256,1024], axis=-1, exclusive=false, reverse=false)
drop(%3: f32[256,1024])
output %4
end
"""
GROWING = re.compile(r"^typedef struct (kf_\w+) \{(?![^\n]*// frozen)[^\n]*\n    uint32_t struct_size;.*?^\} \1;\n|"
                     r"^struct (kf_host|kf_block) \{.*?^\};\n", re.M | re.S)
MORE = "    uint64_t later_a;\n    uint64_t later_b;\n}"
# Folders of the tree that its build without tests, Python and remote devices does not read.
LEFT_OUT = {"dist", "python", "remote_grpc", "tests", ".git", ".ci", ".cache"}
# What a later host would say to plugins of today: unknown services and facts, which they must not mind.
HOST_SAYS = {
    "fusion_host/plugin/host_services.c": (".abi_minor = KF_ABI_MINOR,",
                                    ".abi_minor = KF_ABI_MINOR, .later_a = 0x5a5a5a5a, .later_b = ~0ull,"),
}


def header(text):
    """A header of the ABI in the later minor, and the names of the structs in it that grew."""
    grown = []

    def grow(match):
        grown.append(match.group(1) or match.group(2))
        body = match.group(0)
        end = body.rindex("\n}") + 1
        return body[:end] + MORE + body[end + 1:]

    text = GROWING.sub(grow, text)
    text = re.sub(r"^KF_ASSERT\(sizeof\(.*\n", "", text, flags=re.M)
    return re.sub(r"^#define KF_ABI_MINOR \w+$", MINOR, text, flags=re.M), grown


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def put(path, text):
    """Writes what differs, so that a second build compiles nothing."""
    if not os.path.exists(path) or read(path) != text:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)


def tree(root, to):
    """Kiln's sources with the later header and a host that says more; gives the structs that grew."""
    grown, minors = [], 0
    for folder in sorted(set(next(os.walk(root))[1]) - LEFT_OUT):
        if folder.startswith("build"):
            continue
        for at, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = [f for f in folders if f not in ("build", "target")]
            for name in files:
                source = os.path.join(at, name)
                relative = os.path.relpath(source, root)
                copy = os.path.join(to, relative)
                text = read(source)
                if relative.startswith("plugin_sdk/abi/"):
                    text, more = header(text)
                    grown += more
                    minors += MINOR in text
                if relative in HOST_SAYS:
                    old, new = HOST_SAYS[relative]
                    assert old in text, f"{relative} says no longer {old}"
                    text = text.replace(old, new)
                put(copy, text)
    for name in os.listdir(root):
        if os.path.isfile(os.path.join(root, name)):
            put(os.path.join(to, name), read(os.path.join(root, name)))
    assert minors == 1, f"{minors} headers of plugin_sdk/abi define KF_ABI_MINOR"
    return grown


def must(command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}"


def later_host():
    """The command of a Kiln of the later minor, and the structs that grew in it."""
    source, build = os.path.join(BUILD, "later/source"), os.path.join(BUILD, "later/build")
    grown = tree(ROOT, source)
    must(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DKILN_REMOTE=OFF",
          "-DKILN_ONNX=OFF", "-DKILN_PYTHON=OFF", "-DKILN_TESTS=OFF"])
    must(["ninja", "-C", build, "bin/kiln"])
    return os.path.join(build, "bin/kiln"), source, grown


def later_plugin(source, work, name, *more, needs=0):
    """The frozen fuser built with the later headers, as an author would who updates the SDK and nothing else."""
    folder = os.path.join(work, name)
    os.makedirs(folder)
    renamed = r"(kiln_fuser|kiln_fuser_ops|kf_util)\.h" # what the frozen fuser includes
    for path in [path for at in ("", "abi/", "parts/") for path in glob.glob(f"{source}/plugin_sdk/{at}*.h")]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        name_then = re.sub(f"^{renamed}$", r"\1_v1_0.h", os.path.basename(path))
        put(os.path.join(folder, name_then), re.sub(f'#include "{renamed}"', r'#include "\1_v1_0.h"', text))
    with open(os.path.join(frozen.HERE, "1.0/fuser_1_0.c"), encoding="utf-8") as file:
        text = file.read()
    old = "KF_MANIFEST(PLUGIN_ID, PLUGIN_VERSION, 0,"
    assert old in text
    put(os.path.join(folder, "fuser.c"), text.replace(old, f"KF_MANIFEST(PLUGIN_ID, PLUGIN_VERSION, {needs},"))
    failed = frozen.build("gcc", os.path.join(folder, "fuser.c"), os.path.join(folder, "fuser.so"), *more)
    assert not failed, failed
    return os.path.join(folder, "fuser.so")


def wins(kiln, plugin, work, level):
    """Taken, wins the stream with the reference's results, passes its checks."""
    stream = os.path.join(work, "sum.replay")
    put(stream, STREAM)
    cache = tempfile.mkdtemp(dir=work)
    told = frozen.run([kiln, "plugin", "dump", stream, "--plugin", plugin], cache)
    if " by test.fuser-1-0/frozen," not in told.stdout:
        return f"does not win: {told.stdout[:800]}{told.stderr}"
    ran = frozen.run([kiln, "plugin", "run", "--compare", "--check", "always", "--plugin", plugin, stream], cache)
    if ran.returncode or " in 1 fused block" not in ran.stdout:
        return f"gives other results: {ran.stdout}{ran.stderr}"
    checked = frozen.run([kiln, "plugin", "check", "--level", str(level), "--timeout", "200", plugin], cache)
    return checked.stdout if checked.returncode else None


def taken(kiln, plugin, work):
    listed = frozen.run([kiln, "plugin", "list", "--why", "--plugin", plugin], work)
    return None if listed.stdout.startswith("taken") else f"{listed.stdout}{listed.stderr}"


def refused(kiln, plugin, work):
    """Because it asks for a later minor, and the reason says so."""
    listed = frozen.run([kiln, "plugin", "list", "--why", "--plugin", plugin], work)
    reason = f"needs fuser ABI 1.{LATER}, this host has 1."
    return None if reason in listed.stdout else f"no {reason!r} in {listed.stdout}{listed.stderr}"


def larger(kiln, grown, work):
    """The later host is one: the structs that grew are larger in it, and 1.0's are their beginnings."""
    with open(os.path.join(frozen.HERE, "1.0/layout.txt"), encoding="utf-8") as file:
        old = frozen.structs(file.read())
    new = frozen.structs(frozen.run([kiln, "plugin", "abi"], work).stdout)
    same = [name for name in grown if name in old and new[name][0] < old[name][0] + 16]
    return f"did not grow: {same}; grew: {grown}" if same or len(grown) < 12 else frozen.layout_problem(kiln, work)


def cases(work):
    later, source, grown = later_host()
    old, new = os.path.join(work, "old.so"), later_plugin(source, work, "new")
    failed = frozen.build("gcc", os.path.join(frozen.HERE, "1.0/fuser_1_0.c"), old)
    assert not failed, failed
    pinned = later_plugin(source, work, "pinned", "-DKF_ABI_MINOR=0u")
    needs = later_plugin(source, work, "needs", needs=LATER)
    yield "later host, layout", larger(later, grown, work)
    yield "later host, 1.0 plugin", wins(later, old, work, 6)
    yield "later host, its own plugin", wins(later, new, work, 4)
    yield "later host, a plugin that asks for it", taken(later, needs, work)
    for shipped in sorted(glob.glob(os.path.join(BUILD, "lib/kiln/plugins/*.so"))):
        yield f"later host, today's {os.path.basename(shipped)}", taken(later, shipped, work)
    # Level 3 shows fields that are newer than today's; this plugin knows them.
    yield "today's host, later plugin", wins(KILN, new, work, 2)
    yield "today's host, later plugin of an older minor", wins(KILN, pinned, work, 2)
    yield "today's host, a plugin that asks for the later one", refused(KILN, needs, work)


def main():
    passed, problems = 0, []
    with tempfile.TemporaryDirectory(prefix="kiln-later-") as work:
        try:
            for case, text in cases(work):
                passed += not text
                problems += [f"{case}: {text}"] if text else []
        except AssertionError as problem:
            problems.append(str(problem))
    for text in problems:
        print(f"FAIL later minor: {text}")
    print(f"kiln-test: {passed} passed, {len(problems)} failed, 0 skipped")
    return 1 if problems or passed < 7 else 0


if __name__ == "__main__":
    sys.exit(main())
