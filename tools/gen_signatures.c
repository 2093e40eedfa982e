// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the signatures of ops.def as tables in C, for ir/op/op_table.c: each different one once,
// and which one each operator has. ops.def says how they are written. What is not understood, such
// as an attribute that attrs.def has not, is refused with the operator's name. Usage:
// gen_signatures, to standard output.
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct op_row {
    const char *id;
    const char *signature;
} op_row;

static const op_row ops[] = {
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    {#id, signature},
#include "ops.def"
#undef KILN_OP
};
enum { N_OPS = sizeof(ops) / sizeof(ops[0]) };

static const struct {
    const char *id;
    const char *name;
    const char *type;
} attrs[] = {
#define KILN_ATTR(id, name, number, type, doc) {#id, #name, #type},
#include "attrs.def"
#undef KILN_ATTR
};
enum { N_ATTRS = sizeof(attrs) / sizeof(attrs[0]) };

/// A piece of a text that is not copied.
typedef struct piece {
    const char *at;
    size_t length;
} piece;

static piece trimmed(const char *at, size_t length)
{
    while (length > 0 && *at == ' ') {
        at++;
        length--;
    }
    while (length > 0 && at[length - 1] == ' ') {
        length--;
    }
    return (piece){at, length};
}

/// Takes what stands before one of `ends` off the text; false when nothing is left.
static bool next_piece(piece *rest, const char *ends, piece *out_piece)
{
    size_t length = 0;
    if (rest->length == 0) {
        return false;
    }
    while (length < rest->length && strchr(ends, rest->at[length]) == NULL) {
        length++;
    }
    *out_piece = trimmed(rest->at, length);
    length += length < rest->length;
    rest->at += length;
    rest->length -= length;
    return true;
}

static bool is_text(piece p, const char *text)
{
    return p.length == strlen(text) && strncmp(p.at, text, p.length) == 0;
}

static bool ends_with(piece *p, const char *text)
{
    size_t length = strlen(text);
    if (p->length < length || strncmp(p->at + p->length - length, text, length) != 0) {
        return false;
    }
    p->length -= length;
    return true;
}

static bool refuse(const op_row *op, piece what, const char *why)
{
    fprintf(stderr, "ops.def: %s: '%.*s' in \"%s\": %s\n", op->id, (int)what.length, what.at,
            op->signature, why);
    return false;
}

// ---- inputs ----

/// What stands after the colons of an input, as bits of kiln_op_signature.
typedef struct input_bits {
    unsigned mask;
    unsigned index;
    unsigned any;
    unsigned quant;
    bool foreign;
} input_bits;

static bool read_bits(const op_row *op, piece words, unsigned input, input_bits *bits)
{
    piece word;
    while (next_piece(&words, ":", &word)) {
        unsigned *target = is_text(word, "mask")    ? &bits->mask
                           : is_text(word, "index") ? &bits->index
                           : is_text(word, "any")   ? &bits->any
                           : is_text(word, "quant") ? &bits->quant
                                                    : NULL;
        if (target != NULL) {
            *target |= 1u << input;
        } else if (is_text(word, "foreign")) {
            bits->foreign = true;
        } else {
            return refuse(op, word, "not mask, index, any, quant or foreign");
        }
    }
    return true;
}

static bool print_inputs(const op_row *op, piece text)
{
    input_bits bits = {0};
    unsigned least = 0, count = 0;
    bool variadic = false;
    piece input, name;
    printf("        .inputs = {");
    while (next_piece(&text, ",", &input)) {
        if (!next_piece(&input, ":", &name) || name.length == 0 ||
            !read_bits(op, input, count, &bits)) {
            return refuse(op, input, "no input");
        }
        variadic = ends_with(&name, "...");
        bool optional = ends_with(&name, "?");
        if (!optional && least < count) {
            return refuse(op, name, "stands after an optional input");
        }
        printf("%s\"%.*s\"", count == 0 ? "" : ", ", (int)name.length, name.at);
        least += !optional;
        count++;
    }
    printf("%s},\n        .min_inputs = %u,\n", count == 0 ? "NULL" : "", least);
    if (variadic) {
        printf("        .max_inputs = KILN_MAX_INPUTS,\n");
    } else {
        printf("        .max_inputs = %u,\n", count);
    }
    printf("        .mask_inputs = %u,\n        .index_inputs = %u,\n", bits.mask, bits.index);
    printf("        .free_inputs = %u,\n        .quant_inputs = %u,\n", bits.any, bits.quant);
    printf("        .foreign = %s,\n", bits.foreign ? "true" : "false");
    return true;
}

static void print_outputs(piece text)
{
    piece name;
    const char *before = "        .outputs = {";
    while (next_piece(&text, ",", &name)) {
        printf("%s\"%.*s\"", before, (int)name.length, name.at);
        before = ", ";
    }
    printf("%s", before[0] == ',' ? "},\n" : "");
}

// ---- attributes ----

static void print_value(const char *type, piece value)
{
    if (strcmp(type, "STRING") == 0) {
        printf(", .fallback_text = \"%.*s\"", (int)value.length, value.at);
    } else if (strcmp(type, "DTYPE") == 0) {
        printf(", .fallback = KILN_DTYPE_");
        for (size_t i = 0; i < value.length; i++) {
            putchar(toupper((unsigned char)value.at[i]));
        }
    } else if (is_text(value, "-inf")) {
        printf(", .fallback = -HUGE_VAL");
    } else {
        printf(", .fallback = %.*s", (int)value.length, value.at);
    }
}

static bool print_attr(const op_row *op, piece text)
{
    piece head, name, role = {"", 0};
    bool has_value = memchr(text.at, '=', text.length) != NULL;
    if (!next_piece(&text, "=", &head)) {
        return refuse(op, text, "no attribute");
    }
    bool optional = ends_with(&head, "?") || has_value;
    next_piece(&head, ":", &name);
    role = trimmed(head.at, head.length);
    const char *word = is_text(role, "scalar") ? "SCALAR"
                       : is_text(role, "host") ? "HOST"
                       : role.length == 0      ? "IDENTITY"
                                               : NULL;
    if (word == NULL) {
        return refuse(op, role, "not scalar or host");
    }
    for (size_t i = 0; i < N_ATTRS; i++) {
        if (is_text(name, attrs[i].name)) {
            printf("            {.key = KILN_KEY_%s, .role = KILN_ROLE_%s, .optional = %s",
                   attrs[i].id, word, optional ? "true" : "false");
            if (has_value) {
                print_value(attrs[i].type, text);
            }
            printf("},\n");
            return true;
        }
    }
    return refuse(op, name, "attrs.def has no such attribute");
}

static bool print_attrs(const op_row *op, piece text)
{
    unsigned count = 0;
    piece attr;
    if (trimmed(text.at, text.length).length == 0) {
        return true;
    }
    printf("        .attrs = {\n");
    while (next_piece(&text, ",", &attr)) {
        if (!print_attr(op, attr)) {
            return false;
        }
        count++;
    }
    printf("        },\n        .n_attrs = %u,\n", count);
    return true;
}

// ---- signatures ----

static bool print_signature(const op_row *op)
{
    piece text = {op->signature, strlen(op->signature)}, values = {"", 0};
    const char *arrow = strstr(op->signature, "->");
    const char *semicolon = strchr(op->signature, ';');
    size_t end = semicolon != NULL ? (size_t)(semicolon - text.at) : text.length;
    piece inputs = trimmed(text.at, arrow != NULL ? (size_t)(arrow - text.at) : end);
    if (arrow != NULL) {
        values = trimmed(arrow + 2, (size_t)(text.at + end - (arrow + 2)));
    }
    piece rest = {"", 0};
    if (semicolon != NULL) {
        rest = (piece){semicolon + 1, strlen(semicolon + 1)};
    }
    printf("    { // \"%s\"\n", op->signature);
    if (!print_inputs(op, inputs)) {
        return false;
    }
    print_outputs(values);
    if (!print_attrs(op, rest)) {
        return false;
    }
    printf("    },\n");
    return true;
}

/// The first operator with the same signature.
static size_t first_like(size_t op)
{
    size_t i = 0;
    while (strcmp(ops[i].signature, ops[op].signature) != 0) {
        i++;
    }
    return i;
}

int main(void)
{
    unsigned numbers[N_OPS];
    unsigned count = 0;
    printf("// SPDX-License-Identifier: MIT OR Apache-2.0\n"
           "// Written by tools/gen_signatures from ir/op/ops.def and ir/op/attrs.def.\n"
           "static const kiln_op_signature signatures[] = {\n");
    for (size_t i = 0; i < N_OPS; i++) {
        size_t first = first_like(i);
        numbers[i] = first < i ? numbers[first] : count++;
        if (first == i && !print_signature(&ops[i])) {
            return 1;
        }
    }
    printf("};\n\nenum {\n");
    for (size_t i = 0; i < N_OPS; i++) {
        printf("    SIGNATURE_OF_%s = %u,\n", ops[i].id, numbers[i]);
    }
    printf("};\n");
    return fflush(stdout) == 0 ? 0 : 1;
}
