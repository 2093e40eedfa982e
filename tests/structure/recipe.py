# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests of CONTRIBUTING's recipes share: a copy of the tree in which a recipe's steps are taken, which is
built, and whose files that were edited by hand are counted."""
import json
import os
import re
import shlex
import shutil
import subprocess

import structure

CACHED = re.compile(r"^((?:KILN_\w+|CMAKE_BUILD_TYPE|CMAKE_C_COMPILER):\w+)=(.*)$", re.M)
JOBS = os.environ.get("KILN_JOBS", str(os.cpu_count() or 2))
LIMIT_S = 800


def write_if_other(path, data):
    """What is not changed is not compiled again."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == data:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


class Copy:
    """A copy of the tree below this build's folder, with a build folder beside it, and what was edited in it. A kept
    copy is brought up to date by the next run, which then compiles only what changed."""

    def __init__(self, tree, name, keep=False):
        self.tree, self.keep = tree, keep
        self.main = tree.config["build_dir"]
        self.folder = os.path.join(self.main, "recipes", name)
        if not keep:
            self.remove()
        self.root, self.build = os.path.join(self.folder, "tree"), os.path.join(self.folder, "build")
        self.env = {"CCACHE_BASEDIR": self.folder, "CCACHE_NOHASHDIR": "1", "KILN_CACHE_DIR": "off"}
        self.edits = {}  # file -> its text by hand
        self.first = {}  # file -> its bytes as they were copied: the tree may change meanwhile
        for path in set(self.files()) - set(tree.files):
            os.unlink(self.path(path))
        for path in tree.files:
            with open(os.path.join(tree.root, path), "rb") as file:
                self.first[path] = file.read()
            self.restore(path)
            shutil.copymode(os.path.join(tree.root, path), self.path(path))

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.root, name)

    def built(self, name):
        return os.path.join(self.build, name)

    def program(self, test):
        """The built program of the test `unit/module/test_file`."""
        return self.built(os.path.join("tests/bin", test.replace("/", "_"), test.split("/")[-1]))

    def files(self):
        return [os.path.relpath(os.path.join(folder, file), self.root)
                for folder, _, files in os.walk(self.root) for file in files]

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    # ---- steps of a recipe ----

    def create(self, name, text):
        assert not os.path.exists(self.path(name)), f"{name} is there already"
        self.write(name, text)

    def insert(self, name, before, text):
        """Writes `text` before the one place that reads `before`."""
        old = self.read(name)
        assert old.count(before) == 1, f"{name} has {before!r} {old.count(before)} times"
        self.write(name, old.replace(before, text + before))

    def write(self, name, text):
        write_if_other(self.path(name), text.encode())
        self.edits[name] = text

    def restore(self, name):
        """The file as it was copied, or none."""
        if name in self.first:
            write_if_other(self.path(name), self.first[name])
        else:
            os.unlink(self.path(name))

    # ---- building ----

    def call(self, *command, **environment):
        """Exit status and all that was said."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              cwd=self.root, env={**os.environ, **self.env, **environment}, timeout=LIMIT_S)
        return done.returncode, done.stdout

    def problems(self, *command, **environment):
        status, text = self.call(*command, **environment)
        return [] if status == 0 else [f"{' '.join(command)}: status {status}"] + text.splitlines()[-12:]

    def configure(self, *options):
        return self.problems("cmake", "-S", self.root, "-B", self.build, "-G", "Ninja", *options)

    def ninja(self, *targets):
        return self.problems("ninja", "-C", self.build, "-j", JOBS, *targets)

    # ---- what was done ----

    def changed(self):
        """Files that differ from the tree's, or are new."""
        names = set()
        for name in self.files():
            with open(self.path(name), "rb") as new:
                if self.first.get(name) != new.read():
                    names.add(name)
        return names

    def is_generated(self, name):
        return name.startswith("tests/golden/") or "Written by tools/" in self.read(name)[:400]

    def counts(self, wanted):
        """What changed was edited by hand, in as many files as the recipe says, or written by a tool."""
        names = {name for name in self.changed() if name in self.edits or not self.is_generated(name)}
        bad = [] if names == set(self.edits) else [f"changed: {sorted(names)}, edited: {sorted(self.edits)}"]
        return bad + ([] if len(names) == wanted else [f"{len(names)} files by hand, the recipe says {wanted}"])


