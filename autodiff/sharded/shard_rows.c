// SPDX-License-Identifier: MIT OR Apache-2.0
// Parameters as rows, and pieces of rows as tensors: in which row and at which place a parameter
// lies, and what is recorded to cut a row or to join one. Who gets which piece is the optimiser's.
#include "sharded_internal.h"

/// The row that the next parameter of a dtype goes to: the last one of that dtype, until it is long
/// enough. So no row is short but the last ones, whatever lies between large parameters.
static size_t choose_row(const kilni_shard_layout *layout, kiln_dtype dtype, uint64_t row_bytes)
{
    size_t row = layout->n_rows;
    while (row > 0 && layout->rows[row - 1].dtype != dtype) {
        row--;
    }
    bool has_room =
        row > 0 && (uint64_t)layout->rows[row - 1].elems * kiln_dtype_size(dtype) < row_bytes;
    return has_room ? row - 1 : layout->n_rows;
}

/// Enough rows that most of the way runs beside backward, each long enough that what a call costs
/// whatever its length is little of it.
static uint64_t choose_row_bytes(const kiln_params *params)
{
    static const uint64_t least = 4u << 20, most = 64u << 20;
    enum { ROWS = 16 };
    uint64_t bytes = kiln_params_bytes(params) / ROWS;
    return bytes < least ? least : bytes > most ? most : bytes;
}

static kiln_status place_one(kilni_shard_layout *layout, const kiln_params *params, size_t index,
                             uint64_t row_bytes, kiln_error *err)
{
    const kiln_tensor *value = kiln_params_tensor(params, index);
    kiln_dtype dtype = kiln_tensor_dtype(value);
    int64_t elems = kiln_tensor_count(value);
    if (kiln_dtype_kind_of(dtype) != KILN_KIND_FLOAT) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameter %.64s is %s; only floats are optimised",
                         kiln_params_name(params, index), kiln_dtype_name(dtype));
    }
    size_t number = choose_row(layout, dtype, row_bytes);
    kilni_shard_row *row = &layout->rows[number];
    layout->n_rows += number == layout->n_rows;
    row->dtype = dtype;
    layout->places[index] = (kilni_shard_place){.row = number, .start = row->elems, .count = elems};
    row->elems += elems;
    row->n_params++;
    return KILN_STATUS_OK;
}

kiln_status kilni_shard_layout_init(const kiln_params *params, uint32_t parts, uint64_t row_bytes,
                                    kilni_shard_layout *out_layout, kiln_error *err)
{
    const size_t count = params->count;
    kiln_status status = KILN_STATUS_OK;
    row_bytes = row_bytes != 0 ? row_bytes : choose_row_bytes(params);
    *out_layout = (kilni_shard_layout){
        .env = params->env,
        .parts = parts,
        .count = count,
        .places = kiln_alloc_array(params->env, count + 1, sizeof(kilni_shard_place)),
        .rows = kiln_alloc_array(params->env, count + 1, sizeof(kilni_shard_row))};
    if (out_layout->places == NULL || out_layout->rows == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu parameters", count);
    }
    for (size_t i = count; i > 0 && status == KILN_STATUS_OK; i--) {
        status = place_one(out_layout, params, i - 1, row_bytes, err);
    }
    for (size_t i = 0; i < out_layout->n_rows; i++) {
        kilni_shard_row *row = &out_layout->rows[i];
        row->part = row->elems > 0 ? (row->elems + parts - 1) / parts : 1;
    }
    return status;
}

void kilni_shard_layout_fini(kilni_shard_layout *layout)
{
    kiln_free(layout->env, layout->places);
    kiln_free(layout->env, layout->rows);
    layout->places = NULL;
    layout->rows = NULL;
}

// ---- pieces ----

/// Elements [from, to) of a tensor of `count`, as a tensor of rank 1.
static kiln_status cut_flat(kiln_tensor *tensor, int64_t count, int64_t from, int64_t to,
                            kiln_tensor **out_tensor, kiln_error *err)
{
    const int64_t step = 1;
    kiln_tensor *flat = NULL;
    kiln_status status = kiln_reshape(tensor, &count, 1, &flat, err);
    if (status == KILN_STATUS_OK && from == 0 && to == count) {
        *out_tensor = flat;
        return status;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_slice(flat, &from, 1, &to, 1, &step, 1, out_tensor, err);
    }
    kiln_release(flat);
    return status;
}

/// Joins parts end to end, as many at once as one operation takes; they are given up.
static kiln_status join_row(kiln_tensor **parts, size_t count, kiln_tensor **out_tensor,
                            kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    while (count > 1 && status == KILN_STATUS_OK) {
        size_t joined = 0;
        for (size_t at = 0; at < count && status == KILN_STATUS_OK; at += KILN_MAX_INPUTS) {
            size_t n = count - at < KILN_MAX_INPUTS ? count - at : KILN_MAX_INPUTS;
            kiln_tensor *row = NULL;
            status = kiln_concat(&parts[at], n, /*axis=*/0, &row, err);
            for (size_t i = at; i < at + n; i++) {
                kiln_release(parts[i]);
                parts[i] = NULL;
            }
            parts[joined++] = row;
        }
        count = joined;
    }
    if (status == KILN_STATUS_OK) {
        *out_tensor = parts[0];
        parts[0] = NULL;
    }
    return status;
}

kiln_status kilni_shard_cut(const kilni_shard_layout *layout, kiln_device *device,
                            kiln_tensor *const *tensors, size_t row, int64_t start, int64_t count,
                            kiln_tensor **out_tensor, kiln_error *err)
{
    const kilni_shard_row *own = &layout->rows[row];
    kiln_tensor **parts = kiln_alloc_array(layout->env, layout->count + 1, sizeof(kiln_tensor *));
    size_t n_parts = 0;
    int64_t end = start + count;
    int64_t padding = end - (start > own->elems ? start : own->elems);
    kiln_status status = KILN_STATUS_OK;
    if (parts == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a row of parameters");
    }
    for (size_t i = layout->count; i-- > 0;) { // as they lie in the row
        const kilni_shard_place *place = &layout->places[i];
        int64_t from = start > place->start ? start - place->start : 0;
        int64_t to = end - place->start < place->count ? end - place->start : place->count;
        if (place->row == row && from < to) {
            KILN_TRY(out, status,
                     cut_flat(tensors[i], place->count, from, to, &parts[n_parts], err));
            n_parts++;
        }
    }
    if (padding > 0) {
        KILN_TRY(out, status,
                 kiln_full(device, &padding, 1, own->dtype, kiln_f64(0), &parts[n_parts], err));
        n_parts++;
    }
    status = join_row(parts, n_parts, out_tensor, err);
out:
    for (size_t i = 0; i < layout->count + 1; i++) {
        kiln_release(parts[i]);
    }
    kiln_free(layout->env, (void *)parts);
    return status;
}

kiln_status kilni_shard_take(const kilni_shard_layout *layout, kiln_tensor *whole, size_t index,
                             const kiln_tensor *like, kiln_tensor **out_tensor, kiln_error *err)
{
    const kilni_shard_place *place = &layout->places[index];
    kiln_tensor *flat = NULL;
    kiln_status status = cut_flat(whole, kiln_tensor_count(whole), place->start,
                                  place->start + place->count, &flat, err);
    if (status == KILN_STATUS_OK) {
        status =
            kiln_reshape(flat, kiln_tensor_dims(like), kiln_tensor_rank(like), out_tensor, err);
    }
    kiln_release(flat);
    return status;
}
