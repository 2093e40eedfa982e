#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Installs into an empty prefix and builds a program against it, as a user would."""
import os
import shutil
import subprocess
import sys
import tempfile

import exported_symbols
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


def sdk_pkg_config(prefix, work, template, libdir):
    """The template with one compiler call and the flags of kiln-fuser.pc."""
    flags = subprocess.run(["pkg-config", "--cflags", "kiln-fuser"], text=True,
                           env=environment(prefix, libdir), capture_output=True, check=False)
    if flags.returncode:
        return [flags.stderr]
    plugin = os.path.join(work, "template.so")
    sources = [os.path.join(template, n) for n in os.listdir(template) if n.endswith(".c")]
    return (run(["gcc", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,defs", "-Wall",
                 "-Wextra", "-Werror", *flags.stdout.split(), *sources, "-o", plugin])
            or exported_symbols.plugin_problems(plugin))


def sdk_own_project(prefix, work, template):
    """The template's own CMake project, as a copy far from this tree."""
    copy = os.path.join(work, "my_fuser")
    shutil.copytree(template, copy)
    return (run(["cmake", "-S", copy, "-B", f"{copy}/build", "-G", "Ninja",
                 f"-DKILN_SDK_DIR={prefix}/include/kiln"])
            or run(["cmake", "--build", f"{copy}/build"])
            or exported_symbols.plugin_problems(f"{copy}/build/my_fuser.so"))


def sdk_package(prefix, work, template):
    """A project that uses find_package(kiln-fuser)."""
    folder = os.path.join(work, "fuser_package")
    os.makedirs(folder)
    sources = " ".join(os.path.join(template, n) for n in os.listdir(template) if n.endswith(".c"))
    with open(os.path.join(folder, "CMakeLists.txt"), "w") as file:
        file.write("cmake_minimum_required(VERSION 3.16)\nproject(p C)\n"
                   f"find_package(kiln-fuser REQUIRED)\nkiln_fuser_plugin(mine {sources})\n")
    return (run(["cmake", "-S", folder, "-B", f"{folder}/build", "-G", "Ninja",
                 f"-DCMAKE_PREFIX_PATH={prefix}"])
            or run(["cmake", "--build", f"{folder}/build"])
            or exported_symbols.plugin_problems(f"{folder}/build/mine.so"))


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
            template = os.path.join(prefix, "share/kiln/template")
            cases["fuser pkg-config"] = sdk_pkg_config(prefix, work, template, libdir)
            cases["fuser template"] = sdk_own_project(prefix, work, template)
            cases["fuser find_package"] = sdk_package(prefix, work, template)
    structure.report("structure/install_consumer", cases)


if __name__ == "__main__":
    main()
