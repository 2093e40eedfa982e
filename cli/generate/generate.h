// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_GENERATE_H
#define KILN_GENERATE_H

/// Tokens one after the other from a language model: which inputs and outputs are what
/// (generate_names.c), what token comes next (generate_sample.c), the runs (generate_run.c).

#include "onnx.h"

#define GENERATE_MAX_LAYERS 512 ///< pairs of past and present

typedef struct generate_pair {
    uint32_t input;
    uint32_t output;
} generate_pair;

/// The model's inputs and outputs by their part in it; -1: it has none such.
typedef struct generate_names {
    int ids; ///< tokens, [batch, rows]
    int mask; ///< ones, [batch, rows with those before]
    int places; ///< of the tokens, [batch, rows]
    int logits; ///< output, [batch, rows, vocabulary] or without rows
    generate_pair *pairs; ///< what a layer keeps; room for GENERATE_MAX_LAYERS
    size_t n_pairs;
} generate_names;

/// Finds them by the names that exporters write. Errors: UNIMPLEMENTED naming an input or output
/// that is none of them.
kiln_status generate_find_names(const kiln_onnx_model *model, generate_names *out_names,
                                kiln_error *err);

typedef struct generate_sampling {
    double temperature; ///< 0: the likeliest token
    size_t top_k; ///< 0: all
    double top_p; ///< of the probability; 1: all
    uint64_t state; ///< of the random numbers; the seed at first
} generate_sampling;

/// The next token. `order` has room for `count` numbers. Errors: DATA_LOSS when the logits are no
/// numbers.
kiln_status generate_next(generate_sampling *sampling, const float *logits, size_t count,
                          uint32_t *order, int64_t *out_token, kiln_error *err);

typedef struct generate_step { ///< a token, and what its run took
    int64_t token;
    double ns;
    uint64_t plans; ///< made anew
    uint64_t bytes_uploaded;
    uint64_t bytes_read;
} generate_step;

typedef struct generate_options {
    const int64_t *prompt;
    size_t n_prompt;
    size_t max_new;
    const int64_t *ends; ///< tokens that end the text
    size_t n_ends;
    generate_sampling sampling;
    /// Called once, with the session that runs the model.
    void (*on_session)(const kiln_onnx_session *session, void *user);
    /// Called with each token as it comes.
    void (*on_step)(const generate_step *step, void *user);
    void *user;
} generate_options;

/// Runs the model on the prompt, then on each token that it gave. `*out_ended` says whether one of
/// `ends` came, which on_step hears of, too.
kiln_status generate_run(const kiln_onnx_model *model, kiln_device *const *devices,
                         size_t n_devices, const generate_options *options, bool *out_ended,
                         kiln_error *err);

#endif
