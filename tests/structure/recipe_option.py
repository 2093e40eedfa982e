# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's recipe for an option on a copy of the tree: one row of base/environment/config.def, and it is checked,
set and shown everywhere."""
import sys

import recipe_steps as recipe
import structure

ROW = 'KILN_OPTION(TOY, "toy", INT, "3", "KILN_TOY", "a number that nothing reads")\n'
COUNTED = ("base/environment/config.c", "base/environment/unknown_names.c", "cli/cmd_config.c") # who goes through all rows


def main():
    copy = recipe.Copy(structure.load(sys.argv), "option")
    cases = {}
    copy.insert("base/environment/config.def", "// clang-format on", ROW)
    cases["configure"] = copy.configure()
    cases["build"] = copy.compile(*COUNTED) + copy.link_library() + copy.link("bin/kiln")
    cases["one file"] = copy.counts(1)
    cases["shown"] = recipe.said(copy.kiln("config"), "toy             3            default     KILN_TOY\n",
                                 "a number that nothing reads")
    cases["environment"] = recipe.said(copy.kiln("config", KILN_TOY="7"), "toy             7            environment")
    cases["flag"] = recipe.said(copy.kiln("config", "--set", "toy=2K", KILN_TOY="7"),
                                "toy             2K           flag")
    cases["checked"] = recipe.said(copy.kiln("config", "--set", "toy=much"), "toy: 'much' is no number", status=1)
    structure.report("recipes/option", cases)


if __name__ == "__main__":
    main()
