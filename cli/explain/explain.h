// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CLI_EXPLAIN_H
#define KILN_CLI_EXPLAIN_H

/// An explanation as JSON and as a page: what cmd_explain.c's writers share. docs/explain.md has
/// the form of the JSON.

#include "kiln_explained.h"
#include "model_run.h"

enum { EXPLAIN_JSON_VERSION = 2 };

/// A graph of the model and what is said of it.
typedef struct explain_graph {
    char name[160]; ///< "": it is the whole model
    kiln_graph *graph;
    kiln_explanation explanation;
} explain_graph;

/// `*out_text` is the caller's (free). Errors: RESOURCE_EXHAUSTED.
kiln_status explain_json(const model_session *session, const char *model,
                         const explain_graph *graphs, size_t count, char **out_text,
                         kiln_error *err);

/// Writes `text` to `path`; "-" is standard output. Errors: UNAVAILABLE.
kiln_status explain_write(const char *path, const char *text, kiln_error *err);
/// Writes the page around an explanation's JSON, which cannot end the page's script early.
/// `beside` is the JSON of another run, to be shown beside it, or NULL.
kiln_status explain_html(const char *path, const char *json, const char *beside, kiln_error *err);
/// Reads the JSON of another run. The caller frees `*out_text`. Errors: NOT_FOUND, INVALID_ARGUMENT
/// for what is no explanation of this version.
kiln_status explain_read(const char *path, char **out_text, kiln_error *err);

extern const char explain_page[]; ///< with @DATA@ and @BESIDE@ where the JSON goes

#endif
