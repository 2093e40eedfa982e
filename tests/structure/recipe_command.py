# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's recipe for a command on a copy of the tree: `kiln greet`, by three files."""
import sys

import recipe
import structure

SOURCE = '''// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln greet`: says a word. Decides nothing; the recipe of a command is tried with it.
#include "cli.h"

#include <stdio.h>

int cmd_greet(int argc, char **argv)
{
    static const struct argp argp = {NULL, NULL, NULL, "Says a word.", NULL, NULL, NULL};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    printf("good morning\\n");
    return CLI_OK;
}
'''


def steps(copy):
    copy.create("cli/cmd_greet.c", SOURCE)
    copy.insert("cli/commands.def", "KILN_COMMAND(bench,", 'KILN_COMMAND(greet, NOTHING, "greet", "say a word")\n')
    copy.insert("cli/CMakeLists.txt", "    cmd_ops.c\n", "    cmd_greet.c\n")
    yield "configure", copy.configure()
    yield "build", copy.compile("cli/cmd_greet.c", "cli/kiln_main.c") + copy.link("bin/kiln")
    yield "three files", copy.counts(3)
    yield "in the help", recipe.said(copy.kiln("--help"), "  greet       say a word\n")
    yield "its own help", recipe.said(copy.kiln("greet", "--help"), "Usage: kiln greet")
    yield "runs", recipe.said(copy.kiln("greet"), "good morning")


if __name__ == "__main__":
    linked = recipe.Linked(structure.load(sys.argv), "command")
    recipe.follow("recipes/command", linked, steps(linked))
