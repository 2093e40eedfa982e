// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators of ai.onnx.ml that prepare columns: scaling, missing values, categories, labels. Values
// are compared with all keys at once, strings by their numbers, so all of it is the device's.
// Decides that OneHotEncoder gives zeros for what is no category, also where `zeros` asks for an
// error: nothing is read to find out.
#include "onnx_ml.h"

#include <math.h>
#include <string.h>

/// A list of one number or one for each column, as a table of one row.
static kilni_onnx_ref column_list(kilni_onnx_call *call, const char *name)
{
    kilni_onnx_ref list = kilni_onnx_attr_list(call, name);
    return list == NULL || !kilni_onnx_ok(call) || kiln_desc_count(&list->desc) == 0 ? NULL : list;
}

void kilni_onnx_op_scaler(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_cast(call, kilni_onnx_in(call, 0), KILN_DTYPE_F32);
    kilni_onnx_ref offset = column_list(call, "offset"), scale = column_list(call, "scale");
    x = offset == NULL ? x : kilni_onnx_binary(call, KILN_OP_SUB, x, offset);
    kilni_onnx_out(call, 0, scale == NULL ? x : kilni_onnx_binary(call, KILN_OP_MUL, x, scale));
}

void kilni_onnx_op_normalizer(kilni_onnx_call *call)
{
    static const int64_t axis = -1;
    kilni_onnx_ref x = kilni_onnx_cast(call, kilni_onnx_in(call, 0), KILN_DTYPE_F32);
    const char *norm = kilni_onnx_attr_text(call, "norm", "MAX");
    kilni_onnx_ref size = kilni_onnx_unary(call, KILN_OP_ABS, x);
    if (strcmp(norm, "MAX") == 0) {
        size = kilni_onnx_reduce(call, KILN_OP_MAX, size, &axis, 1, true);
    } else if (strcmp(norm, "L1") == 0) {
        size = kilni_onnx_reduce(call, KILN_OP_SUM, size, &axis, 1, true);
    } else if (strcmp(norm, "L2") == 0) {
        size = kilni_onnx_reduce(call, KILN_OP_SUM, kilni_onnx_binary(call, KILN_OP_MUL, x, x),
                                 &axis, 1, true);
        size = kilni_onnx_unary(call, KILN_OP_SQRT, size);
    } else {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "norm '%s' is not MAX, L1 or L2", norm);
    }
    kilni_onnx_ref none = kilni_onnx_scalar(call, KILN_OP_EQUAL_SCALAR, size, 0);
    size = kilni_onnx_mask_fill(call, size, none, 1); // a row of zeros stays one
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_DIV, x, size));
}

void kilni_onnx_op_binarizer(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double threshold = kilni_onnx_attr_float(call, "threshold", 0);
    kilni_onnx_ref wide = kilni_onnx_ok(call) && !kilni_onnx_is_float(x)
                              ? kilni_onnx_cast(call, x, KILN_DTYPE_F32)
                              : x;
    kilni_onnx_ref above = kilni_onnx_scalar(call, KILN_OP_GREATER_SCALAR, wide, threshold);
    if (kilni_onnx_ok(call)) {
        kilni_onnx_out(call, 0, kilni_onnx_cast(call, above, x->desc.dtype));
    }
}

void kilni_onnx_op_imputer(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double replaced = kilni_onnx_attr_float(call, "replaced_value_float", 0);
    int64_t replaced_int = kilni_onnx_attr_int(call, "replaced_value_int64", 0);
    bool floats = kilni_onnx_ok(call) && kilni_onnx_is_float(x);
    kilni_onnx_ref values =
        column_list(call, floats ? "imputed_value_floats" : "imputed_value_int64s");
    if (kilni_onnx_ok(call) && values == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "there are no imputed values of %s",
                        kiln_dtype_name(x->desc.dtype));
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kilni_onnx_ref missing =
        !floats           ? kilni_onnx_scalar_int(call, KILN_OP_EQUAL_SCALAR, x, replaced_int)
        : isnan(replaced) ? kilni_onnx_unary(call, KILN_OP_IS_NAN, x)
                          : kilni_onnx_scalar(call, KILN_OP_EQUAL_SCALAR, x, replaced);
    values = kilni_onnx_cast(call, values, x->desc.dtype);
    kilni_onnx_out(call, 0, kilni_onnx_where(call, missing, values, x));
}

