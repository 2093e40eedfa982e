// SPDX-License-Identifier: MIT OR Apache-2.0
// The reduction and the row-wise fusers through the C ABI, in both code shapes: softmax, norms,
// several results of one pass, any axes, strides, special values and integers, against the
// reference evaluator; and what each of them declines.
#include <math.h>

#include "harness.h"
#include "ir.h"
#include "mini_host.h"

typedef struct variant {
    const char *plugin;
    uint32_t fuser;
    uint32_t shape;
} variant;

enum { MAX_KEEP = 256 };

static kiln_env env;
static kiln_backend *judge;

// ---- the judge ----

static kiln_view view_of(const mini_host *mini, uint32_t id, kiln_buffer *buffer)
{
    const mini_tensor *t = &mini->tensors[id];
    kiln_view view = {.buffer = buffer, .dtype = (kiln_dtype)t->view.dtype};
    view.rank = t->view.rank;
    view.offset_bytes = t->offset * (int64_t)kiln_dtype_size(view.dtype);
    memcpy(view.dims, t->extents, sizeof(t->extents));
    memcpy(view.strides, t->strides, sizeof(t->strides));
    return view;
}

static void attrs_of(const mini_host *mini, const mini_op *op, const kiln_op_signature *signature,
                     kiln_attr *attrs)
{
    for (uint32_t i = 0; i < signature->n_attrs; i++) {
        attrs[i] = (kiln_attr){.type = KILN_ATTR_NONE};
        for (uint32_t k = 0; k < op->view.n_attrs; k++) {
            const kf_attr *attr = &op->attrs[k];
            if (attr->key != (uint32_t)signature->attrs[i].key) {
                continue;
            }
            attrs[i] = (kiln_attr){.type = (kiln_attr_type)attr->type, .count = attr->count};
            attrs[i].v.i = attr->v.i;
            if (attr->type == KF_TYPE_SCALAR) {
                attrs[i].count = 1;
                attrs[i].type = KILN_ATTR_F64;
                attrs[i].v.f = mini->scalars_f[attr->v.i];
            } else if (attr->type == KF_TYPE_I64S) {
                attrs[i].v.ints = attr->v.iv;
            }
        }
    }
    // A view's lengths are the host's own, not shown to fusers.
    if (signature->n_attrs > 0 && signature->attrs[0].key == KILN_KEY_SHAPE) {
        attrs[0] = (kiln_attr){.type = KILN_ATTR_I64_LIST, .count = op->outputs[0]->rank};
        attrs[0].v.ints = mini->tensors[op->outputs[0]->id].extents;
    }
}

/// Runs every operation on the reference; `buffers` has what each tensor is.
static bool judge_all(const mini_host *mini, kiln_buffer **buffers)
{
    kiln_error err = {0};
    for (uint32_t i = 0; i < mini->n_tensors; i++) {
        const mini_tensor *t = &mini->tensors[i];
        if (judge->memory->alloc(judge, t->bytes, &buffers[i], &err) != KILN_STATUS_OK ||
            judge->transfer->upload(judge, buffers[i], 0, t->data, t->bytes, &err) !=
                KILN_STATUS_OK) {
            return false;
        }
    }
    for (uint32_t i = 0; i < mini->n_ops; i++) {
        const mini_op *op = &mini->ops[i];
        kiln_op which = kiln_op_from_wire((uint16_t)op->view.kind);
        kiln_tensor_desc descs[4] = {{0}}, out_desc = {0};
        kiln_view inputs[4], output;
        kiln_attr attrs[KILN_MAX_ATTRS];
        if (op->view.kind == KF_OP_DROP) {
            continue;
        }
        for (uint32_t k = 0; k < op->view.n_inputs; k++) {
            uint32_t id = op->inputs[k]->id;
            inputs[k] = view_of(mini, id, buffers[id]);
            descs[k].dtype = inputs[k].dtype;
            descs[k].rank = (uint8_t)inputs[k].rank;
            memcpy(descs[k].dims, inputs[k].dims, sizeof(descs[k].dims));
        }
        output = view_of(mini, op->outputs[0]->id, buffers[op->outputs[0]->id]);
        const kiln_op_signature *signature = kiln_op_info_of(which)->signature;
        attrs_of(mini, op, signature, attrs);
        kiln_op_record record = {.op = which,
                                 .n_inputs = (uint16_t)op->view.n_inputs,
                                 .n_outputs = 1,
                                 .n_attrs = (uint8_t)signature->n_attrs,
                                 .inputs = descs,
                                 .outputs = &out_desc,
                                 .attrs = attrs};
        if (kiln_ir_infer(&record, &out_desc, &err) != KILN_STATUS_OK ||
            judge->device->execute(judge, &record, inputs, &output, &err) != KILN_STATUS_OK) {
            KILN_FAIL("reference of %s: %s", kiln_op_info_of(which)->name, err.message);
            return false;
        }
    }
    return true;
}

