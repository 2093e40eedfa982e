// SPDX-License-Identifier: MIT OR Apache-2.0
// Builds blocks of matrix products, runs them through a fuser, and compares with the reference.
#include "product_program.h"
#include "harness.h"
#include "ir.h"

static kiln_env env;
static kiln_backend *judge;
uint64_t product_most_asked;

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
            if (attr->key == (uint32_t)signature->attrs[i].key) {
                attrs[i] = (kiln_attr){.type = (kiln_attr_type)attr->type, .count = attr->count};
                attrs[i].v.i = attr->v.i;
            }
            if (attr->key == (uint32_t)signature->attrs[i].key && attr->type == KF_TYPE_SCALAR) {
                attrs[i] = (kiln_attr){.type = KILN_ATTR_F64, .count = 1};
                attrs[i].v.f = mini->scalars_f[attr->v.i];
            }
        }
    }
}

static bool judge_op(const mini_host *mini, const mini_op *op, kiln_buffer **buffers)
{
    kiln_op which = kiln_op_from_wire((uint16_t)op->view.kind);
    kiln_tensor_desc descs[4] = {{0}}, out_desc = {0};
    kiln_view inputs[4], output;
    kiln_attr attrs[KILN_MAX_ATTRS];
    kiln_error err = {0};
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
    return KILN_CHECK(out_desc.rank == output.rank &&
                      memcmp(out_desc.dims, output.dims, output.rank * sizeof(output.dims[0])) ==
                          0);
}

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
        if (mini->ops[i].view.kind != KF_OP_DROP && !judge_op(mini, &mini->ops[i], buffers)) {
            return false;
        }
    }
    return true;
}

static bool is_result(const mini_host *mini, uint32_t id)
{
    bool made = false;
    for (uint32_t i = 0; i < mini->n_ops; i++) {
        const mini_op *op = &mini->ops[i];
        if (op->view.kind == KF_OP_DROP && op->inputs[0]->id == id) {
            return false;
        }
        made = made || (op->view.n_outputs > 0 && op->outputs[0]->id == id);
    }
    return made;
}

static void compare(mini_host *mini, kiln_buffer **buffers, const kf_opt_info *info)
{
    for (uint32_t i = 0; i < mini->n_tensors; i++) {
        const mini_tensor *t = &mini->tensors[i];
        bool half = kiln_dtype_size((kiln_dtype)t->view.dtype) == 2;
        kiln_tolerance tolerance = {.scaled = half ? 4 : 64, .any_zero = true};
        kiln_error err = {0};
        char text[200] = "";
        void *expected = malloc(t->bytes);
        if (expected != NULL && is_result(mini, i) &&
            KILN_CHECK_INT(judge->transfer->read(judge, buffers[i], 0, expected, t->bytes, &err),
                           KILN_STATUS_OK) &&
            !kiln_tolerance_compare(tolerance, (kiln_dtype)t->view.dtype, mini_count(mini, i),
                                    t->data, expected, text, sizeof(text))) {
            KILN_FAIL("%.*s, tensor %u: %s", (int)info->name.len, info->name.ptr, i, text);
        }
        free(expected);
    }
}

bool product_is_plain(const product_variant *v)
{
    return v->tensor && v->fuser > 2;
}

bool product_is_left(const mini_host *mini)
{
    const product_variant *v = kiln_test_param();
    return v->tensor && (strstr(mini->last_text, "tensor cores take matrices") != NULL ||
                         strstr(mini->last_text, "not read as it lies") != NULL);
}

bool product_check(mini_host *mini)
{
    kiln_buffer *buffers[MINI_MAX_TENSORS] = {NULL};
    kf_opt *opt = mini_finish(mini);
    if (opt == NULL && product_is_left(mini)) {
        return true;
    }
    if (opt == NULL) {
        return false;
    }
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    KILN_CHECK_INT(mini->plugin->opt_info(opt, &info), KF_OK);
    KILN_CHECK_INT(info.len, mini->n_ops);
    if (KILN_CHECK(judge_all(mini, buffers)) && mini_run(mini, opt)) {
        compare(mini, buffers, &info);
    }
    for (uint32_t i = 0; i < mini->n_tensors; i++) {
        if (buffers[i] != NULL) {
            judge->memory->free(judge, buffers[i]);
        }
    }
    mini->plugin->opt_destroy(opt);
    KILN_CHECK(mini->values_asked <= product_most_asked);
    return true;
}

// ---- material ----

void product_store(mini_tensor *t, size_t i, double value)
{
    kiln_dtype dtype = (kiln_dtype)t->view.dtype;
    kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = value};
    if (kiln_dtype_kind_of(dtype) != KILN_KIND_FLOAT) {
        number = (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = (int64_t)value};
    }
    KILN_CHECK(
        kiln_number_store(&number, dtype, (unsigned char *)t->data + i * kiln_dtype_size(dtype)));
}

