#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The walk of a tensor in docs/architecture.md: every step names a function of a file that defines
it, a step reaches the next one, and no room is entered twice. A step is a line of the numbered list:
`file.c`: `function`, perhaps after "from 3" (not from the step before) or with "by `member`" (not by
a call, but through that member of a table that lists the function)."""
import os
import re
import sys

import call_graph
import structure

DOCUMENT = "docs/architecture.md"
TITLE = "## A walk of one tensor"
STEP = re.compile(r"^(\d+)\. (?:from (\d+)(?:, by `(\w+)`)?, )?(?:by `(\w+)`, )?`(\w+\.c)`: `(\w+)`", re.M)


class Source:
    """The functions of a file, and the words in each."""

    def __init__(self, text):
        plain = call_graph.plain(text)
        self.functions = {name: set(body) for name, _, body in call_graph.definitions(plain)}

    def reach(self, function):
        """The words of a function and of all functions of this file that it leads to."""
        seen, todo, words = {function}, [function], set()
        while todo:
            body = self.functions[todo.pop()]
            words |= body
            more = [w for w in body if w in self.functions and w not in seen]
            seen.update(more)
            todo += more
        return words


def read_steps(text):
    start = text.find(TITLE)
    section = text[start:text.find("\n## ", start + 1)] if start >= 0 else ""
    return [(int(m[1]), int(m[2]) if m[2] else int(m[1]) - 1, m[3] or m[4], m[5], m[6])
            for m in STEP.finditer(section)]


def find(tree, name):
    """Path and text of the file of this name: of the tree, or written by the build."""
    for path in tree.files:
        if os.path.basename(path) == name:
            return path, tree.read(path)
    for folder, _, names in os.walk(tree.config.get("build_dir", os.devnull)):
        if name in names:
            with open(os.path.join(folder, name), errors="replace") as file:
                return os.path.relpath(os.path.join(folder, name), tree.config["build_dir"]), file.read()
    return None, None


def is_listed(tree, path, member, function):
    """Whether a table of the module has the function as this member."""
    pattern = re.compile(rf"\.{member}\s*=\s*{function}\b")
    return any(pattern.search(tree.read(f)) for f in tree.sources(".c", top=(path.split("/")[0],)))


def problems(tree):
    steps = read_steps(tree.read(DOCUMENT)) if DOCUMENT in tree.files else []
    found = [] if len(steps) > 5 else [f"{DOCUMENT}: no numbered walk below '{TITLE}'"]
    sources, rooms, functions = {}, [], {}
    for number, before, member, name, function in steps:
        path, text = find(tree, name)
        if path is None:
            found.append(f"step {number}: there is no file {name}")
            continue
        source = sources.setdefault(name, Source(text))
        functions[number] = (source, function)
        if function not in source.functions:
            found.append(f"step {number}: {path} does not define {function}")
            continue
        room = os.path.dirname(path)
        if room in rooms[:-1]:
            found.append(f"step {number}: {room} is entered again")
        if not rooms or rooms[-1] != room:
            rooms.append(room)
        if number == 1 or before not in functions:
            continue
        caller, start = functions[before]
        if start not in caller.functions:
            continue
        if (member or function) not in caller.reach(start):
            found.append(f"step {number}: {start} does not lead to {member or function}")
        if member and not is_listed(tree, path, member, function):
            found.append(f"step {number}: no table has .{member} = {function}")
    return {"walk": found}


if __name__ == "__main__":
    structure.report("structure/walk", problems(structure.load(sys.argv)))
