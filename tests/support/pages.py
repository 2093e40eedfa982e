# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pages that tests follow. In a console block `$ ` begins a command; a line without it is in what the command before
prints. A block with a file name is that file."""
import os
import re

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(folder, text):
    """Pairs of a command and what it promises to print; files are written on the way."""
    found = []
    for kind, name, block in BLOCK.findall(text):
        if name:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(block)
        elif kind == "console":
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append((line[2:], []))
                elif line:
                    found[-1][1].append(line)
    return found