void kilni_onnx_op_feature_vectorizer(kilni_onnx_call *call)
{
    kilni_onnx_ref *parts = kilni_onnx_refs(call, call->n_inputs);
    const kilni_onnx_attr *lengths = kilni_onnx_attr_find(call, "inputdimensions");
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < call->n_inputs; i++) {
        kilni_onnx_ref part = kilni_onnx_in(call, i);
        bool list = kilni_onnx_ok(call) && part->desc.rank == 1;
        const int64_t column[] = {list ? part->desc.dims[0] : 0, 1};
        part = list ? kilni_onnx_reshape(call, part, column, 2) : part;
        if (kilni_onnx_ok(call) && lengths != NULL && i < lengths->count &&
            lengths->ints[i] != part->desc.dims[part->desc.rank - 1]) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u has %lld columns, not %lld", i,
                            (long long)part->desc.dims[part->desc.rank - 1],
                            (long long)lengths->ints[i]);
        }
        parts[i] = kilni_onnx_cast(call, part, KILN_DTYPE_F32);
    }
    kilni_onnx_out(call, 0,
                   kilni_onnx_ok(call) ? kilni_onnx_concat(call, parts, call->n_inputs, 1) : NULL);
    kiln_free(&call->session->env, parts);
}

void kilni_onnx_op_array_feature_extractor(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref places = kilni_onnx_in(call, 1);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    const int64_t flat = kiln_desc_count(&places->desc);
    const int64_t row[] = {1, x->desc.rank == 1 ? x->desc.dims[0] : 0};
    x = x->desc.rank == 1 ? kilni_onnx_reshape(call, x, row, 2) : x;
    kilni_onnx_out(call, 0,
                   kilni_onnx_take(call, x, kilni_onnx_reshape(call, places, &flat, 1), -1));
}

// ---- categories and labels ----

/// Whether each value of x is each of the keys: one more axis.
static kilni_onnx_ref is_key(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref keys)
{
    int64_t dims[KILN_MAX_RANK];
    if (!kilni_onnx_ok(call) || x->desc.rank == KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "values of rank %d", KILN_MAX_RANK);
        return NULL;
    }
    if (kilni_onnx_is_text(x) != kilni_onnx_is_text(keys)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "strings are compared with numbers");
        return NULL;
    }
    memcpy(dims, x->desc.dims, sizeof(dims));
    dims[x->desc.rank] = 1;
    kilni_onnx_ref column = kilni_onnx_reshape(call, x, dims, x->desc.rank + 1u);
    keys = kilni_onnx_is_text(x) ? keys : kilni_onnx_cast(call, keys, x->desc.dtype);
    kilni_onnx_ref same = kilni_onnx_binary(call, KILN_OP_EQUAL, column, keys);
    if (!kilni_onnx_ok(call) || !kilni_onnx_is_float(x)) {
        return same;
    }
    // What is no number is one key.
    kilni_onnx_ref none =
        kilni_onnx_binary(call, KILN_OP_LOGICAL_AND, kilni_onnx_unary(call, KILN_OP_IS_NAN, column),
                          kilni_onnx_unary(call, KILN_OP_IS_NAN, keys));
    return kilni_onnx_binary(call, KILN_OP_LOGICAL_OR, same, none);
}

/// The value of the first key that each element of x is, `fallback` of none.
static kilni_onnx_ref mapped(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref keys,
                             kilni_onnx_ref values, kilni_onnx_ref fallback)
{
    static const int64_t axis = -1;
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    int64_t count = kiln_desc_count(&keys->desc);
    const int64_t none = 0;
    if (count != kiln_desc_count(&values->desc)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld keys for %lld values", (long long)count,
                        (long long)kiln_desc_count(&values->desc));
        return NULL;
    }
    fallback = kilni_onnx_reshape(call, fallback, &none, 0);
    if (count == 0) {
        return kilni_onnx_expand(call, fallback, x->desc.dims, x->desc.rank);
    }
    keys = kilni_onnx_reshape(call, keys, &count, 1);
    values = kilni_onnx_reshape(call, values, &count, 1);
    kilni_onnx_ref same = kilni_onnx_cast(call, is_key(call, x, keys), KILN_DTYPE_I32);
    kilni_onnx_ref found = kilni_onnx_reduce(call, KILN_OP_MAX, same, &axis, 1, false);
    found = kilni_onnx_scalar_int(call, KILN_OP_GREATER_SCALAR, found, 0);
    kilni_onnx_ref place = kilni_onnx_argreduce(call, KILN_OP_ARGMAX, same, -1, false, false);
    return kilni_onnx_where(call, found, kilni_onnx_take(call, values, place, 0), fallback);
}

