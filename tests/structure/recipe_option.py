# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's recipe for an option on a copy of the tree: one row of base/environment/config.def, and it is checked,
set and shown everywhere."""
import sys

import recipe
import structure

ROW = 'KILN_OPTION(TOY, "toy", INT, "3", "KILN_TOY", "a number that nothing reads")\n'
COUNTED = ("base/environment/config.c", "base/environment/unknown_names.c", "cli/cmd_config.c") # who goes through all rows


def steps(copy):
    copy.insert("base/environment/config.def", "// clang-format on", ROW)
    yield "configure", copy.configure()
    yield "build", copy.compile(*COUNTED) + copy.link_library() + copy.link("bin/kiln")
    yield "one file", copy.counts(1)
    yield "shown", recipe.said(copy.kiln("config"), "toy             3            default     KILN_TOY\n",
                                 "a number that nothing reads")
    yield "environment", recipe.said(copy.kiln("config", KILN_TOY="7"), "toy             7            environment")
    yield "flag", recipe.said(copy.kiln("config", "--set", "toy=2K", KILN_TOY="7"),
                                "toy             2K           flag")
    yield "checked", recipe.said(copy.kiln("config", "--set", "toy=much"), "toy: 'much' is no number", status=1)


if __name__ == "__main__":
    linked = recipe.Linked(structure.load(sys.argv), "option")
    recipe.follow("recipes/option", linked, steps(linked))
