#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""CONTRIBUTING.md's recipe for a fuser that ships with Kiln, followed in four files; its code is the SDK's template.
A fuser in a repository of its own is unit/cli/writing_a_fuser's."""
import os

import recipe_build

CMAKE = "# SPDX-License-Identifier: MIT OR Apache-2.0\nkiln_plugin(toy SOURCES toy.c)\n"
README = "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n# toy\n\n**Takes** `relu(a + b)`.\n"


def template(root):
    """The template's three files as one; the type gets a name that kf_plugin.h has not."""
    text = ""
    for name in ("abi.h", "my_fuser.c", "abi.c"):
        with open(os.path.join(root, "plugin_sdk/template/c", name), encoding="utf-8") as file:
            text += file.read().replace('#include "abi.h"\n', "")
    for old in ("block *b", "    block block;", "} block;"):
        text = text.replace(old, old.replace("block", "toy_block", 1))
    return text.replace("my-fuser", "toy")


def steps(fuser):
    fuser.create("plugins/toy/toy.c", template(fuser.root))
    fuser.create("plugins/toy/CMakeLists.txt", CMAKE)
    fuser.create("plugins/toy/README.md", README)
    fuser.insert("plugins/CMakeLists.txt", "add_subdirectory(reduce)", "add_subdirectory(toy)\n")
    fuser.configure("-DKILN_REMOTE=OFF", "-DKILN_ONNX=OFF")
    fuser.build("kiln", "kiln-plugin-scan", "kiln_plugin_toy")
    kiln = os.path.join(fuser.build_dir, "bin/kiln")
    told = fuser.run(kiln, "plugin", "list")
    assert "org.example.toy" in told, told
    told = fuser.run(kiln, "plugin", "check", "--level", "4", "--streams", "6",
                     os.path.join(fuser.build_dir, "lib/kiln/plugins/toy.so"))
    assert " 0 failed" in told and "results" in told, told
    fuser.count(4)


if __name__ == "__main__":
    recipe_build.follow("recipes/fuser", steps)
