// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages in the wire form of protobuf: lengths before contents, numbers by groups of seven bits.
// What they mean is ort_model.c's.
#include "ort_proto.h"

#include <string.h>

enum { WIRE_NUMBER = 0, WIRE_BYTES = 2, WIRE_32_BITS = 5 };

static void append_varint(kiln_string *out, uint64_t number)
{
    char bytes[10];
    size_t length = 0;
    do {
        uint64_t rest = number >> 7;
        bytes[length++] = (char)((number & 0x7f) | (rest != 0 ? 0x80 : 0));
        number = rest;
    } while (number != 0);
    kiln_string_append(out, bytes, length);
}

static void append_key(kiln_string *out, uint32_t field, uint32_t wire)
{
    append_varint(out, (uint64_t)field << 3 | wire);
}

void kilni_ort_proto_number(kiln_string *out, uint32_t field, uint64_t number)
{
    append_key(out, field, WIRE_NUMBER);
    append_varint(out, number);
}

void kilni_ort_proto_float(kiln_string *out, uint32_t field, float number)
{
    char bytes[sizeof(number)];
    memcpy(bytes, &number, sizeof(number));
    append_key(out, field, WIRE_32_BITS);
    kiln_string_append(out, bytes, sizeof(bytes));
}

void kilni_ort_proto_head(kiln_string *out, uint32_t field, uint64_t length)
{
    append_key(out, field, WIRE_BYTES);
    append_varint(out, length);
}

void kilni_ort_proto_bytes(kiln_string *out, uint32_t field, const void *bytes, size_t length)
{
    kilni_ort_proto_head(out, field, length);
    if (length > 0) {
        kiln_string_append(out, bytes, length);
    }
}

void kilni_ort_proto_text(kiln_string *out, uint32_t field, const char *text)
{
    kilni_ort_proto_bytes(out, field, text, strlen(text));
}

void kilni_ort_proto_message(kiln_string *out, uint32_t field, kiln_string *message)
{
    out->failed = out->failed || message->failed;
    kilni_ort_proto_bytes(out, field, message->text, message->length);
    kiln_string_fini(message);
}
