// SPDX-License-Identifier: MIT OR Apache-2.0
// The writer keeps no state but bytes, so that a test can say anything, also what no encoder would
// write.
#include "proto_writer.h"

#include <stdlib.h>
#include <string.h>

void pw_free(pw *writer)
{
    free(writer->bytes);
    *writer = (pw){0};
}

void pw_raw(pw *writer, const void *bytes, size_t length)
{
    if (writer->length + length > writer->capacity) {
        writer->capacity = (writer->length + length) * 2;
        writer->bytes = realloc(writer->bytes, writer->capacity);
        if (writer->bytes == NULL) {
            abort();
        }
    }
    if (length > 0) {
        memcpy(writer->bytes + writer->length, bytes, length);
        writer->length += length;
    }
}

void pw_varint(pw *writer, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        pw_raw(writer, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

void pw_int(pw *writer, uint32_t field, int64_t value)
{
    pw_varint(writer, (uint64_t)field << 3);
    pw_varint(writer, (uint64_t)value);
}

void pw_float(pw *writer, uint32_t field, float value)
{
    pw_varint(writer, (uint64_t)field << 3 | 5);
    pw_raw(writer, &value, sizeof(value));
}

void pw_bytes(pw *writer, uint32_t field, const void *bytes, size_t length)
{
    pw_varint(writer, (uint64_t)field << 3 | 2);
    pw_varint(writer, length);
    pw_raw(writer, bytes, length);
}

void pw_text(pw *writer, uint32_t field, const char *text)
{
    pw_bytes(writer, field, text, strlen(text));
}

void pw_message(pw *writer, uint32_t field, pw *child)
{
    pw_bytes(writer, field, child->bytes, child->length);
    pw_free(child);
}

pw pw_value_info(const char *name, int32_t elem_type, const int64_t *dims, size_t rank)
{
    pw shape = {0};
    for (size_t i = 0; i < rank; i++) {
        pw dim = {0};
        if (dims[i] < -1) {
            const char symbol[] = {'n', (char)('0' - dims[i]), '\0'};
            pw_text(&dim, 2, symbol);
        } else {
            pw_int(&dim, 1, dims[i]);
        }
        pw_message(&shape, 1, &dim);
    }
    pw dense = {0};
    pw_int(&dense, 1, elem_type);
    pw_message(&dense, 2, &shape);
    pw type = {0};
    pw_message(&type, 1, &dense);
    pw info = {0};
    pw_text(&info, 1, name);
    pw_message(&info, 2, &type);
    return info;
}

pw pw_tensor(const char *name, int32_t elem_type, const int64_t *dims, size_t rank, const void *raw,
             size_t raw_bytes)
{
    pw tensor = {0};
    for (size_t i = 0; i < rank; i++) {
        pw_int(&tensor, 1, dims[i]);
    }
    pw_int(&tensor, 2, elem_type);
    pw_text(&tensor, 8, name);
    if (raw != NULL) {
        pw_bytes(&tensor, 9, raw, raw_bytes);
    }
    return tensor;
}

pw pw_node(const char *op_type, const char *const *inputs, const char *const *outputs)
{
    pw node = {0};
    for (size_t i = 0; inputs[i] != NULL; i++) {
        pw_text(&node, 1, inputs[i]);
    }
    for (size_t i = 0; outputs[i] != NULL; i++) {
        pw_text(&node, 2, outputs[i]);
    }
    pw_text(&node, 3, "the_node");
    pw_text(&node, 4, op_type);
    return node;
}

static pw begin_attr(const char *name, int type)
{
    pw attr = {0};
    pw_text(&attr, 1, name);
    pw_int(&attr, 20, type);
    return attr;
}

void pw_attr_int(pw *node, const char *name, int64_t value)
{
    pw attr = begin_attr(name, 2);
    pw_int(&attr, 3, value);
    pw_message(node, 5, &attr);
}

void pw_attr_ints(pw *node, const char *name, const int64_t *values, size_t count)
{
    pw attr = begin_attr(name, 7);
    for (size_t i = 0; i < count; i++) {
        pw_int(&attr, 8, values[i]);
    }
    pw_message(node, 5, &attr);
}

void pw_attr_float(pw *node, const char *name, float value)
{
    pw attr = begin_attr(name, 1);
    pw_float(&attr, 2, value);
    pw_message(node, 5, &attr);
}

void pw_attr_text(pw *node, const char *name, const char *value)
{
    pw attr = begin_attr(name, 3);
    pw_text(&attr, 4, value);
    pw_message(node, 5, &attr);
}

pw pw_model(pw *graph, int64_t opset)
{
    pw model = {0};
    pw_int(&model, 1, 8);
    pw_message(&model, 7, graph);
    pw set = {0};
    pw_text(&set, 1, "");
    pw_int(&set, 2, opset);
    pw_message(&model, 8, &set);
    return model;
}
