// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_TEXT_H
#define KILN_SERVING_TEXT_H

/// Protobuf's text format, as far as a config.pbtxt uses it: `key: value`, `key { ... }`, lists in
/// brackets, texts in quotes, comments behind #. A tree of keys, without a schema.

#include "base.h"

typedef struct kilni_serving_node {
    struct kilni_serving_node *next; ///< of the same message, in the file's order
    const char *key;
    const char *value; ///< NULL: a message
    struct kilni_serving_node *members; ///< of a message
    uint32_t line;
} kilni_serving_node;

/// Reads a text into a tree that lies in the arena; a list gives a node for each of its items.
/// Errors: INVALID_ARGUMENT with the line, RESOURCE_EXHAUSTED.
kiln_status kilni_serving_text_read(kiln_arena *arena, const char *text,
                                    kilni_serving_node **out_members, kiln_error *err);

/// The first member with this key, or the next one behind `after`; NULL when there is none.
const kilni_serving_node *kilni_serving_node_find(const kilni_serving_node *members,
                                                  const char *key);
const kilni_serving_node *kilni_serving_node_again(const kilni_serving_node *after);

/// The number of a node. Errors: INVALID_ARGUMENT with the line for what is none, or not within
/// the bounds.
kiln_status kilni_serving_node_number(const kilni_serving_node *node, int64_t least, int64_t most,
                                      int64_t *out_number, kiln_error *err);

#endif
