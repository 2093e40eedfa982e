#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""CONTRIBUTING.md's recipe for a fuser that ships with Kiln, followed in four files; its code is the SDK's template.
A fuser in a repository of its own is unit/cli/writing_a_fuser's."""
import os
import re
import sys

import recipe
import structure

CMAKE = "# SPDX-License-Identifier: MIT OR Apache-2.0\nkiln_plugin(toy SOURCES toy.c)\n"
README = "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n# toy\n\n**Takes** `relu(a + b)`.\n"


def template(root):
    """The template's three files as one; the type gets a name that kf_plugin.h has not."""
    text = ""
    for name in ("abi.h", "my_fuser.c", "abi.c"):
        with open(os.path.join(root, "plugin_sdk/template/c", name), encoding="utf-8") as file:
            text += file.read().replace('#include "abi.h"\n', "")
    text = re.sub("#include <kiln/(.*)>", r'#include "\1"', text)  # as all of Kiln's own files have it
    for old in ("block *b", "    block block;", "} block;"):
        text = text.replace(old, old.replace("block", "toy_block", 1))
    return text.replace("my-fuser", "toy")


def steps(fuser):
    fuser.create("plugins/toy/toy.c", template(fuser.root))
    fuser.create("plugins/toy/CMakeLists.txt", CMAKE)
    fuser.create("plugins/toy/README.md", README)
    fuser.insert("plugins/CMakeLists.txt", "add_subdirectory(reduce)", "add_subdirectory(toy)\n")
    yield "configure", fuser.configure("-DCMAKE_BUILD_TYPE=Release", "-DKILN_WERROR=ON", "-DKILN_REMOTE=OFF",
                                       "-DKILN_ONNX=OFF")
    yield "build", fuser.ninja("kiln", "kiln-plugin-scan", "kiln_plugin_toy")
    cache, kiln = {"KILN_CACHE_DIR": os.path.join(fuser.folder, "cache")}, fuser.built("bin/kiln")
    yield "list", recipe.said(fuser.call(kiln, "plugin", "list", **cache), "org.example.toy")
    told = fuser.call(kiln, "plugin", "check", "--level", "4", "--streams", "6",
                      fuser.built("lib/kiln/plugins/toy.so"), **cache)
    yield "check", recipe.said(told, " 0 failed", "results")
    yield "four files", fuser.counts(4)


if __name__ == "__main__":
    copy = recipe.Copy(structure.load(sys.argv), "fuser")
    recipe.follow("recipes/fuser", copy, steps(copy))
