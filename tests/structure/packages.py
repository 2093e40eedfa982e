#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the Debian packages, installs them in a root with Debian 12 and nothing of this tree, and does there what a user
does first: the README's program with pkg-config and with CMake, a model by the command, the Python package.

The root is made once, by mmdebstrap, and kept below the build folder; what a run does in it goes to a layer above it
that is thrown away. A root as another user, a machine without mmdebstrap, and one without a network are skips."""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

import structure

SUITE = "packages/debian"
PACKAGES = ("libkiln0", "libkiln-dev", "kiln-fusers", "kiln-tools")
# What a user has beside the packages: compilers, and a device.
TOOLS = ("gcc", "libc6-dev", "cmake", "make", "pkg-config", "pocl-opencl-icd")

# In a mount namespace of its own, so that nothing stays mounted: a layer over the root, and the packages in it.
ENTER = r"""
set -e
mount -t tmpfs none "$WORK/layer"
mkdir "$WORK/layer/upper" "$WORK/layer/work"
mount -t overlay none -o "lowerdir=$BASE,upperdir=$WORK/layer/upper,workdir=$WORK/layer/work" "$WORK/root"
mount -t proc none "$WORK/root/proc"
mount --rbind /dev "$WORK/root/dev"
mount --rbind /sys "$WORK/root/sys"
cp -r "$WORK/given" "$WORK/root/given"
exec chroot "$WORK/root" /bin/sh /given/steps.sh
"""

# Each step ends with its name and its status.
STEPS = r"""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
cd /root
step() { name=$1; shift; if "$@" >"/tmp/$name.log" 2>&1; then echo "STEP $name 0"; else echo "STEP $name 1"; tail -n 25 "/tmp/$name.log"; fi; }
check_all_found() { [ -x /usr/bin/kiln ] && ! ldd /usr/bin/kiln /usr/lib/libkiln*.so.* /usr/lib/kiln/plugins/*.so /usr/lib/kiln/*.so | grep "not found"; }
by_pkg_config() { cc /given/first.c $(pkg-config --cflags --libs kiln) -o first && ./first | grep -qx "0 0 3 6"; }
by_cmake() { cmake -S /given/cmake -B b && cmake --build b && b/first | grep -qx "0 0 3 6"; }
runs_a_model() {
    d=/usr/share/kiln/examples/digits
    kiln run $d/digits.onnx --input $d/three.npy && kiln devices | grep -qi -e pocl -e portable
}
fusers_are_found() { kiln plugin list | tee /dev/stderr | grep -q elementwise; }
in_python() { /usr/bin/python3 -c 'import kiln; print(kiln.relu(kiln.asarray([-2.0, 1.0]) * 3).tolist())' | grep -qxF "[0.0, 3.0]"; }
a_fuser() { kiln plugin new mine && cd mine && cmake -B build && cmake --build build && kiln plugin list --plugin build/mine.so | grep -q org.example.mine; }
documents() {
    for file in man/man1/kiln-run.1 bash-completion/completions/kiln doc/kiln/README.md doc/kiln/docs/wire.md doc/kiln/docs/ops.md \
        kiln/proto/kiln/v1/kiln.proto doc/libkiln0/copyright; do
        ls /usr/share/$file || return 1
    done
}
removed() { apt-get purge -qqy libkiln0 && ! find /usr -name '*kiln*' | grep .; }
step install apt-get install -qqy --no-install-recommends /given/*.deb
step libraries check_all_found
step pkg-config by_pkg_config
step cmake by_cmake
step model runs_a_model
step fusers fusers_are_found
[ ! -e /usr/lib/python3/dist-packages/kiln ] || step python in_python
step fuser a_fuser
step documents documents
step purge removed
"""

CMAKE = """cmake_minimum_required(VERSION 3.16)
project(first C)
find_package(kiln 0.2 REQUIRED)
add_executable(first /given/first.c)
target_link_libraries(first kiln::kiln)
"""


def run(command, **options):
    """Problems of a command: empty when it succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    return [] if done.returncode == 0 else [f"{' '.join(command)}: status {done.returncode}"] + (
        done.stdout + done.stderr).splitlines()[-20:]


def make_packages(config, folder):
    bad = run(["cpack", "-B", folder], cwd=config["build_dir"])
    made = {os.path.basename(p).split("_")[0]: p for p in glob.glob(f"{folder}/*.deb")}
    return bad or [f"no package {name}" for name in PACKAGES if name not in made], made


def depends(path):
    """The packages of others that a package asks for; of alternatives the first."""
    text = subprocess.run(["dpkg-deb", "-f", path, "Depends"], capture_output=True, text=True, check=True).stdout
    names = {re.match(r"[^ (|]+", part.strip()).group() for part in text.split(",") if part.strip()}
    return {name for name in names if "kiln" not in name}


def base_root(config, made):
    """A root with what the packages ask for and a user's tools; why there is none."""
    wanted = sorted(set(TOOLS).union(*(depends(path) for path in made.values())))
    key = hashlib.sha256(" ".join(wanted).encode()).hexdigest()[:12]
    folder = os.path.join(config["build_dir"], "packages-root")
    base = os.path.join(folder, key)
    if os.path.isdir(base):
        return base, None
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    bad = run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(wanted)}", "bookworm", base + ".new"],
              timeout=800)
    if bad:
        return None, f"no root of Debian 12 can be made here: {bad[-1]}"
    os.rename(base + ".new", base)
    return base, None


def first_program(config):
    with open(os.path.join(config["source_dir"], "README.md"), encoding="utf-8") as file:
        return re.search(r"```c\n(.*?)```", file.read(), re.S).group(1)


def in_root(config, base, made):
    cases = {}
    with tempfile.TemporaryDirectory(prefix="kiln-packages-") as work:
        for name in ("layer", "root", "given/cmake"):
            os.makedirs(os.path.join(work, name))
        for path in made.values():
            shutil.copy(path, os.path.join(work, "given"))
        for name, text in (("steps.sh", STEPS), ("first.c", first_program(config)), ("cmake/CMakeLists.txt", CMAKE)):
            with open(os.path.join(work, "given", name), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run(["unshare", "--mount", "/bin/sh", "-c", ENTER], env={"WORK": work, "BASE": base,
                              "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, capture_output=True, text=True, check=False, timeout=800)
    name = None
    for line in done.stdout.splitlines():
        step = re.fullmatch(r"STEP (\S+) (\d)", line)
        if step:
            name = step.group(1)
            cases[name] = [] if step.group(2) == "0" else ["in the root:"]
        elif name:
            cases[name].append(line)
    return cases if cases else {"root": f"no layer can be mounted here: {done.stderr.strip()[-200:]}"}


def main():
    config = structure.load(sys.argv).config
    missing = [n for n in ("mmdebstrap", "dpkg-deb", "dpkg-shlibdeps", "unshare") if not shutil.which(n)]
    if missing or not config["libkiln"]:
        structure.report(SUITE, {"packages": f"no {' '.join(missing) or 'libkiln'}"})
    with tempfile.TemporaryDirectory(prefix="kiln-debs-") as folder:
        bad, made = make_packages(config, folder)
        cases = {"made": bad}
        if not bad and os.geteuid() != 0:
            cases["root"] = "only root can install packages in a root of their own"
        elif not bad:
            base, why = base_root(config, made)
            cases.update({"root": why} if why else in_root(config, base, made))
    structure.report(SUITE, cases)


if __name__ == "__main__":
    main()
