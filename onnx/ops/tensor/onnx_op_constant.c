// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators that make values from attributes or host numbers. Decides which of a constant's
// attributes speaks, and how many steps a range has.
#include "onnx_emit_text.h"

#include <math.h>
#include <string.h>

static void float_list(kilni_onnx_call *call, const float *values, uint32_t rank, uint32_t count)
{
    const int64_t dims[] = {count};
    kilni_onnx_out(call, 0, kilni_onnx_const_data(call, KILN_DTYPE_F32, rank, dims, values));
}

static kilni_onnx_ref one_text(kilni_onnx_call *call, const char *text)
{
    kilni_onnx_ref value = kilni_onnx_text_made(call, 0, NULL);
    if (value != NULL) {
        *(int32_t *)value->owned = kilni_onnx_text_number(call, text, strlen(text));
    }
    return value;
}

static const kilni_onnx_attr *constant_attr(const kilni_onnx_call *call)
{
    static const char *const names[] = {"value",         "value_int",    "value_ints",
                                        "value_float",   "value_floats", "value_string",
                                        "value_strings", "sparse_value"};
    const kilni_onnx_attr *attr = NULL;
    for (size_t i = 0; attr == NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        attr = kilni_onnx_attr_find(call, names[i]);
    }
    return attr;
}

void kilni_onnx_op_constant(kilni_onnx_call *call)
{
    const kilni_onnx_attr *attr = constant_attr(call);
    switch (attr == NULL ? KILNI_ONNX_ATTR_NONE : attr->type) {
    case KILNI_ONNX_ATTR_TENSOR:
    case KILNI_ONNX_ATTR_SPARSE_TENSOR:
        kilni_onnx_out(call, 0, kilni_onnx_const_tensor(call, attr->tensor));
        break;
    case KILNI_ONNX_ATTR_INT:
        kilni_onnx_out(call, 0, kilni_onnx_const_int(call, attr->i));
        break;
    case KILNI_ONNX_ATTR_INTS:
        kilni_onnx_out(call, 0, kilni_onnx_const_ints(call, attr->ints, attr->count));
        break;
    case KILNI_ONNX_ATTR_FLOAT:
        float_list(call, &attr->f, 0, 1);
        break;
    case KILNI_ONNX_ATTR_FLOATS:
        float_list(call, attr->floats, 1, attr->count);
        break;
    case KILNI_ONNX_ATTR_STRING:
        kilni_onnx_out(call, 0, one_text(call, attr->text));
        break;
    case KILNI_ONNX_ATTR_STRINGS:
        kilni_onnx_out(call, 0, kilni_onnx_attr_list(call, "value_strings"));
        break;
    default:
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "a constant that is no tensor");
    }
}

void kilni_onnx_op_constant_of_shape(kilni_onnx_call *call)
{
    kilni_onnx_ints shape = kilni_onnx_value_ints(call, kilni_onnx_in(call, 0));
    const kilni_onnx_attr *attr = kilni_onnx_attr_find(call, "value");
    kiln_dtype dtype = KILN_DTYPE_F32;
    kiln_number value = kiln_f64(0);
    int32_t narrow = 0;
    if (attr != NULL && attr->type == KILNI_ONNX_ATTR_TENSOR) {
        kilni_onnx_ref given = kilni_onnx_const_tensor(call, attr->tensor);
        value = kilni_onnx_value_number(call, given);
        dtype = given == NULL ? dtype : given->desc.dtype;
        narrow = given == NULL ? 0 : given->narrow;
    }
    if (shape.count > KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "rank %u exceeds limit %d", shape.count,
                        KILN_MAX_RANK);
    }
    kilni_onnx_ref y = kilni_onnx_full(call, dtype, shape.v, shape.count, value);
    if (kilni_onnx_ok(call)) {
        y->narrow = narrow;
    }
    kilni_onnx_out(call, 0, y);
}

/// How many steps lead from start to before limit; -1 when that is no length.
static int64_t range_count(kiln_number start, kiln_number limit, kiln_number delta)
{
    double count = 0;
    if (start.is_integer) {
        if (delta.v.i == 0) {
            return -1;
        }
        count = ceil(((double)limit.v.i - (double)start.v.i) / (double)delta.v.i);
    } else {
        count = ceil((limit.v.f - start.v.f) / delta.v.f);
    }
    if (!(count < 9007199254740992.0)) {
        return -1;
    }
    return count > 0 ? (int64_t)count : 0;
}

void kilni_onnx_op_range(kilni_onnx_call *call)
{
    kilni_onnx_ref first = kilni_onnx_in(call, 0);
    kiln_number start = kilni_onnx_value_number(call, first);
    kiln_number limit = kilni_onnx_value_number(call, kilni_onnx_in(call, 1));
    kiln_number delta = kilni_onnx_value_number(call, kilni_onnx_in(call, 2));
    if (!kilni_onnx_ok(call)) {
        return;
    }
    int64_t count = start.is_integer == limit.is_integer && start.is_integer == delta.is_integer
                        ? range_count(start, limit, delta)
                        : -1;
    if (count < 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "start, limit and step give no length");
        return;
    }
    kilni_onnx_out(call, 0, kilni_onnx_arange(call, first->desc.dtype, count, start, delta));
}
