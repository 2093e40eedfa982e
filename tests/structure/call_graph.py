#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who calls whom: reads the functions and tables that each .c file defines and those that it names,
and fails on a circle of files or of folders inside a module. Naming a function counts as calling it,
so a table of functions belongs above what it lists. An inline function of a header counts for the
files that use it. `call_graph.py TREE` prints the circles of a tree."""
import os
import re
import sys

import structure

# Circles that are known, as sets of file names or of folders; the list may only shrink.
KNOWN_FILE = "tests/structure/known_circles.txt"
TOKEN = re.compile(r"[A-Za-z_]\w*|[{}()\[\];=,]")
WORD = re.compile(r"[A-Za-z_]\w*")
NOT_A_NAME = {"if", "for", "while", "switch", "return", "sizeof", "_Static_assert", "static_assert",
              "__attribute__", "_Alignas", "defined"}


def plain(text):
    """C text without comments, strings and preprocessor lines."""
    text = structure.without_strings(structure.without_comments(text))
    return re.sub(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", text)


def definitions(text):
    """Functions and initialised objects at file scope: (name, is static, words of the body)."""
    found = []
    depth = paren = 0
    head, body, name = [], [], None
    initialiser = False
    for match in TOKEN.finditer(text):
        token = match.group(0)
        if depth:
            depth += {"{": 1, "}": -1}.get(token, 0)
            body.append(token)
            if depth == 0 and not initialiser:
                if name:
                    found.append((name, "static" in head, body))
                head, body, name = [], [], None
        elif token == "{":
            if head[:2] == ["extern", '"C"']:
                head = []
                continue
            depth = 1
            if not initialiser:
                name = function_name(head)
        elif token in "([":
            paren += 1
            head.append(token)
        elif token in ")]":
            paren -= 1
            head.append(token)
        elif token == "=" and paren == 0:
            initialiser = True
            name = object_name(head)
        elif token == ";" and paren == 0:
            if initialiser and name:
                found.append((name, "static" in head, body))
            head, body, name, initialiser = [], [], None, False
        elif initialiser:
            body.append(token)
        else:
            head.append(token)
    return found


def function_name(head):
    """The name of the function whose head ends here; None for a struct, union or enum."""
    if not head or head[-1] != ")":
        return None
    depth = 0
    for index in range(len(head) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(head[index], 0)
        if depth == 0:
            name = head[index - 1]
            return name if WORD.fullmatch(name) and name not in NOT_A_NAME else None
    return None


def object_name(head):
    words = [t for t in head if WORD.fullmatch(t)]
    if "[" in head:
        words = [t for t in head[:head.index("[")] if WORD.fullmatch(t)]
    return words[-1] if len(words) > 1 else None


class Module:
    """The files of a module, what each defines and names."""

    def __init__(self, tree, module):
        self.defined = {}  # name -> file
        self.words = {}  # file -> words in it
        inline = {}  # name of a header's inline function -> words of its body
        for name in tree.sources(".c", ".h", top=(module,)):
            if "/template/" in name or "/kernels/" in name:
                continue
            text = plain(tree.read(name))
            if name.endswith(".h"):
                inline.update({n: set(body) for n, _, body in definitions(text)})
                continue
            self.words[name] = set(WORD.findall(text))
            for function, static, _ in definitions(text):
                if not static:
                    self.defined.setdefault(function, name)
        for words in self.words.values():
            expand(words, inline)
        self.calls = {name: self.called(name) for name in self.words}

    def called(self, name):
        """file -> names by which this file calls it"""
        calls = {}
        for word in self.words[name]:
            target = self.defined.get(word)
            if target and target != name:
                calls.setdefault(target, []).append(word)
        return calls


def expand(words, inline):
    """Adds what the inline functions named in `words` name themselves."""
    todo = [w for w in words if w in inline]
    seen = set(todo)
    while todo:
        new = inline[todo.pop()]
        words |= new
        more = [w for w in new if w in inline and w not in seen]
        seen.update(more)
        todo += more


def circles(edges):
    """Tarjan: the strongly connected components of more than one node."""
    index, low, stack, on, result = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for target in edges.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in on:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = []
            while True:
                top = stack.pop()
                on.discard(top)
                component.append(top)
                if top == node:
                    break
            if len(component) > 1:
                result.append(sorted(component))

    sys.setrecursionlimit(10000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(result)


def rooms(calls):
    """The calls between the folders that the files lie in."""
    edges = {}
    for name, targets in calls.items():
        room = os.path.dirname(name)
        edges.setdefault(room, set())
        edges[room] |= {os.path.dirname(t) for t in targets} - {room}
    return edges


def known_circles(tree):
    if KNOWN_FILE not in tree.files:
        return []
    lines = [line for line in tree.read(KNOWN_FILE).split("\n") if line and not line.startswith("#")]
    return [set(line.split()) for line in lines]


def describe(module, component):
    """A short circle inside the component, with a name for each step."""
    inside = set(component)
    best = None
    for start in component:
        queue, came = [start], {start: None}
        for node in queue:
            for target in sorted(module.calls[node]):
                if target == start:
                    path = [node]
                    while came[path[-1]] is not None:
                        path.append(came[path[-1]])
                    path = path[::-1]
                    if best is None or len(path) < len(best):
                        best = path
                if target in inside and target not in came:
                    came[target] = node
                    queue.append(target)
    steps = []
    for here, there in zip(best, best[1:] + best[:1]):
        steps.append(f"{os.path.basename(here)} calls {sorted(module.calls[here][there])[0]} "
                     f"of {os.path.basename(there)}")
    return ", ".join(steps)


def problems(tree):
    known = known_circles(tree)
    used = set()
    result = {}
    for name in structure.MODULES + ("cli", "bench"):
        if not tree.sources(".c", top=(name,)):
            continue
        module = Module(tree, name)
        result[name] = []

        def unknown(members):
            match = next((i for i, k in enumerate(known) if members <= k), None)
            used.add(match)
            return match is None

        for component in circles(module.calls):
            bases = {os.path.basename(f) for f in component}
            if unknown(bases):
                result[name].append(f"a circle of {len(component)} files: "
                                    f"{' '.join(sorted(bases))}: {describe(module, component)}")
        for component in [] if name == "plugins" else circles(rooms(module.calls)):
            if unknown(set(component)):
                result[name].append(f"a circle of folders: {' '.join(component)}: "
                                    f"{describe_rooms(module, component)}")
    stale = [f"{KNOWN_FILE}: no circle has these files any more: {' '.join(sorted(k))}"
             for i, k in enumerate(known) if i not in used]
    if stale:
        result["known circles"] = stale
    return result


def describe_rooms(module, component):
    """Every pair of folders of the component that call each other, with the fewer of the two ways."""
    ways = {}
    for name, targets in module.calls.items():
        for target, words in targets.items():
            pair = (os.path.dirname(name), os.path.dirname(target))
            if pair[0] != pair[1] and pair[0] in component and pair[1] in component:
                ways.setdefault(pair, []).extend(
                    f"{os.path.basename(name)} calls {w} of {os.path.basename(target)}" for w in words)
    said = []
    for pair, names in sorted(ways.items()):
        back = ways.get(pair[::-1], [])
        if back and (len(names), pair) < (len(back), pair[::-1]):
            said += names
    if not said and ways:
        said = min(ways.values(), key=len)
    return "; ".join(said[:40])


def show(root):
    tree = structure.Tree(root)
    for name in structure.MODULES + ("cli", "bench"):
        module = Module(tree, name)
        for component in circles(module.calls):
            print(f"{name}: {len(component)} files: {' '.join(os.path.basename(f) for f in component)}")
            print(f"    {describe(module, component)}")
        if name != "plugins":
            for component in circles(rooms(module.calls)):
                print(f"{name}: folders: {' '.join(component)}")
                for step in describe_rooms(module, component).split("; "):
                    print(f"    {step}")


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        show(sys.argv[1])
    else:
        structure.report("structure/call_graph", problems(structure.load(sys.argv)))
