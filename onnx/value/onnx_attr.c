// SPDX-License-Identifier: MIT OR Apache-2.0
// Attributes of a node by name, with the type that the operator expects. Inside a function an
// attribute may stand for one of the caller's; that is resolved here, through as many calls as
// there are.
#include "onnx_run.h"

#include <string.h>

static const kilni_onnx_attr *find_in(const kilni_onnx_attr *attrs, uint32_t count,
                                      const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(attrs[i].name, name) == 0) {
            return &attrs[i];
        }
    }
    return NULL;
}

/// The frame of the function that a frame's nodes stand in: branches are looked through.
static const kilni_onnx_frame *function_frame(const kilni_onnx_frame *frame)
{
    while (frame != NULL && frame->plan->function == NULL) {
        frame = frame->around;
    }
    return frame;
}

const kilni_onnx_attr *kilni_onnx_attr_find(const kilni_onnx_call *call, const char *name)
{
    const kilni_onnx_attr *attr = find_in(call->node->attrs, call->node->n_attrs, name);
    if (attr == NULL || attr->ref_name[0] == '\0') {
        return attr;
    }
    const kilni_onnx_frame *frame = function_frame(call->frame);
    if (frame == NULL || frame->caller == NULL) {
        return NULL;
    }
    const kilni_onnx_attr *given = kilni_onnx_attr_find(frame->caller, attr->ref_name);
    const kilni_onnx_function *function = frame->plan->function;
    return given != NULL ? given
                         : find_in(function->defaults, function->n_defaults, attr->ref_name);
}

const char *kilni_onnx_attr_type_name(kilni_onnx_attr_type type)
{
    static const char *const names[] = {[KILNI_ONNX_ATTR_NONE] = "without a type",
                                        [KILNI_ONNX_ATTR_FLOAT] = "a float",
                                        [KILNI_ONNX_ATTR_INT] = "an integer",
                                        [KILNI_ONNX_ATTR_STRING] = "a string",
                                        [KILNI_ONNX_ATTR_TENSOR] = "a tensor",
                                        [KILNI_ONNX_ATTR_GRAPH] = "a graph",
                                        [KILNI_ONNX_ATTR_FLOATS] = "a list of floats",
                                        [KILNI_ONNX_ATTR_INTS] = "a list of integers",
                                        [KILNI_ONNX_ATTR_STRINGS] = "a list of strings",
                                        [KILNI_ONNX_ATTR_TENSORS] = "a list of tensors",
                                        [KILNI_ONNX_ATTR_GRAPHS] = "a list of graphs",
                                        [KILNI_ONNX_ATTR_SPARSE_TENSOR] = "a sparse tensor",
                                        [KILNI_ONNX_ATTR_SPARSE_TENSORS] =
                                            "a list of sparse tensors",
                                        [KILNI_ONNX_ATTR_TYPE] = "a type",
                                        [KILNI_ONNX_ATTR_TYPES] = "a list of types"};
    return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "of an unknown type";
}

static const kilni_onnx_attr *typed(kilni_onnx_call *call, const char *name,
                                    kilni_onnx_attr_type type)
{
    const kilni_onnx_attr *attr = kilni_onnx_ok(call) ? kilni_onnx_attr_find(call, name) : NULL;
    if (attr != NULL && attr->type != type) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' is %s, not %s", name,
                        kilni_onnx_attr_type_name(attr->type), kilni_onnx_attr_type_name(type));
        return NULL;
    }
    return attr;
}

int64_t kilni_onnx_attr_int(kilni_onnx_call *call, const char *name, int64_t fallback)
{
    const kilni_onnx_attr *attr = typed(call, name, KILNI_ONNX_ATTR_INT);
    return attr == NULL ? fallback : attr->i;
}

double kilni_onnx_attr_float(kilni_onnx_call *call, const char *name, double fallback)
{
    const kilni_onnx_attr *attr = typed(call, name, KILNI_ONNX_ATTR_FLOAT);
    return attr == NULL ? fallback : (double)attr->f;
}

const char *kilni_onnx_attr_text(kilni_onnx_call *call, const char *name, const char *fallback)
{
    const kilni_onnx_attr *attr = typed(call, name, KILNI_ONNX_ATTR_STRING);
    return attr == NULL ? fallback : attr->text;
}

bool kilni_onnx_attr_ints(kilni_onnx_call *call, const char *name, kilni_onnx_ints *out_ints)
{
    out_ints->count = 0;
    const kilni_onnx_attr *attr = typed(call, name, KILNI_ONNX_ATTR_INTS);
    if (attr == NULL) {
        return false;
    }
    if (attr->count > sizeof(out_ints->v) / sizeof(out_ints->v[0])) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' has %u values", name, attr->count);
        return false;
    }
    if (attr->count > 0) {
        memcpy(out_ints->v, attr->ints, attr->count * sizeof(int64_t));
    }
    out_ints->count = attr->count;
    return true;
}

kiln_dtype kilni_onnx_dtype_of(kilni_onnx_call *call, int64_t onnx_type)
{
    bool fits = onnx_type > 0 && onnx_type < KILNI_ONNX_TYPE_LIMIT;
    kiln_dtype dtype = fits ? kilni_onnx_type_dtype((int32_t)onnx_type) : KILN_DTYPE_NONE;
    if (onnx_type == KILNI_ONNX_TYPE_STRING) {
        return KILN_DTYPE_I32;
    }
    if (dtype == KILN_DTYPE_NONE) {
        const char *name = fits ? kilni_onnx_type_name((int32_t)onnx_type) : NULL;
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "element type %s is not supported",
                        name == NULL ? "of an unknown number" : name);
    }
    return kiln_dtype_kind_of(dtype) == KILN_KIND_SMALL ? KILN_DTYPE_U8 : dtype;
}

kiln_dtype kilni_onnx_attr_dtype(kilni_onnx_call *call, const char *name, kiln_dtype fallback)
{
    static const char *const old_names[] = {"",        "FLOAT",  "UINT8",  "INT8",   "UINT16",
                                            "INT16",   "INT32",  "INT64",  "STRING", "BOOL",
                                            "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
    const kilni_onnx_attr *attr = kilni_onnx_ok(call) ? kilni_onnx_attr_find(call, name) : NULL;
    if (attr == NULL) {
        return fallback;
    }
    if (attr->type != KILNI_ONNX_ATTR_STRING) {
        int64_t given = kilni_onnx_attr_int(call, name, 0);
        return given == 0 ? fallback : kilni_onnx_dtype_of(call, given);
    }
    // Before version 6 of the operator set the type was given by name.
    for (size_t i = 1; i < sizeof(old_names) / sizeof(old_names[0]); i++) {
        if (strcmp(attr->text, old_names[i]) == 0) {
            return kilni_onnx_dtype_of(call, (int64_t)i);
        }
    }
    KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' names no type: '%s'", name, attr->text);
    return fallback;
}