static bool is_dropped(const mini_host *mini, uint32_t id)
{
    for (uint32_t i = 0; i < mini->n_ops; i++) {
        if (mini->ops[i].view.kind == KF_OP_DROP && mini->ops[i].inputs[0]->id == id) {
            return true;
        }
    }
    return false;
}

static bool is_result(const mini_host *mini, uint32_t id)
{
    for (uint32_t i = 0; i < mini->n_ops; i++) {
        if (mini->ops[i].view.n_outputs > 0 && mini->ops[i].outputs[0]->id == id) {
            return !is_dropped(mini, id);
        }
    }
    return false;
}

static kiln_tolerance tolerance_of(double scaled, const mini_tensor *t)
{
    bool half = kiln_dtype_size((kiln_dtype)t->view.dtype) == 2;
    return (kiln_tolerance){.scaled = half ? 4 : scaled, .any_zero = true};
}

/// The block as the fuser's program computes it, against the reference. False when it was not
/// taken.
static bool check_block(mini_host *mini, double scaled)
{
    kiln_buffer *buffers[MINI_MAX_TENSORS] = {NULL};
    kf_opt *opt = mini_finish(mini);
    if (opt == NULL) {
        return false;
    }
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    KILN_CHECK_INT(mini->plugin->opt_info(opt, &info), KF_OK);
    KILN_CHECK_INT(info.len, mini->n_ops);
    bool ok = KILN_CHECK(judge_all(mini, buffers)) && mini_run(mini, opt);
    for (uint32_t i = 0; i < mini->n_tensors; i++) {
        const mini_tensor *t = &mini->tensors[i];
        kiln_error err = {0};
        char text[200] = "";
        void *expected = malloc(t->bytes);
        if (ok && is_result(mini, i) && expected != NULL &&
            KILN_CHECK_INT(judge->transfer->read(judge, buffers[i], 0, expected, t->bytes, &err),
                           KILN_STATUS_OK) &&
            !kiln_tolerance_compare(tolerance_of(scaled, t), (kiln_dtype)t->view.dtype,
                                    mini_count(mini, i), t->data, expected, text, sizeof(text))) {
            KILN_FAIL("%.*s, tensor %u: %s", (int)info.name.len, info.name.ptr, i, text);
        }
        free(expected);
        if (buffers[i] != NULL) {
            judge->memory->free(judge, buffers[i]);
        }
    }
    mini->plugin->opt_destroy(opt);
    return true;
}

// ---- material ----

static void store(kiln_dtype dtype, void *data, int64_t i, double value)
{
    unsigned char *at = (unsigned char *)data + (size_t)i * kiln_dtype_size(dtype);
    kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = value};
    if (kiln_dtype_kind_of(dtype) != KILN_KIND_FLOAT) {
        int64_t integer = dtype == KILN_DTYPE_BOOL ? value > 0 : (int64_t)(value * 10);
        memcpy(at, &integer, kiln_dtype_size(dtype));
        return;
    }
    KILN_CHECK(kiln_number_store(&number, dtype, at));
}

static void fill(mini_host *mini, uint32_t id, uint32_t seed)
{
    mini_tensor *t = &mini->tensors[id];
    size_t count = t->bytes / kf_dtype_of(t->view.dtype).bytes;
    uint32_t noise = seed * 747796405u + 2891336453u;
    for (size_t i = 0; i < count; i++) {
        noise = noise * 1664525u + 1013904223u;
        store((kiln_dtype)t->view.dtype, t->data, (int64_t)i, (double)(noise >> 8) / 4194304.0 - 2);
    }
}

static uint32_t tensor(mini_host *mini, uint32_t dtype, uint32_t rank, int64_t a, int64_t b,
                       int64_t c)
{
    const int64_t extents[] = {a, b, c};
    uint32_t id = mini_tensor_add(mini, dtype, rank, extents);
    fill(mini, id, id + 1);
    return id;
}

/// A reduction over own axes `mask`; gives the result's id.
static uint32_t reduce(mini_host *mini, uint32_t kind, uint32_t x, uint32_t mask, bool keep)
{
    static int64_t lists[MINI_MAX_OPS][KF_MAX_RANK];
    const mini_tensor *t = &mini->tensors[x];
    int64_t extents[KF_MAX_RANK], *axes = lists[mini->n_ops];
    uint32_t rank = 0, n = 0;
    for (uint32_t i = 0; i < t->view.rank; i++) {
        bool gone = (mask >> i & 1u) != 0;
        if (gone) {
            axes[n++] = i % 2 == 0 ? (int64_t)i : (int64_t)i - (int64_t)t->view.rank;
        }
        if (!gone || keep) {
            extents[rank++] = gone ? 1 : t->extents[i];
        }
    }
    uint32_t out = mini_tensor_add(mini, t->view.dtype, rank, extents);
    mini_op *op = mini_unary(mini, kind, x, out);
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_AXES, .type = KF_TYPE_I64S, .count = n, .v = {.iv = axes}};
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_KEEPDIMS, .type = KF_TYPE_BOOL, .count = 1, .v = {.i = keep}};
    return out;
}

