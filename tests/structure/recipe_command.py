# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's first change, which is its recipe for a command, on a copy of the tree: `kiln greet`, by three
files and a test. `./dev build` compiles and links what changed, with this build's objects for the rest."""
import os
import sys

import recipe
import structure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from pages import commands  # noqa: E402

CHANGED = {"cli/cmd_greet.c", "cli/commands.def", "cli/CMakeLists.txt", "tests/unit/cli/test_commands.py"}


def build(copy):
    return copy.configure() or copy.compile("cli/cmd_greet.c", "cli/kiln_main.c") + copy.link("bin/kiln")


def steps(copy):
    page = copy.read("CONTRIBUTING.md")
    os.symlink(copy.build, copy.path("build"))
    for command, promises in commands(copy.root, page):
        if command == "./dev build":
            yield command, build(copy)
        else:
            yield command, recipe.said(recipe.Copy.call(copy, "bash", "-ec", command), *promises)
    names = copy.changed()
    yield "three files and a test", [] if names == CHANGED else [f"changed: {sorted(names)}"]
    yield "in the help", recipe.said(copy.kiln("--help"), "  greet       say a word\n")
    yield "its own help", recipe.said(copy.kiln("greet", "--help"), "Usage: kiln greet")


if __name__ == "__main__":
    linked = recipe.Linked(structure.load(sys.argv), "command")
    recipe.follow("recipes/command", linked, steps(linked))
