// SPDX-License-Identifier: MIT OR Apache-2.0
// The two kernels. `pack` copies keys and values into blocks of KB keys, keys turned so that a
// vector holds the same element of V keys, values padded to whole vectors; it notes which blocks of
// values are finite. `attention` gives each work-item QB queries of one head: for each block of
// keys the scores of R queries at once in registers, the operations on them, the running maximum
// and sum, the product with the values. The scores never leave the caches.
//
// The running softmax: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
// arXiv:1805.02867; its use here: T. Dao et al., "FlashAttention", arXiv:2205.14135, and
// M. Rabe, C. Staats, "Self-attention Does Not Need O(n^2) Memory", arXiv:2112.05682.
//
// Weights are kept times 2^-shift, the number of keys at least 2^shift: sums of weighted values are
// then never larger than the largest value, as with weights that were divided first. A block whose
// scores are all masked is left out when its values are finite: 0 times an infinity is NaN.
#include "attention.h"

shape shape_of(const block *b, const fuser_facts *facts)
{
    shape s;
    if (facts->items) {
        shape shared = {4, 32, 128, 4, 32, (b->columns + 3) / 4 * 4, GROUP};
        return shared;
    }
    s.group = 1;
    s.width = kf_chain_width(&facts->device);
    s.vectors = s.width >= 16 ? 4 : 2;
    s.rows = s.width >= 16 ? 6 : 4;
    s.keys = s.width * s.vectors;
    s.queries = s.rows * (s.width >= 16 ? 8 : 12);
    s.padded = (b->columns + s.width - 1) / s.width * s.width;
    return s;
}

// ---- parameters and arguments, side by side ----

static kf_karg *argument(arguments *a, uint32_t kind, uint32_t ref, uint32_t dtype)
{
    static kf_karg unused;
    kf_karg *arg = a->n < MAX_ARGS ? &a->args[a->n++] : &unused;
    a->failed |= arg == &unused;
    memset(arg, 0, sizeof(*arg));
    arg->kind = kind;
    arg->ref = ref;
    arg->dtype = dtype;
    kf_text_add(&a->text, a->n > 1 ? ",\n    " : "");
    return arg;
}

static void tensor_argument(arguments *a, const kf_chain_value *value, uint32_t access,
                            const char *name)
{
    argument(a, KF_ARG_TENSOR, value->id, value->dtype)->access = access;
    kf_text_addf(&a->text, "__global %s%s *%s", access == KF_ACCESS_READ ? "const " : "",
                 kf_dtype_of(value->dtype).storage, name);
}

static void temp_argument(arguments *a, uint32_t index, uint32_t access, const char *type,
                          const char *name)
{
    argument(a, KF_ARG_TEMP, index, 0)->access = access;
    kf_text_addf(&a->text, "__global %s%s *%s", access == KF_ACCESS_READ ? "const " : "", type,
                 name);
}

static void extent_argument(arguments *a, uint32_t symbol, const char *name)
{
    argument(a, KF_ARG_DIM, symbol, KF_DTYPE_I64);
    kf_text_addf(&a->text, "long %s", name);
}

/// Parameters NAME_o and NAME_s0, NAME_s1 ...: offset and strides of the axes that have an extent.
static void layout_arguments(arguments *a, const kf_chain_value *value, const char *name)
{
    uint32_t i;
    argument(a, KF_ARG_OFFSET, value->id, KF_DTYPE_I64);
    kf_text_addf(&a->text, "long %s_o", name);
    for (i = 0; i < value->rank; i++) {
        if (value->symbols[i] != 0) {
            argument(a, KF_ARG_STRIDE, value->id, KF_DTYPE_I64)->axis = i;
            kf_text_addf(&a->text, "long %s_s%u", name, i);
        }
    }
}

/// The batch axes of the scores as parameters e0, e1 ...
static void batch_arguments(arguments *a, const kf_chain_value *scores)
{
    char name[8];
    uint32_t i;
    for (i = 0; i + 2 < scores->rank; i++) {
        if (scores->symbols[i] != 0) {
            snprintf(name, sizeof(name), "e%u", i);
            extent_argument(a, scores->symbols[i], name);
        }
    }
}

// ---- pieces of text ----

