// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_WIRE_H
#define KILN_RPC_WIRE_H

/// Protobuf's fields one by one, for messages whose size nobody knows before and for bytes that
/// stay where they lie. Reading never leaves the piece; what is damaged ends it early, and then
/// some of it is left.
///
/// Unless a function says otherwise: any thread may call it; it cannot fail.

#include "base.h"

typedef struct kilni_wire_piece {
    const unsigned char *bytes;
    size_t length;
} kilni_wire_piece;

typedef struct kilni_wire_field {
    uint32_t number;
    uint64_t value; ///< of a number, whatever its form
    kilni_wire_piece bytes; ///< of a text, message or packed list; else empty
    bool is_bytes;
} kilni_wire_field;

/// Takes the next field off the front; false at the end, and where the rest is damaged.
bool kilni_wire_take(kilni_wire_piece *from, kilni_wire_field *out_field);

/// Takes a number off the front of a packed list.
bool kilni_wire_take_varint(kilni_wire_piece *from, uint64_t *out_value);

/// The first field with this number that has bytes, empty when there is none.
kilni_wire_piece kilni_wire_get(kilni_wire_piece from, uint32_t number);

bool kilni_wire_same(kilni_wire_piece a, kilni_wire_piece b);

/// Copies a text and ends it; false where `size` is not enough or it has a zero inside.
bool kilni_wire_text(kilni_wire_piece from, char *out_text, size_t size);

// ---- writing: without memory the text has failed ----

void kilni_wire_put_varint(kiln_string *out, uint64_t value);
void kilni_wire_put_number(kiln_string *out, uint32_t number, uint64_t value);
void kilni_wire_put(kiln_string *out, uint32_t number, const void *bytes, size_t length);

/// What stands before bytes that are sent from where they lie.
void kilni_wire_put_head(kiln_string *out, uint32_t number, size_t length);

/// A text; an empty one is left out, as proto3 does.
void kilni_wire_put_text(kiln_string *out, uint32_t number, const char *text);

/// A message that was written apart; frees it.
void kilni_wire_put_message(kiln_string *out, uint32_t number, kiln_string *take_message);

#endif
