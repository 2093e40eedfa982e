// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether two runs on different inputs enqueued the same. Decides what may differ: which scratch
// buffer a value lies in, for the pool gives them out as it likes.

#include "bundle_maker.h"

#include <string.h>

static const char *differ_buffers(const bundle_shapes *a, uint32_t in_a, const bundle_shapes *b,
                                  uint32_t in_b)
{
    if (in_a == UINT32_MAX || in_b == UINT32_MAX) {
        return in_a == in_b ? NULL : "a buffer";
    }
    const bundle_buffer *one = &a->buffers[in_a];
    const bundle_buffer *other = &b->buffers[in_b];
    return one->kind != other->kind       ? "the kind of a buffer"
           : one->offset != other->offset ? "the contents of a buffer"
                                          : NULL;
}

static const char *differ_args(const bundle_shapes *a, const bundle_step *one,
                               const bundle_shapes *b, const bundle_step *other)
{
    const char *how = one->n_args == other->n_args ? NULL : "the number of arguments";
    for (uint32_t i = 0; i < one->n_args && how == NULL; i++) {
        const bundle_arg *x = &one->args[i];
        const bundle_arg *y = &other->args[i];
        if (x->kind != y->kind || x->length != y->length ||
            (x->kind == BUNDLE_ARG_BYTES && memcmp(x->bytes, y->bytes, x->length) != 0)) {
            how = "an argument";
        } else if (x->kind == BUNDLE_ARG_BUFFER) {
            how = differ_buffers(a, x->buffer, b, y->buffer);
        }
    }
    return how;
}

static const char *differ_steps(const bundle_shapes *a, const bundle_step *one,
                                const bundle_shapes *b, const bundle_step *other)
{
    if (one->is_copy != other->is_copy || one->program != other->program ||
        one->kernel != other->kernel || one->n_dims != other->n_dims) {
        return "what is launched";
    }
    if (memcmp(one->global, other->global, sizeof(one->global)) != 0 ||
        memcmp(one->local, other->local, sizeof(one->local)) != 0 || one->bytes != other->bytes ||
        one->source_offset != other->source_offset || one->target_offset != other->target_offset) {
        return "sizes";
    }
    return one->is_copy ? differ_buffers(a, one->source, b, other->source)
                        : differ_args(a, one, b, other);
}

kiln_status kilni_bundle_check_same(const bundle_manifest *manifest, const bundle_shapes *a,
                                    const bundle_shapes *b, kiln_error *err)
{
    const char *how = a->n_steps == b->n_steps ? NULL : "the number of launches";
    const char *where = "";
    for (uint32_t i = 0; i < a->n_steps && how == NULL; i++) {
        const bundle_step *step = &a->steps[i];
        how = differ_steps(a, step, b, &b->steps[i]);
        where =
            step->is_copy ? "a copy" : manifest->programs[step->program].kernels[step->kernel].name;
    }
    return how == NULL ? KILN_STATUS_OK
                       : kiln_fail(err, UNIMPLEMENTED,
                                   "two runs on different inputs differ in %s (%.60s): the model "
                                   "draws random numbers, keeps state or depends on values, and a "
                                   "bundle is a fixed list",
                                   how, where);
}