/// i0, i1 ...: where the matrix number `batch` lies along the batch axes.
static void batch_text(kf_text *t, const kf_chain_value *scores)
{
    uint32_t i;
    kf_text_add(t, "    long batch = get_global_id(1), rest = batch;\n");
    for (i = scores->rank - 2; i-- > 0;) {
        if (scores->symbols[i] != 0) {
            kf_text_addf(t, "    long i%u = rest %% e%u;\n    rest /= e%u;\n", i, i, i);
        }
    }
}

/// `    NAME += ...;` for the batch axes of an operand of the scores' batch.
static void place_text(kf_text *t, const kf_chain_value *scores, const kf_chain_value *value,
                       const char *name)
{
    uint32_t i, shift = scores->rank - value->rank;
    kf_text_addf(t, "    %s += %s_o", name, name);
    for (i = 0; i < value->rank && shift + i + 2 < scores->rank; i++) {
        if (value->symbols[i] != 0) {
            kf_text_addf(t, " + i%u * %s_s%u", shift + i, name, i);
        }
    }
    kf_text_add(t, ";\n");
}

/// The step along an axis counted from the end: a parameter, or 0.
static void step_text(kf_text *t, const kf_chain_value *value, uint32_t from_end, const char *name,
                      const char *step)
{
    if (value->rank < from_end || value->symbols[value->rank - from_end] == 0) {
        kf_text_addf(t, "    const long %s_%s = 0;\n", name, step);
    } else {
        kf_text_addf(t, "    const long %s_%s = %s_s%u;\n", name, step, name,
                     value->rank - from_end);
    }
}

static void constants_text(kf_text *t, const block *b, const shape *s)
{
    uint32_t i;
    kf_text_addf(t,
                 "#define W %u\n#define NV %u\n#define KB %u\n#define R %u\n#define QB %u\n"
                 "#define D %u\n#define COLUMNS %u\n#define PADDED %u\n#define V float%u\n",
                 s->width, s->vectors, s->keys, s->rows, s->queries, b->head, b->columns, s->padded,
                 s->width);
    kf_text_addf(t,
                 "#define LOAD vload%u\n#define STORE vstore%u\n#define INTS int%u\n"
                 "#define AS_V as_float%u\n#define TO_INTS convert_int%u\n",
                 s->width, s->width, s->width, s->width, s->width);
    kf_text_add(t, "#define LANES ((INTS)(0");
    for (i = 1; i < s->width; i++) {
        kf_text_addf(t, ", %u", i);
    }
    kf_text_add(t, "))\n" KF_EW_FMA);
}

// ---- pack ----

static const char pack_body[] =
    "    long first = get_global_id(0) * KB, place = batch * get_global_size(0) + "
    "get_global_id(0);\n"
    "    int count = (int)min((long)KB, n_keys - first), is_finite = 1;\n"
    "    __global float *to = kp + place * (D * KB);\n"
    "    k += first * k_key;\n"
    "    v += first * v_key;\n"
    "    for (int j = 0; j < KB; j++) {\n"
    "        for (int d = 0; d < D; d++) {\n"
    "            to[d * KB + j] = j < count ? k[j * k_key + d * k_inner] : 0.0f;\n"
    "        }\n"
    "    }\n"
    "    to = vp + place * (KB * PADDED);\n"
    "    for (int j = 0; j < KB; j++) {\n"
    "        for (int d = 0; d < PADDED; d++) {\n"
    "            float x = j < count && d < COLUMNS ? v[j * v_key + d * v_inner] : 0.0f;\n"
    "            to[j * PADDED + d] = x;\n"
    "            is_finite &= fabs(x) <= FLT_MAX;\n"
    "        }\n"
    "    }\n"
    "    finite[place] = is_finite;\n"
    "}\n";

