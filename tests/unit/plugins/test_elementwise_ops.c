// SPDX-License-Identifier: MIT OR Apache-2.0
// Every elementwise operator for every element type, in the two code shapes: fused kernels with
// dozens of results against the reference evaluator. All pairs of special values, and ordinary
// ones.
#include <math.h>

#include "harness.h"
#include "ir.h"
#include "mini_host.h"

enum { MAX_CHECKS = 200 };

typedef struct check {
    kiln_op op;
    uint32_t inputs[3];
    uint32_t n_inputs;
    uint32_t output;
    kiln_attr attrs[4];
    uint32_t n_attrs;
} check;

typedef struct suite {
    mini_host *mini;
    kiln_backend *judge;
    kiln_dtype dtype;
    uint32_t a, b, mask;
    check checks[MAX_CHECKS];
    uint32_t n_checks;
    uint32_t first_op; // where the present block starts
    uint32_t covered; // operators compared
} suite;

typedef struct variant {
    kiln_dtype dtype;
    uint32_t shape;
} variant;

static kiln_env env;

// ---- data ----

static const double special_floats[] = {0.0,   -0.0,  1.0,      -1.0,         0.5,  -0.5,
                                        1.5,   2.5,   -2.5,     3.0,          1e-3, -7.25,
                                        127.6, 255.5, 65504.0,  2147483648.0, -3e9, 1e19,
                                        -1e30, 1e-40, INFINITY, -INFINITY,    NAN,  100.0};
static const int64_t special_ints[] = {
    0,        1,         -1,        2,         -2,       3,         5,         7,
    8,        15,        16,        31,        32,       63,        64,        100,
    INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX};

enum { N_SPECIAL = 24, N_ELEMENTS = N_SPECIAL * N_SPECIAL + 77 };

static void store(kiln_dtype dtype, void *data, int64_t i, uint32_t pick, uint32_t noise)
{
    unsigned char *at = (unsigned char *)data + (size_t)i * kiln_dtype_size(dtype);
    kiln_attr number = {.type = KILN_ATTR_F64, .count = 1};
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT) {
        number.v.f = pick < N_SPECIAL ? special_floats[pick] : ((double)noise / 65536.0 - 0.5) * 20;
        if (kiln_number_store(&number, dtype, at)) {
            return;
        }
        number.v.f = number.v.f > 0 ? INFINITY : -INFINITY; // beyond the type
        KILN_CHECK(kiln_number_store(&number, dtype, at));
        return;
    }
    int64_t value = pick < N_SPECIAL ? special_ints[pick] : (int64_t)noise - 32768;
    if (dtype == KILN_DTYPE_BOOL) {
        value &= 1;
    }
    memcpy(at, &value, kiln_dtype_size(dtype));
}

static void fill(suite *s)
{
    uint32_t noise = 12345;
    for (int64_t i = 0; i < N_ELEMENTS; i++) {
        uint32_t pair = i < N_SPECIAL * N_SPECIAL ? (uint32_t)i : UINT32_MAX;
        noise = noise * 1103515245u + 12345u;
        store(s->dtype, s->mini->tensors[s->a].data, i,
              pair == UINT32_MAX ? UINT32_MAX : pair / N_SPECIAL, noise >> 16);
        store(s->dtype, s->mini->tensors[s->b].data, i,
              pair == UINT32_MAX ? UINT32_MAX : pair % N_SPECIAL, noise & 0xffffu);
        ((uint8_t *)s->mini->tensors[s->mask].data)[i] = (uint8_t)(noise >> 20 & 1u);
    }
}

// ---- the reference ----

static kiln_tensor_desc describe(const suite *s, uint32_t tensor)
{
    kiln_tensor_desc desc = {.id = tensor + 1,
                             .dtype = (kiln_dtype)s->mini->tensors[tensor].view.dtype,
                             .rank = 1,
                             .dims = {N_ELEMENTS}};
    return desc;
}

/// What the operator gives, by the reference; the caller frees it.
static void *expected_of(const suite *s, const check *c)
{
    kiln_tensor_desc inputs[3] = {{0}}, output = describe(s, c->output);
    kiln_view views[3] = {{0}}, out_view;
    kiln_error err = {0};
    size_t bytes = (size_t)kiln_desc_bytes(&output);
    void *result = malloc(bytes);
    kiln_op_record record = {.op = c->op,
                             .n_inputs = (uint16_t)c->n_inputs,
                             .n_outputs = 1,
                             .n_attrs = (uint8_t)c->n_attrs,
                             .inputs = inputs,
                             .outputs = &output,
                             .attrs = c->attrs};
    bool ok = true;
    for (uint32_t i = 0; i < c->n_inputs; i++) {
        const mini_tensor *t = &s->mini->tensors[c->inputs[i]];
        kiln_buffer *buffer = NULL;
        inputs[i] = describe(s, c->inputs[i]);
        ok = ok && s->judge->memory->alloc(s->judge, t->bytes, &buffer, &err) == KILN_STATUS_OK &&
             s->judge->transfer->upload(s->judge, buffer, 0, t->data, t->bytes, &err) ==
                 KILN_STATUS_OK;
        views[i] = kiln_view_dense(&inputs[i], buffer);
    }
    kiln_buffer *out_buffer = NULL;
    ok = ok && s->judge->memory->alloc(s->judge, bytes, &out_buffer, &err) == KILN_STATUS_OK;
    out_view = kiln_view_dense(&output, out_buffer);
    ok = ok && kiln_ir_infer(&record, &output, &err) == KILN_STATUS_OK &&
         s->judge->device->execute(s->judge, &record, views, &out_view, &err) == KILN_STATUS_OK &&
         s->judge->transfer->read(s->judge, out_buffer, 0, result, bytes, &err) == KILN_STATUS_OK;
    for (uint32_t i = 0; i < c->n_inputs; i++) {
        s->judge->memory->free(s->judge, views[i].buffer);
    }
    s->judge->memory->free(s->judge, out_buffer);
    if (!ok) {
        KILN_FAIL("reference of %s: %s", kiln_op_info_of(c->op)->name, err.message);
        free(result);
        return NULL;
    }
    return result;
}

