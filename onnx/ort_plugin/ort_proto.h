// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ORT_PROTO_H
#define KILN_ORT_PROTO_H

// Messages in the wire form of protobuf, written into growing text. Without memory the text says
// `failed`.

#include "base.h"

/// A number, a text, and the beginning of a message or text of that many bytes.
void kilni_ort_proto_number(kiln_string *out, uint32_t field, uint64_t number);
void kilni_ort_proto_float(kiln_string *out, uint32_t field, float number);
void kilni_ort_proto_bytes(kiln_string *out, uint32_t field, const void *bytes, size_t length);
void kilni_ort_proto_text(kiln_string *out, uint32_t field, const char *text);
void kilni_ort_proto_head(kiln_string *out, uint32_t field, uint64_t length);

/// Appends `message` as a field and frees it.
void kilni_ort_proto_message(kiln_string *out, uint32_t field, kiln_string *message);

#endif