static void pack_text(plan *p, const block *b, const shape *s)
{
    const kf_chain_value *key = block_value(b, b->key), *value = block_value(b, b->value);
    const kf_chain_value *scores = block_value(b, b->product);
    kf_text *t = &p->source_text;
    arguments *a = &p->pack;
    tensor_argument(a, key, KF_ACCESS_READ, "k");
    layout_arguments(a, key, "k");
    tensor_argument(a, value, KF_ACCESS_READ, "v");
    layout_arguments(a, value, "v");
    batch_arguments(a, scores);
    extent_argument(a, block_keys(b), "n_keys");
    temp_argument(a, 0, KF_ACCESS_WRITE, "float", "kp");
    temp_argument(a, 1, KF_ACCESS_WRITE, "float", "vp");
    temp_argument(a, 2, KF_ACCESS_WRITE, "int", "finite");
    kf_text_addf(t, "__kernel __attribute__((reqd_work_group_size(%u, 1, 1)))\nvoid pack(%s)\n{\n",
                 s->group, a->text.ptr == NULL ? "" : a->text.ptr);
    batch_text(t, scores);
    place_text(t, scores, key, "k");
    place_text(t, scores, value, "v");
    step_text(t, key, b->transposed_k ? 2 : 1, "k", "key");
    step_text(t, key, b->transposed_k ? 1 : 2, "k", "inner");
    step_text(t, value, b->transposed_v ? 1 : 2, "v", "key");
    step_text(t, value, b->transposed_v ? 2 : 1, "v", "inner");
    kf_text_add(t, s->group > 1 ? items_pack_body : pack_body);
}

// ---- attention ----

// e^x for x <= 0, NaN, by the usual reduction to [-ln 2 / 2, ln 2 / 2] and a Taylor polynomial of
// degree 7 there (its next term is below 2^-28); two factors, so that denormals come out right.
static const char functions_text[] =
    "static inline V weight_of(V x) {\n"
    "    x = select(x, (V)(-104.0f), x < (V)(-104.0f));\n"
    "    V n = rint(x * (V)(1.44269502f));\n"
    "    V r = FMA(n, (V)(-0.693145752f), x);\n"
    "    r = FMA(n, (V)(-1.42860677e-6f), r);\n"
    "    V y = FMA((V)(1.98412698e-4f), r, (V)(1.38888889e-3f));\n"
    "    y = FMA(y, r, (V)(8.33333333e-3f));\n"
    "    y = FMA(y, r, (V)(4.16666667e-2f));\n"
    "    y = FMA(y, r, (V)(0.166666667f));\n"
    "    y = FMA(y, r, (V)(0.5f));\n"
    "    y = FMA(y, r, (V)(1.0f));\n"
    "    y = FMA(y, r, (V)(1.0f));\n"
    "    INTS e = TO_INTS(select(n, (V)(0.0f), n != n)), e1 = e >> 1;\n"
    "    return y * AS_V((e1 + 127) << 23) * AS_V((e - e1 + 127) << 23);\n"
    "}\n";

static void reduce_text(kf_text *t, uint32_t width)
{
    uint32_t w;
    for (w = 0; w < 2; w++) {
        const char *join = w == 0 ? "fmax(%s.lo, %s.hi)" : "%s.lo + %s.hi";
        uint32_t n;
        kf_text_addf(t, "static inline float %s(V x) {\n", w == 0 ? "largest" : "total");
        for (n = width / 2; n > 1; n /= 2) {
            char from[16] = "x", line[64];
            if (n != width / 2) {
                snprintf(from, sizeof(from), "x%u", n * 2);
            }
            snprintf(line, sizeof(line), join, from, from);
            kf_text_addf(t, "    float%u x%u = %s;\n", n, n, line);
        }
        kf_text_add(t,
                    w == 0 ? "    return fmax(x2.x, x2.y);\n}\n" : "    return x2.x + x2.y;\n}\n");
    }
}

uint32_t is_operand(const block *b, uint32_t v)
{
    const kf_chain *c = &b->chain;
    uint32_t i, k;
    for (i = 0; i < c->n_ops; i++) {
        for (k = 0; k < c->ops[i].n_inputs; k++) {
            if (c->ops[i].inputs[k] == v && !c->values[v].computed) {
                return 1;
            }
        }
    }
    return 0;
}

