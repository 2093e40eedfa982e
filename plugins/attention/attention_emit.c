// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel for a query of many rows. A work-item has some rows of one head; its vectors go along
// these rows. So no tensor is packed but the work-item's part of the query: keys and values are
// read as they lie, number by number, each for all rows. Keys are taken a tile at a time, and what
// was summed for a smaller maximum is scaled down (Milakov and Gimelshein, Online normalizer
// calculation for softmax, 2018; Dao et al., FlashAttention, 2022).
#include "attention_internal.h"

enum {
    KEYS_WIDE = 8, // whose scores are summed at once: their sums stay in registers
    KEYS_NARROW = 6 // with 16 registers; TILE is no multiple of it
};

// ---- parameters ----

static void add(at_plan *plan, at_param_kind kind, uint32_t index, uint32_t axis)
{
    if (plan->n_params < AT_MAX_PARAMS) {
        plan->params[plan->n_params].kind = kind;
        plan->params[plan->n_params].index = index;
        plan->params[plan->n_params++].axis = axis;
    }
}

static uint32_t tile_of(const at_plan *plan)
{
    if (plan->on_tensor || plan->in_parts) {
        return plan->on_tensor ? AT_TENSOR_KEYS : AT_PART_KEYS;
    }
    uint32_t fits = at_group_bytes(plan->block, AT_TILE) <= plan->device->local_bytes;
    return plan->in_groups && !fits ? AT_TILE / 2 : AT_TILE;
}

void at_plan_make(at_plan *plan, const at_block *block, const kf_chain_device *device)
{
    const kf_chain *chain = &block->chain;
    memset(plan, 0, offsetof(at_plan, params));
    plan->block = block;
    plan->device = device;
    plan->width = kf_chain_width(device);
    plan->keys = device->vector_bytes >= 64 ? KEYS_WIDE : KEYS_NARROW;
    plan->in_groups = !device->block_shape;
    plan->one_row = !plan->in_groups && at_rows(block) == 0;
    plan->in_parts = plan->in_groups && at_rows(block) == 0;
    plan->streams = plan->in_parts && at_streams(block, device);
    plan->on_tensor = at_is_small(block) && !plan->in_parts;
    plan->has_seen = plan->on_tensor && at_seen_make(block, &plan->seen);
    plan->width = plan->on_tensor ? 2 : plan->width;
    plan->tile = tile_of(plan);
    for (uint32_t i = 0; i < chain->n_values; i++) {
        const kf_chain_value *v = &chain->values[i];
        if (v->computed) {
            continue;
        }
        add(plan, AT_PARAM_INPUT, i, 0);
        if (!v->zero_offset) {
            add(plan, AT_PARAM_OFFSET, i, 0);
        }
        for (uint32_t k = 0; k < v->rank; k++) {
            if (v->symbols[k] != 0) {
                add(plan, AT_PARAM_STRIDE, i, k);
            }
        }
    }
    add(plan, AT_PARAM_OUTPUT, block->result, 0);
    for (uint32_t i = 0; i < chain->n_numbers; i++) {
        if (chain->numbers[i].is_scalar) {
            add(plan, AT_PARAM_SCALAR, i, 0);
        }
    }
    for (uint32_t i = 0; i < at_batch(block); i++) {
        if (chain->values[block->scores].symbols[i] != 0) {
            add(plan, AT_PARAM_EXTENT, i, 0);
        }
    }
    add(plan, AT_PARAM_ROWS, 0, 0);
    add(plan, AT_PARAM_KEYS, 0, 0);
    if (plan->in_parts) {
        add(plan, AT_PARAM_PARTIAL, 0, 0);
        add(plan, AT_PARAM_COUNTS, 0, 0);
    }
}

uint32_t at_group_items(const at_plan *plan)
{
    return plan->on_tensor   ? AT_TENSOR_ITEMS
           : plan->streams   ? AT_STREAM_ITEMS
           : plan->in_parts  ? AT_PART_ITEMS
           : plan->in_groups ? AT_GROUP_ITEMS
                             : 1;
}

static void declare(kf_text *text, const at_plan *plan, const at_param *p)
{
    const kf_chain *chain = &plan->block->chain;
    switch (p->kind) {
    case AT_PARAM_INPUT:
        kf_text_addf(text, "__global const %s *in%u",
                     kf_dtype_of(chain->values[p->index].dtype).storage, p->index);
        break;
    case AT_PARAM_OUTPUT:
        kf_text_addf(text, "__global %s *out", kf_dtype_of(chain->values[p->index].dtype).storage);
        break;
    case AT_PARAM_OFFSET:
        kf_text_addf(text, "long o%u", p->index);
        break;
    case AT_PARAM_STRIDE:
        kf_text_addf(text, "long t%u_%u", p->index, p->axis);
        break;
    case AT_PARAM_SCALAR:
        kf_text_addf(text, "%s a%u", kf_chain_number_type(&chain->numbers[p->index]), p->index);
        break;
    case AT_PARAM_EXTENT:
        kf_text_addf(text, "long d%u", p->index);
        break;
    case AT_PARAM_PARTIAL:
        kf_text_add(text, "__global float *partial");
        break;
    case AT_PARAM_COUNTS:
        kf_text_add(text, "__global int *counts");
        break;
    default:
        kf_text_add(text, p->kind == AT_PARAM_ROWS ? "int m" : "int n");
        break;
    }
}