static void compare_block(suite *s)
{
    kf_opt *opt = s->mini->n_ops == 0 ? NULL : mini_finish(s->mini);
    if (opt == NULL) {
        return;
    }
    if (mini_run(s->mini, opt)) {
        for (uint32_t i = 0; i < s->n_checks; i++) {
            const check *c = &s->checks[i];
            const mini_tensor *t = &s->mini->tensors[c->output];
            char text[200] = "";
            void *expected = expected_of(s, c);
            if (expected != NULL &&
                !kiln_tolerance_compare(kiln_tolerance_of(c->op, (kiln_dtype)t->view.dtype),
                                        (kiln_dtype)t->view.dtype, N_ELEMENTS, t->data, expected,
                                        text, sizeof(text))) {
                KILN_FAIL("%s(%s) to %s: %s", kiln_op_info_of(c->op)->name,
                          kiln_dtype_name(s->dtype), kiln_dtype_name((kiln_dtype)t->view.dtype),
                          text);
            }
            free(expected);
            s->covered++;
        }
    }
    s->mini->plugin->opt_destroy(opt);
}

static void start_block(suite *s)
{
    const int64_t extents[] = {N_ELEMENTS};
    mini_clear(s->mini);
    s->n_checks = 0;
    s->a = mini_tensor_add(s->mini, s->dtype, 1, extents);
    s->b = mini_tensor_add(s->mini, s->dtype, 1, extents);
    s->mask = mini_tensor_add(s->mini, KF_DTYPE_BOOL, 1, extents);
    fill(s);
}

// ---- the operators ----

static kiln_dtype result_dtype(const suite *s, const kiln_op_info *info, kiln_dtype cast_to)
{
    return info->result == KILN_RESULT_BOOL   ? KILN_DTYPE_BOOL
           : info->result == KILN_RESULT_ATTR ? cast_to
                                              : s->dtype;
}

static void add_number(suite *s, mini_op *op, check *c, kiln_attr_key key, double value)
{
    bool is_float = kiln_dtype_kind_of(s->dtype) == KILN_KIND_FLOAT;
    kiln_attr *attr = &c->attrs[c->n_attrs++];
    attr->count = 1;
    if (is_float || key == KILN_KEY_SLOPE) {
        attr->type = KILN_ATTR_F64;
        attr->v.f = value;
        mini_scalar(s->mini, op, (uint32_t)key, value);
        return;
    }
    attr->type = KILN_ATTR_I64;
    attr->v.i = (int64_t)value;
    if (attr->v.i < 0 && kiln_dtype_kind_of(s->dtype) != KILN_KIND_INT) {
        attr->v.i = 0;
    }
    mini_scalar_i64(s->mini, op, (uint32_t)key, attr->v.i);
}

/// Appends one operator, and says whether the fuser still takes the block.
static void append(suite *s, kiln_op which, kiln_dtype cast_to, double value)
{
    const kiln_op_info *info = kiln_op_info_of(which);
    const kiln_op_signature *signature = info->signature;
    const uint32_t order[] = {s->a, s->b, s->mask};
    const int64_t extents[] = {N_ELEMENTS};
    check *c = &s->checks[s->n_checks++];
    memset(c, 0, sizeof(*c));
    c->op = which;
    c->n_inputs = signature->max_inputs;
    for (uint32_t i = 0; i < c->n_inputs && i < 3; i++) {
        c->inputs[i] = (signature->mask_inputs >> i & 1u) != 0 ? s->mask : order[i];
    }
    c->output = mini_tensor_add(s->mini, result_dtype(s, info, cast_to), 1, extents);
    mini_op *op = mini_op_add(s->mini, info->wire, c->inputs, c->n_inputs, c->output);
    for (uint32_t i = 0; i < signature->n_attrs; i++) {
        kiln_attr_key key = signature->attrs[i].key;
        if (key == KILN_KEY_DTYPE) {
            kf_attr *attr = &op->attrs[op->view.n_attrs++];
            *attr = (kf_attr){KF_ATTR_DTYPE, KF_TYPE_DTYPE, 0, 1, {cast_to}};
            c->attrs[c->n_attrs++] = (kiln_attr){KILN_ATTR_DTYPE, 1, {cast_to}};
        } else {
            add_number(s, op, c, key, key == KILN_KEY_MIN ? -value : value);
        }
    }
}