static void main_arguments(plan *p, const block *b)
{
    const kf_chain_value *scores = block_value(b, b->product);
    arguments *a = &p->main;
    char name[16];
    uint32_t i;
    tensor_argument(a, block_value(b, b->query), KF_ACCESS_READ, "q");
    layout_arguments(a, block_value(b, b->query), "q");
    temp_argument(a, 0, KF_ACCESS_READ, "float", "kp");
    temp_argument(a, 1, KF_ACCESS_READ, "float", "vp");
    temp_argument(a, 2, KF_ACCESS_READ, "int", "finite");
    tensor_argument(a, block_value(b, b->out), KF_ACCESS_WRITE, "out");
    batch_arguments(a, scores);
    extent_argument(a, block_keys(b), "n_keys");
    if (block_queries(b) != 0) {
        extent_argument(a, block_queries(b), "n_queries");
    }
    for (i = 0; i < b->chain.n_values; i++) {
        if (is_operand(b, i)) {
            snprintf(name, sizeof(name), "p%u", i);
            tensor_argument(a, &b->chain.values[i], KF_ACCESS_READ, name);
            layout_arguments(a, &b->chain.values[i], name);
        }
    }
    for (i = 0; i < b->chain.n_numbers; i++) {
        const kf_chain_number *number = &b->chain.numbers[i];
        if (number->is_scalar) {
            argument(a, KF_ARG_SCALAR, number->index, number->dtype);
            kf_text_addf(&a->text, "%s a%u", kf_chain_number_type(number), i);
        }
    }
}

void begin_text(plan *p, const block *b)
{
    const kf_chain_value *scores = block_value(b, b->product), *query = block_value(b, b->query);
    kf_text *t = &p->source_text;
    char name[16];
    uint32_t i;
    batch_text(t, scores);
    place_text(t, scores, query, "q");
    step_text(t, query, 2, "q", "row");
    step_text(t, query, 1, "q", "inner");
    for (i = 0; i < b->chain.n_values; i++) {
        if (is_operand(b, i)) {
            snprintf(name, sizeof(name), "p%u", i);
            place_text(t, scores, &b->chain.values[i], name);
            step_text(t, &b->chain.values[i], 2, name, "row");
            step_text(t, &b->chain.values[i], 1, name, "key");
        }
    }
    if (block_queries(b) == 0) {
        kf_text_add(t, "    const long n_queries = 1;\n");
    }
}

static const char rows_text[] =
    "    long first = get_global_id(0) * QB, blocks = (n_keys + KB - 1) / KB;\n"
    "    int rows = (int)min((long)QB, n_queries - first), shift = 0;\n"
    "    while (shift < 100 && (n_keys >> shift) > 1) {\n"
    "        shift++;\n"
    "    }\n"
    "    const V down = (V)(ldexp(1.0f, -shift));\n"
    "    float qs[QB * D], o[QB * PADDED], m[QB], l[QB], w[R * KB];\n"
    "    for (int r = 0; r < QB; r++) {\n"
    "        for (int d = 0; d < D; d++) {\n"
    "            qs[r * D + d] = r < rows ? q[(first + r) * q_row + d * q_inner] : 0.0f;\n"
    "        }\n"
    "        for (int c = 0; c < PADDED; c++) {\n"
    "            o[r * PADDED + c] = 0.0f;\n"
    "        }\n"
    "        m[r] = -INFINITY;\n"
    "        l[r] = 0.0f;\n"
    "    }\n";

static const char loops_text[] =
    "    for (long kb = 0; kb < blocks; kb++) {\n"
    "        __global const float *kt = kp + (batch * blocks + kb) * (D * KB);\n"
    "        __global const float *vt = vp + (batch * blocks + kb) * (KB * PADDED);\n"
    "        int count = (int)min((long)KB, n_keys - kb * KB);\n"
    "        for (int g = 0; g < rows; g += R) {\n"
    "            float kept[R];\n";

/// The scores of R queries and KB keys: R * NV accumulators, named so that they stay in registers.
static void product_text(kf_text *t, const shape *s)
{
    uint32_t r, j;
    kf_text_add(t, "            {\n");
    for (r = 0; r < s->rows; r++) {
        for (j = 0; j < s->vectors; j++) {
            kf_text_addf(t, "            V x%u_%u = (V)(0.0f);\n", r, j);
        }
    }
    kf_text_add(t, "            for (int d = 0; d < D; d++) {\n");
    for (j = 0; j < s->vectors; j++) {
        kf_text_addf(t, "                V k%u = LOAD(0, kt + d * KB + %u * W);\n", j, j);
    }
    for (r = 0; r < s->rows; r++) {
        kf_text_addf(t, "                V y%u = (V)(qs[(g + %u) * D + d]);\n", r, r);
        for (j = 0; j < s->vectors; j++) {
            kf_text_addf(t, "                x%u_%u = FMA(y%u, k%u, x%u_%u);\n", r, j, r, j, r, j);
        }
    }
    kf_text_add(t, "            }\n");
    for (r = 0; r < s->rows; r++) {
        for (j = 0; j < s->vectors; j++) {
            kf_text_addf(t, "            STORE(x%u_%u, 0, w + %u * KB + %u * W);\n", r, j, r, j);
        }
    }
    kf_text_add(t, "            }\n");
}

