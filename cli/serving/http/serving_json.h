// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_JSON_H
#define KILN_SERVING_JSON_H

/// The protocol's JSON: requests with and without binary tensors behind it, answers, descriptions.

#include "remote_models.h"

/// A request as it was read; raw tensors lie in the body it was read from.
typedef struct kilni_json_infer {
    kiln_model_request request;
    char id[KILN_MODEL_NAME];
    kiln_arena arena; ///< tensors that were numbers in the text
    bool binary[KILN_MODEL_TENSORS]; ///< of the wanted outputs
    bool all_binary; ///< of those that the request does not name
} kilni_json_infer;

/// Reads a body whose first `json_length` bytes are JSON. `*out_infer` was zeroed. `fini` also
/// after a failure. Errors: INVALID_ARGUMENT, UNIMPLEMENTED for BYTES, RESOURCE_EXHAUSTED.
kiln_status kilni_json_infer_read(const kiln_env *env, const char *body, size_t length,
                                  size_t json_length, kilni_json_infer *out_infer, kiln_error *err);
void kilni_json_infer_fini(kilni_json_infer *infer);

/// Writes an answer; `*out_json_length` is where binary tensors begin, 0 without any. Errors:
/// INVALID_ARGUMENT for numbers that JSON has not.
kiln_status kilni_json_answer_put(kiln_string *out, const kilni_json_infer *infer,
                                  const kiln_model_answer *answer, size_t *out_json_length,
                                  kiln_error *err);

void kilni_json_metadata_put(kiln_string *out, const kiln_model_info *info);
void kilni_json_config_put(kiln_string *out, const kiln_model_info *info);
void kilni_json_stats_put(kiln_string *out, const kiln_model_stats *stats);

/// A text in quotes.
void kilni_json_text_put(kiln_string *out, const char *text);

/// A list of extents, from `first` on.
void kilni_json_dims_put(kiln_string *out, const kiln_model_tensor *tensor, uint32_t first);

#endif