// ---- addresses ----

/// Declares b%u, where a tensor's part of this batch begins.
static void emit_base(kf_text *text, const at_plan *plan, uint32_t value)
{
    const kf_chain_value *v = &plan->block->chain.values[value];
    kf_text_addf(text, "    __global const %s *b%u = in%u", kf_dtype_of(v->dtype).storage, value,
                 value);
    if (!v->zero_offset) {
        kf_text_addf(text, " + o%u", value);
    }
    for (uint32_t i = 0; i < at_batch(plan->block); i++) {
        int axis = at_axis(plan->block, value, i);
        if (axis >= 0) {
            kf_text_addf(text, " + i%u * t%u_%u", i, value, (unsigned)axis);
        }
    }
    kf_text_add(text, ";\n");
}

/// Declares the indices of the batch, and where all tensors begin.
static void emit_place(kf_text *text, const at_plan *plan)
{
    const kf_chain *chain = &plan->block->chain;
    const char *index = plan->in_groups ? "uint" : "long"; // GPUs divide 64 bits in 0.1 us
    kf_text_addf(text, "    const long batch = get_global_id(1);\n    %s rest = batch;\n", index);
    for (uint32_t i = at_batch(plan->block); i > 0; i--) {
        if (chain->values[plan->block->scores].symbols[i - 1] != 0) {
            kf_text_addf(text, "    const long i%u = rest %% (%s)d%u;\n    rest /= (%s)d%u;\n",
                         i - 1, index, i - 1, index, i - 1);
        }
    }
    for (uint32_t i = 0; i < chain->n_values; i++) {
        if (!chain->values[i].computed) {
            emit_base(text, plan, i);
        }
    }
}

/// Declares q_row, q_col, k_row, k_col, v_row and v_col.
static void emit_strides(kf_text *text, const at_plan *plan)
{
    const at_matrix *matrices[3] = {&plan->block->query, &plan->block->key, &plan->block->values};
    static const char *const names[3] = {"q", "k", "v"};
    for (uint32_t i = 0; i < 3; i++) {
        char row[32], column[32];
        at_stride_name(plan, matrices[i]->source, matrices[i]->row, row);
        at_stride_name(plan, matrices[i]->source, matrices[i]->column, column);
        kf_text_addf(text, "    const long %s_row = %s, %s_col = %s;\n", names[i], row, names[i],
                     column);
    }
}

// ---- functions ----

/// sums_of: the scores of `keys` keys from k on, each a pair of vectors of `s`.
static void emit_score_function(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "static inline void scores_of(__global const float *k, long row, long step, "
                      "int keys, const vec *q, vec *s) {\n"
                      "    for (int t = 0; t < keys; t += KEYS) {\n");
    for (uint32_t i = 0; i < plan->keys; i++) {
        kf_text_addf(text,
                     "        __global const float *k%u = k + min(t + %u, keys - 1) * row;\n"
                     "        vec x%u = (vec)(0), y%u = (vec)(0);\n",
                     i, i, i, i);
    }
    kf_text_add(text, "        for (int d = 0; d < DEPTH; d++) {\n"
                      "            const vec a = q[2 * d], b = q[2 * d + 1];\n");
    for (uint32_t i = 0; i < plan->keys; i++) {
        kf_text_addf(text,
                     "            {\n"
                     "                const vec one = (vec)(k%u[d * step]);\n"
                     "                x%u = MULADD(one, a, x%u);\n"
                     "                y%u = MULADD(one, b, y%u);\n"
                     "            }\n",
                     i, i, i, i, i);
    }
    kf_text_add(text, "        }\n");
    for (uint32_t i = 0; i < plan->keys; i++) {
        kf_text_addf(text, "        s[2 * (t + %u)] = x%u;\n        s[2 * (t + %u) + 1] = y%u;\n",
                     i, i, i, i);
    }
    kf_text_add(text, "    }\n}\n");
}

