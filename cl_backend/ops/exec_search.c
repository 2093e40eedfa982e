// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches argwhere.cl and nms.cl. Decides how a mask is cut into chunks, and how many work-items
// share the boxes of a class.
#include <string.h>

#include "exec_internal.h"
#include "search_args.h"

enum { PLACES_GROUP = 256, NMS_GROUP = 128, CHUNK_LEAST = 256, GPU_CHUNKS = 16384 };

static void cut_mask(const kilni_exec *exec, kiln_argwhere_shape *s)
{
    bool block = kilni_exec_is_block(exec);
    int64_t most = block ? 4 * (int64_t)exec->backend->info.compute_units : GPU_CHUNKS;
    s->chunk = kilni_exec_ceil_div(s->elems, most);
    s->chunk = s->chunk < CHUNK_LEAST ? CHUNK_LEAST : s->chunk;
    s->chunks = kilni_exec_ceil_div(s->elems, s->chunk);
}

static kiln_status begin_step(kilni_exec *exec, const char *kernel, const kiln_argwhere_shape *s,
                              kilni_cl_args *out_args)
{
    kilni_exec_options options = {.length = 0};
    kilni_exec_define(&options, "GROUP", kilni_exec_is_block(exec) ? 1 : PLACES_GROUP);
    kiln_status status = kilni_exec_kernel(exec, "argwhere.cl", kernel, &options, out_args);
    if (status == KILN_STATUS_OK) {
        kilni_cl_push_bytes(out_args, s, sizeof(*s));
    }
    return status;
}

static kiln_status find_places(kilni_exec *exec, const kiln_argwhere_shape *s,
                               const kiln_view *mask, kiln_buffer *totals)
{
    kilni_cl_args args;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, begin_step(exec, "kiln_argwhere_count", s, &args));
    kilni_cl_push_buffer(&args, totals);
    kilni_cl_push_buffer(&args, mask->buffer);
    KILN_TRY(out, status, kilni_exec_launch(exec, &args, s->chunks, 64));
    KILN_TRY(out, status, begin_step(exec, "kiln_argwhere_places", s, &args));
    kilni_cl_push_buffer(&args, totals);
    KILN_TRY(out, status, kilni_exec_launch(exec, &args, 1, PLACES_GROUP));
out:
    return status;
}

kiln_status kilni_exec_argwhere(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_argwhere_shape s = {.count = out->dims[0], .rank = exec->inputs[0].rank};
    kiln_view mask;
    kiln_buffer *totals = NULL;
    kilni_cl_args args;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_dense(exec, &exec->inputs[0], &mask));
    s.elems = kilni_exec_count(&mask);
    s.mask_start = kilni_exec_start(&mask);
    s.out_start = kilni_exec_start(out);
    memcpy(s.dims, mask.dims, mask.rank * sizeof(s.dims[0]));
    cut_mask(exec, &s);
    KILN_TRY(out, status,
             kilni_exec_alloc(exec, (s.chunks + 1) * (int64_t)sizeof(int64_t), &totals));
    KILN_TRY(out, status, find_places(exec, &s, &mask, totals));
    KILN_TRY(out, status, begin_step(exec, "kiln_argwhere_write", &s, &args));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, totals);
    kilni_cl_push_buffer(&args, mask.buffer);
    KILN_TRY(out, status, kilni_exec_launch(exec, &args, s.chunks, 64));
out:
    return status;
}

// ---- nms ----

static kiln_status push_threshold(const kilni_exec *exec, kilni_cl_args *args, kiln_attr_key key)
{
    uint64_t value = 0;
    uint32_t bytes = 0;
    kiln_status status = kilni_exec_number(exec, key, exec->inputs[0].dtype, false, &value, &bytes);
    if (status == KILN_STATUS_OK) {
        kilni_cl_push_bytes(args, &value, bytes);
    }
    return status;
}

kiln_status kilni_exec_nms(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_view views[2];
    kiln_buffer *left = NULL;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_dense(exec, &exec->inputs[0], &views[0]));
    KILN_TRY(out, status, kilni_exec_dense(exec, &exec->inputs[1], &views[1]));
    KILN_TRY(out, status, kilni_exec_alloc(exec, kilni_exec_count(&views[1]), &left));
    const kiln_nms_shape s = {.boxes = views[0].dims[1],
                              .classes = views[1].dims[1],
                              .most = out->dims[2],
                              .boxes_start = kilni_exec_start(&views[0]),
                              .scores_start = kilni_exec_start(&views[1]),
                              .out_start = kilni_exec_start(out)};
    int64_t group = kilni_exec_is_block(exec) ? 1 : NMS_GROUP;
    kilni_exec_define_dtype(&options, "A", views[0].dtype);
    kilni_exec_define(&options, "CENTER", kiln_op_attr_i64(exec->record, KILN_KEY_CENTER));
    kilni_exec_define(&options, "GROUP", group);
    KILN_TRY(out, status, kilni_exec_kernel(exec, "nms.cl", "kiln_nms", &options, &args));
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, views[0].buffer);
    kilni_cl_push_buffer(&args, views[1].buffer);
    kilni_cl_push_buffer(&args, left);
    KILN_TRY(out, status, push_threshold(exec, &args, KILN_KEY_OVERLAP));
    KILN_TRY(out, status, push_threshold(exec, &args, KILN_KEY_LEAST));
    KILN_TRY(out, status,
             kilni_exec_launch(exec, &args, out->dims[0] * out->dims[1] * group, NMS_GROUP));
out:
    return status;
}