static uint32_t like(mini_host *mini, uint32_t x)
{
    const mini_tensor *t = &mini->tensors[x];
    return mini_tensor_add(mini, t->view.dtype, t->view.rank, t->extents);
}

static uint32_t binary(mini_host *mini, uint32_t kind, uint32_t a, uint32_t b)
{
    uint32_t wide = mini->tensors[a].view.rank >= mini->tensors[b].view.rank &&
                            mini_count(mini, a) >= mini_count(mini, b)
                        ? a
                        : b;
    uint32_t out = like(mini, wide);
    mini_binary(mini, kind, a, b, out);
    return out;
}

static uint32_t unary(mini_host *mini, uint32_t kind, uint32_t a)
{
    uint32_t out = like(mini, a);
    mini_unary(mini, kind, a, out);
    return out;
}

static uint32_t scalar(mini_host *mini, uint32_t kind, uint32_t a, double value)
{
    uint32_t out = like(mini, a);
    mini_with_scalar(mini, kind, a, value, out);
    return out;
}

static mini_host *begin(const variant *v)
{
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    kiln_error err = {0};
    env.allocator = kiln_allocator_default();
    if (!mini_has_opencl()) {
        return NULL;
    }
    mini_host *mini = mini_open(v->plugin, v->shape);
    if (mini == NULL) {
        return NULL;
    }
    mini->device.vector_bytes = v->shape == KF_SHAPE_BLOCK ? 16 : 0; // short vectors compile faster
    if (!mini_fuser_at(mini, v->fuser) ||
        !KILN_CHECK_INT(provider->open(&env, "reference:", &judge, &err, provider->user),
                        KILN_STATUS_OK)) {
        mini_close(mini);
        return NULL;
    }
    return mini;
}

static void end(mini_host *mini)
{
    judge->device->close(judge);
    mini_close(mini);
}

static bool is_taken(size_t i, size_t share)
{
    const variant *v = kiln_test_param();
    size_t place =
        v->fuser + (v->shape == KF_SHAPE_BLOCK) + (strcmp(v->plugin, "rowwise.so") == 0 ? 2 : 0);
    return kiln_test_takes(i + place, share);
}

// ---- rows ----

static void build_softmax(mini_host *mini, uint32_t x)
{
    uint32_t most = reduce(mini, KF_OP_MAX, x, 1u << (mini->tensors[x].view.rank - 1), true);
    uint32_t moved = binary(mini, KF_OP_SUB, x, most);
    mini_drop(mini, most);
    uint32_t e = unary(mini, KF_OP_EXP, moved);
    mini_drop(mini, moved);
    uint32_t sum = reduce(mini, KF_OP_SUM, e, 1u << (mini->tensors[x].view.rank - 1), true);
    binary(mini, KF_OP_DIV, e, sum);
    mini_drop(mini, e);
    mini_drop(mini, sum);
}

