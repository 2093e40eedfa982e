#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Installs into an empty prefix and builds a program against it, as a user would."""
import os
import shutil
import subprocess
import sys
import tempfile

import structure

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "consumer")


def run(command, **options):
    """Problems of a command: empty when it succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        return [f"{' '.join(command)}: status {done.returncode}"] + (
            done.stdout + done.stderr).splitlines()[-20:]
    return []


def environment(prefix, libdir):
    env = {k: v for k, v in os.environ.items() if not k.startswith("KILN_")}
    env["PKG_CONFIG_PATH"] = os.path.join(prefix, libdir, "pkgconfig")
    env["LD_LIBRARY_PATH"] = os.path.join(prefix, libdir)
    env["KILN_CACHE_DIR"] = os.path.join(prefix, "cache")
    return env


def pkg_config(prefix, work, libdir):
    env = environment(prefix, libdir)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kiln"], env=env, text=True,
                           capture_output=True, check=False)
    if flags.returncode:
        return [flags.stderr]
    program = os.path.join(work, "with_pkg_config")
    return (run(["gcc", "-std=c11", "-Wall", "-Werror", os.path.join(HERE, "consumer.c"), "-o",
                 program, *flags.stdout.split()])
            or run([program], env=env))


def cmake_package(prefix, work, libdir):
    build = os.path.join(work, "cmake")
    return (run(["cmake", "-S", HERE, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"])
            or run(["cmake", "--build", build])
            or run([os.path.join(build, "consumer")], env=environment(prefix, libdir)))


def cpp_program(prefix, work, libdir):
    """The same headers from C++17, linked with libkiln."""
    source = os.path.join(work, "consumer.cpp")
    shutil.copy(os.path.join(HERE, "consumer.c"), source)
    program = os.path.join(work, "with_cpp")
    include = os.path.join(prefix, "include")
    return (run(["g++", "-std=c++17", "-Wall", "-Werror", source, "-o", program,
                 f"-I{include}/kiln", f"-I{include}", f"-L{prefix}/{libdir}", "-lkiln"])
            or run([program], env=environment(prefix, libdir)))


def files(prefix, config):
    """Public headers and plugins arrive; private headers do not."""
    bad = []
    for header in config["public_headers"]:
        path = os.path.join(prefix, "include/kiln", os.path.basename(header))
        if not os.path.exists(path):
            bad.append(f"{path} is missing")
    for plugin in config["plugins"]:
        path = os.path.join(prefix, config["libdir"], "kiln/plugins", os.path.basename(plugin))
        if not os.path.exists(path):
            bad.append(f"{path} is missing")
    for folder, _, names in os.walk(prefix):
        bad += [os.path.join(folder, n) for n in names if n.endswith("_internal.h")]
    return bad


def headers_alone(prefix):
    """Each installed header finds what it includes in the installed tree."""
    bad = []
    folder = os.path.join(prefix, "include/kiln")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h"):
            bad += run(["gcc", "-std=c11", "-fsyntax-only", "-I", folder, os.path.join(folder, name)])
    return bad


def installed_command(prefix, config):
    """The installed command starts and finds its library by itself."""
    command = os.path.join(prefix, "bin/kiln")
    if not os.path.exists(os.path.join(config["build_dir"], "bin/kiln")):
        return "this build has no kiln command"
    env = environment(prefix, config["libdir"])
    del env["LD_LIBRARY_PATH"]
    return run([command, "--help"], env=env)


def sdk_plugin(prefix, work, config):
    """The template builds as a plugin against the installed SDK alone."""
    template = os.path.join(config["source_dir"], "plugin_sdk/template")
    pc = os.path.join(prefix, config["libdir"], "pkgconfig/kiln-fuser.pc")
    if not os.path.isdir(template):
        return "this tree has no plugin template"
    if not os.path.exists(pc):
        return [f"{pc} is missing"]
    env = environment(prefix, config["libdir"])
    flags = subprocess.run(["pkg-config", "--cflags", "kiln-fuser"], env=env, text=True,
                           capture_output=True, check=True).stdout.split()
    sources = [os.path.join(template, n) for n in os.listdir(template) if n.endswith(".c")]
    return run(["gcc", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,defs", "-Wall",
                "-Werror", *flags, *sources, "-o", os.path.join(work, "template.so")])


def main():
    config = structure.load(sys.argv).config
    if not config["libkiln"]:
        structure.report("structure/install_consumer", {"install": "this build has no libkiln"})
    libdir = config["libdir"]
    with tempfile.TemporaryDirectory(prefix="kiln-install-") as work:
        prefix = os.path.join(work, "prefix")
        cases = {"install": run(["cmake", "--install", config["build_dir"], "--prefix", prefix])}
        if not cases["install"]:
            cases["files"] = files(prefix, config)
            cases["headers alone"] = headers_alone(prefix)
            cases["pkg-config"] = pkg_config(prefix, work, libdir)
            cases["find_package"] = cmake_package(prefix, work, libdir)
            cases["c++"] = cpp_program(prefix, work, libdir)
            cases["command"] = installed_command(prefix, config)
            cases["sdk"] = sdk_plugin(prefix, work, config)
    structure.report("structure/install_consumer", cases)


if __name__ == "__main__":
    main()