/// `const float16 v7 = ...;` for an operand at the query `row` and the keys from `at` on.
static void operand_text(kf_text *t, const kf_chain_value *value, uint32_t v, uint32_t width)
{
    kf_dtype dtype = kf_dtype_of(value->dtype);
    kf_text_addf(
        t,
        "                    __global const %s *at%u = p%u + row * p%u_row + at * p%u_key;\n"
        "                    const %s%u v%u = ",
        dtype.storage, v, v, v, v, dtype.compute, width, v);
    if (value->rank == 0 || value->symbols[value->rank - 1] == 0) {
        kf_text_addf(t, "(%s%u)(one_%s(at%u));\n", dtype.compute, width, dtype.name, v);
    } else {
        kf_text_addf(t,
                     "p%u_key == 1 && here == W ? load_%s(at%u) : part_%s(at%u, p%u_key, here);\n",
                     v, dtype.name, v, dtype.name, v, v);
    }
}

void cell_text(kf_text *t, const block *b, const shape *s)
{
    uint32_t i;
    for (i = 0; i < b->chain.n_values; i++) {
        if (is_operand(b, i)) {
            operand_text(t, &b->chain.values[i], i, s->width);
        }
    }
    kf_text_addf(t, "                    const V v%u = LOAD(0, cell);\n", b->product);
    for (i = 0; i < b->chain.n_ops; i++) {
        kf_chain_op_text(t, &b->chain, &b->chain.ops[i], s->width, "                    ");
    }
    kf_text_addf(t,
                 "                    V x = select((V)(-INFINITY), v%u, LANES < (INTS)(here));\n"
                 "                    STORE(x, 0, cell);\n",
                 b->scores);
}

/// Operations on the scores, vector by vector; what lies past the last key becomes -inf.
static void chain_text(kf_text *t, const block *b, const shape *s)
{
    kf_text_add(t, "            for (int r = 0; r < R; r++) {\n"
                   "                const long row = min(first + g + r, n_queries - 1);\n"
                   "                V top = (V)(-INFINITY);\n"
                   "                for (int j = 0; j < NV; j++) {\n"
                   "                    const long at = min(kb * KB + j * W, n_keys - 1);\n"
                   "                    const int here = clamp(count - j * W, 0, W);\n"
                   "                    float *cell = w + r * KB + j * W;\n");
    cell_text(t, b, s);
    kf_text_add(t, "                    top = fmax(top, x);\n"
                   "                }\n");
}

static const char softmax_text[] =
    "                float most = fmax(m[g + r], largest(top));\n"
    "                float base = most == -INFINITY ? 0.0f : most;\n"
    "                V sum = (V)(0.0f);\n"
    "                for (int j = 0; j < NV; j++) {\n"
    "                    V x = weight_of(LOAD(0, w + r * KB + j * W) - base) * down;\n"
    "                    STORE(x, 0, w + r * KB + j * W);\n"
    "                    sum += x;\n"
    "                }\n"
    "                float keep = weight_of((V)(m[g + r] - base)).s0;\n"
    "                l[g + r] = l[g + r] * keep + total(sum);\n"
    "                m[g + r] = most;\n"
    "                kept[r] = keep;\n"
    "            }\n";

/// Adds the weighted values to `n` vectors of the R results from column `from` on.
static void columns_text(kf_text *t, const shape *s, uint32_t from, uint32_t n)
{
    uint32_t r, j;
    kf_text_add(t, "            {\n");
    for (r = 0; r < s->rows; r++) {
        for (j = 0; j < n; j++) {
            kf_text_addf(t,
                         "            V x%u_%u = LOAD(0, o + (g + %u) * PADDED + %u) * kept[%u];\n",
                         r, j, r, from + j * s->width, r);
        }
    }
    kf_text_add(t, "            for (int i = 0; i < count; i++) {\n");
    for (j = 0; j < n; j++) {
        kf_text_addf(t, "                V v%u = LOAD(0, vt + i * PADDED + %u);\n", j,
                     from + j * s->width);
    }
    for (r = 0; r < s->rows; r++) {
        kf_text_addf(t, "                V y%u = (V)(w[%u * KB + i]);\n", r, r);
        for (j = 0; j < n; j++) {
            kf_text_addf(t, "                x%u_%u = FMA(y%u, v%u, x%u_%u);\n", r, j, r, j, r, j);
        }
    }
    kf_text_add(t, "            }\n");
    for (r = 0; r < s->rows; r++) {
        for (j = 0; j < n; j++) {
            kf_text_addf(t, "            STORE(x%u_%u, 0, o + (g + %u) * PADDED + %u);\n", r, j, r,
                         from + j * s->width);
        }
    }
    kf_text_add(t, "            }\n");
}