static void take(suite *s, kiln_op which, kiln_dtype cast_to, double value)
{
    kf_builder *builder = NULL;
    append(s, which, cast_to, value);
    if (s->mini->plugin->builder_create(s->mini->fuser, &builder) != KF_OK) {
        return;
    }
    kf_state state = mini_fuse(s->mini, builder, 0, s->mini->n_ops);
    s->mini->plugin->builder_destroy(builder);
    if (state.status == KF_OPEN && s->n_checks < 24) {
        return;
    }
    if (state.status == KF_CLOSED && s->mini->last_code != KF_CODE_LIMIT) {
        KILN_FAIL("%s(%s) was not taken: %s", kiln_op_info_of(which)->name,
                  kiln_dtype_name(s->dtype), s->mini->last_text);
    }
    if (state.status == KF_CLOSED) {
        s->n_checks--;
    }
    compare_block(s);
    start_block(s);
    if (state.status == KF_CLOSED && s->mini->last_code == KF_CODE_LIMIT) {
        append(s, which, cast_to, value);
    }
}

/// What an operator's number is: of a small float's bits, the number of its dtype.
static double number_for(const suite *s, kiln_op op)
{
    bool small = op == KILN_OP_ENCODE_SMALL || op == KILN_OP_DECODE_SMALL;
    return small ? KILN_DTYPE_F8E4M3FN : s->dtype == KILN_DTYPE_BOOL ? 1 : 3;
}

static void test_all(void)
{
    const variant *v = kiln_test_param();
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    suite *s = calloc(1, sizeof(*s));
    kiln_error err = {0};
    env.allocator = kiln_allocator_default();
    if (s == NULL || !mini_has_opencl()) {
        free(s);
        return;
    }
    s->dtype = v->dtype;
    s->mini = mini_open("elementwise.so", v->shape);
    if (s->mini != NULL) {
        s->mini->device.vector_bytes = 16; // short vectors compile faster
    }
    if (s->mini != NULL && mini_fuser(s->mini) &&
        KILN_CHECK(provider->open(&env, "reference:", &s->judge, &err, provider->user) ==
                   KILN_STATUS_OK)) {
        start_block(s);
        for (int op = 0; op < KILN_OP_COUNT; op++) {
            const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
            if (info->cls != KILN_CLASS_ELEMENTWISE || info->decompose != NULL ||
                ((uint32_t)info->accept & kiln_dtype_kind_of(s->dtype)) == 0) {
                continue;
            }
            for (int to = 1; to < KILN_DTYPE_LIMIT; to++) {
                kiln_dtype_kind kind = kiln_dtype_kind_of((kiln_dtype)to);
                bool unseen = kind == KILN_KIND_QUANT || kind == KILN_KIND_SMALL;
                if ((info->result == KILN_RESULT_ATTR || to == 1) && !unseen) {
                    take(s, (kiln_op)op, (kiln_dtype)to, number_for(s, (kiln_op)op));
                }
            }
        }
        compare_block(s);
        KILN_CHECK(s->covered >= (s->dtype == KILN_DTYPE_BOOL ? 20u : 50u));
        s->judge->device->close(s->judge);
    }
    if (s->mini != NULL) {
        mini_close(s->mini);
    }
    free(s);
}

static const variant variants[] = {
#define KILN_DTYPE(id, name, number, bits, kind, doc) {KILN_DTYPE_##id, KF_SHAPE_BLOCK},
#include "dtype.def"
#undef KILN_DTYPE
};
static const variant f32_items = {KILN_DTYPE_F32, KF_SHAPE_NDRANGE};
static const variant i32_items = {KILN_DTYPE_I32, KF_SHAPE_NDRANGE};

KILN_TEST_MAIN(
    "unit/plugins/elementwise_ops", KILN_TEST_PARAM(test_all, "bool", &variants[0]),
    KILN_TEST_PARAM(test_all, "u8", &variants[1]), KILN_TEST_PARAM(test_all, "u16", &variants[2]),
    KILN_TEST_PARAM(test_all, "u32", &variants[3]), KILN_TEST_PARAM(test_all, "u64", &variants[4]),
    KILN_TEST_PARAM(test_all, "i8", &variants[5]), KILN_TEST_PARAM(test_all, "i16", &variants[6]),
    KILN_TEST_PARAM(test_all, "i32", &variants[7]), KILN_TEST_PARAM(test_all, "i64", &variants[8]),
    KILN_TEST_PARAM(test_all, "f16", &variants[9]),
    KILN_TEST_PARAM(test_all, "bf16", &variants[10]),
    KILN_TEST_PARAM(test_all, "f32", &variants[11]),
    KILN_TEST_PARAM(test_all, "f64", &variants[12]),
    KILN_TEST_PARAM(test_all, "f32_items", &f32_items),
    KILN_TEST_PARAM(test_all, "i32_items", &i32_items))
