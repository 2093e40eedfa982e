// SPDX-License-Identifier: MIT OR Apache-2.0
// A finished block as the host gets it: two launches and three temporaries with their sizes as
// formulas, the key, and what it should cost.
#include "attention.h"

static void batch_formula(kf_formula *f, const block *b)
{
    const kf_chain_value *scores = block_value(b, b->product);
    kf_formula_product(f, scores->symbols, scores->rank - 2);
}

static void times(kf_formula *f, int64_t factor)
{
    kf_formula_imm(f, factor);
    kf_formula_op(f, KF_INS_MUL);
}

static void blocks_formula(kf_formula *f, uint32_t symbol, uint32_t each)
{
    uint32_t symbols[1] = {symbol};
    kf_formula_product(f, symbols, 1);
    kf_formula_imm(f, each);
    kf_formula_op(f, KF_INS_CEIL_DIV);
}

/// Bytes of a temporary of `elements` floats for each block of keys.
static void temp_formula(kf_formula *f, const block *b, const shape *s, int64_t elements)
{
    batch_formula(f, b);
    blocks_formula(f, block_keys(b), s->keys);
    kf_formula_op(f, KF_INS_MUL);
    times(f, elements * 4);
}

static void tensor_bytes(kf_formula *f, const kf_chain_value *value)
{
    kf_formula_product(f, value->symbols, value->rank);
    times(f, kf_dtype_of(value->dtype).bytes);
    kf_formula_op(f, KF_INS_ADD);
}

/// Where work-groups are few, compute units wait: measured, as if there were four for each.
static void groups_formula(kf_formula *f, const block *b, const shape *s)
{
    batch_formula(f, b);
    blocks_formula(f, block_queries(b), s->queries);
    kf_formula_op(f, KF_INS_MUL);
}

static void work_formula(kf_formula *f, const block *b, const shape *s, const kf_formula *flops)
{
    f->n = f->failed = 0;
    if (ATTENTION_FORM != 0) { // a test of its results, which should not lose by its time
        kf_formula_imm(f, 0);
        return;
    }
    kf_formula_append(f, kf_formula_expr(flops));
    if (s->group == 1) {
        return;
    }
    groups_formula(f, b, s);
    kf_formula_op(f, KF_INS_FLOOR_DIV);
    groups_formula(f, b, s);
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    times(f, 4);
    kf_formula_op(f, KF_INS_MAX);
    kf_formula_op(f, KF_INS_MUL);
}

/// Bytes: every tensor once, the packed copies written and read. Time, measured: one flop of the
/// products costs twice what a CPU's fastest does, six times a GPU's, a score 60 flops on top;
/// scores are of whole blocks of queries and keys.
void make_estimate(estimate *e, const block *b, const fuser_facts *facts)
{
    kf_estimate *p = &e->parts;
    shape s = shape_of(b, facts);
    uint32_t i;
    kf_estimate_init(p);
    e->bytes.n = e->bytes.failed = 0;
    temp_formula(&p->temp, b, &s, (int64_t)s.keys * (b->head + s.padded) + 1);
    kf_formula_append(&p->read, kf_formula_expr(&p->temp));
    tensor_bytes(&p->read, block_value(b, b->query));
    tensor_bytes(&p->read, block_value(b, b->key));
    tensor_bytes(&p->read, block_value(b, b->value));
    for (i = 0; i < b->chain.n_values; i++) {
        if (is_operand(b, i)) {
            tensor_bytes(&p->read, &b->chain.values[i]);
        }
    }
    kf_formula_append(&p->written, kf_formula_expr(&p->temp));
    tensor_bytes(&p->written, block_value(b, b->out));
    kf_formula_append(&e->bytes, kf_formula_expr(&p->read));
    kf_formula_append(&e->bytes, kf_formula_expr(&p->written));
    kf_formula_op(&e->bytes, KF_INS_ADD);
    batch_formula(&p->flops, b);
    blocks_formula(&p->flops, block_queries(b), s.rows);
    kf_formula_op(&p->flops, KF_INS_MUL);
    blocks_formula(&p->flops, block_keys(b), s.keys);
    kf_formula_op(&p->flops, KF_INS_MUL);
    times(&p->flops, (int64_t)s.rows * s.keys);
    times(&p->flops,
          2 * ((int64_t)b->head + b->columns) * (facts->items ? 6 : 2) + 60 + b->chain.flops);
    work_formula(&e->work, b, &s, &p->flops);
    kf_formula_roofline(&p->ns, &facts->device.cost, kf_formula_expr(&e->bytes),
                        kf_formula_expr(&e->work), 2);
}

