# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the structure tests share: the tree, the build's description of itself, the count line."""
import json
import os
import re
import shutil
import subprocess
import sys

MODULES = ("base", "ir", "cl_backend", "plugin_sdk", "fusion_host", "plugins", "collective",
           "runtime", "autodiff", "remote_grpc", "onnx")
TOP = MODULES + ("cli", "python", "examples", "tests", "bench", "tools")
PUBLIC_HEADERS = re.compile(r"\bPUBLIC_HEADERS\b([^)]*)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)


class Tree:
    """The source files below a root, found by git where it knows the tree, else by walking."""

    def __init__(self, root, config=None):
        self.root = root
        self.config = config or {}
        self.named = {}  # module -> files that it installs
        self.files = sorted(self._list())

    def _list(self):
        command = ["git", "-C", self.root, "ls-files", "-z", "--cached", "--others",
                   "--exclude-standard"]
        if shutil.which("git") and os.path.exists(os.path.join(self.root, ".git")):
            listed = subprocess.run(command, capture_output=True, check=False)
            if listed.returncode == 0:
                names = set(listed.stdout.decode().split("\0")) - {""}
                return [n for n in names if os.path.isfile(os.path.join(self.root, n))]
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if not f.startswith(("build", "."))]
            found += [os.path.relpath(os.path.join(folder, n), self.root) for n in names]
        return found

    def read(self, name):
        with open(os.path.join(self.root, name), errors="replace") as file:
            return file.read()

    def sources(self, *suffixes, top=TOP):
        return [n for n in self.files if n.endswith(suffixes) and n.split("/")[0] in top]

    def public_headers(self):
        """Headers that a user or a plugin author includes, and the tables that these include."""
        return [name for name in self.files
                if name.endswith(".h") and name.split("/")[0] in MODULES and self.is_public(name)]

    def is_public(self, name):
        module, _, inside = name.partition("/")
        if module == "plugin_sdk":
            return "/template/" not in name
        return inside == module + ".h" or inside in self.installed(module)

    def installed(self, module):
        """What the module's CMakeLists.txt names after PUBLIC_HEADERS."""
        if module not in self.named:
            path = module + "/CMakeLists.txt"
            text = self.read(path) if path in self.files else ""
            self.named[module] = {file for match in PUBLIC_HEADERS.finditer(text)
                                  for file in match.group(1).split()}
        return self.named[module]


def without_comments(text):
    """C text with comments blanked, line numbers kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        piece = match.group(0)
        if piece.startswith("/"):
            return re.sub(r"[^\n]", " ", piece)
        return piece

    return pattern.sub(blank, text)


def without_strings(text):
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', '""', text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def load(argv):
    """The tree and the configuration named on the command line (build/structure.json)."""
    with open(argv[1]) as file:
        config = json.load(file)
    return Tree(config["source_dir"], config)


def report(suite, cases):
    """cases: name -> list of problems, or a string that says why the case was skipped."""
    passed = failed = skipped = 0
    for name, problems in cases.items():
        if isinstance(problems, str):
            skipped += 1
            print(f"SKIP {suite} {name}: {problems}")
        elif problems:
            failed += 1
            print(f"FAIL {suite} {name}")
            for problem in problems[:60]:
                print(f"    {problem}")
        else:
            passed += 1
    print(f"kiln-test: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)
