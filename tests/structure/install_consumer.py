#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Installs into an empty prefix and builds a program against it, as a user would."""
import glob
import os
import re
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


def has_remote(config):
    return any(os.path.basename(h) == "remote_grpc.h" for h in config["public_headers"])


def remote_programs(prefix, work, config):
    """remote_grpc.h with both libraries that have it, by pkg-config and by find_package."""
    if not has_remote(config):
        return "this build has no gRPC"
    libdir = config["libdir"]
    env = environment(prefix, libdir)
    source = os.path.join(HERE, "remote_consumer.c")
    bad = []
    for name in ("kiln-remote", "kiln-client"):
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", name], env=env, text=True,
                               capture_output=True, check=False)
        program = os.path.join(work, f"with_{name}")
        bad += ([flags.stderr] if flags.returncode else
                run(["gcc", "-std=c11", "-Wall", "-Werror", source, "-o", program, *flags.stdout.split()])
                or run([program], env=env))
    folder = os.path.join(work, "remote_package")
    os.makedirs(folder)
    with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="ascii") as file:
        file.write("cmake_minimum_required(VERSION 3.16)\nproject(p C)\nfind_package(kiln REQUIRED)\n")
        for name in ("remote", "client"):
            file.write(f"add_executable({name} {source})\ntarget_link_libraries({name} kiln::{name})\n")
    build = f"{folder}/build"
    return (bad + run(["cmake", "-S", folder, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"])
            or run(["cmake", "--build", build])
            or run([f"{build}/remote"], env=env) + run([f"{build}/client"], env=env))


def schemas(prefix, work, config):
    """A client in another language finds the whole protocol below one folder."""
    if not has_remote(config):
        return "this build has no gRPC"
    folder = os.path.join(prefix, "share/kiln/proto")
    return run(["protoc", f"-I{folder}", f"--descriptor_set_out={work}/kiln.pb", "kiln/v1/kiln.proto"])


def cpp_program(prefix, work, libdir):
    """The same headers from C++17, linked with libkiln."""
    source = os.path.join(work, "consumer.cpp")
    shutil.copy(os.path.join(HERE, "consumer.c"), source)
    program = os.path.join(work, "with_cpp")
    include = os.path.join(prefix, "include")
    return (run(["g++", "-std=c++17", "-Wall", "-Werror", source, "-o", program,
                 f"-I{include}", f"-L{prefix}/{libdir}", "-lkiln"])
            or run([program], env=environment(prefix, libdir)))


def cpp_header(prefix, work, config):
    """The first program in C++ with the installed kiln.hpp, by pkg-config and by find_package."""
    libdir = config["libdir"]
    env = {**environment(prefix, libdir), "KILN_DEVICE": "reference"}
    source = os.path.join(config["source_dir"], "examples/cpp/first.cpp")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kiln"], env=env, text=True,
                           capture_output=True, check=False)
    if flags.returncode:
        return [flags.stderr]
    program = os.path.join(work, "first_cpp")
    bad = (run(["g++", "-std=c++17", "-Wall", "-Werror", source, "-o", program, *flags.stdout.split()])
           or run([program], env=env))
    folder = os.path.join(work, "cpp_package")
    os.makedirs(folder)
    with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="ascii") as file:
        file.write("cmake_minimum_required(VERSION 3.16)\nproject(p CXX)\nfind_package(kiln REQUIRED)\n"
                   "set(CMAKE_CXX_STANDARD 17)\n"
                   f"add_executable(first {source})\ntarget_link_libraries(first kiln::kiln)\n")
    build = f"{folder}/build"
    return (bad + run(["cmake", "-S", folder, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"])
            or run(["cmake", "--build", build]) or run([f"{build}/first"], env=env))


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
    libraries = os.listdir(os.path.join(prefix, config["libdir"]))
    bad += [f"{name} is no library for programs" for name in libraries if "bench" in name]
    for folder, _, names in os.walk(prefix):
        bad += [os.path.join(folder, n) for n in names if n.endswith("_internal.h")]
    return bad


def headers_alone(prefix):
    """Each installed header is included as <kiln/NAME> and finds what it includes beside itself."""
    bad = []
    include = os.path.join(prefix, "include")
    for name in sorted(os.listdir(os.path.join(include, "kiln"))):
        if name.endswith(".h"):
            bad += run(["gcc", "-std=c11", "-fsyntax-only", "-I", include, "-include", f"kiln/{name}", "-xc", "/dev/null"])
    return bad


def names_kept(prefix, work, libdir):
    """A program that has base.h, status.def and config.def of its own gets its own."""
    bad = []
    for name in ("kiln", "kiln-client", "kiln-remote", "kiln-fuser"):
        flags = subprocess.run(["pkg-config", "--cflags", name], env=environment(prefix, libdir), text=True,
                               capture_output=True, check=False)
        if flags.returncode and "remote" not in name and "client" not in name:
            bad.append(flags.stderr)
        bad += [f"{name}: {flag} shows Kiln's base.h under that name" for flag in flags.stdout.split()
                if flag.startswith("-I") and os.path.exists(os.path.join(flag[2:], "base.h"))]
    folder = os.path.join(work, "names_kept")
    os.makedirs(folder)
    with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="ascii") as file:
        file.write("cmake_minimum_required(VERSION 3.16)\nproject(p C)\nfind_package(kiln REQUIRED)\n"
                   "find_package(kiln-fuser REQUIRED)\ninclude(CheckIncludeFile)\n"
                   "set(CMAKE_REQUIRED_LIBRARIES kiln::kiln kiln::fuser)\ncheck_include_file(base.h SHOWN)\n"
                   "if(SHOWN)\nmessage(FATAL_ERROR \"kiln::kiln shows base.h\")\nendif()\n")
    return bad + run(["cmake", "-S", folder, "-B", f"{folder}/build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"])


def uninstalls(config):
    """The target `uninstall` takes away what the last installation brought, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="kiln-uninstall-") as work:
        prefix = os.path.join(work, "prefix")
        os.makedirs(prefix)
        kept = os.path.join(prefix, "kept")
        with open(kept, "w", encoding="ascii") as file:
            file.write("somebody else's")
        bad = (run(["cmake", "--install", config["build_dir"], "--prefix", prefix])
               or run(["cmake", "--build", config["build_dir"], "--target", "uninstall"]))
        left = [os.path.join(folder, n) for folder, _, names in os.walk(prefix) for n in names]
        return bad or [f"{path} is left" for path in left if path != kept] + ([] if kept in left else ["kept is gone"])


BACKEND_PART = ("kiln_backend_device_ops", "kiln_program", "kiln_plan", "kiln_explanation")


def users_part(prefix):
    """kiln.h shows nothing of what backends and plans are made of; ir.h shows all of it."""
    folder = os.path.join(prefix, "include/kiln")
    bad = []
    for header, wanted in (("kiln.h", False), ("ir.h", True)):
        done = subprocess.run(["gcc", "-std=c11", "-E", "-P", os.path.join(folder, header)],
                              capture_output=True, text=True, check=False)
        defined = set(re.findall(r"}\s*(\w+);", done.stdout))
        bad += [f"{header} {'lacks' if wanted else 'defines'} {name}"
                for name in BACKEND_PART if (name in defined) != wanted]
    return bad


def installed_command(prefix, config):
    """The installed command starts and finds its library by itself."""
    command = os.path.join(prefix, "bin/kiln")
    if not os.path.exists(os.path.join(config["build_dir"], "bin/kiln")):
        return "this build has no kiln command"
    env = environment(prefix, config["libdir"])
    del env["LD_LIBRARY_PATH"]
    made = ["man/man1/kiln.1", "man/man1/kiln-run.1", "bash-completion/completions/kiln", "zsh/site-functions/_kiln",
            "fish/vendor_completions.d/kiln.fish"]
    if not os.path.exists(os.path.join(config["build_dir"], "cli/help/made")):
        made = []  # a build with a sanitizer has none
    return [f"share/{name} is not installed" for name in made if not os.path.exists(os.path.join(prefix, "share", name))] \
        or run([command, "--help"], env=env)


PAGE_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def pages(prefix):
    """What an installed page says of other pages and of examples leads to something that is installed."""
    bad, seen = [], 0
    for folder, _, names in os.walk(os.path.join(prefix, "share")):
        for name in (n for n in names if n.endswith(".md")):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                links = [link for link in PAGE_LINK.findall(file.read()) if "://" not in link]
            wanted = [link for link in links if link.endswith(".md") or "examples/" in link]
            seen += len(wanted)
            bad += [f"{os.path.relpath(os.path.join(folder, name), prefix)}: {link}" for link in wanted
                    if not os.path.exists(os.path.join(folder, link))]
    return bad or ([] if seen > 100 else f"only {seen} links")


CXX_NEEDS = re.compile(r"needs libstdc\+\+\.so")


def fuser_problems(plugin):
    """As for every plugin, except that one in C++ may need the C++ library."""
    return [p for p in exported_symbols.plugin_problems(plugin) if not CXX_NEEDS.match(p)]


def sdk_pkg_config(prefix, work, template, libdir):
    """The templates with one compiler call each and the flags of kiln-fuser.pc."""
    bad = []
    c, cpp = ["gcc", "-std=c11"], ["g++", "-std=c++17"]
    for lang, compiler in (("c", c), ("cpp", cpp), ("c-operator", c), ("cpp-operator", cpp)):
        flags = [subprocess.run(["pkg-config", f"--{what}", "kiln-fuser"], text=True,
                                env=environment(prefix, libdir), capture_output=True, check=False)
                 for what in ("cflags", "libs")]
        if any(f.returncode for f in flags):
            return [f.stderr for f in flags]
        folder = os.path.join(template, lang)
        plugin = os.path.join(work, f"template_{lang}.so")
        sources = [os.path.join(folder, n) for n in os.listdir(folder) if n.endswith((".c", ".cpp"))]
        bad += (run([*compiler, "-Wall", "-Wextra", "-Werror", *flags[0].stdout.split(), *sources,
                     *flags[1].stdout.split(), "-o", plugin]) or fuser_problems(plugin))
    return bad


def sdk_own_project(prefix, work, config, lang):
    """What `kiln plugin new` of the installed command writes, built with CMake alone and loaded."""
    if not os.path.exists(os.path.join(config["build_dir"], "bin/kiln")):
        return []  # told by the case "command"
    env = environment(prefix, config["libdir"])
    command = os.path.join(prefix, "bin/kiln")
    copy = os.path.join(work, f"fast-{lang}")
    plugin = f"{copy}/build/fast_{lang}.so"
    bad = (run([command, "plugin", "new", f"fast-{lang}", "--lang", lang, "--dir", copy], env=env)
           or run(["cmake", "-S", copy, "-B", f"{copy}/build", "-G", "Ninja",
                   f"-DCMAKE_PREFIX_PATH={prefix}"], env=env)
           or run(["cmake", "--build", f"{copy}/build"], env=env) or fuser_problems(plugin))
    if bad:
        return bad
    for name in os.listdir(copy):
        if name.endswith((".c", ".cpp", ".h", ".txt", ".md")):
            text = open(os.path.join(copy, name), encoding="utf-8").read().lower()
            bad += [f"{name} names the template" for word in ("my-fuser", "my_fuser") if word in text]
    listed = subprocess.run([command, "plugin", "list", "--plugin", plugin], env=env, text=True,
                            capture_output=True, check=False)
    if f"org.example.fast-{lang}" not in listed.stdout:
        bad.append(f"the project's fuser is not taken: {listed.stdout}{listed.stderr}")
    return bad


def sdk_package(prefix, work, template):
    """A project of both languages that uses find_package(kiln-fuser)."""
    folder = os.path.join(work, "fuser_package")
    os.makedirs(folder)
    with open(os.path.join(folder, "CMakeLists.txt"), "w") as file:
        file.write("cmake_minimum_required(VERSION 3.16)\nproject(p C CXX)\n"
                   "find_package(kiln-fuser REQUIRED)\nset(CMAKE_CXX_STANDARD 17)\n"
                   f"kiln_add_fuser(mine SOURCES {template}/c/my_fuser.c {template}/c/abi.c)\n"
                   f"kiln_add_fuser(other SOURCES {template}/cpp/my_fuser.cpp LIBS m OUTPUT_NAME renamed)\n")
    return (run(["cmake", "-S", folder, "-B", f"{folder}/build", "-G", "Ninja",
                 f"-DCMAKE_PREFIX_PATH={prefix}"])
            or run(["cmake", "--build", f"{folder}/build"])
            or fuser_problems(f"{folder}/build/mine.so") + fuser_problems(f"{folder}/build/renamed.so"))


def product(build):
    """Every file that the installation copies and that is built comes with `product`, which is what `./dev build` makes."""
    def ninja(*words):
        return subprocess.run(["ninja", "-C", build, "-t", *words], capture_output=True, text=True, check=True).stdout
    if not os.path.exists(os.path.join(build, "build.ninja")):
        return "not built by ninja"
    copied = set()
    for script in glob.glob(f"{build}/**/cmake_install.cmake", recursive=True):
        with open(script, encoding="utf-8") as file:
            copied.update(re.findall(f'"{re.escape(build)}/([^"$:]+)"', file.read()))
    built = {line.split(": ")[0] for line in ninja("targets", "all").splitlines()}
    made = {word.removeprefix(f"{build}/") for word in re.split(r'[\s"]+', ninja("commands", "product"))}
    return [f"{name} is installed, and not in product" for name in sorted(copied & built - made)]


def main():
    config = structure.load(sys.argv).config
    if not config["libkiln"]:
        structure.report("structure/install_consumer", {"install": "this build has no libkiln"})
    libdir = config["libdir"]
    with tempfile.TemporaryDirectory(prefix="kiln-install-") as work:
        prefix = os.path.join(work, "prefix")
        cases = {"product": product(config["build_dir"]), "install": run(["cmake", "--install", config["build_dir"], "--prefix", prefix])}
        if not cases["install"]:
            cases["files"] = files(prefix, config)
            cases["pages"] = pages(prefix)
            cases["headers alone"] = headers_alone(prefix)
            cases["names kept"] = names_kept(prefix, work, libdir)
            cases["users' part"] = users_part(prefix)
            cases["pkg-config"] = pkg_config(prefix, work, libdir)
            cases["find_package"] = cmake_package(prefix, work, libdir)
            cases["remote"] = remote_programs(prefix, work, config)
            cases["schemas"] = schemas(prefix, work, config)
            cases["c++"] = cpp_program(prefix, work, libdir)
            cases["kiln.hpp"] = cpp_header(prefix, work, config)
            cases["command"] = installed_command(prefix, config)
            template = os.path.join(prefix, "share/kiln/template")
            cases["fuser pkg-config"] = sdk_pkg_config(prefix, work, template, libdir)
            for lang in ("c", "cpp"):
                cases[f"fuser project in {lang}"] = sdk_own_project(prefix, work, config, lang)
            cases["fuser find_package"] = sdk_package(prefix, work, template)
            cases["uninstall"] = uninstalls(config)
    structure.report("structure/install_consumer", cases)


if __name__ == "__main__":
    main()