void product_fill(mini_host *mini, uint32_t id)
{
    mini_tensor *t = &mini->tensors[id];
    size_t count = t->bytes / kf_dtype_of(t->view.dtype).bytes;
    uint32_t noise = id * 747796405u + 2891336453u;
    for (size_t i = 0; i < count; i++) {
        noise = noise * 1664525u + 1013904223u;
        product_store(t, i, (double)(noise >> 8) / 4194304.0 - 2);
    }
}

uint32_t product_tensor(mini_host *mini, uint32_t dtype, uint32_t rank, const int64_t *extents)
{
    uint32_t id = mini_tensor_add(mini, dtype, rank, extents);
    product_fill(mini, id);
    return id;
}

uint32_t product_matrix(mini_host *mini, uint32_t dtype, int64_t rows, int64_t columns)
{
    const int64_t extents[] = {rows, columns};
    return product_tensor(mini, dtype, 2, extents);
}

uint32_t product_like(mini_host *mini, uint32_t dtype, uint32_t x)
{
    return mini_tensor_add(mini, dtype, mini->tensors[x].view.rank, mini->tensors[x].extents);
}

static void set(mini_op *op, uint32_t key)
{
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = key, .type = KF_TYPE_BOOL, .count = 1, .v = {.i = 1}};
}

uint32_t product_of(mini_host *mini, uint32_t a, uint32_t b, bool turn_a, bool turn_b)
{
    const mini_tensor *x = &mini->tensors[a], *y = &mini->tensors[b];
    uint32_t ra = x->view.rank, rb = y->view.rank, rank = 0;
    uint32_t batch = ra > rb ? ra : rb;
    int64_t extents[KF_MAX_RANK];
    batch = batch > 2 ? batch - 2 : 0;
    for (uint32_t i = 0; i < batch; i++) {
        int64_t da = i + ra >= batch + 2 ? x->extents[i + ra - batch - 2] : 1;
        int64_t db = i + rb >= batch + 2 ? y->extents[i + rb - batch - 2] : 1;
        extents[rank++] = da > db ? da : db;
    }
    if (ra > 1) {
        extents[rank++] = x->extents[turn_a ? ra - 1 : ra - 2];
    }
    if (rb > 1) {
        extents[rank++] = y->extents[turn_b ? rb - 2 : rb - 1];
    }
    uint32_t out = mini_tensor_add(mini, x->view.dtype, rank, extents);
    mini_op *op = mini_binary(mini, KF_OP_MATMUL, a, b, out);
    if (turn_a) {
        set(op, KF_ATTR_TRANSPOSE_A);
    }
    if (turn_b) {
        set(op, KF_ATTR_TRANSPOSE_B);
    }
    return out;
}

uint32_t product_cast(mini_host *mini, uint32_t x, uint32_t dtype)
{
    uint32_t out = product_like(mini, dtype, x);
    mini_op *op = mini_unary(mini, KF_OP_CAST, x, out);
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_DTYPE, .type = KF_TYPE_DTYPE, .count = 1, .v = {.i = dtype}};
    return out;
}

uint32_t product_then(mini_host *mini, uint32_t kind, uint32_t x, uint32_t y)
{
    uint32_t out = product_like(mini, mini->tensors[x].view.dtype, x);
    if (y == KF_NONE) {
        mini_unary(mini, kind, x, out);
    } else {
        mini_binary(mini, kind, x, y, out);
    }
    mini_drop(mini, x);
    return out;
}

mini_host *product_begin(void)
{
    const product_variant *v = kiln_test_param();
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    kiln_error err = {0};
    env.allocator = kiln_allocator_default();
    if (!mini_has_opencl()) {
        return NULL;
    }
    if (v->tensor && !mini_has_wgmma()) {
        kiln_test_skip("the device has no tensor cores of compute capability 9.0");
        return NULL;
    }
    if (v->fuser == 2 && v->shape == KF_SHAPE_BLOCK && !mini_is_processor()) {
        kiln_test_skip("the direct form's tiles, 650 KiB of a work-item's own, are for processors");
        return NULL;
    }
    mini_host *mini = mini_open(v->tensor ? "nvidia_tensor.so" : "matmul.so", v->shape);
    if (mini == NULL) {
        return NULL;
    }
    mini->device.vector_bytes = v->vector_bytes;
    mini->device.features |= v->features | (v->tensor ? KF_FEATURE_WGMMA : 0);
    mini->device.max_group_size = v->shape == KF_SHAPE_NDRANGE ? 512 : 256;
    mini->device.compute_units = v->units != 0 ? v->units : mini->device.compute_units;
    if (!mini_fuser_at(mini, v->fuser) ||
        !KILN_CHECK_INT(provider->open(&env, "reference:", &judge, &err, provider->user),
                        KILN_STATUS_OK)) {
        mini_close(mini);
        return NULL;
    }
    return mini;
}

void product_end(mini_host *mini)
{
    judge->device->close(judge);
    mini_close(mini);
}
