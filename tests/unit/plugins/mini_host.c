// SPDX-License-Identifier: MIT OR Apache-2.0
// Loading, recording and formulas of the mini host; the OpenCL half is in mini_run.c.
#include "mini_host.h"

#include <dlfcn.h>

#include "harness.h"

static void report(const kf_host *host, const kf_diag *diag)
{
    mini_host *mini = host->ctx;
    size_t length = diag->message.len < 255 ? diag->message.len : 255;
    mini->last_code = diag->code;
    memcpy(mini->last_text, diag->message.ptr, length);
    mini->last_text[length] = '\0';
}

static void describe_device(kf_device *device, uint32_t code_shape)
{
    static const char fingerprint[] = "mini";
    memset(device, 0, sizeof(*device));
    device->struct_size = (uint32_t)sizeof(*device);
    device->device_type = code_shape == KF_SHAPE_BLOCK ? KF_DEVICE_CPU : KF_DEVICE_GPU;
    device->code_shape = code_shape;
    device->features = KF_FEATURE_COMPILER | KF_FEATURE_FP64;
    device->dtype_storage = ~0ull;
    device->max_group_size = 256;
    device->max_param_bytes = 1024;
    device->local_bytes = 32768;
    device->compute_units = 2;
    device->vector_bytes = code_shape == KF_SHAPE_BLOCK ? 64 : 0;
    device->mem_align_bytes = 128;
    device->cl_version = device->cl_c_version = 120;
    device->mem_bytes_per_s = 50000000000ull;
    device->flops_f32 = 100000000000ull;
    device->launch_ns = 5000;
    device->fingerprint.ptr = fingerprint;
    device->fingerprint.len = sizeof(fingerprint) - 1;
}