void kilni_onnx_op_one_hot_encoder(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref keys = column_list(call, "cats_strings");
    keys = keys != NULL ? keys : column_list(call, "cats_int64s");
    if (kilni_onnx_ok(call) && keys == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "there are no categories");
    }
    if (kilni_onnx_ok(call) && kilni_onnx_is_float(x)) {
        x = kilni_onnx_cast(call, x, KILN_DTYPE_I64);
    }
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, is_key(call, x, keys), KILN_DTYPE_F32));
}

static kilni_onnx_ref text_constant(kilni_onnx_call *call, const char *text)
{
    kilni_onnx_ref value = kilni_onnx_text_made(call, 0, NULL);
    if (value != NULL) {
        value->constant = true;
        *(int32_t *)value->owned = kilni_onnx_text_number(call, text, strlen(text));
    }
    return value;
}

static kilni_onnx_ref float_constant(kilni_onnx_call *call, double number)
{
    const float value = (float)number;
    return kilni_onnx_const_data(call, KILN_DTYPE_F32, 0, NULL, &value);
}

/// What a label is that is no key.
static kilni_onnx_ref default_label(kilni_onnx_call *call, kilni_onnx_ref values)
{
    const char *text = kilni_onnx_attr_text(call, "default_string", "_Unused");
    double number = kilni_onnx_attr_float(call, "default_float", -0.0);
    int64_t integer = kilni_onnx_attr_int(call, "default_int64", -1);
    kilni_onnx_ref given = kilni_onnx_attr_list(call, "default_tensor");
    if (!kilni_onnx_ok(call) || given != NULL) {
        return given;
    }
    kilni_onnx_ref made = kilni_onnx_is_text(values)    ? text_constant(call, text)
                          : kilni_onnx_is_float(values) ? float_constant(call, number)
                                                        : kilni_onnx_const_int(call, integer);
    return kilni_onnx_is_text(values) || !kilni_onnx_ok(call)
               ? made
               : kilni_onnx_cast(call, made, values->desc.dtype);
}

/// The first of these attributes that is there.
static kilni_onnx_ref first_list(kilni_onnx_call *call, const char *const names[4])
{
    kilni_onnx_ref list = NULL;
    for (unsigned i = 0; i < 4 && list == NULL; i++) {
        list = kilni_onnx_attr_list(call, names[i]);
    }
    if (kilni_onnx_ok(call) && list == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "no attribute '%s' or its like", names[0]);
    }
    return list;
}

/// Before version 2 strings become their places, and places strings.
static void places_and_strings(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref classes)
{
    int64_t count = kilni_onnx_ok(call) ? kiln_desc_count(&classes->desc) : 0;
    kilni_onnx_ref places =
        kilni_onnx_arange(call, KILN_DTYPE_I64, count, kiln_i64(0), kiln_i64(1));
    bool text = kilni_onnx_ok(call) && kilni_onnx_is_text(x);
    kilni_onnx_ref keys = text ? classes : places, values = text ? places : classes;
    if (kilni_onnx_ok(call)) {
        kilni_onnx_out(call, 0, mapped(call, x, keys, values, default_label(call, values)));
    }
}

void kilni_onnx_op_label_encoder(kilni_onnx_call *call)
{
    static const char *const of_keys[] = {"keys_tensor", "keys_strings", "keys_int64s",
                                          "keys_floats"};
    static const char *const of_values[] = {"values_tensor", "values_strings", "values_int64s",
                                            "values_floats"};
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref classes = kilni_onnx_attr_list(call, "classes_strings");
    if (classes != NULL) {
        places_and_strings(call, x, classes);
        return;
    }
    kilni_onnx_ref keys = first_list(call, of_keys), values = first_list(call, of_values);
    if (kilni_onnx_ok(call)) {
        kilni_onnx_out(call, 0, mapped(call, x, keys, values, default_label(call, values)));
    }
}

void kilni_onnx_op_category_mapper(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref ints = kilni_onnx_attr_list(call, "cats_int64s");
    kilni_onnx_ref texts = kilni_onnx_attr_list(call, "cats_strings");
    if (kilni_onnx_ok(call) && (ints == NULL || texts == NULL)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "there are no categories");
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    bool text = kilni_onnx_is_text(x);
    kilni_onnx_ref keys = text ? texts : ints, values = text ? ints : texts;
    kilni_onnx_out(call, 0, mapped(call, x, keys, values, default_label(call, values)));
}
