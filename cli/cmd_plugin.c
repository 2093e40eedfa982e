// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin WORD`: finds the function of the word and hands it its arguments. What each does is
// in plugin_<word>.c; this decides nothing else.

#include "help.h"
#include "plugin_cli.h"

#include <string.h>

static const cli_command words[] = {
    {"allow", "add files to the list of plugins that may be loaded", plugin_allow},
    {"abi", "print or compare the plugin interface's version and layout", plugin_abi},
    {"list", "the fusers that were found, and why each was taken or not", plugin_list},
    {"bench", "time a stream or a model: each block by every fuser, and unfused", plugin_bench},
    {"check", "check a plugin: the rules, results, kernels, speed", plugin_check},
    {"reset", "forget why a plugin was refused or a fuser put away", plugin_reset},
    {"dump", "show the launches, arguments and sources of a stream or a model", plugin_dump},
    {"new", "write a project with a fuser or an operator that works", plugin_new},
    {"record", "run a program and write its streams as replayable files", plugin_record},
    {"reduce", "shrink a replayable file to what still fails", plugin_reduce},
    {"sign", "sign plugins, or make a key to sign them with", plugin_sign},
    {"run", "run a replayable file; --compare with the reference", cmd_replay},
    {0},
};

int cmd_plugin(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "fingerprint") == 0) { // what `check` runs in another process
        return plugin_fingerprint(argc - 1, argv + 1);
    }
    return help_run_word("kiln plugin", words, argc, argv);
}