static const kf_plugin *load(const char *plugin_file)
{
    char path[4096];
    const char *folder = getenv("KILN_PLUGIN_PATH");
    kf_query_fn query = NULL;
    snprintf(path, sizeof(path), "%s%s%s", plugin_file[0] == '/' || folder == NULL ? "" : folder,
             plugin_file[0] == '/' ? "" : "/", plugin_file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = library == NULL ? NULL : dlsym(library, KF_QUERY_SYMBOL);
    if (symbol == NULL) {
        KILN_FAIL("%s", dlerror());
        return NULL;
    }
    memcpy(&query, &symbol, sizeof(query));
    return query(KF_ABI_MINOR);
}

mini_host *mini_open(const char *plugin_file, uint32_t code_shape)
{
    mini_host *mini = calloc(1, sizeof(*mini));
    if (mini == NULL) {
        return NULL;
    }
    mini->host.struct_size = (uint32_t)sizeof(mini->host);
    mini->host.ctx = mini;
    mini->host.report = report;
    mini->plugin = load(plugin_file);
    if (mini->plugin == NULL || mini->plugin->init() != KF_OK) {
        free(mini);
        return NULL;
    }
    describe_device(&mini->device, code_shape);
    mini_clear(mini);
    return mini;
}

bool mini_fuser(mini_host *mini)
{
    return mini_fuser_at(mini, 0);
}

bool mini_fuser_at(mini_host *mini, uint32_t index)
{
    return KILN_CHECK(mini->plugin->fuser_create(&mini->host, index, &mini->device, &mini->fuser) ==
                      KF_OK);
}

void mini_close(mini_host *mini)
{
    mini_clear(mini);
    mini->plugin->fuser_destroy(mini->fuser);
    mini->plugin->deinit();
    free(mini);
}

void mini_clear(mini_host *mini)
{
    for (uint32_t i = 0; i < mini->n_tensors; i++) {
        free(mini->tensors[i].data);
    }
    memset(mini->tensors, 0, sizeof(mini->tensors));
    memset(mini->ops, 0, sizeof(mini->ops));
    mini->n_tensors = mini->n_ops = mini->n_scalars = 0;
    mini->symbols[0] = 1;
    mini->n_symbols = 1;
    mini->last_code = 0;
    mini->values_asked = 0;
}

static uint32_t symbol_of(mini_host *mini, int64_t extent)
{
    for (uint32_t i = 0; i < mini->n_symbols; i++) {
        if (mini->symbols[i] == extent) {
            return i;
        }
    }
    mini->symbols[mini->n_symbols] = extent;
    return mini->n_symbols++;
}

int64_t mini_count(const mini_host *mini, uint32_t id)
{
    const mini_tensor *t = &mini->tensors[id];
    int64_t count = 1;
    for (uint32_t i = 0; i < t->view.rank; i++) {
        count *= t->extents[i];
    }
    return count;
}

uint32_t mini_tensor_add(mini_host *mini, uint32_t dtype, uint32_t rank, const int64_t *extents)
{
    uint32_t id = mini->n_tensors++;
    mini_tensor *t = &mini->tensors[id];
    int64_t step = 1, last = rank == 0 ? 1 : extents[rank - 1];
    t->view.struct_size = (uint32_t)sizeof(t->view);
    t->view.id = id;
    t->view.dtype = dtype;
    t->view.rank = rank;
    t->view.facts = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET | KF_FACT_FITS_I32;
    t->view.align_log2 = 7;
    t->view.div_by = last % 16 == 0 ? 16 : last % 4 == 0 ? 4 : 1;
    t->view.dims = t->dims;
    t->same_memory_as = -1;
    for (uint32_t i = rank; i > 0; i--) {
        t->extents[i - 1] = extents[i - 1];
        t->strides[i - 1] = step;
        step *= extents[i - 1];
    }
    for (uint32_t i = 0; i < rank; i++) {
        t->dims[i].symbol = symbol_of(mini, extents[i]);
        t->dims[i].value = extents[i] == 1 ? 1 : 0;
        t->dims[i].flags = extents[i] == 1 ? KF_DIM_VALUE : 0;
    }
    t->bytes = (size_t)step * kf_dtype_of(dtype).bytes;
    t->data = calloc(1, t->bytes);
    return id;
}

void mini_tensor_place(mini_host *mini, uint32_t id, const int64_t *strides, int64_t offset,
                       size_t elements)
{
    mini_tensor *t = &mini->tensors[id];
    memcpy(t->strides, strides, t->view.rank * sizeof(strides[0]));
    t->offset = offset;
    t->view.facts = KF_FACT_FITS_I32 | (offset == 0 ? KF_FACT_ZERO_OFFSET : 0);
    if (t->view.rank >= 1 && strides[t->view.rank - 1] == 1) {
        t->view.facts |= KF_FACT_LINES;
    } else if (t->view.rank >= 2 && strides[t->view.rank - 2] == 1) {
        t->view.facts |= KF_FACT_COLUMNS;
    }
    t->view.align_log2 = 0;
    t->bytes = elements * kf_dtype_of(t->view.dtype).bytes;
    free(t->data);
    t->data = calloc(1, t->bytes);
}

mini_op *mini_op_add(mini_host *mini, uint32_t kind, const uint32_t *inputs, uint32_t n_inputs,
                     uint32_t output)
{
    mini_op *op = &mini->ops[mini->n_ops];
    op->view.struct_size = (uint32_t)sizeof(op->view);
    op->view.kind = kind;
    op->view.version = 1;
    op->view.n_inputs = n_inputs;
    op->view.position = mini->n_ops++;
    op->view.inputs = op->inputs;
    op->view.outputs = op->outputs;
    op->view.attrs = op->attrs;
    for (uint32_t i = 0; i < n_inputs; i++) {
        op->inputs[i] = &mini->tensors[inputs[i]].view;
    }
    if (output != KF_NONE) {
        op->view.n_outputs = 1;
        op->outputs[0] = &mini->tensors[output].view;
    }
    return op;
}

mini_op *mini_unary(mini_host *mini, uint32_t kind, uint32_t a, uint32_t output)
{
    return mini_op_add(mini, kind, &a, 1, output);
}

mini_op *mini_binary(mini_host *mini, uint32_t kind, uint32_t a, uint32_t b, uint32_t output)
{
    const uint32_t inputs[] = {a, b};
    return mini_op_add(mini, kind, inputs, 2, output);
}

void mini_drop(mini_host *mini, uint32_t tensor)
{
    mini_op_add(mini, KF_OP_DROP, &tensor, 1, KF_NONE);
}

static kf_attr *scalar_attr(mini_host *mini, mini_op *op, uint32_t key, uint32_t type)
{
    kf_attr *attr = &op->attrs[op->view.n_attrs++];
    attr->key = key;
    attr->type = KF_TYPE_SCALAR;
    attr->count = type;
    attr->v.i = mini->n_scalars++;
    return attr;
}

void mini_scalar(mini_host *mini, mini_op *op, uint32_t key, double value)
{
    mini->scalars_f[mini->n_scalars] = value;
    mini->scalars_are_float[mini->n_scalars] = true;
    scalar_attr(mini, op, key, KF_TYPE_F64);
}

void mini_scalar_i64(mini_host *mini, mini_op *op, uint32_t key, int64_t value)
{
    mini->scalars_i[mini->n_scalars] = value;
    mini->scalars_are_float[mini->n_scalars] = false;
    scalar_attr(mini, op, key, KF_TYPE_I64);
}

mini_op *mini_with_scalar(mini_host *mini, uint32_t kind, uint32_t a, double value, uint32_t output)
{
    mini_op *op = mini_unary(mini, kind, a, output);
    mini_scalar(mini, op, KF_ATTR_VALUE, value);
    return op;
}

// ---- the builder's side ----

static kf_status dim_value(const kf_block *block, uint32_t symbol, int64_t *out)
{
    mini_host *mini = block->ctx;
    mini->values_asked++;
    if (symbol >= mini->n_symbols) {
        return KF_E_INVALID;
    }
    *out = mini->symbols[symbol];
    return KF_OK;
}

static kf_status scalar_value(const kf_block *block, uint32_t scalar, kf_scalar *out)
{
    mini_host *mini = block->ctx;
    mini->values_asked++;
    if (scalar >= mini->n_scalars) {
        return KF_E_INVALID;
    }
    out->type = mini->scalars_are_float[scalar] ? KF_TYPE_F64 : KF_TYPE_I64;
    if (mini->scalars_are_float[scalar]) {
        out->v.f = mini->scalars_f[scalar];
    } else {
        out->v.i = mini->scalars_i[scalar];
    }
    return KF_OK;
}

kf_state mini_fuse(mini_host *mini, kf_builder *builder, uint32_t from, uint32_t to)
{
    const kf_block block = {
        .struct_size = (uint32_t)sizeof(block),
        .ctx = mini,
        .dim_value = dim_value,
        .scalar_value = scalar_value,
    };
    kf_state state = {.struct_size = (uint32_t)sizeof(state)};
    for (uint32_t i = from; i < to; i++) {
        const kf_op *op = &mini->ops[i].view;
        KILN_CHECK_INT(mini->plugin->builder_fuse(builder, &block, &op, 1, &state), KF_OK);
    }
    return state;
}

kf_opt *mini_finish(mini_host *mini)
{
    kf_builder *builder = NULL;
    kf_opt *opt = NULL;
    if (mini->plugin->builder_create(mini->fuser, &builder) == KF_OK) {
        kf_state state = mini_fuse(mini, builder, 0, mini->n_ops);
        if (state.ready) {
            KILN_CHECK_INT(mini->plugin->builder_finish(builder, &opt), KF_OK);
        }
    }
    mini->plugin->builder_destroy(builder);
    return opt;
}

// ---- formulas ----

static bool apply(uint32_t op, int64_t a, int64_t b, int64_t *out)
{
    int64_t rest = b > 0 ? (a % b + b) % b : 0;
    switch (op) {
    case KF_INS_ADD:
        return !__builtin_add_overflow(a, b, out);
    case KF_INS_SUB:
        return !__builtin_sub_overflow(a, b, out);
    case KF_INS_MUL:
        return !__builtin_mul_overflow(a, b, out);
    case KF_INS_FLOOR_DIV:
        *out = b > 0 ? (a - rest) / b : 0;
        return b > 0;
    case KF_INS_CEIL_DIV:
        *out = b > 0 ? (a - rest) / b + (rest != 0) : 0;
        return b > 0;
    case KF_INS_ROUND_UP:
        *out = rest == 0 ? a : a - rest + b;
        return b > 0;
    case KF_INS_MIN:
        *out = a < b ? a : b;
        return true;
    case KF_INS_MAX:
        *out = a > b ? a : b;
        return true;
    case KF_INS_LE:
        *out = a <= b;
        return true;
    case KF_INS_AND:
        *out = a != 0 && b != 0;
        return true;
    case KF_INS_OR:
        *out = a != 0 || b != 0;
        return true;
    default:
        return false;
    }
}

bool mini_eval(const mini_host *mini, kf_expr expr, int64_t *out_value)
{
    int64_t stack[KF_MAX_STACK];
    uint32_t depth = 0;
    for (uint64_t i = 0; i < expr.n && expr.n <= KF_MAX_EXPR; i++) {
        const kf_ins *ins = &expr.ins[i];
        if (ins->op == KF_INS_SELECT) {
            if (depth < 3) {
                return false;
            }
            depth -= 2;
            stack[depth - 1] = stack[depth - 1] != 0 ? stack[depth] : stack[depth + 1];
            continue;
        }
        if (ins->op >= 16) {
            if (depth < 2 ||
                !apply(ins->op, stack[depth - 2], stack[depth - 1], &stack[depth - 2])) {
                return false;
            }
            depth--;
            continue;
        }
        if (depth == KF_MAX_STACK || (ins->op == KF_INS_SYM && ins->sym >= mini->n_symbols)) {
            return false;
        }
        switch (ins->op) {
        case KF_INS_IMM:
            stack[depth++] = ins->imm;
            break;
        case KF_INS_SYM:
            stack[depth++] = mini->symbols[ins->sym];
            break;
        case KF_INS_DEVICE:
            stack[depth++] =
                ins->arg == KF_DEVICE_FACT_COMPUTE_UNITS ? mini->device.compute_units : 0;
            break;
        default:
            return false;
        }
    }
    *out_value = depth == 1 ? stack[0] : 0;
    return depth == 1;
}