/// add_values: adds the values of `keys` keys from v on, weighted by the pairs in `p`, to `o`. The
/// sums of as many columns as of keys above are in registers.
static void emit_value_function(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "static inline void add_values(__global const float *v, long row, long step, "
                      "int keys, const vec *p, vec *o) {\n"
                      "    for (int c = 0; c < WIDTH; c += COLUMNS) {\n");
    for (uint32_t i = 0; i < plan->keys; i++) {
        kf_text_addf(text,
                     "        __global const float *v%u = v + min(c + %u, WIDTH - 1) * step;\n"
                     "        vec x%u = o[2 * (c + %u)], y%u = o[2 * (c + %u) + 1];\n",
                     i, i, i, i, i, i);
    }
    kf_text_add(text, "        for (int t = 0; t < keys; t++) {\n"
                      "            const vec a = p[2 * t], b = p[2 * t + 1];\n");
    for (uint32_t i = 0; i < plan->keys; i++) {
        kf_text_addf(text,
                     "            {\n"
                     "                const vec one = (vec)(v%u[t * row]);\n"
                     "                x%u = MULADD(one, a, x%u);\n"
                     "                y%u = MULADD(one, b, y%u);\n"
                     "            }\n",
                     i, i, i, i, i);
    }
    kf_text_add(text, "        }\n");
    for (uint32_t i = 0; i < plan->keys; i++) {
        kf_text_addf(text, "        o[2 * (c + %u)] = x%u;\n        o[2 * (c + %u) + 1] = y%u;\n",
                     i, i, i, i);
    }
    kf_text_add(text, "    }\n}\n");
}

static void emit_functions(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    uint64_t read = 0;
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        const kf_chain_value *v = &block->chain.values[i];
        read |= v->computed ? 0 : 1ull << v->dtype;
    }
    kf_chain_functions(text, &block->chain, plan->width, 1, read,
                       plan->in_parts ? 1ull << block->element : 0, 0);
    const kf_ew_helper *helper;
    for (uint32_t i = 0; (helper = kf_ew_helper_at(i)) != NULL; i++) {
        if (strcmp(helper->name, "decay_") == 0) {
            kf_ew_template(text, helper->text, KF_DTYPE_F32, plan->width, NULL);
        }
    }
    kf_text_addf(text,
                 "#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA) || "
                 "!defined(POCL_DEVICE_ADDRESS_BITS)\n"
                 "#define MULADD fma\n"
                 "#else\n"
                 "#define MULADD(a, b, c) ((a) * (b) + (c))\n"
                 "#endif\n"
                 "typedef float%u vec;\n"
                 "#define LANES %u\n"
                 "#define DEPTH %d\n"
                 "#define WIDTH %d\n"
                 "#define TILE %u\n"
                 "#define KEYS %u\n"
                 "#define COLUMNS KEYS // of the values\n",
                 plan->width, plan->width, (int)block->depth, (int)block->width, plan->tile,
                 plan->keys);
    if (plan->in_groups) {
        plan->on_tensor  ? at_emit_tensor_functions(text, plan)
        : plan->streams  ? at_emit_stream_functions(text, plan)
        : plan->in_parts ? at_emit_parts_functions(text, plan)
                         : at_emit_group_sizes(text, plan);
        return;
    }
    if (!plan->one_row) {
        emit_score_function(text, plan);
        emit_value_function(text, plan);
        return;
    }
    kf_text_add(text, "static inline float total(vec x) {\n");
    if (plan->width == 16) {
        kf_text_add(text, "    const float8 y = x.lo + x.hi;\n    const float4 z = y.lo + y.hi;\n");
    } else {
        kf_text_add(text, "    const float4 z = x.lo + x.hi;\n");
    }
    kf_text_add(text, "    return (z.x + z.z) + (z.y + z.w);\n}\n");
}

// ---- the kernel ----

/// The work-item's rows of the query, turned, and what the operators before the product make of
/// them: q[2 * d] and q[2 * d + 1].
static void emit_query(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "    vec q[2 * DEPTH];\n"
                 "    for (int e = 0; e < 2 * DEPTH; e++) {\n"
                 "        float lanes[LANES];\n"
                 "        __global const float *p = b%u + e / 2 * q_col;\n"
                 "        for (int i = 0; i < LANES; i++) {\n"
                 "            lanes[i] = p[min(first + e %% 2 * LANES + i, (long)m - 1) * q_row];\n"
                 "        }\n"
                 "        const vec v%u = vload%u(0, lanes);\n",
                 block->query.source, block->query.source, plan->width);
    at_emit_query_operators(text, plan);
    kf_text_addf(text, "        q[e] = v%u;\n    }\n", block->query.value);
}

