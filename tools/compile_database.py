#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""compile_database.py BUILD FOLDER: writes FOLDER/compile_commands.json from that of the folder BUILD, with one entry
for each source: those that are compiled together have the flags of the file that includes them."""
import json
import os
import re
import shlex
import sys

INCLUDED = re.compile(r'^#include "(/.+)"$', re.M)


def entries(build):
    """The entries of a build folder, one for each source."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            if "/Unity/unity_" not in entry["file"]:
                yield entry
                continue
            with open(entry["file"], encoding="utf-8") as unity:
                for source in INCLUDED.findall(unity.read()):
                    words = [source if word == entry["file"] else word for word in shlex.split(entry["command"])]
                    yield {**entry, "file": source, "command": shlex.join(words)}


def main():
    build, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(list(entries(build)), file, indent=1)


if __name__ == "__main__":
    main()
