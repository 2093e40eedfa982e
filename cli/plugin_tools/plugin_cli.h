// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_CLI_H
#define KILN_PLUGIN_CLI_H

/// The parts of `kiln plugin`: one file for each of its words.

#include "cli.h"

int plugin_list(int argc, char **argv);
int plugin_abi(int argc, char **argv);
int plugin_bench(int argc, char **argv);
int plugin_dump(int argc, char **argv);
int plugin_record(int argc, char **argv);
int plugin_reduce(int argc, char **argv);
int plugin_new(int argc, char **argv);
int plugin_check(int argc, char **argv);
int plugin_fingerprint(int argc, char **argv); ///< for plugin_check alone
int plugin_allow(int argc, char **argv);
int plugin_sign(int argc, char **argv);
int plugin_reset(int argc, char **argv);

/// The template's files, by path below plugin_sdk/template; a row of NULLs ends the table.
typedef struct plugin_template_file {
    const char *path;
    const unsigned char *bytes;
    size_t size;
} plugin_template_file;

extern const plugin_template_file plugin_template[];

#endif
