# SPDX-License-Identifier: MIT OR Apache-2.0
"""For recipes whose change reaches many files: a copy of the tree in which a recipe is followed and which is
then built, and the count of the files that are edited by hand."""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

import structure

JOBS = os.environ.get("KILN_JOBS", str(os.cpu_count() or 2))


class Recipe:
    """A copy of the tree with a build folder of its own; both go when the test ends."""

    def __init__(self, source):
        self.folder = tempfile.mkdtemp(prefix="kiln-recipe-")
        self.root = os.path.join(self.folder, "tree")
        self.build_dir = os.path.join(self.root, "build")
        self.by_hand = set()
        self.env = {**os.environ, "CCACHE_BASEDIR": self.folder, "CCACHE_NOHASHDIR": "1",
                    "KILN_CACHE_DIR": os.path.join(self.folder, "cache")}
        self.hashes = {}
        for name in structure.Tree(source).files:
            target = os.path.join(self.root, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(os.path.join(source, name), target)
            self.hashes[name] = self.hash_of(name)

    def hash_of(self, name):
        with open(os.path.join(self.root, name), "rb") as file:
            return hashlib.sha256(file.read()).digest()

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def create(self, name, text):
        """A new file, written by hand."""
        path = os.path.join(self.root, name)
        assert not os.path.exists(path), f"{name} is there already"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.by_hand.add(name)

    def insert(self, name, before, text):
        """Puts `text` by hand in front of the first place of a file that begins with `before`."""
        path = os.path.join(self.root, name)
        with open(path, encoding="utf-8") as file:
            old = file.read()
        assert before in old, f"{name} has no {before!r}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(old.replace(before, text + before, 1))
        self.by_hand.add(name)

    def configure(self, *options):
        self.run("cmake", "-S", self.root, "-B", self.build_dir, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                 "-DKILN_WERROR=ON", *options)

    def build(self, *targets):
        self.run("cmake", "--build", self.build_dir, "-j", JOBS, "--target", *targets)

    def run(self, *command):
        """Runs a command in the copy; gives what it prints, and fails with that."""
        done = subprocess.run(command, cwd=self.root, env=self.env, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-4000:]}"
        return done.stdout

    def program(self, test):
        """The built program of the test `unit/module/test_file`."""
        return os.path.join(self.build_dir, "tests/bin", test.replace("/", "_"), test.split("/")[-1])

    def count(self, most):
        """At most so many files are edited by hand, and what else has changed was written by a tool."""
        assert len(self.by_hand) <= most, f"{len(self.by_hand)} files by hand: {sorted(self.by_hand)}"
        for name, before in self.hashes.items():
            if name in self.by_hand or self.hash_of(name) == before:
                continue
            with open(os.path.join(self.root, name), encoding="utf-8") as file:
                generated = "Written by tools/" in file.read(400) or name.startswith("tests/golden/")
            assert generated, f"{name} has changed and is not generated"


def follow(name, steps):
    """Runs steps(recipe) on a copy of the tree that structure.json describes, as the test `name`."""
    recipe = Recipe(structure.load(sys.argv).root)
    problems = []
    try:
        steps(recipe)
    except AssertionError as problem:
        problems = [str(problem)]
    finally:
        recipe.close()
    structure.report(name, {"recipe": problems})
