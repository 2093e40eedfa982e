// SPDX-License-Identifier: MIT OR Apache-2.0
// Protobuf's wire format by hand, in both directions: varints, fixed numbers, and pieces with a
// length. Decides nothing about what the fields mean.

#include "rpc_wire.h"

#include <string.h>

bool kilni_wire_take_varint(kilni_wire_piece *from, uint64_t *out_value)
{
    *out_value = 0;
    for (int shift = 0; shift < 64 && from->length > 0; shift += 7) {
        unsigned char byte = *from->bytes++;
        from->length--;
        *out_value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return true;
        }
    }
    return false;
}

static bool take_fixed(kilni_wire_piece *from, size_t length, uint64_t *out_value)
{
    if (length > from->length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        *out_value |= (uint64_t)from->bytes[i] << (8 * i);
    }
    from->bytes += length;
    from->length -= length;
    return true;
}

/// Takes tag and value; may stop anywhere.
static bool take_field(kilni_wire_piece *from, kilni_wire_field *out_field)
{
    uint64_t tag = 0;
    uint64_t length = 0;
    if (!kilni_wire_take_varint(from, &tag)) {
        return false;
    }
    *out_field = (kilni_wire_field){.number = (uint32_t)(tag >> 3), .bytes = {from->bytes, 0}};
    switch (tag & 7) {
    case 0:
        return kilni_wire_take_varint(from, &out_field->value);
    case 1:
        return take_fixed(from, 8, &out_field->value);
    case 5:
        return take_fixed(from, 4, &out_field->value);
    case 2:
        break;
    default:
        return false;
    }
    if (!kilni_wire_take_varint(from, &length) || length > from->length) {
        return false;
    }
    out_field->is_bytes = true;
    out_field->bytes = (kilni_wire_piece){from->bytes, (size_t)length};
    from->bytes += length;
    from->length -= (size_t)length;
    return true;
}

bool kilni_wire_take(kilni_wire_piece *from, kilni_wire_field *out_field)
{
    kilni_wire_piece rest = *from;
    bool taken = take_field(&rest, out_field);
    *from = taken ? rest : *from; // what is damaged stays, and so shows
    return taken;
}

kilni_wire_piece kilni_wire_get(kilni_wire_piece from, uint32_t number)
{
    kilni_wire_field field;
    while (kilni_wire_take(&from, &field)) {
        if (field.number == number) {
            return field.bytes;
        }
    }
    return (kilni_wire_piece){NULL, 0};
}

bool kilni_wire_same(kilni_wire_piece a, kilni_wire_piece b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

bool kilni_wire_text(kilni_wire_piece from, char *out_text, size_t size)
{
    if (from.length >= size || (from.length > 0 && memchr(from.bytes, 0, from.length) != NULL)) {
        return false;
    }
    if (from.length > 0) {
        memcpy(out_text, from.bytes, from.length);
    }
    out_text[from.length] = '\0';
    return true;
}

// ---- writing ----

void kilni_wire_put_varint(kiln_string *out, uint64_t value)
{
    for (; value >= 128; value >>= 7) {
        kiln_string_append(out, &(char){(char)(value | 128)}, 1);
    }
    kiln_string_append(out, &(char){(char)value}, 1);
}

void kilni_wire_put_number(kiln_string *out, uint32_t number, uint64_t value)
{
    kilni_wire_put_varint(out, (uint64_t)number << 3);
    kilni_wire_put_varint(out, value);
}

void kilni_wire_put_head(kiln_string *out, uint32_t number, size_t length)
{
    kilni_wire_put_varint(out, (uint64_t)number << 3 | 2);
    kilni_wire_put_varint(out, length);
}

void kilni_wire_put(kiln_string *out, uint32_t number, const void *bytes, size_t length)
{
    kilni_wire_put_head(out, number, length);
    kiln_string_append(out, bytes, length);
}

void kilni_wire_put_text(kiln_string *out, uint32_t number, const char *text)
{
    if (text[0] != '\0') {
        kilni_wire_put(out, number, text, strlen(text));
    }
}

void kilni_wire_put_message(kiln_string *out, uint32_t number, kiln_string *take_message)
{
    kilni_wire_put(out, number, take_message->text, take_message->length);
    out->failed = out->failed || take_message->failed;
    kiln_string_fini(take_message);
}
