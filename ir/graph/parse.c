// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the text form of graphs that print.c writes, with # comments and free spaces. A
// hand-written descent, line by line; every count is bounded before it is kept, and the result
// passes the verifier.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"

typedef struct parser {
    const char *at;
    unsigned line;
    kiln_ir_graph *graph;
    kiln_arena *scratch; ///< of the line being read
    kiln_tensor_desc *inputs;
    size_t n_inputs;
    uint64_t *outputs;
    size_t n_outputs;
    kiln_error *err;
} parser;

#define SYNTAX(p, ...) (kiln_fail((p)->err, INVALID_ARGUMENT, __VA_ARGS__))

/// How many characters of what comes next an error shows.
static int near(const parser *p)
{
    size_t length = strcspn(p->at, "\r\n");
    return length < 12 ? (int)length : 12;
}

static void skip_spaces(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') {
        p->at++;
    }
    if (*p->at == '#') {
        p->at += strcspn(p->at, "\n");
    }
}

static bool accept(parser *p, const char *token)
{
    skip_spaces(p);
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0) {
        return false;
    }
    p->at += length;
    return true;
}

static kiln_status expect(parser *p, const char *token)
{
    return accept(p, token)
               ? KILN_STATUS_OK
               : SYNTAX(p, "\"%s\" is expected before \"%.*s\"", token, near(p), p->at);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static kiln_status read_word(parser *p, char *out_word, size_t capacity)
{
    size_t length = 0;
    skip_spaces(p);
    while (is_word(p->at[length])) {
        length++;
    }
    if (length == 0 || length >= capacity) {
        return SYNTAX(p, "a name is expected before \"%.*s\"", near(p), p->at);
    }
    memcpy(out_word, p->at, length);
    out_word[length] = '\0';
    p->at += length;
    return KILN_STATUS_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static kiln_status read_id(parser *p, uint64_t *out_id)
{
    char *end = NULL;
    if (!accept(p, "%") || !is_digit(*p->at)) {
        return SYNTAX(p, "a tensor such as %%1 is expected before \"%.*s\"", near(p), p->at);
    }
    errno = 0;
    *out_id = strtoull(p->at, &end, 10);
    p->at = end;
    return errno == 0 ? KILN_STATUS_OK : SYNTAX(p, "an id exceeds 64 bits");
}

static kiln_status read_i64(parser *p, int64_t *out_value)
{
    char *end = NULL;
    skip_spaces(p);
    if (!is_digit(p->at[0]) && !(p->at[0] == '-' && is_digit(p->at[1]))) {
        return SYNTAX(p, "an integer is expected before \"%.*s\"", near(p), p->at);
    }
    errno = 0;
    *out_value = strtoll(p->at, &end, 10);
    p->at = end;
    return errno == 0 ? KILN_STATUS_OK : SYNTAX(p, "an integer exceeds 64 bits");
}

static kiln_status read_f64(parser *p, double *out_value)
{
    char *end = NULL;
    skip_spaces(p);
    if (accept(p, "nan")) {
        *out_value = (double)NAN;
        return KILN_STATUS_OK;
    }
    if (accept(p, "inf")) {
        *out_value = (double)INFINITY;
        return KILN_STATUS_OK;
    }
    if (accept(p, "-inf")) {
        *out_value = -(double)INFINITY;
        return KILN_STATUS_OK;
    }
    if (!is_digit(p->at[0]) && !(p->at[0] == '-' && is_digit(p->at[1]))) {
        return SYNTAX(p, "a number is expected before \"%.*s\"", near(p), p->at);
    }
    *out_value = strtod(p->at, &end);
    p->at = end;
    return KILN_STATUS_OK;
}

/// Dtype and dims.
static kiln_status read_shape(parser *p, kiln_tensor_desc *out_desc)
{
    char word[16];
    unsigned rank = 0;
    kiln_status status = read_word(p, word, sizeof(word));
    if (status != KILN_STATUS_OK) {
        return status;
    }
    out_desc->dtype = kiln_dtype_from_name(word);
    if (out_desc->dtype == KILN_DTYPE_NONE) {
        return SYNTAX(p, "%s is no dtype", word);
    }
    status = expect(p, "[");
    while (status == KILN_STATUS_OK && !accept(p, "]")) {
        if (rank == KILN_MAX_RANK) {
            return SYNTAX(p, "a rank exceeds %d", KILN_MAX_RANK);
        }
        status = rank > 0 ? expect(p, ",") : KILN_STATUS_OK;
        if (status == KILN_STATUS_OK) {
            status = read_i64(p, &out_desc->dims[rank++]);
        }
    }
    out_desc->rank = (uint8_t)rank;
    return status;
}

/// The scheme of quantised elements, when there is one.
static kiln_status read_scheme(parser *p, kiln_tensor_desc *out_desc)
{
    char *end = NULL;
    if (!accept(p, "{")) {
        return KILN_STATUS_OK;
    }
    out_desc->scheme = strtoull(p->at, &end, 16);
    p->at = end;
    return expect(p, "}");
}

static kiln_status read_desc(parser *p, kiln_tensor_desc *out_desc)
{
    kiln_status status = read_shape(p, out_desc);
    return status == KILN_STATUS_OK ? read_scheme(p, out_desc) : status;
}

static kiln_status read_tensor(parser *p, kiln_tensor_desc *out_desc)
{
    memset(out_desc, 0, sizeof(*out_desc));
    kiln_status status = read_id(p, &out_desc->id);
    if (status == KILN_STATUS_OK) {
        status = expect(p, ":");
    }
    return status == KILN_STATUS_OK ? read_desc(p, out_desc) : status;
}

// ---- attributes ----

static kiln_status no_memory(parser *p)
{
    return kiln_fail(p->err, RESOURCE_EXHAUSTED, "no memory for a graph");
}

static kiln_status read_list(parser *p, kiln_attr *attr)
{
    uint32_t capacity = 1;
    size_t length = strcspn(p->at, "]\n");
    for (size_t i = 0; i < length; i++) {
        capacity += p->at[i] == ',' ? 1 : 0;
    }
    if (capacity > KILNI_IR_MAX_LIST) {
        return SYNTAX(p, "a list has more than %d elements", KILNI_IR_MAX_LIST);
    }
    int64_t *ints = kiln_arena_alloc(p->scratch, capacity * sizeof(*ints));
    double *floats = kiln_arena_alloc(p->scratch, capacity * sizeof(*floats));
    if (ints == NULL || floats == NULL) {
        return no_memory(p);
    }
    attr->count = 0;
    kiln_status status = expect(p, "[");
    while (status == KILN_STATUS_OK && !accept(p, "]")) {
        status = attr->count > 0 ? expect(p, ",") : KILN_STATUS_OK;
        if (status == KILN_STATUS_OK && attr->count == capacity) {
            status = SYNTAX(p, "a list is malformed");
        }
        if (status == KILN_STATUS_OK) {
            status = attr->type == KILN_ATTR_I64_LIST ? read_i64(p, &ints[attr->count])
                                                      : read_f64(p, &floats[attr->count]);
            attr->count++;
        }
    }
    if (attr->type == KILN_ATTR_I64_LIST) {
        attr->v.ints = ints;
    } else {
        attr->v.floats = floats;
    }
    return status;
}

static int hex_digit(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// Two hexadecimal digits; -1 when they are not there.
static int read_byte(parser *p)
{
    int high = hex_digit(p->at[0]);
    int low = high >= 0 ? hex_digit(p->at[1]) : -1;
    if (low < 0) {
        return -1;
    }
    p->at += 2;
    return high * 16 + low;
}

static kiln_status read_text(parser *p, kiln_attr *attr)
{
    kiln_status status = expect(p, "\"");
    size_t limit = strcspn(p->at, "\n") + 1;
    if (status != KILN_STATUS_OK || limit > KILNI_IR_MAX_LIST) {
        return status != KILN_STATUS_OK ? status : SYNTAX(p, "a text is too long");
    }
    char *text = kiln_arena_alloc(p->scratch, limit);
    if (text == NULL) {
        return no_memory(p);
    }
    attr->count = 0;
    attr->v.text = text;
    while (*p->at != '"') {
        int c = (unsigned char)*p->at;
        if (c == '\0' || c == '\n') {
            return SYNTAX(p, "a text does not end");
        }
        p->at++;
        if (c == '\\' && *p->at == 'x') {
            p->at++;
            c = read_byte(p);
        } else if (c == '\\') {
            c = *p->at == '"' || *p->at == '\\' ? *p->at++ : -1;
        }
        if (c < 0) {
            return SYNTAX(p, "a text has a wrong escape before \"%.*s\"", near(p), p->at);
        }
        text[attr->count++] = (char)c;
    }
    p->at++;
    return KILN_STATUS_OK;
}

static kiln_status read_constant(parser *p, kiln_attr *attr)
{
    kiln_tensor_const *tensor = kiln_arena_alloc(p->scratch, sizeof(*tensor));
    if (tensor == NULL) {
        return no_memory(p);
    }
    kiln_status status = read_shape(p, &tensor->desc);
    if (status == KILN_STATUS_OK && kiln_dtype_kind_of(tensor->desc.dtype) == KILN_KIND_QUANT) {
        status = read_scheme(p, &tensor->desc); // its bytes come in braces, too
    }
    int64_t bytes = status == KILN_STATUS_OK ? kiln_desc_bytes(&tensor->desc) : 0;
    if (status == KILN_STATUS_OK && (bytes < 0 || bytes > KILNI_IR_MAX_CONST)) {
        return SYNTAX(p, "a constant exceeds %d bytes", KILNI_IR_MAX_CONST);
    }
    if (status == KILN_STATUS_OK) {
        status = expect(p, "{");
    }
    unsigned char *data = kiln_arena_alloc(p->scratch, (size_t)bytes);
    if (data == NULL) {
        return no_memory(p);
    }
    for (int64_t i = 0; status == KILN_STATUS_OK && i < bytes; i++) {
        int byte = read_byte(p);
        data[i] = (unsigned char)(byte & 0xff);
        status =
            byte >= 0 ? status : SYNTAX(p, "a constant is shorter than %" PRId64 " bytes", bytes);
    }
    tensor->data = data;
    attr->v.tensor = tensor;
    attr->count = 1;
    return status == KILN_STATUS_OK ? expect(p, "}") : status;
}

/// An integer when it is written like one, otherwise a float.
static kiln_status read_number(parser *p, kiln_attr *attr)
{
    skip_spaces(p);
    size_t length = strcspn(p->at, ",) \t\n");
    size_t digits = strspn(p->at, "-0123456789");
    attr->type = length == digits ? KILN_ATTR_I64 : KILN_ATTR_F64;
    return attr->type == KILN_ATTR_I64 ? read_i64(p, &attr->v.i) : read_f64(p, &attr->v.f);
}

static kiln_status read_value(parser *p, kiln_attr_type type, kiln_attr *attr)
{
    char word[16];
    kiln_status status = KILN_STATUS_OK;
    *attr = (kiln_attr){.type = type, .count = 1};
    switch (type) {
    case KILN_ATTR_NUMBER:
        return read_number(p, attr);
    case KILN_ATTR_I64:
        return read_i64(p, &attr->v.i);
    case KILN_ATTR_F64:
        return read_f64(p, &attr->v.f);
    case KILN_ATTR_I64_LIST:
    case KILN_ATTR_F64_LIST:
        return read_list(p, attr);
    case KILN_ATTR_STRING:
        return read_text(p, attr);
    case KILN_ATTR_TENSOR:
        return read_constant(p, attr);
    default:
        break;
    }
    status = read_word(p, word, sizeof(word));
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (type == KILN_ATTR_DTYPE) {
        attr->v.i = kiln_dtype_from_name(word);
        return attr->v.i != KILN_DTYPE_NONE ? status : SYNTAX(p, "%s is no dtype", word);
    }
    attr->v.i = strcmp(word, "true") == 0;
    return attr->v.i != 0 || strcmp(word, "false") == 0 ? status
                                                        : SYNTAX(p, "%s is no truth", word);
}

kiln_status kilni_ir_parse_value(const char **text, kiln_attr_type type, kiln_arena *arena,
                                 kiln_attr *out_attr, kiln_error *err)
{
    parser p = {.at = *text, .scratch = arena, .err = err};
    kiln_status status = read_value(&p, type, out_attr);
    *text = p.at;
    return status;
}

static kiln_status read_attr(parser *p, const kiln_op_info *info, kiln_attr *attrs)
{
    char word[32];
    kiln_status status = read_word(p, word, sizeof(word));
    if (status == KILN_STATUS_OK) {
        status = expect(p, "=");
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < info->signature->n_attrs; i++) {
        kiln_attr_key key = info->signature->attrs[i].key;
        if (strcmp(kiln_attr_name(key), word) == 0) {
            return attrs[i].type == KILN_ATTR_NONE
                       ? read_value(p, kiln_attr_type_of(key), &attrs[i])
                       : SYNTAX(p, "%s: attribute %s is given twice", info->name, word);
        }
    }
    return status == KILN_STATUS_OK ? SYNTAX(p, "%s has no attribute %s", info->name, word)
                                    : status;
}

// ---- lines ----

static kiln_status read_arguments(parser *p, const kiln_op_info *info, kiln_op_record *record,
                                  kiln_tensor_desc *inputs, kiln_attr *attrs)
{
    kiln_status status = expect(p, "(");
    bool first = true;
    while (status == KILN_STATUS_OK && !accept(p, ")")) {
        status = first ? KILN_STATUS_OK : expect(p, ",");
        first = false;
        skip_spaces(p);
        if (status == KILN_STATUS_OK && *p->at != '%') {
            status = read_attr(p, info, attrs);
        } else if (status == KILN_STATUS_OK) {
            status = record->n_inputs < KILN_MAX_INPUTS
                         ? read_tensor(p, &inputs[record->n_inputs])
                         : SYNTAX(p, "more than %d inputs", KILN_MAX_INPUTS);
            record->n_inputs++;
        }
    }
    return status;
}

static kiln_status read_operation(parser *p)
{
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS];
    kiln_tensor_desc inputs[KILN_MAX_INPUTS];
    kiln_attr attrs[KILN_MAX_ATTRS] = {{0}};
    kiln_op_record record = {.inputs = inputs, .outputs = outputs, .attrs = attrs};
    char word[64];
    kiln_status status = KILN_STATUS_OK;
    skip_spaces(p);
    while (status == KILN_STATUS_OK && *p->at == '%') {
        if (record.n_outputs == KILN_MAX_OUTPUTS) {
            return SYNTAX(p, "more than %d outputs", KILN_MAX_OUTPUTS);
        }
        status = read_tensor(p, &outputs[record.n_outputs++]);
        if (status == KILN_STATUS_OK && !accept(p, ",")) {
            status = expect(p, "=");
        }
        skip_spaces(p);
    }
    if (status == KILN_STATUS_OK) {
        status = read_word(p, word, sizeof(word));
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    record.op = kiln_op_from_name(word);
    const kiln_op_info *info = kiln_op_info_of(record.op);
    if (info == NULL) {
        return SYNTAX(p, "%s is no operator", word);
    }
    record.n_attrs = info->signature->n_attrs;
    status = read_arguments(p, info, &record, inputs, attrs);
    return status == KILN_STATUS_OK ? kiln_ir_graph_append(p->graph, &record, p->err) : status;
}

/// Room for one more element of a list that doubles at powers of two.
static void *grow(parser *p, void *list, size_t count, size_t size)
{
    if (count != 0 && (count & (count - 1)) != 0) {
        return list;
    }
    return kiln_realloc(p->graph->env, list, count * size, (count > 0 ? count * 2 : 1) * size);
}

static kiln_status read_input(parser *p)
{
    kiln_tensor_desc *inputs = grow(p, p->inputs, p->n_inputs, sizeof(*inputs));
    if (inputs == NULL) {
        return no_memory(p);
    }
    p->inputs = inputs;
    kiln_status status = read_tensor(p, &inputs[p->n_inputs]);
    if (status == KILN_STATUS_OK && accept(p, "const")) {
        inputs[p->n_inputs].flags = KILN_TENSOR_CONST;
    }
    p->n_inputs++;
    return status;
}

static kiln_status read_output(parser *p)
{
    uint64_t *outputs = grow(p, p->outputs, p->n_outputs, sizeof(*outputs));
    if (outputs == NULL) {
        return no_memory(p);
    }
    p->outputs = outputs;
    return read_id(p, &outputs[p->n_outputs++]);
}

static kiln_status read_line(parser *p)
{
    kiln_status status = KILN_STATUS_OK;
    kiln_arena_reset(p->scratch);
    skip_spaces(p);
    if (*p->at == '\n' || *p->at == '\0') {
        return status;
    }
    if (accept(p, "input ")) {
        status = read_input(p);
    } else if (accept(p, "output ")) {
        status = read_output(p);
    } else {
        status = read_operation(p);
    }
    skip_spaces(p);
    if (status == KILN_STATUS_OK && *p->at != '\n' && *p->at != '\0') {
        status = SYNTAX(p, "\"%.*s\" is too much", near(p), p->at);
    }
    return status;
}

static kiln_status read_lines(parser *p)
{
    for (;;) {
        p->line++;
        kiln_status status = read_line(p);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(p->err, "line %u", p->line);
            return status;
        }
        if (*p->at == '\0') {
            return KILN_STATUS_OK;
        }
        p->at++;
    }
}

kiln_status kiln_ir_parse(const kiln_env *env, const char *text, kiln_ir_graph **out_graph,
                          kiln_error *err)
{
    if (out_graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_graph must not be NULL");
    }
    *out_graph = NULL;
    if (env == NULL || text == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env and text must not be NULL");
    }
    kiln_arena scratch;
    parser p = {.at = text, .scratch = &scratch, .err = err};
    kiln_status status = kiln_ir_graph_create(env, &p.graph, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_arena_init(&scratch, env);
    KILN_TRY(out, status, read_lines(&p));
    KILN_TRY(out, status,
             kiln_ir_graph_set_io(p.graph, p.inputs, p.n_inputs, p.outputs, p.n_outputs, err));
    KILN_TRY(out, status, kiln_ir_graph_verify(p.graph, err));
    *out_graph = p.graph;
    p.graph = NULL;
out:
    kiln_free(env, p.inputs);
    kiln_free(env, p.outputs);
    kiln_arena_fini(&scratch);
    kiln_ir_graph_destroy(p.graph);
    return status;
}
