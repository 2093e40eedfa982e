// SPDX-License-Identifier: MIT OR Apache-2.0
// Maps of ai.onnx.ml. Decides that maps with the same keys are one table, whose rows stay on the
// device until somebody wants the maps, and that what is made of a map is made on the host.
#include "onnx_ml.h"

#include <stdlib.h>
#include <string.h>

void kilni_onnx_op_zip_map(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref keys = kilni_onnx_ml_labels(call, "classlabels_int64s");
    if (kilni_onnx_ok(call) && (keys == NULL || x->desc.rank < 1 || x->desc.rank > 2 ||
                                x->desc.dims[x->desc.rank - 1] != kiln_desc_count(&keys->desc))) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "columns and labels do not fit together");
    }
    kilni_onnx_ref maps = kilni_onnx_sequence(call, 2);
    kilni_onnx_ref table = kilni_onnx_ml_rows(call, 0);
    if (kilni_onnx_ok(call)) {
        maps->form = KILNI_ONNX_MAPS;
        maps->items[0] = kilni_onnx_retain(keys);
        maps->items[1] = kilni_onnx_retain(table);
    }
    kilni_onnx_out(call, 0, maps);
}

/// One map: its keys and values.
static bool in_map(kilni_onnx_call *call, kilni_onnx_ref *out_keys, kilni_onnx_ref *out_values)
{
    kilni_onnx_ref map = kilni_onnx_in_any(call, 0);
    if (!kilni_onnx_ok(call) || map->form != KILNI_ONNX_MAPS || map->items[1]->desc.dims[0] != 1) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input 0 is no map");
        return false;
    }
    *out_keys = map->items[0];
    *out_values = map->items[1];
    return true;
}

/// A key as a number: of a string its own.
static int64_t key_at(kilni_onnx_ref keys, const void *data, int64_t i)
{
    return kilni_onnx_element(keys->desc.dtype, data, i).v.i;
}

void kilni_onnx_op_dict_vectorizer(kilni_onnx_call *call)
{
    kilni_onnx_ref keys = NULL, values = NULL;
    kilni_onnx_ref texts = kilni_onnx_attr_list(call, "string_vocabulary");
    kilni_onnx_ref names = texts != NULL ? texts : kilni_onnx_attr_list(call, "int64_vocabulary");
    if (!in_map(call, &keys, &values)) {
        return;
    }
    if (names == NULL || kilni_onnx_is_text(names) != kilni_onnx_is_text(keys)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the vocabulary is not of the map's keys");
        return;
    }
    const void *own = kilni_onnx_host(call, keys), *numbers = kilni_onnx_host(call, values);
    const int64_t dims[] = {1, kiln_desc_count(&names->desc)};
    size_t size = kiln_dtype_size(values->desc.dtype);
    kilni_onnx_ref y = kilni_onnx_host_made(call, values->desc.dtype, 2, dims);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < dims[1]; i++) {
        int64_t name = key_at(names, names->host, i);
        for (int64_t k = 0; k < kiln_desc_count(&keys->desc); k++) {
            if (key_at(keys, own, k) == name) {
                memcpy((char *)y->owned + (size_t)i * size,
                       (const char *)numbers + (size_t)k * size, size);
            }
        }
    }
    kilni_onnx_out(call, 0, y);
}

/// Places of a map's values in the result, which SPARSE maps say themselves.
static int64_t cast_length(kilni_onnx_call *call, kilni_onnx_ref keys, bool sparse)
{
    int64_t most = kilni_onnx_attr_int(call, "max_map", 1);
    if (sparse && (most < 1 || most > KILNI_ONNX_MAX_LIST || kilni_onnx_is_text(keys))) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a sparse map of %lld places", (long long)most);
    }
    return sparse ? most : kiln_desc_count(&keys->desc);
}

void kilni_onnx_op_cast_map(kilni_onnx_call *call)
{
    kilni_onnx_ref keys = NULL, values = NULL;
    const char *to = kilni_onnx_attr_text(call, "cast_to", "TO_FLOAT");
    bool sparse = strcmp(kilni_onnx_attr_text(call, "map_form", "DENSE"), "SPARSE") == 0;
    if (!in_map(call, &keys, &values)) {
        return;
    }
    const int64_t dims[] = {1, cast_length(call, keys, sparse)};
    const void *own = kilni_onnx_host(call, keys), *numbers = kilni_onnx_host(call, values);
    kilni_onnx_ref y = kilni_onnx_host_made(call, KILN_DTYPE_F32, 2, dims);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < kiln_desc_count(&keys->desc); i++) {
        int64_t place = sparse ? key_at(keys, own, i) : i;
        if (place >= 0 && place < dims[1]) {
            kiln_number n = kilni_onnx_element(values->desc.dtype, numbers, i);
            ((float *)y->owned)[place] = n.is_integer ? (float)n.v.i : (float)n.v.f;
        }
    }
    bool text = strcmp(to, "TO_STRING") == 0, integer = strcmp(to, "TO_INT64") == 0;
    kilni_onnx_out(call, 0,
                   kilni_onnx_cast_to(call, y,
                                      text      ? KILN_DTYPE_I32
                                      : integer ? KILN_DTYPE_I64
                                                : KILN_DTYPE_F32,
                                      text ? KILNI_ONNX_TYPE_STRING : 0));
}
