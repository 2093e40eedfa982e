// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BUNDLE_CLI_H
#define KILN_BUNDLE_CLI_H

/// What the words of `kiln bundle` share: running a bundle on arrays.

#include "base_npy.h"
#include "cli_json.h"

int bundle_make(int argc, char **argv);
int bundle_run_word(int argc, char **argv);
int bundle_check(int argc, char **argv);
int bundle_compile(int argc, char **argv);
int bundle_add(int argc, char **argv);
int bundle_facts(int argc, char **argv);

enum { BUNDLE_MOST_IO = 64 };

typedef struct bundle_file { ///< "[NAME=]FILE"
    const char *name; ///< NULL: by position
    const char *path;
} bundle_file;

typedef struct bundle_request { ///< texts are the caller's
    const cli_device_options *device;
    const char *folder;
    bundle_file inputs[BUNDLE_MOST_IO];
    size_t n_inputs;
    bundle_file outputs[BUNDLE_MOST_IO]; ///< to be written
    size_t n_outputs;
    uint32_t repeats;
    bool no_compile;
} bundle_request;

typedef struct bundle_result { ///< bundle_result_free, also after a failure
    kiln_npy outputs[BUNDLE_MOST_IO];
    char names[BUNDLE_MOST_IO][64];
    size_t n_outputs;
    char device_name[256];
    kiln_bundle_info info;
    double first_ns; ///< from opening the bundle to the first result on the host
    double repeat_ns; ///< median; 0: none
} bundle_result;

/// Cuts "[NAME=]FILE" in place; a text that is the name of a file is one.
bundle_file bundle_file_of(char *text);

/// Whether a path is that of a folder with a bundle.
bool bundle_is_at(const char *path);

/// Opens the device and the bundle, runs it, reads the outputs, and writes those that are wanted.
kiln_status bundle_execute(const bundle_request *request, bundle_result *out_result,
                           kiln_error *err);
void bundle_result_free(bundle_result *result);
/// Device, times, where the programs came from.
void bundle_print_report(const bundle_result *result);
/// The same, and what the outputs are; NULL without memory.
json_t *bundle_report_json(const bundle_request *request, const bundle_result *result);

/// Runs a bundle once on zeros for each of its sets of shapes, and waits.
kiln_status bundle_try_all(kiln_device *device, kiln_bundle *bundle, kiln_error *err);

/// Reads a tensor; the caller frees it (kiln_npy_free).
kiln_status bundle_read(kiln_tensor *tensor, kiln_npy *out_array, kiln_error *err);

#endif