/// One tile: scores, operators on them, the maximum so far, weights, values.
static void emit_tile(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(
        text,
        "    for (int from = 0; from < n; from += TILE) {\n"
        "        const int keys = min(n - from, TILE);\n"
        "        __global const float *k = b%u + from * k_row, *v = b%u + from * v_row;\n"
        "        vec s[2 * ((TILE + KEYS - 1) / KEYS * KEYS)], top[2] = {high[0], high[1]};\n"
        "        if (k_col == 1) {\n"
        "            scores_of(k, k_row, 1, keys, q, s);\n"
        "        } else {\n"
        "            scores_of(k, k_row, k_col, keys, q, s);\n"
        "        }\n"
        "        for (int e = 0; e < 2 * keys; e++) {\n"
        "            const long row = first + e %% 2 * LANES, col = from + e / 2;\n"
        "            const int count = (int)clamp(m - row, (long)0, (long)LANES);\n"
        "            const vec v%u = s[e];\n",
        block->key.source, block->values.source, block->scores);
    at_emit_scores(text, plan, "            ");
    kf_text_addf(text,
                 "            s[e] = v%u;\n"
                 "            top[e %% 2] = select(top[e %% 2], v%u, v%u > top[e %% 2]);\n"
                 "        }\n"
                 "        for (int h = 0; h < 2; h++) {\n"
                 "            const vec base = select(top[h], (vec)(0), top[h] == -INFINITY);\n"
                 "            const vec less = decay_float(high[h] - base);\n"
                 "            sum[h] *= less;\n"
                 "            for (int c = 0; c < WIDTH; c++) {\n"
                 "                o[2 * c + h] *= less;\n"
                 "            }\n"
                 "            for (int t = 0; t < keys; t++) {\n"
                 "                const vec weight = decay_float(s[2 * t + h] - base);\n"
                 "                s[2 * t + h] = weight;\n"
                 "                sum[h] += weight;\n"
                 "            }\n"
                 "            high[h] = top[h];\n"
                 "        }\n"
                 "        if (v_col == 1) {\n"
                 "            add_values(v, v_row, 1, keys, s, o);\n"
                 "        } else {\n"
                 "            add_values(v, v_row, v_col, keys, s, o);\n"
                 "        }\n"
                 "    }\n",
                 block->last, block->last, block->last);
}

static void emit_rows(kf_text *text, const at_plan *plan)
{
    kf_text_addf(text, "    const long first = get_global_id(0) * (long)(%u * LANES);\n",
                 (unsigned)AT_VECTORS);
    emit_query(text, plan);
    kf_text_add(text, "    vec o[2 * ((WIDTH + COLUMNS - 1) / COLUMNS * COLUMNS)];\n"
                      "    vec high[2] = {(vec)(-INFINITY), (vec)(-INFINITY)};\n"
                      "    vec sum[2] = {(vec)(0), (vec)(0)};\n"
                      "    for (int c = 0; c < 2 * ((WIDTH + COLUMNS - 1) / COLUMNS * COLUMNS); "
                      "c++) {\n"
                      "        o[c] = (vec)(0);\n"
                      "    }\n");
    emit_tile(text, plan);
    kf_text_addf(text,
                 "    for (int h = 0; h < 2; h++) {\n"
                 "        float lanes[WIDTH * LANES];\n"
                 "        for (int c = 0; c < WIDTH; c++) {\n"
                 "            vstore%u(o[2 * c + h] / sum[h], c, lanes);\n"
                 "        }\n"
                 "        for (int i = 0; i < LANES && first + h * LANES + i < m; i++) {\n"
                 "            __global float *to = out + (batch * m + first + h * LANES + i) * "
                 "WIDTH;\n"
                 "            for (int c = 0; c < WIDTH; c++) {\n"
                 "                to[c] = lanes[c * LANES + i];\n"
                 "            }\n"
                 "        }\n"
                 "    }\n",
                 plan->width);
}

void at_emit(kf_text *text, const at_plan *plan)
{
    emit_functions(text, plan);
    kf_text_addf(text,
                 "__attribute__((reqd_work_group_size(%u, 1, 1)))\n"
                 "__kernel void kiln_attention(",
                 at_group_items(plan));
    for (uint32_t i = 0; i < plan->n_params; i++) {
        kf_text_add(text, i == 0 ? "" : ", ");
        declare(text, plan, &plan->params[i]);
    }
    kf_text_add(text, ") {\n");
    kf_chain_numbers(text, &plan->block->chain, plan->width);
    emit_place(text, plan);
    emit_strides(text, plan);
    if (plan->on_tensor) {
        at_emit_tensor(text, plan);
    } else if (plan->streams) {
        at_emit_stream(text, plan);
    } else if (plan->in_parts) {
        at_emit_parts(text, plan);
    } else if (plan->in_groups) {
        at_emit_group(text, plan);
    } else if (plan->one_row) {
        at_emit_row(text, plan);
    } else {
        emit_rows(text, plan);
    }
    kf_text_add(text, "}\n");
    if (plan->in_parts) {
        kf_text_add(text, "__kernel void kiln_clear(__global int *counts) {\n"
                          "    counts[get_global_id(0)] = 0;\n}\n");
    }
}