static void test_softmax(void)
{
    static const int64_t lengths[] = {2, 7, 16, 37, 600, 9001}; // the last is longer than the slot
    mini_host *mini = begin(kiln_test_param());
    for (size_t i = 0; mini != NULL && i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        if (!is_taken(i, 2)) {
            continue;
        }
        mini_clear(mini);
        build_softmax(mini, tensor(mini, KF_DTYPE_F32, 2, 5, lengths[i], 0));
        KILN_CHECK(check_block(mini, 32));
        KILN_CHECK_INT(mini->values_asked, 0);
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// The operator itself, alone and with something before and behind it.
static void test_softmax_op(void)
{
    static const uint32_t dtypes[] = {KF_DTYPE_F32, KF_DTYPE_F16, KF_DTYPE_BF16, KF_DTYPE_F64};
    mini_host *mini = begin(kiln_test_param());
    for (size_t i = 0; mini != NULL && i < 8; i++) {
        if (!is_taken(i + i / 4, 2)) {
            continue;
        }
        mini_clear(mini);
        uint32_t x = tensor(mini, dtypes[i % 4], 3, 2, 3, 70);
        uint32_t y = scalar(mini, KF_OP_MUL_SCALAR, x, 0.5);
        uint32_t s = unary(mini, i < 4 ? KF_OP_SOFTMAX : KF_OP_LOG_SOFTMAX, y);
        uint32_t z = binary(mini, KF_OP_ADD, s, x);
        mini_drop(mini, y);
        KILN_CHECK(z > s);
        KILN_CHECK(check_block(mini, 32));
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// weight * (x - mean) / sqrt(variance + eps) + bias, with the mean and the variance kept.
static void build_norm(mini_host *mini, uint32_t x, int64_t n, bool keep_moments)
{
    uint32_t dtype = mini->tensors[x].view.dtype, last = 1u << (mini->tensors[x].view.rank - 1);
    uint32_t weight = tensor(mini, dtype, 1, n, 0, 0), bias = tensor(mini, dtype, 1, n, 0, 0);
    uint32_t mean = reduce(mini, KF_OP_MEAN, x, last, true);
    uint32_t moved = binary(mini, KF_OP_SUB, x, mean);
    uint32_t square = binary(mini, KF_OP_MUL, moved, moved);
    uint32_t variance = reduce(mini, KF_OP_MEAN, square, last, true);
    uint32_t shifted = scalar(mini, KF_OP_ADD_SCALAR, variance, 1e-5);
    uint32_t scale = unary(mini, KF_OP_RSQRT, shifted);
    uint32_t normal = binary(mini, KF_OP_MUL, moved, scale);
    uint32_t weighted = binary(mini, KF_OP_MUL, normal, weight);
    binary(mini, KF_OP_ADD, weighted, bias);
    const uint32_t inner[] = {moved, square, shifted, scale, normal, weighted};
    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
        mini_drop(mini, inner[i]);
    }
    if (!keep_moments) {
        mini_drop(mini, mean);
        mini_drop(mini, variance);
    }
}

static void test_norm(void)
{
    mini_host *mini = begin(kiln_test_param());
    for (int i = 0; mini != NULL && i < 4; i++) {
        int64_t n = i == 0 ? 5 : i == 1 ? 64 : i == 2 ? 1025 : 10000;
        if (!is_taken((size_t)i + (size_t)i / 2, 2)) {
            continue;
        }
        mini_clear(mini);
        build_norm(mini, tensor(mini, KF_DTYPE_F32, 3, 3, 2, n), n, i % 2 == 0);
        KILN_CHECK(check_block(mini, 64));
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// Without kept axes, and joined again by views: log of the sum of exponentials.
static void test_views(void)
{
    mini_host *mini = begin(kiln_test_param());
    if (mini == NULL) {
        return;
    }
    const int64_t kept[] = {6, 1}, wide[] = {6, 50};
    uint32_t x = tensor(mini, KF_DTYPE_F32, 2, 6, 50, 0);
    uint32_t most = reduce(mini, KF_OP_MAX, x, 2, false);
    uint32_t column = mini_tensor_add(mini, KF_DTYPE_F32, 2, kept);
    mini_unary(mini, KF_OP_RESHAPE, most, column);
    uint32_t spread = mini_tensor_add(mini, KF_DTYPE_F32, 2, wide);
    mini_unary(mini, KF_OP_EXPAND, column, spread);
    uint32_t e = unary(mini, KF_OP_EXP, binary(mini, KF_OP_SUB, x, spread));
    uint32_t sum = reduce(mini, KF_OP_SUM, e, 2, false);
    binary(mini, KF_OP_ADD, unary(mini, KF_OP_LOG, sum), most);
    KILN_CHECK(check_block(mini, 32));
    end(mini);
}

/// Softmax and norms as operators, forward and back, of two operands.
static void test_operators(void)
{
    static const uint32_t dtypes[] = {KF_DTYPE_F32, KF_DTYPE_F16};
    static const uint32_t kinds[] = {KF_OP_LAYER_NORM, KF_OP_RMS_NORM, KF_OP_SOFTMAX_BACKWARD,
                                     KF_OP_LOG_SOFTMAX_BACKWARD};
    mini_host *mini = begin(kiln_test_param());
    for (size_t i = 0; mini != NULL && i < 8; i++) {
        uint32_t norm = i % 4 < 2;
        if (!is_taken(i + i / 4, 2)) {
            continue;
        }
        mini_clear(mini);
        uint32_t x = tensor(mini, dtypes[i / 4], 2, 5, 83, 0);
        uint32_t y = scalar(mini, KF_OP_MUL_SCALAR, x, 0.5), out = like(mini, y);
        uint32_t other = norm ? tensor(mini, dtypes[i / 4], 1, 83, 0, 0)
                              : tensor(mini, dtypes[i / 4], 2, 5, 83, 0);
        mini_op *op = mini_binary(mini, kinds[i % 4], y, other, out);
        op->attrs[op->view.n_attrs++] =
            (kf_attr){.key = KF_ATTR_AXIS, .type = KF_TYPE_I64, .count = 1, .v = {.i = -1}};
        if (norm) {
            op->attrs[op->view.n_attrs++] =
                (kf_attr){.key = KF_ATTR_EPSILON, .type = KF_TYPE_F64, .count = 1, .v = {.f = 0.5}};
        }
        mini_drop(mini, y);
        unary(mini, KF_OP_RELU, out);
        KILN_CHECK(check_block(mini, 64));
    }
    if (mini != NULL) {
        end(mini);
    }
}

static uint32_t reshaped(mini_host *mini, uint32_t x, uint32_t rank, const int64_t *extents)
{
    uint32_t out = mini_tensor_add(mini, mini->tensors[x].view.dtype, rank, extents);
    mini_unary(mini, KF_OP_RESHAPE, x, out);
    return out;
}

/// Groups of channels: the rows belong to another shape than what comes before and after, and so do
/// a parameter for each channel and one along the last axis.
static void test_groups(void)
{
    static const int64_t planes[] = {1, 3, 8, 19, 400};
    mini_host *mini = begin(kiln_test_param());
    for (size_t i = 0; mini != NULL && i < sizeof(planes) / sizeof(planes[0]); i++) {
        const int64_t whole[] = {3, 4, planes[i]}, grouped[] = {3, 2, 2 * planes[i]};
        if (!is_taken(i, 2)) {
            continue;
        }
        mini_clear(mini);
        uint32_t x = tensor(mini, KF_DTYPE_F32, 3, 3, 4, planes[i]);
        uint32_t channels = tensor(mini, KF_DTYPE_F32, 2, 4, 1, 0);
        uint32_t last = tensor(mini, KF_DTYPE_F32, 1, planes[i], 0, 0);
        uint32_t scaled = binary(mini, KF_OP_MUL, x, channels);
        uint32_t rows = reshaped(mini, scaled, 3, grouped);
        uint32_t soft = unary(mini, KF_OP_SOFTMAX, rows);
        uint32_t back = reshaped(mini, soft, 3, whole);
        uint32_t moved = binary(mini, KF_OP_ADD, back, channels);
        binary(mini, KF_OP_MUL, moved, last);
        const uint32_t inner[] = {scaled, rows, soft, back, moved};
        for (size_t k = 0; k < sizeof(inner) / sizeof(inner[0]); k++) {
            mini_drop(mini, inner[k]);
        }
        KILN_CHECK(check_block(mini, 32));
        KILN_CHECK_INT(mini->values_asked, 0);
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// A whole value turned into another shape before it is reduced over the last axis.
static void test_reshaped(void)
{
    mini_host *mini = begin(kiln_test_param());
    if (mini == NULL) {
        return;
    }
    const int64_t other[] = {6, 34};
    uint32_t x = tensor(mini, KF_DTYPE_F32, 3, 4, 3, 17),
             y = tensor(mini, KF_DTYPE_F32, 3, 4, 3, 17);
    uint32_t rows = reshaped(mini, binary(mini, KF_OP_MUL, x, y), 2, other);
    reduce(mini, KF_OP_SUM, rows, 2, false);
    reduce(mini, KF_OP_MAX, rows, 2, false);
    KILN_CHECK(check_block(mini, 32));
    end(mini);
}

// ---- any reduction ----

static bool takes_axes(const variant *v, uint32_t mask, uint32_t rank)
{
    uint32_t kept = ((1u << rank) - 1) & ~mask;
    return strcmp(v->plugin, "reduce.so") == 0 || (mask & (0u - mask)) > kept;
}

/// All sets of axes of a tensor of rank 3, with something before and behind the reduction.
static void test_axes(void)
{
    const variant *v = kiln_test_param();
    mini_host *mini = begin(v);
    for (uint32_t mask = 1; mini != NULL && mask < 8; mask++) {
        if (!is_taken(mask, 3)) {
            continue;
        }
        mini_clear(mini);
        uint32_t x = tensor(mini, KF_DTYPE_F32, 3, 7, 40, 19);
        uint32_t y = tensor(mini, KF_DTYPE_F32, 3, 7, 1, 19);
        uint32_t p = binary(mini, KF_OP_MUL, x, y);
        uint32_t s = reduce(mini, KF_OP_SUM, p, mask, mask % 2 == 0);
        mini_drop(mini, p);
        scalar(mini, KF_OP_ADD_SCALAR, s, 3);
        bool whole_rows = mask == 4 || strcmp(v->plugin, "reduce.so") == 0; // y has no axis 1
        KILN_CHECK_INT(check_block(mini, 32), takes_axes(v, mask, 3) && whole_rows);
    }
    if (mini != NULL) {
        end(mini);
    }
}

static void test_kinds(void)
{
    static const uint32_t kinds[] = {KF_OP_SUM,  KF_OP_PROD,    KF_OP_MAX, KF_OP_MIN,
                                     KF_OP_MEAN, KF_OP_MAX_ABS, KF_OP_ANY, KF_OP_ALL};
    static const uint32_t dtypes[] = {KF_DTYPE_F32, KF_DTYPE_F16, KF_DTYPE_BF16,
                                      KF_DTYPE_F64, KF_DTYPE_I8,  KF_DTYPE_I32,
                                      KF_DTYPE_U16, KF_DTYPE_I64, KF_DTYPE_BOOL};
    mini_host *mini = begin(kiln_test_param());
    for (size_t d = 0; mini != NULL && d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        uint32_t kind = kf_dtype_of(dtypes[d]).kind;
        if (!is_taken(d, 3)) {
            continue;
        }
        mini_clear(mini);
        uint32_t x = tensor(mini, dtypes[d], 2, 9, 21, 0);
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            uint32_t logic = kinds[k] == KF_OP_ANY || kinds[k] == KF_OP_ALL;
            if (logic == (kind == KF_KIND_BOOL) &&
                (kinds[k] != KF_OP_MEAN || kind == KF_KIND_FLOAT)) {
                reduce(mini, kinds[k], x, 2, true);
            }
        }
        KILN_CHECK(check_block(mini, 32));
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// Mean and variance from one pass over long rows and long columns; what was computed before is
/// kept.
static void test_moments(void)
{
    const variant *v = kiln_test_param();
    mini_host *mini = begin(v);
    for (uint32_t mask = 1; mini != NULL && mask < 4; mask++) {
        mini_clear(mini);
        uint32_t x = mask == 1   ? tensor(mini, KF_DTYPE_F32, 2, 3000, 37, 0)
                     : mask == 2 ? tensor(mini, KF_DTYPE_F32, 2, 3, 30011, 0)
                                 : tensor(mini, KF_DTYPE_F32, 2, 300, 401, 0);
        uint32_t y = scalar(mini, KF_OP_ADD_SCALAR, x, 0.25);
        uint32_t mean = reduce(mini, KF_OP_MEAN, y, mask, false);
        uint32_t squares = reduce(mini, KF_OP_MEAN, binary(mini, KF_OP_MUL, y, y), mask, false);
        binary(mini, KF_OP_SUB, squares, binary(mini, KF_OP_MUL, mean, mean));
        KILN_CHECK_INT(check_block(mini, 64), takes_axes(v, mask, 2));
    }
    if (mini != NULL) {
        end(mini);
    }
}

static void test_strides(void)
{
    const variant *v = kiln_test_param();
    mini_host *mini = begin(v);
    for (uint32_t mask = 1; mini != NULL && mask < 4; mask++) {
        const int64_t turned[] = {1, 30}, back[] = {-40, 2};
        mini_clear(mini);
        uint32_t x = tensor(mini, KF_DTYPE_F32, 2, 30, 17, 0);
        uint32_t y = tensor(mini, KF_DTYPE_F32, 2, 30, 17, 0);
        mini_tensor_place(mini, x, turned, 5, 30 * 17 + 5);
        mini_tensor_place(mini, y, back, 29 * 40, 30 * 40 + 40);
        fill(mini, x, 9);
        fill(mini, y, 11);
        reduce(mini, KF_OP_SUM, binary(mini, KF_OP_MUL, x, y), mask, true);
        bool dense_rows = mask != 3 || strcmp(v->plugin, "reduce.so") == 0;
        KILN_CHECK_INT(check_block(mini, 32), takes_axes(v, mask, 2) && dense_rows);
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// Lines of 33 and of 5 elements: where vectors reach past their line, neighbours' values stay out.
static void test_special_values(void)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY, -0.0, 1e30, -1e30};
    const variant *v = kiln_test_param();
    mini_host *mini = begin(v);
    for (int form = 0; mini != NULL && form < 4; form++) {
        int64_t length = form < 2 ? 33 : 5;
        uint32_t mask = form % 2 == 0 ? 2 : 1;
        if (!is_taken((size_t)form + (size_t)form / 2, 2)) {
            continue;
        }
        mini_clear(mini);
        uint32_t x = tensor(mini, KF_DTYPE_F32, 2, 7, length, 0);
        for (int64_t row = 0; row < 6; row++) {
            store(KILN_DTYPE_F32, mini->tensors[x].data, row * length + row * 5 % length,
                  specials[row]);
        }
        reduce(mini, KF_OP_MAX, x, mask, true);
        reduce(mini, KF_OP_MIN, x, mask, true);
        reduce(mini, KF_OP_SUM, x, mask, true);
        reduce(mini, KF_OP_MAX_ABS, x, mask, true);
        KILN_CHECK_INT(check_block(mini, 32), takes_axes(v, mask, 2));
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// The exponentials of a softmax as results, from 1 down to the subnormal numbers and 0, within the
/// tolerance of exp; rows with infinities and with a NaN whose lowest bit is set.
static void test_decay(void)
{
    enum { LENGTH = 40000, ROWS = 5 };
    static float powers[LENGTH];
    const uint32_t nan_bits = 0x7fc00001;
    mini_host *mini = begin(kiln_test_param());
    if (mini == NULL) {
        return;
    }
    uint32_t x = tensor(mini, KF_DTYPE_F32, 2, ROWS, LENGTH, 0);
    float *data = mini->tensors[x].data;
    for (int i = 0; i < LENGTH; i++) {
        data[i] = -110.0f * (float)i / LENGTH;
        powers[i] = (float)exp(data[i]);
        data[2 * LENGTH + i] = -INFINITY;
    }
    data[LENGTH + 7] = INFINITY;
    memcpy(&data[3 * LENGTH + 9], &nan_bits, sizeof(nan_bits));
    data[4 * LENGTH + 11] = -INFINITY;
    uint32_t moved = binary(mini, KF_OP_SUB, x, reduce(mini, KF_OP_MAX, x, 2, true));
    uint32_t e = unary(mini, KF_OP_EXP, moved);
    unary(mini, KF_OP_LOG, reduce(mini, KF_OP_SUM, e, 2, true));
    KILN_CHECK(check_block(mini, 32));
    char text[200] = "";
    if (!kiln_tolerance_compare(kiln_tolerance_of(KILN_OP_EXP, KILN_DTYPE_F32), KILN_DTYPE_F32,
                                LENGTH, mini->tensors[e].data, powers, text, sizeof(text))) {
        KILN_FAIL("%s", text);
    }
    end(mini);
}

/// What an element of a row of log-sum-exp is.
static double log_sum_exp_input(int row, int64_t i, int64_t length)
{
    static const double specials[] = {INFINITY, NAN, -INFINITY};
    double noise = sin((double)i * 12.9898 + row) * 2;
    switch (row) {
    case 0: // rises slowly, then falls as slowly
        return (double)(i < length / 2 ? i : length - i) * 0.05;
    case 1: // by jumps, below and above what a sum may be away from its maximum
        return (double)(i / 64) * (i < length / 2 ? 7.9 : 8.1) + noise;
    case 2:
        return -3.4028234663852886e38;
    case 3: // one number, in the last lanes
        return i == length - 1 ? 3 : -INFINITY;
    case 4:
        return i % 3 == 0 ? 1e30 : -1e30;
    case 5:
    case 6:
    case 7:
        return i == length / 2 || row == 7 ? specials[row - 5] : noise;
    case 8: // what each lane's powers are of, what they are, and the largest only then
        return i < 128 ? -2.22067952 : i < length - 128 ? 2.33408594 : 5.02543545;
    case 9: // where many equal terms are added, rounding goes one way
        return i == 0 ? 0 : -0.14;
    default:
        return noise * (row - 9);
    }
}

/// The sum of powers follows the largest so far: within 2^-20 of the real sum, whatever order the
/// elements come in, for lengths around that of a turn and for many turns.
static void test_log_sum_exp(void)
{
    enum { ROWS = 14 };
    static const int64_t lengths[] = {2, 3, 63, 64, 65, 129, 1000, 4099, 33001};
    mini_host *mini = begin(kiln_test_param());
    for (size_t l = 0; mini != NULL && l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        const int64_t length = lengths[l];
        if (!is_taken(l, 3)) {
            continue;
        }
        mini_clear(mini);
        uint32_t x = tensor(mini, KF_DTYPE_F32, 2, ROWS, length, 0);
        float *data = mini->tensors[x].data;
        for (int64_t i = 0; i < ROWS * length; i++) {
            data[i] = (float)log_sum_exp_input((int)(i / length), i % length, length);
        }
        uint32_t most = reduce(mini, KF_OP_MAX, x, 2, true);
        uint32_t moved = binary(mini, KF_OP_SUB, x, most);
        uint32_t e = unary(mini, KF_OP_EXP, moved);
        uint32_t sum = reduce(mini, KF_OP_SUM, e, 2, true);
        mini_drop(mini, moved);
        mini_drop(mini, e);
        KILN_CHECK(check_block(mini, 32));
        for (int64_t row = 0; row < ROWS; row++) {
            float largest = ((float *)mini->tensors[most].data)[row];
            float got = ((float *)mini->tensors[sum].data)[row];
            double wanted = 0;
            for (int64_t i = 0; i < length; i++) {
                wanted += exp((double)data[row * length + i] - (double)largest);
            }
            if (!(isnan(wanted) ? isnan(got) : fabs(got - wanted) <= 0x1p-20 * wanted)) {
                KILN_FAIL("row %d of %d: %.9g, not %.9g", (int)row, (int)length, (double)got,
                          wanted);
            }
        }
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// Twice the same bits, and nothing depends on which block came before.
static void test_repeats(void)
{
    mini_host *mini = begin(kiln_test_param());
    if (mini == NULL) {
        return;
    }
    static float first[MAX_KEEP];
    uint32_t x = tensor(mini, KF_DTYPE_F32, 2, 6, 20011, 0);
    uint32_t s = reduce(mini, KF_OP_SUM, x, 2, true);
    for (int i = 0; i < 3; i++) {
        kf_opt *opt = mini_finish(mini);
        if (!KILN_CHECK(opt != NULL)) {
            break;
        }
        KILN_CHECK(mini_run(mini, opt));
        if (i == 0) {
            memcpy(first, mini->tensors[s].data, 6 * sizeof(float));
        }
        KILN_CHECK_MEM(mini->tensors[s].data, first, 6 * sizeof(float));
        mini->plugin->opt_destroy(opt);
    }
    end(mini);
}

// ---- what is declined ----

static kf_state state_of(mini_host *mini)
{
    kf_builder *builder = NULL;
    kf_state state = {.struct_size = (uint32_t)sizeof(state)};
    if (KILN_CHECK_INT(mini->plugin->builder_create(mini->fuser, &builder), KF_OK)) {
        state = mini_fuse(mini, builder, 0, mini->n_ops);
    }
    mini->plugin->builder_destroy(builder);
    return state;
}

static void test_declines(void)
{
    const variant *v = kiln_test_param();
    bool is_reduce = strcmp(v->plugin, "reduce.so") == 0;
    mini_host *mini = begin(v);
    if (mini == NULL) {
        return;
    }
    uint32_t x = tensor(mini, KF_DTYPE_F32, 2, 8, 12, 0);
    uint32_t y = scalar(mini, KF_OP_ADD_SCALAR, x, 1);
    kf_state state = state_of(mini);
    KILN_CHECK(state.status == KF_OPEN && state.ready == 0); // no reduction yet
    uint32_t s = reduce(mini, KF_OP_SUM, y, 2, true);
    state = state_of(mini);
    KILN_CHECK(state.ready == 1 && state.len == 2);
    binary(mini, KF_OP_SUB, y, s); // along the row again
    state = state_of(mini);
    KILN_CHECK_INT(state.len, is_reduce ? 2 : 3);
    KILN_CHECK_INT(state.status, is_reduce ? KF_CLOSED : KF_OPEN);
    reduce(mini, KF_OP_SUM, y, 1, true); // other axes
    state = state_of(mini);
    KILN_CHECK(state.status == KF_CLOSED && state.ready == 1);
    KILN_CHECK_INT(state.len, is_reduce ? 2 : 3);
    mini_op *unknown = &mini->ops[1];
    unknown->view.version = 99;
    state = state_of(mini);
    KILN_CHECK(state.status == KF_CLOSED && state.ready == 0);
    KILN_CHECK_INT(mini->last_code, KF_CODE_NOT_UNDERSTOOD);
    end(mini);
}

/// clone, reset and a second builder behave as the ABI says.
static void test_builder(void)
{
    mini_host *mini = begin(kiln_test_param());
    kf_builder *builder = NULL, *clone = NULL;
    kf_opt *opts[2] = {NULL, NULL};
    if (mini == NULL) {
        return;
    }
    uint32_t x = tensor(mini, KF_DTYPE_F32, 2, 8, 12, 0);
    reduce(mini, KF_OP_SUM, scalar(mini, KF_OP_ADD_SCALAR, x, 1), 2, true);
    const kf_plugin *p = mini->plugin;
    KILN_CHECK_INT(p->builder_create(mini->fuser, &builder), KF_OK);
    mini_fuse(mini, builder, 0, 1);
    KILN_CHECK_INT(p->builder_clone(builder, &clone), KF_OK);
    mini_fuse(mini, builder, 1, 2);
    KILN_CHECK_INT(p->builder_reset(builder), KF_OK);
    mini_fuse(mini, builder, 0, 2);
    kf_state state = mini_fuse(mini, clone, 1, 2);
    KILN_CHECK(state.ready == 1 && state.len == 2);
    KILN_CHECK_INT(p->builder_finish(builder, &opts[0]), KF_OK);
    KILN_CHECK_INT(p->builder_finish(clone, &opts[1]), KF_OK);
    kf_opt_info a = {.struct_size = (uint32_t)sizeof(a)}, b = a;
    KILN_CHECK(p->opt_info(opts[0], &a) == KF_OK && p->opt_info(opts[1], &b) == KF_OK);
    KILN_CHECK(a.key.len == b.key.len && memcmp(a.key.ptr, b.key.ptr, a.key.len) == 0);
    int64_t ns = 0;
    KILN_CHECK(mini_eval(mini, state.est_ns, &ns) && ns >= 5000);
    p->opt_destroy(opts[0]);
    p->opt_destroy(opts[1]);
    p->builder_destroy(builder);
    p->builder_destroy(clone);
    end(mini);
}

static const variant rows_block = {"rowwise.so", 0, KF_SHAPE_BLOCK};
static const variant rows_items = {"rowwise.so", 0, KF_SHAPE_NDRANGE};
static const variant one_block = {"reduce.so", 0, KF_SHAPE_BLOCK};
static const variant one_items = {"reduce.so", 0, KF_SHAPE_NDRANGE};
static const variant split_block = {"reduce.so", 1, KF_SHAPE_BLOCK};
static const variant split_items = {"reduce.so", 1, KF_SHAPE_NDRANGE};

#define ROWS(test, name)                                                                           \
    KILN_TEST_PARAM(test, name "_rowwise_block", &rows_block),                                     \
        KILN_TEST_PARAM(test, name "_rowwise_items", &rows_items)
#define ALL(test, name)                                                                            \
    ROWS(test, name), KILN_TEST_PARAM(test, name "_reduce_block", &one_block),                     \
        KILN_TEST_PARAM(test, name "_reduce_items", &one_items),                                   \
        KILN_TEST_PARAM(test, name "_split_block", &split_block),                                  \
        KILN_TEST_PARAM(test, name "_split_items", &split_items)

KILN_TEST_MAIN("unit/plugins/rows", ROWS(test_softmax, "softmax"),
               ROWS(test_softmax_op, "softmax_op"), ROWS(test_norm, "norm"),
               ROWS(test_operators, "operators"), ROWS(test_groups, "groups"),
               ALL(test_reshaped, "reshaped"), ROWS(test_views, "views"), ALL(test_axes, "axes"),
               ALL(test_kinds, "kinds"), ALL(test_moments, "moments"), ALL(test_strides, "strides"),
               ROWS(test_decay, "decay"), ROWS(test_log_sum_exp, "log_sum_exp"),
               ALL(test_special_values, "special"), ALL(test_repeats, "repeats"),
               ALL(test_declines, "declines"), ALL(test_builder, "builder"))
