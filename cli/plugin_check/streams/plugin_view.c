// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream as a fuser sees it: the ABI's structs, numbers in order of first sight, extents as
// symbols. Written from the ABI's text and not from fusion_host, so that a check does not repeat an
// error of the host. Each operation lies in memory of its own, which can be taken away after the
// call.

#include "plugin_stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { REGION = 16384, SYMBOLS = 256 };

struct stream_view {
    const stream *stream;
    stream_view_options options;
    uint32_t next; ///< operation to be shown
    uint32_t ids[STREAM_TENSORS]; ///< id of a tensor plus 1; 0: not seen
    uint32_t n_ids;
    bool defined[STREAM_TENSORS];
    int64_t symbols[SYMBOLS];
    uint32_t n_symbols;
    kf_scalar scalars[STREAM_SCALARS];
    uint32_t n_scalars;
    kf_block block;
    unsigned char *regions[STREAM_OPS];
};

typedef struct region { ///< memory of one operation
    unsigned char *bytes;
    size_t used;
} region;

static void *take(region *r, size_t size)
{
    size_t step = (size + 15) & ~(size_t)15;
    if (r->used + step > REGION) {
        abort(); // eight operands of eight axes fit many times
    }
    void *place = memset(r->bytes + r->used, 0, step);
    r->used += step;
    return place;
}

static uint32_t symbol_of(stream_view *v, int64_t extent)
{
    for (uint32_t i = 0; i < v->n_symbols; i++) {
        if (v->symbols[i] == extent) {
            return i;
        }
    }
    if (v->n_symbols == SYMBOLS) {
        abort(); // a stream has fewer tensors times axes with new extents
    }
    v->symbols[v->n_symbols] = extent;
    return v->n_symbols++;
}

static kf_status dim_value(const kf_block *block, uint32_t symbol, int64_t *out)
{
    const stream_view *v = block->ctx;
    if (symbol >= v->n_symbols) {
        return KF_E_INVALID;
    }
    *out = v->symbols[symbol];
    return KF_OK;
}

static kf_status scalar_value(const kf_block *block, uint32_t scalar, kf_scalar *out)
{
    const stream_view *v = block->ctx;
    if (scalar >= v->n_scalars) {
        return KF_E_INVALID;
    }
    *out = v->scalars[scalar];
    return KF_OK;
}

stream_view *stream_view_create(const stream *s, const stream_view_options *options)
{
    stream_view *v = calloc(1, sizeof(*v));
    if (v == NULL) {
        abort();
    }
    v->stream = s;
    v->options = options != NULL ? *options : (stream_view_options){0};
    v->symbols[0] = 1;
    v->n_symbols = 1;
    v->block = (kf_block){.struct_size = (uint32_t)sizeof(v->block),
                          .ctx = v,
                          .dim_value = dim_value,
                          .scalar_value = scalar_value};
    return v;
}

void stream_view_destroy(stream_view *v)
{
    for (uint32_t i = 0; v != NULL && i < STREAM_OPS; i++) {
        if (v->regions[i] != NULL && v->options.unmap) {
            munmap(v->regions[i], REGION);
        } else {
            free(v->regions[i]);
        }
    }
    free(v);
}

static uint32_t facts_of(const stream_tensor *t)
{
    uint32_t facts = KF_FACT_FITS_I32;
    facts |= t->layout == STREAM_DENSE || t->layout == STREAM_SHIFTED ? KF_FACT_CONTIGUOUS : 0;
    facts |= t->layout == STREAM_DENSE || t->layout == STREAM_SWAPPED ? KF_FACT_ZERO_OFFSET : 0;
    facts |= t->layout == STREAM_SWAPPED ? KF_FACT_TURNED : 0;
    facts |= t->layout == STREAM_PADDED ? KF_FACT_LINES : 0;
    return facts;
}

static uint32_t log2_of(size_t bytes)
{
    uint32_t log2 = 0;
    for (; bytes > 1; bytes /= 2) {
        log2++;
    }
    return log2;
}

static const kf_tensor *fill_tensor(stream_view *v, region *r, uint32_t tensor, bool is_output)
{
    const stream_tensor *t = &v->stream->tensors[tensor];
    kf_tensor *out = take(r, sizeof(*out) + v->options.tail);
    kf_dim *dims = take(r, (t->rank + 1) * sizeof(*dims));
    int64_t inner = t->rank == 0 ? 1 : t->dims[t->rank - 1];
    if (v->ids[tensor] == 0) {
        v->ids[tensor] = ++v->n_ids;
    }
    v->defined[tensor] = v->defined[tensor] || is_output;
    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t symbol = symbol_of(v, t->dims[i]);
        dims[i] = (kf_dim){.symbol = symbol,
                           .value = symbol == 0 ? 1 : 0,
                           .flags = symbol == 0 ? KF_DIM_VALUE : 0};
    }
    *out = (kf_tensor){.struct_size = (uint32_t)sizeof(*out) + v->options.tail,
                       .id = v->ids[tensor] - 1,
                       .dtype = (uint32_t)t->dtype,
                       .rank = t->rank,
                       .flags = (is_output ? KF_TENSOR_UNINIT : 0) |
                                (v->defined[tensor] ? 0 : KF_TENSOR_EXTERNAL) |
                                (t->constant ? KF_TENSOR_CONST : 0),
                       .facts = facts_of(t),
                       .align_log2 = t->layout == STREAM_DENSE || t->layout == STREAM_SWAPPED
                                         ? 7
                                         : log2_of(kiln_dtype_size(t->dtype)),
                       .div_by = inner % 16 == 0  ? 16
                                 : inner % 4 == 0 ? 4
                                                  : 1,
                       .dims = dims};
    return out;
}

