// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes protobuf bytes by hand, right and wrong ones, for tests of the ONNX reader.
#ifndef KILN_TESTS_PROTO_WRITER_H
#define KILN_TESTS_PROTO_WRITER_H

#include <stddef.h>
#include <stdint.h>

typedef struct pw {
    uint8_t *bytes;
    size_t length;
    size_t capacity;
} pw;

void pw_free(pw *writer);
void pw_raw(pw *writer, const void *bytes, size_t length);
void pw_varint(pw *writer, uint64_t value);
void pw_int(pw *writer, uint32_t field, int64_t value);
void pw_float(pw *writer, uint32_t field, float value);
void pw_bytes(pw *writer, uint32_t field, const void *bytes, size_t length);
void pw_text(pw *writer, uint32_t field, const char *text);
/// Appends `child` as a message and empties it.
void pw_message(pw *writer, uint32_t field, pw *child);

// ONNX pieces.
/// A length of -2 is open and has the name "n2", -3 "n3", to -9.
pw pw_value_info(const char *name, int32_t elem_type, const int64_t *dims, size_t rank);
pw pw_tensor(const char *name, int32_t elem_type, const int64_t *dims, size_t rank, const void *raw,
             size_t raw_bytes);
pw pw_node(const char *op_type, const char *const *inputs, const char *const *outputs);
void pw_attr_int(pw *node, const char *name, int64_t value);
void pw_attr_ints(pw *node, const char *name, const int64_t *values, size_t count);
void pw_attr_float(pw *node, const char *name, float value);
void pw_attr_text(pw *node, const char *name, const char *value);
/// A model around `graph`, which is emptied, with the standard operator set `opset`.
pw pw_model(pw *graph, int64_t opset);

#endif