class Linked(Copy):
    """A copy that is configured as this build was, so that its lists of sources count; what an edit touches is
    compiled anew, and linked with this build's objects for the rest."""

    def __init__(self, tree, name):
        super().__init__(tree, name)
        self.commands = {}
        self.env["LD_LIBRARY_PATH"] = ":".join([self.built("lib"), os.path.join(self.main, "lib")])

    def call(self, *command, **environment):
        return super().call("env", "-C", self.build, *command, **environment)

    def configure(self, *options):
        os.makedirs(self.build)
        with open(os.path.join(self.main, "CMakeCache.txt"), encoding="utf-8") as file:
            options = [*options, *(f"-D{key}={value}" for key, value in CACHED.findall(file.read()))]
        bad = super().configure(*options, "-DKILN_TESTS=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        if not bad:
            with open(self.built("compile_commands.json"), encoding="utf-8") as file:
                for entry in json.load(file):
                    words = shlex.split(entry["command"])
                    for source in self.included(entry["file"]):
                        self.commands[os.path.relpath(source, self.root)] = words
        return bad

    def included(self, source):
        """The sources of a file that includes those that are compiled together, else the file itself."""
        if "/Unity/" not in source:
            return [source]
        with open(source, encoding="utf-8") as file:
            return re.findall(r'^#include "(.+)"$', file.read(), re.M)

    def compile(self, *names):
        """Compiles sources of the copy; what the build generates is this build's."""
        bad = []
        for name in names:
            if name not in self.commands:
                return bad + [f"{name} is in no CMakeLists.txt"]
            words = [word if "/Unity/" in word else word.replace(self.build, self.main)
                     for word in self.commands[name]]
            os.makedirs(os.path.dirname(self.built(words[words.index("-o") + 1])), exist_ok=True)
            bad += self.problems(*words)
        return bad

    def link(self, output):
        """Links `output` as the copy's build would, from what was compiled here and this build's objects."""
        _, text = self.call("ninja", "-t", "commands", output)
        line = [c for c in text.splitlines() if f" -o {output} " in c][-1]
        words = shlex.split(line[line.index(":") + 1:].replace("&&", "", 1).rsplit("&&", 1)[0])
        at = words.index("-o") + 1
        for i, word in enumerate(words):
            main = os.path.join(self.main, word)
            if i != at and not os.path.exists(self.built(word)) and os.path.exists(main) and not word.startswith("-"):
                words[i] = main
        os.makedirs(os.path.dirname(self.built(output)), exist_ok=True)
        return self.problems(*words)

    def link_library(self):
        """The shared library, under the names that programs look for."""
        name = os.path.basename(os.path.realpath(self.tree.config["libkiln"]))
        bad = self.link(f"lib/{name}")
        for other in [] if bad else os.listdir(os.path.join(self.main, "lib")):
            if other.startswith("libkiln.so.") and other != name:
                os.symlink(name, self.built(f"lib/{other}"))
        return bad

    def kiln(self, *arguments, **environment):
        own = self.built("bin/kiln")
        return self.call(own if os.path.exists(own) else os.path.join(self.main, "bin/kiln"), *arguments, **environment)


def said(answer, *parts, status=0):
    """What is wrong with an answer of a command."""
    code, text = answer
    bad = [] if code == status else [f"status {code}, not {status}: {text[-400:]}"]
    return bad + [f"no {part!r} in {text[-400:]!r}" for part in parts if part not in text]


def refused(answer, word):
    """A tree with a piece missing does not build, and the message names the piece."""
    if not answer:
        return ["it is built though a piece is missing"]
    return [] if word in " ".join(answer) else [f"nothing says {word}:"] + answer


def follow(name, copy, steps):
    """Reports steps, pairs of a name and its problems, as the test `name`, up to the first that fails."""
    cases = {}
    try:
        for case, problems in steps:
            cases[case] = problems
            if problems:
                break
    finally:
        if not copy.keep:
            copy.remove()
    structure.report(name, cases)
