// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_MODEL_PARTS_H
#define KILN_MODEL_PARTS_H

/// Which devices run which nodes of a model.

#include "cli_json.h"
#include "onnx.h"

/// A list with an object for each part. NULL without memory.
json_t *model_parts(const kiln_onnx_session *session);
/// A line for each part of such a list.
void model_print_parts(const json_t *parts);

#endif