static kf_expr keep_formula(plan *p, const kf_formula *f)
{
    p->formulas[p->n_formulas] = *f;
    return kf_formula_expr(&p->formulas[p->n_formulas++]);
}

static void add_launch(plan *p, uint32_t index, const char *kernel, const arguments *a,
                       const block *b, uint32_t symbol, uint32_t each, uint32_t group)
{
    kf_launch *l = &p->launches[index];
    kf_formula f, local;
    memset(&local, 0, sizeof(local));
    kf_formula_imm(&local, group);
    l->struct_size = (uint32_t)sizeof(*l);
    l->dims = 2;
    l->n_args = a->n;
    l->args = a->args;
    l->kernel.ptr = kernel;
    l->kernel.len = strlen(kernel);
    memset(&f, 0, sizeof(f));
    blocks_formula(&f, symbol, each);
    times(&f, group);
    l->global[0] = keep_formula(p, &f);
    memset(&f, 0, sizeof(f));
    batch_formula(&f, b);
    l->global[1] = keep_formula(p, &f);
    l->local[0] = keep_formula(p, &local);
    local.n = local.failed = 0;
    kf_formula_imm(&local, 1);
    l->local[1] = keep_formula(p, &local);
    p->launch_list[index] = l;
    p->steps[index].kind = KF_STEP_LAUNCH;
    p->steps[index].index = index;
}

static void add_temp(plan *p, uint32_t index, const block *b, const shape *s, int64_t elements)
{
    kf_formula f;
    memset(&f, 0, sizeof(f));
    temp_formula(&f, b, s, elements);
    p->temps[index].bytes = keep_formula(p, &f);
    p->temps[index].align = 64;
    p->temps[index].prepack = KF_NONE;
}

static void make_key(plan *p)
{
    uint32_t i, k;
    for (i = 0; i < 2; i++) {
        uint64_t hash = 0xcbf29ce484222325ull + i;
        hash = kf_hash(hash, p->source_text.ptr, p->source_text.len);
        hash = kf_hash(hash, &p->len, sizeof(p->len));
        for (k = 0; k < 2; k++) {
            hash = kf_hash_launch(hash, &p->launches[k]);
        }
        p->key[i] = hash;
    }
}

uint32_t make_plan(plan *p, const block *b, const fuser_facts *facts)
{
    shape s = shape_of(b, facts);
    p->len = b->len;
    kf_text_addf(&p->name, "attention(%u)", b->chain.n_ops);
    write_kernels(p, b, facts);
    add_temp(p, 0, b, &s, (int64_t)s.keys * b->head);
    add_temp(p, 1, b, &s, (int64_t)s.keys * s.padded);
    add_temp(p, 2, b, &s, 1);
    add_launch(p, 0, "pack", &p->pack, b, block_keys(b), s.keys, s.group);
    add_launch(p, 1, "attention", &p->main, b, block_queries(b), s.queries, s.group);
    p->source.struct_size = (uint32_t)sizeof(p->source);
    p->source.format = KF_FORMAT_OPENCL_C;
    p->source.code.ptr = p->source_text.ptr;
    p->source.code.len = p->source_text.len;
    p->source.cl_c_version = 120;
    p->sources[0] = &p->source;
    if (p->source_text.failed || p->name.failed || p->pack.text.failed || p->main.text.failed ||
        p->pack.failed || p->main.failed) {
        return 0;
    }
    make_key(p);
    return 1;
}

void free_plan(plan *p)
{
    kf_text_free(&p->source_text);
    kf_text_free(&p->name);
    kf_text_free(&p->pack.text);
    kf_text_free(&p->main.text);
}
