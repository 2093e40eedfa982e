// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_MODEL_SHOW_H
#define KILN_MODEL_SHOW_H

/// The results of a model's run, for people and as JSON.

#include "cli_json.h"
#include "model_run.h"

/// Names of classes, from a file with a line for each.
typedef struct model_labels {
    const char *path; ///< NULL: there are none
    char **names;
    size_t count;
} model_labels;

/// Errors: NOT_FOUND, RESOURCE_EXHAUSTED. `labels` is the caller's (model_labels_free, also after a
/// failure).
kiln_status model_labels_read(model_labels *labels, kiln_error *err);
void model_labels_free(model_labels *labels);

/// Each output, then the `top` best classes of the first one if it scores classes: [n] or [rows,n].
/// 0: the best of a single row alone.
void model_print_outputs(const model_run *run, const model_labels *labels, long top);
/// Sets "outputs" and "top" of an object.
void model_results_json(json_t *object, const model_run *run, const model_labels *labels, long top);
/// Outputs, classes, times and counts; NULL without memory.
json_t *model_run_json(const model_options *options, const model_run *run,
                       const model_labels *labels, long top);

#endif