static const char end_text[] = "        }\n"
                               "    }\n"
                               "    out += (batch * n_queries + first) * COLUMNS;\n"
                               "    for (int r = 0; r < rows; r++) {\n"
                               "        for (int c = 0; c < COLUMNS; c++) {\n"
                               "            out[r * COLUMNS + c] = o[r * PADDED + c] / l[r];\n"
                               "        }\n"
                               "    }\n"
                               "}\n";

const kf_chain_op *masked_last(const block *b)
{
    const kf_chain_op *last = b->chain.n_ops == 0 ? NULL : &b->chain.ops[b->chain.n_ops - 1];
    return last != NULL && last->row->op == KF_OP_MASK_FILL ? last : NULL;
}

/// Where masked scores become -inf last: leaves a block out whose scores are all masked.
static void skip_text(kf_text *t, const block *b)
{
    const kf_chain_op *last = masked_last(b);
    uint32_t mask;
    if (last == NULL) {
        return;
    }
    mask = last->inputs[1];
    kf_text_addf(t,
                 "            if (finite[batch * blocks + kb] && s%u.s0 == -INFINITY) {\n"
                 "                int masked = 1;\n"
                 "                for (int r = 0; r < R && masked; r++) {\n"
                 "                    const long row = min(first + g + r, n_queries - 1);\n"
                 "                    __global const uchar *at = p%u + row * p%u_row + kb * KB * "
                 "p%u_key;\n"
                 "                    for (int j = 0; j < count; j++) {\n"
                 "                        masked &= at[j * p%u_key] != 0;\n"
                 "                    }\n"
                 "                }\n"
                 "                if (masked) {\n"
                 "                    continue;\n"
                 "                }\n"
                 "            }\n",
                 last->numbers[0], mask, mask, mask, mask);
}

static void main_text(plan *p, const block *b, const shape *s)
{
    kf_text *t = &p->source_text;
    uint32_t at, n;
    begin_text(p, b);
    kf_chain_numbers(t, &b->chain, s->width);
    kf_text_add(t, rows_text);
    if (b->factor != 0) {
        kf_text_addf(t, "    for (int r = 0; r < QB * D; r++) {\n        qs[r] *= s%u.s0;\n    }\n",
                     b->factor - 1);
    }
    kf_text_add(t, loops_text);
    skip_text(t, b);
    product_text(t, s);
    chain_text(t, b, s);
    kf_text_add(t, softmax_text);
    for (at = 0; at < s->padded; at += n * s->width) {
        n = (s->padded - at) / s->width;
        n = n > s->vectors ? s->vectors : n;
        columns_text(t, s, at, n);
    }
    kf_text_add(t, end_text);
}

void write_kernels(plan *p, const block *b, const fuser_facts *facts)
{
    shape s = shape_of(b, facts);
    uint64_t read = 0;
    uint32_t i;
    for (i = 0; i < b->chain.n_values; i++) {
        read |= is_operand(b, i) ? 1ull << b->chain.values[i].dtype : 0;
    }
    kf_chain_functions(&p->source_text, &b->chain, s.width, /*wide=*/1, read, /*written=*/0,
                       /*stream=*/0);
    constants_text(&p->source_text, b, &s);
    pack_text(p, b, &s);
    kf_text_add(&p->source_text, functions_text);
    reduce_text(&p->source_text, s.width);
    main_arguments(p, b);
    kf_text_addf(&p->source_text,
                 "__kernel __attribute__((reqd_work_group_size(%u, 1, 1)))\n"
                 "void attention(%s)\n{\n",
                 s.group, p->main.text.ptr == NULL ? "" : p->main.text.ptr);
    if (s.group > 1) {
        items_text(p, b, &s);
    } else {
        main_text(p, b, &s);
    }
}
