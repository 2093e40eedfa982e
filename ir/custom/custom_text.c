// SPDX-License-Identifier: MIT OR Apache-2.0
// Attributes of custom operators as canonical text: all of them, in the order of the operator's
// parameters, as the printer writes values. One text for one meaning: what does not come out again
// when it is written is refused, so that the text may stand in keys of plans.
#include <stdio.h>
#include <string.h>

#include "graph_internal.h"
#include "ir_custom.h"

static const char *type_name(kiln_attr_type type)
{
    static const char *const names[] = {
        [KILN_ATTR_NONE] = "nothing",
        [KILN_ATTR_I64] = "an integer",
        [KILN_ATTR_F64] = "a number",
        [KILN_ATTR_BOOL] = "a truth",
        [KILN_ATTR_DTYPE] = "a dtype",
        [KILN_ATTR_I64_LIST] = "a list of integers",
        [KILN_ATTR_F64_LIST] = "a list of numbers",
        [KILN_ATTR_STRING] = "a text",
        [KILN_ATTR_TENSOR] = "a tensor",
    };
    return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "of unknown type";
}

static void print_values(const kiln_custom_op *op, const kiln_attr *values, kiln_string *out)
{
    kiln_string_append(out, "", 0);
    for (uint32_t i = 0; i < op->n_params; i++) {
        kiln_string_printf(out, "%s%s=", i > 0 ? ", " : "", op->params[i].name);
        kilni_ir_print_attr(&values[i], out);
    }
}

// ---- from what a caller gives ----

static bool value_ok(const kiln_attr *value)
{
    switch (value->type) {
    case KILN_ATTR_BOOL:
        return value->v.i == 0 || value->v.i == 1;
    case KILN_ATTR_DTYPE:
        return value->v.i > 0 && value->v.i < KILN_DTYPE_LIMIT &&
               kiln_dtype_name((kiln_dtype)value->v.i) != NULL;
    case KILN_ATTR_I64_LIST:
        return value->count == 0 || value->v.ints != NULL;
    case KILN_ATTR_F64_LIST:
        return value->count == 0 || value->v.floats != NULL;
    case KILN_ATTR_STRING:
        return value->v.text != NULL || value->count == 0;
    default:
        return value->type == KILN_ATTR_I64 || value->type == KILN_ATTR_F64;
    }
}

static kiln_status take(const kiln_custom_op *op, const kiln_custom_param *param,
                        const kiln_attr *given, kiln_attr *value, kiln_error *err)
{
    if (value->type != KILN_ATTR_NONE) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: attribute %s is given twice", op->name,
                         param->name);
    }
    *value = *given;
    if (param->type == KILN_ATTR_F64 && given->type == KILN_ATTR_I64) {
        *value = (kiln_attr){KILN_ATTR_F64, 1, {.f = (double)given->v.i}};
    }
    if (value->type != param->type || !value_ok(value)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: attribute %s is %s, not %s", op->name,
                         param->name, type_name(given->type), type_name(param->type));
    }
    return KILN_STATUS_OK;
}

static kiln_status take_given(const kiln_custom_op *op, const kiln_custom_attr *attrs,
                              size_t n_attrs, kiln_attr *values, kiln_error *err)
{
    for (size_t i = 0; i < n_attrs; i++) {
        uint32_t at = 0;
        const char *name = attrs[i].name != NULL ? attrs[i].name : "";
        while (at < op->n_params && strcmp(op->params[at].name, name) != 0) {
            at++;
        }
        if (at == op->n_params) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s has no attribute \"%.60s\"", op->name,
                             name);
        }
        kiln_status status = take(op, &op->params[at], &attrs[i].value, &values[at], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_text(const kiln_custom_op *op, const kiln_string *text, kiln_error *err)
{
    if (text->failed) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for attributes", op->name);
    }
    return text->length <= KILN_CUSTOM_MAX_TEXT
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "%s: more than %d bytes of attributes", op->name,
                           KILN_CUSTOM_MAX_TEXT);
}

kiln_status kiln_ir_custom_text(const kiln_custom_op *op, const kiln_custom_attr *attrs,
                                size_t n_attrs, kiln_string *out_text, kiln_error *err)
{
    kiln_attr values[KILN_CUSTOM_MAX_PARAMS] = {{0}};
    kiln_status status = take_given(op, attrs, n_attrs, values, err);
    for (uint32_t i = 0; i < op->n_params && status == KILN_STATUS_OK; i++) {
        if (values[i].type != KILN_ATTR_NONE) {
            continue;
        }
        values[i] = op->params[i].fallback;
        if (op->params[i].required) {
            status = kiln_fail(err, INVALID_ARGUMENT, "%s: attribute %s is missing", op->name,
                               op->params[i].name);
        }
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    print_values(op, values, out_text);
    return check_text(op, out_text, err);
}

// ---- from text ----

static kiln_status read_values(const kiln_custom_op *op, const char *text, kiln_arena *arena,
                               kiln_attr *values, kiln_error *err)
{
    for (uint32_t i = 0; i < op->n_params; i++) {
        const kiln_custom_param *param = &op->params[i];
        size_t length = strlen(param->name);
        text += i > 0 && strncmp(text, ", ", 2) == 0 ? 2 : 0;
        if (strncmp(text, param->name, length) != 0 || text[length] != '=') {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: %s= is expected before \"%.20s\"",
                             op->name, param->name, text);
        }
        text += length + 1;
        kiln_status status = kilni_ir_parse_value(&text, param->type, arena, &values[i], err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "%s: attribute %s", op->name, param->name);
            return status;
        }
    }
    return *text == '\0' ? KILN_STATUS_OK
                         : kiln_fail(err, INVALID_ARGUMENT, "%s: \"%.20s\" is no attribute of it",
                                     op->name, text);
}

kiln_status kiln_ir_custom_values(const kiln_custom_op *op, const char *text, kiln_arena *arena,
                                  const kiln_attr **out_values, kiln_error *err)
{
    kiln_string again;
    *out_values = NULL;
    if (strlen(text) > KILN_CUSTOM_MAX_TEXT) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: more than %d bytes of attributes", op->name,
                         KILN_CUSTOM_MAX_TEXT);
    }
    kiln_attr *values = kiln_arena_alloc(arena, (op->n_params + 1) * sizeof(*values));
    if (values == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for attributes", op->name);
    }
    kiln_status status = read_values(op, text, arena, values, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_string_init(&again, op->env);
    print_values(op, values, &again);
    if (again.failed) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for attributes", op->name);
    } else if (again.length > 0 ? strcmp(again.text, text) != 0 : text[0] != '\0') {
        status = kiln_fail(err, INVALID_ARGUMENT, "%s: \"%.80s\" is not written as \"%.80s\"",
                           op->name, text, again.text);
    }
    kiln_string_fini(&again);
    *out_values = status == KILN_STATUS_OK ? values : NULL;
    return status;
}
