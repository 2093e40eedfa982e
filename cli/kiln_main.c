// SPDX-License-Identifier: MIT OR Apache-2.0
// The command `kiln`: finds the subcommand and hands it its arguments. What each does is in its own
// file.

#include "cli.h"

#include <stdio.h>
#include <string.h>

static const cli_command commands[] = {
#ifdef KILN_WITH_ONNX
    {"run", "run an ONNX model on inputs from .npy files", cmd_run},
    {"explain", "tell how a model is cut into blocks, and which fuser won each", cmd_explain},
    {"tune", "measure the fused blocks of a model and keep the winners", cmd_tune},
    {"check-onnx", "run ONNX backend test cases", cmd_check_onnx},
#endif
    {"devices", "list the devices and what they can do", cmd_devices},
    {"plugin", "list the fusers that were found, and why each was taken or not", cmd_plugin},
    {"replay", "run a recorded stream of operations, and compare with the reference", cmd_replay},
    {"ops", "list the operators", cmd_ops},
    {"cache", "show, clear or fill the cache on disk", cmd_cache},
    {"config", "show the knobs with their values and where these come from", cmd_config},
    {"coll", "list the algorithms of collectives, or check them on devices", cmd_coll},
#ifdef KILN_WITH_REMOTE
    {"serve", "offer devices to other machines over gRPC", cmd_serve},
#endif
    {"bench", "measure, each figure beside a peer's from the same run", cmd_bench},
};

static void print_help(FILE *file)
{
    fprintf(file, "usage: kiln COMMAND [ARGUMENTS]\n\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        fprintf(file, "  %-11s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(file, "\n`kiln COMMAND --help` tells more; `kiln --version` the version.\n");
}

int main(int argc, char **argv)
{
    argp_err_exit_status = CLI_USAGE;
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("kiln %s\n", kiln_version());
        return CLI_OK;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            char name[32];
            snprintf(name, sizeof(name), "kiln %s", commands[i].name);
            argv[1] = name;
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "kiln: there is no command \"%s\"; `kiln --help` lists them\n", argv[1]);
    return CLI_USAGE;
}
