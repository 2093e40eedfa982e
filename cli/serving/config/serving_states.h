// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_STATES_H
#define KILN_SERVING_STATES_H

/// What a config.pbtxt says of a model whose requests belong to sequences.

#include "remote_models.h"
#include "serving_text.h"

/// Reads `sequence_batching`, where it is: `info` has its inputs and outputs, and afterwards those
/// alone that travel. Errors: INVALID_ARGUMENT where configuration and model differ, UNIMPLEMENTED
/// for what is not served.
kiln_status kilni_serving_states_fill(const kilni_serving_node *config, kiln_model_info *info,
                                      kiln_error *err);

/// What says how sequences are joined, `oldest` or `direct`; NULL: neither is there.
const kilni_serving_node *kilni_serving_states_strategy(const kilni_serving_node *config);

#endif