static uint32_t scalar_of(stream_view *v, const kiln_attr *attr, double fallback)
{
    kf_scalar *out = &v->scalars[v->n_scalars];
    if (v->n_scalars == STREAM_SCALARS) {
        abort(); // an operation has at most three
    }
    *out = (kf_scalar){.type = KF_TYPE_F64, .v.f = fallback};
    if (attr->type == KILN_ATTR_I64) {
        *out = (kf_scalar){.type = KF_TYPE_I64, .v.i = attr->v.i};
    } else if (attr->type == KILN_ATTR_F64) {
        out->v.f = attr->v.f;
    }
    return v->n_scalars++;
}

/// False: absent without a plain default, so it is not shown.
static bool fill_plain(region *r, const stream_op *op, uint32_t slot, const kiln_attr_spec *spec,
                       kf_attr *out)
{
    const kiln_attr *attr = &op->attrs[slot];
    kiln_attr_type type = attr->type != KILN_ATTR_NONE ? attr->type : kiln_attr_type_of(spec->key);
    *out = (kf_attr){.key = (uint32_t)spec->key, .type = (uint32_t)type, .count = 1};
    if (attr->type == KILN_ATTR_I64_LIST) {
        int64_t *values = take(r, sizeof(op->lists[slot]));
        memcpy(values, op->lists[slot], sizeof(op->lists[slot]));
        out->count = attr->count;
        out->v.iv = values;
        return true;
    }
    if (type == KILN_ATTR_F64) {
        out->v.f = attr->type == KILN_ATTR_NONE ? spec->fallback : attr->v.f;
        return true;
    }
    out->v.i = attr->type == KILN_ATTR_NONE ? (int64_t)spec->fallback : attr->v.i;
    return attr->type != KILN_ATTR_NONE || type == KILN_ATTR_I64 || type == KILN_ATTR_BOOL;
}

static uint32_t fill_attrs(stream_view *v, region *r, const stream_op *op, kf_attr *attrs)
{
    const kiln_op_signature *sig = kiln_op_info_of(op->op)->signature;
    uint32_t n = 0;
    for (uint32_t i = 0; op->op != KILN_OP_DROP && i < sig->n_attrs; i++) {
        const kiln_attr_spec *spec = &sig->attrs[i];
        if (spec->role == KILN_ROLE_SCALAR) {
            uint32_t scalar = scalar_of(v, &op->attrs[i], spec->fallback);
            attrs[n++] = (kf_attr){.key = (uint32_t)spec->key,
                                   .type = KF_TYPE_SCALAR,
                                   .count = v->scalars[scalar].type,
                                   .v.i = scalar};
        } else if (spec->role == KILN_ROLE_IDENTITY) {
            n += fill_plain(r, op, i, spec, &attrs[n]);
        }
    }
    return n;
}

kf_op *stream_view_op(stream_view *v, uint32_t index)
{
    const stream_op *op = &v->stream->ops[index];
    const kiln_op_info *info = kiln_op_info_of(op->op);
    if (v->options.unmap && index > 0) {
        mprotect(v->regions[index - 1], REGION, PROT_NONE);
    }
    region r = {v->options.unmap
                    ? mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                    : malloc(REGION),
                0};
    if (r.bytes == MAP_FAILED || r.bytes == NULL) {
        abort();
    }
    v->regions[index] = r.bytes;
    kf_op *out = take(&r, sizeof(*out) + v->options.tail);
    const kf_tensor **operands = take(&r, (op->n_inputs + op->n_outputs + 1) * sizeof(*operands));
    kf_attr *attrs = take(&r, (KILN_MAX_ATTRS + 1) * sizeof(*attrs)); // one more may be put in
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        operands[i] = fill_tensor(v, &r, op->inputs[i], false);
    }
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        operands[op->n_inputs + i] = fill_tensor(v, &r, op->outputs[i], true);
    }
    *out = (kf_op){.struct_size = (uint32_t)sizeof(*out) + v->options.tail,
                   .kind = info->wire,
                   .version = info->since,
                   .n_inputs = op->n_inputs,
                   .n_outputs = op->n_outputs,
                   .n_attrs = fill_attrs(v, &r, op, attrs),
                   .position = index,
                   .inputs = operands,
                   .outputs = operands + op->n_inputs,
                   .attrs = attrs};
    return out;
}

const kf_block *stream_view_block(const stream_view *view)
{
    return &view->block;
}

uint32_t stream_view_symbols(const stream_view *view, const int64_t **out_values)
{
    *out_values = view->symbols;
    return view->n_symbols;
}

bool stream_view_is_tensor(const stream_view *view, uint32_t id)
{
    return id < view->n_ids;
}
