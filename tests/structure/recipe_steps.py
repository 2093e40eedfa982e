# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests of CONTRIBUTING's recipes share: a copy of the tree in which the steps are taken. The copy is
configured as this build was, so that its lists of sources count; what an edit touches is compiled anew, and
linked with this build's objects for the rest."""
import json
import os
import re
import shlex
import shutil
import subprocess

CACHED = re.compile(r"^((?:KILN_\w+|CMAKE_BUILD_TYPE|CMAKE_C_COMPILER):\w+)=(.*)$", re.M)


class Copy:
    """A copy of the tree, what was edited in it, and what was built of it."""

    def __init__(self, tree, name):
        self.tree = tree
        self.main = tree.config["build_dir"]
        folder = os.path.join(self.main, "recipes", name)
        shutil.rmtree(folder, ignore_errors=True)
        self.root, self.build = os.path.join(folder, "tree"), os.path.join(folder, "build")
        self.edited = []
        self.commands = {}
        for path in tree.files:
            os.makedirs(os.path.dirname(os.path.join(self.root, path)), exist_ok=True)
            shutil.copy2(os.path.join(tree.root, path), os.path.join(self.root, path))

    def path(self, name):
        return os.path.join(self.root, name)

    # ---- steps of a recipe ----

    def create(self, name, text):
        with open(self.path(name), "x", encoding="utf-8") as file:
            file.write(text)
        self.edited.append(name)

    def insert(self, name, before, text):
        """Writes `text` before the one place that reads `before`."""
        with open(self.path(name), encoding="utf-8") as file:
            old = file.read()
        assert old.count(before) == 1, f"{name} has {before!r} {old.count(before)} times"
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(old.replace(before, text + before))
        self.edited.append(name)

    # ---- building ----

    def call(self, *command, **environment):
        """Exit status and all that was said."""
        env = {**os.environ, "KILN_CACHE_DIR": "off", **environment}
        env["LD_LIBRARY_PATH"] = ":".join([os.path.join(self.build, "lib"), os.path.join(self.main, "lib")])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              cwd=self.build, env=env, timeout=300)
        return done.returncode, done.stdout

    def problems(self, *command):
        status, said = self.call(*command)
        return [] if status == 0 else [f"{command[0]}: status {status}"] + said.splitlines()[-12:]

    def configure(self):
        os.makedirs(self.build)
        with open(os.path.join(self.main, "CMakeCache.txt"), encoding="utf-8") as file:
            options = [f"-D{key}={value}" for key, value in CACHED.findall(file.read())]
        bad = self.problems("cmake", "-S", self.root, "-B", self.build, "-G", "Ninja", *options, "-DKILN_TESTS=OFF",
                            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        if not bad:
            with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as file:
                self.commands = {os.path.relpath(entry["file"], self.root): shlex.split(entry["command"])
                                 for entry in json.load(file)}
        return bad

    def compile(self, *names):
        """Compiles sources of the copy; what the build generates is this build's."""
        bad = []
        for name in names:
            if name not in self.commands:
                return bad + [f"{name} is in no CMakeLists.txt"]
            words = [word.replace(self.build, self.main) for word in self.commands[name]]
            os.makedirs(os.path.dirname(os.path.join(self.build, words[words.index("-o") + 1])), exist_ok=True)
            bad += self.problems(*words)
        return bad

    def link(self, output):
        """Links `output` as the copy's build would, from what was compiled here and this build's objects."""
        _, said = self.call("ninja", "-t", "commands", output)
        line = [c for c in said.splitlines() if f" -o {output} " in c][-1]
        words = shlex.split(line[line.index(":") + 1:].replace("&&", "", 1).rsplit("&&", 1)[0])
        at = words.index("-o") + 1
        for i, word in enumerate(words):
            here, main = os.path.join(self.build, word), os.path.join(self.main, word)
            if i != at and not os.path.exists(here) and os.path.exists(main) and not word.startswith("-"):
                words[i] = main
        os.makedirs(os.path.dirname(os.path.join(self.build, output)), exist_ok=True)
        return self.problems(*words)

    def link_library(self):
        """The shared library, under the names that programs look for."""
        name = os.path.basename(os.path.realpath(self.tree.config["libkiln"]))
        bad = self.link(f"lib/{name}")
        if not bad:
            link = os.path.join(self.build, "lib", ".".join(name.split(".")[:3]))
            os.symlink(name, link)
        return bad

    def kiln(self, *arguments, **environment):
        own = os.path.join(self.build, "bin/kiln")
        return self.call(own if os.path.exists(own) else os.path.join(self.main, "bin/kiln"), *arguments, **environment)

    # ---- what was done ----

    def by_hand(self):
        """Files that differ from the tree's, or are new."""
        names = set()
        for folder, _, files in os.walk(self.root):
            for file in files:
                name = os.path.relpath(os.path.join(folder, file), self.root)
                old = os.path.join(self.tree.root, name)
                with open(os.path.join(folder, file), "rb") as new:
                    if not os.path.exists(old) or open(old, "rb").read() != new.read():
                        names.add(name)
        return names

    def counts(self, wanted):
        """The recipe's files are those that were edited, and as many as it says."""
        names = self.by_hand()
        bad = [] if names == set(self.edited) else [f"changed: {sorted(names)}, edited: {sorted(self.edited)}"]
        return bad + ([] if len(names) == wanted else [f"{len(names)} files by hand, the recipe says {wanted}"])


def said(answer, *parts, status=0):
    """What is wrong with an answer of a command."""
    code, text = answer
    bad = [] if code == status else [f"status {code}, not {status}: {text[-400:]}"]
    return bad + [f"no {part!r} in {text[-400:]!r}" for part in parts if part not in text]
