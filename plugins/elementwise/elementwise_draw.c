// SPDX-License-Identifier: MIT OR Apache-2.0
// Random numbers as values of a block: drawn where they are used, never in memory unless somebody
// else wants them. Decides which draws join and how they are written; the numbers are
// kf_random.h's.
#include "elementwise_internal.h"
#include "kf_random.h"

static const uint32_t draw_keys[] = {
    KF_ATTR_SHAPE,     KF_ATTR_DTYPE,       KF_ATTR_MIN,  KF_ATTR_MAX,    KF_ATTR_MEAN,
    KF_ATTR_DEVIATION, KF_ATTR_PROBABILITY, KF_ATTR_SEED, KF_ATTR_STREAM, KF_ATTR_POSITION};

static uint32_t is_scalar(const kf_op *op, uint32_t key)
{
    const kf_attr *attr = kf_op_attr(op, key);
    return attr != NULL && attr->type == KF_TYPE_SCALAR;
}

uint32_t ew_draw_admits(const ew_block *block, const kf_chain_device *device, const kf_host *host,
                        const kf_op *op)
{
    uint32_t at = op->position;
    if (!kf_op_understood(op, 1, draw_keys, sizeof(draw_keys) / sizeof(draw_keys[0])) ||
        op->n_inputs != 0 || op->n_outputs != 1 || !is_scalar(op, KF_ATTR_SEED) ||
        !is_scalar(op, KF_ATTR_STREAM) || !is_scalar(op, KF_ATTR_POSITION)) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "random numbers of a newer kind");
    }
    if (!kf_chain_dtype_usable(device, op->outputs[0]->dtype) ||
        kf_random_served(op->kind, op->outputs[0]->dtype) == 0) {
        return kf_decline(host, KF_CODE_DTYPE, at, "%s are drawn alone",
                          kf_dtype_of(op->outputs[0]->dtype).name);
    }
    if (!kf_chain_has_room(&block->chain, device, op) || block->n_draws == EW_MAX_DRAWS ||
        block->chain.n_numbers + 8 > KF_CHAIN_NUMBERS ||
        block->chain.param_bytes + 600 > device->max_param_bytes) {
        return kf_decline(host, KF_CODE_LIMIT, at, "the block is as long as one kernel may be");
    }
    return 1;
}

/// The chance of 1 is asked for, so that the kernel compares with a constant: programs draw with
/// few chances. 0: it was not told.
static uint32_t ask_threshold(const kf_block *context, const kf_op *op, uint64_t *out)
{
    const kf_attr *attr = kf_op_attr(op, KF_ATTR_PROBABILITY);
    kf_scalar value;
    memset(&value, 0, sizeof(value));
    value.v.f = 0.5;
    if (attr != NULL && attr->type == KF_TYPE_F64) {
        value.v.f = attr->v.f;
    } else if (attr != NULL &&
               (attr->type != KF_TYPE_SCALAR ||
                context->scalar_value(context, (uint32_t)attr->v.i, &value) != KF_OK ||
                value.type != KF_TYPE_F64)) {
        return 0;
    }
    *out = kf_random_threshold(value.v.f);
    return 1;
}

static uint16_t number(kf_chain *chain, const kf_op *op, uint32_t key, uint32_t dtype,
                       double fallback)
{
    kf_attr absent;
    const kf_attr *attr = kf_op_attr(op, key);
    memset(&absent, 0, sizeof(absent));
    absent.type = KF_TYPE_F64;
    absent.v.f = fallback;
    return (uint16_t)kf_chain_add_number(chain, attr != NULL ? attr : &absent, dtype);
}

uint32_t ew_draw_record(ew_block *block, const kf_block *context, const kf_op *op,
                        uint32_t *out_result)
{
    kf_chain *chain = &block->chain;
    ew_draw *draw = &block->draws[block->n_draws];
    memset(draw, 0, sizeof(*draw));
    draw->kind = kf_random_served(op->kind, op->outputs[0]->dtype);
    if (draw->kind == KF_RANDOM_BERNOULLI && !ask_threshold(context, op, &draw->threshold)) {
        return 0;
    }
    if (draw->kind == KF_RANDOM_UNIFORM) {
        draw->a = number(chain, op, KF_ATTR_MIN, KF_DTYPE_F32, 0);
        draw->b = number(chain, op, KF_ATTR_MAX, KF_DTYPE_F32, 1);
    } else if (draw->kind == KF_RANDOM_NORMAL) {
        draw->a = number(chain, op, KF_ATTR_MEAN, KF_DTYPE_F32, 0);
        draw->b = number(chain, op, KF_ATTR_DEVIATION, KF_DTYPE_F32, 1);
    }
    draw->seed = number(chain, op, KF_ATTR_SEED, KF_DTYPE_I64, 0);
    draw->stream = number(chain, op, KF_ATTR_STREAM, KF_DTYPE_I64, 0);
    draw->position = number(chain, op, KF_ATTR_POSITION, KF_DTYPE_I64, 0);
    kf_chain_op *own = kf_chain_push(chain, NULL, EW_DRAW + block->n_draws, op->outputs[0]->dtype);
    own->result = (uint16_t)kf_chain_add_value(chain, op->outputs[0], 1);
    chain->flops += draw->kind == KF_RANDOM_NORMAL ? 40 : 20;
    block->n_draws++;
    *out_result = own->result;
    return 1;
}

void ew_draw_functions(kf_text *text, const ew_block *block, uint32_t width, uint32_t ahead)
{
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < block->n_draws; i++) {
        kinds |= block->draws[i].kind;
    }
    kf_random_functions(text, kinds, width, ahead);
}

void ew_draw_text(kf_text *text, const ew_block *block, const kf_chain_op *op, uint32_t width,
                  uint32_t ahead)
{
    const uint32_t index = op->kind - EW_DRAW;
    const ew_draw *draw = &block->draws[index];
    const char *type = kf_dtype_of(op->dtype).compute;
    char bits[128], from[16] = "";
    if (ahead) {
        snprintf(from, sizeof(from), "d%u, ", index);
    }
    snprintf(bits, sizeof(bits), "random_%s(%sat, (ulong)s%u.s0, (uint)s%u.s0, (ulong)s%u.s0)",
             draw->kind == KF_RANDOM_NORMAL ? "normals" : "bits", from, (unsigned)draw->seed,
             (unsigned)draw->stream, (unsigned)draw->position);
    kf_text_addf(text, "    const %s%u v%u = ", type, width, (unsigned)op->result);
    if (draw->kind == KF_RANDOM_UNIFORM) {
        kf_text_addf(text, "random_between(%s, s%u, s%u);\n", bits, (unsigned)draw->a,
                     (unsigned)draw->b);
    } else if (draw->kind == KF_RANDOM_NORMAL) {
        kf_text_addf(text, "s%u + %s * s%u;\n", (unsigned)draw->a, bits, (unsigned)draw->b);
    } else if (draw->threshold > 0xFFFFFFFFu) {
        kf_text_addf(text, "(%s%u)(1);\n", type, width);
    } else {
        kf_text_addf(text, "convert_%s%u((%s < (uint%u)(%uu)) & (int%u)(1));\n", type, width, bits,
                     width, (unsigned)draw->threshold, width);
    }
}

const char *ew_draw_name(const ew_block *block, const kf_chain_op *op)
{
    uint32_t kind = block->draws[op->kind - EW_DRAW].kind;
    return kind == KF_RANDOM_BERNOULLI ? "random_bernoulli"
           : kind == KF_RANDOM_UNIFORM ? "random_uniform"
                                       : "random_normal";
}
