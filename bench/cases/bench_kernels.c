// SPDX-License-Identifier: MIT OR Apache-2.0
// Every operator alone, unfused, on about 1 MiB, against the reference evaluator, which runs on one
// core: a kernel slower than that is a defect. Elementwise operators come from the table; the
// others have a line each below, and what has none is named at the end.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum {
    KERNEL_ROUNDS = 5,
    MAX_KERNEL_ROUNDS = 51,
    MOST_INPUTS = 8,
    MOST_INTS = 24,
    KERNEL_ELEMS = 1 << 18
};

/// Inputs as "f32:512,512 i64:512" (indices: whole numbers below `range`); attributes by name, as
/// "axis=1 kernel=3,3, mode=add": a comma makes a list. Quantised inputs as "q8f:64,64/1,32":
/// behind the slash the blocks.
typedef struct kernel_case {
    const char *op;
    const char *inputs;
    const char *attrs;
    int64_t range;
} kernel_case;

static const kernel_case kernel_cases[] = {
    {"permute", "f32:512,512", "axes=1,0,", 0},
    {"slice", "f32:512,512", "starts=1,1, ends=511,511,", 0},
    {"flip", "f32:512,512", "", 0},
    {"expand", "f32:512,1", "shape=512,512,", 0},
    {"diagonal", "f32:65536,2,2", "", 0},
    {"sum", "f32:512,512", "axes=1,", 0},
    {"mean", "f32:512,512", "axes=0,", 0},
    {"prod", "f32:512,512", "axes=1,", 0},
    {"max", "f32:512,512", "", 0},
    {"min", "f32:512,512", "axes=0,", 0},
    {"max_abs", "f32:512,512", "axes=1,", 0},
    {"any", "bool:1024,1024", "axes=1,", 2},
    {"all", "bool:1024,1024", "axes=0,", 2},
    {"argmax", "f32:512,512", "axis=1", 0},
    {"argmin", "f32:512,512", "axis=0", 0},
    {"matmul", "f32:256,256 f32:256,256", "", 0},
    {"matmul", "i32:256,256 i32:256,256", "", 9},
    {"conv", "f32:1,16,64,64 f32:16,16,3,3", "padding=1,1,1,1,", 0},
    {"conv", "f32:1,64,64,64 f32:64,1,3,3", "padding=1,1,1,1, groups=64", 0},
    {"matmul_integer", "u8:128,512 i8:512,512", "", 9},
    {"conv_integer", "u8:1,16,64,64 i8:16,16,3,3", "", 9},
    {"conv_transpose", "f32:1,16,32,32 f32:16,16,3,3", "", 0},
    {"im2col", "f32:1,16,64,64", "kernel=3,3,", 0},
    {"max_pool", "f32:1,16,128,128", "kernel=3,3,", 0},
    {"avg_pool", "f32:1,16,128,128", "kernel=3,3,", 0},
    {"lp_pool", "f32:1,16,128,128", "kernel=3,3,", 0},
    {"max_pool_with_indices", "f32:1,16,128,128", "kernel=2,2, strides=2,2,", 0},
    {"adaptive_avg_pool", "f32:1,16,128,128", "output_size=7,9,", 0},
    {"adaptive_max_pool", "f32:1,16,128,128", "output_size=7,9,", 0},
    {"interpolate", "f32:1,16,64,64", "output_size=128,128, mode=nearest_floor", 0},
    {"interpolate", "f32:1,16,64,64", "output_size=128,128, mode=linear", 0},
    {"interpolate", "f32:1,16,64,64", "output_size=128,128, mode=cubic", 0},
    {"grid_sample", "f32:1,16,64,64 f32:1,64,64,2", "", 0},
    {"softmax", "f32:512,512", "axis=1", 0},
    {"softmax", "f32:512,512", "axis=0", 0},
    {"log_softmax", "f32:512,512", "axis=1", 0},
    {"softmax_backward", "f32:512,512 f32:512,512", "axis=1", 0},
    {"log_softmax_backward", "f32:512,512 f32:512,512", "axis=1", 0},
    {"layer_norm", "f32:512,512 f32:512 f32:512", "", 0},
    {"rms_norm", "f32:512,512 f32:512", "", 0},
    {"batch_norm", "f32:4,16,64,64 f32:16 f32:16 f32:16 f32:16", "", 0},
    {"layer_norm_backward", "f32:512,512 f32:512,512 f32:512", "", 0},
    {"gather", "f32:512,512 i64:512,512", "axis=1", 512},
    {"select", "f32:512,512 i64:512", "axis=0", 512},
    {"gather_nd", "f32:512,512 i64:65536,2", "", 512},
    {"scatter", "f32:512,512 f32:512,512 i64:512,512", "axis=1 mode=add", 512},
    {"scatter_nd", "f32:512,512 f32:65536 i64:65536,2", "mode=add", 512},
    {"select_assign", "f32:512,512 f32:512,512 i64:512", "axis=0 mode=add", 512},
    {"cum_sum", "f32:512,512", "axis=1", 0},
    {"cum_sum", "f32:512,512", "axis=0", 0},
    {"cum_prod", "f32:512,512", "axis=1", 0},
    {"cum_max", "f32:512,512", "axis=1", 0},
    {"cum_min", "f32:512,512", "axis=1", 0},
    {"sort", "f32:262144", "", 0},
    {"sort", "f32:512,512", "axis=1", 0},
    {"argsort", "f32:512,512", "axis=0", 0},
    {"sort_with_indices", "f32:512,512", "axis=1", 0},
    {"top_k", "f32:512,512", "count=8", 0},
    {"argwhere", "bool:1024,1024", "count=600000", 2},
    {"nms", "f32:1,512,4 f32:1,4,512", "count=64", 0},
    {"tree_ensemble", "f32:1024,16 f32:999 f32:999 i32:999 i32:999 i32:64 i32:999", "count=1", 0},
    {"concat", "f32:512,256 f32:512,256", "axis=1", 0},
    {"pad", "f32:500,500", "padding=6,6,6,6,", 0},
    {"pad", "f32:500,500", "padding=6,6,6,6, mode=reflect", 0},
    {"full", "", "shape=512,512, dtype=f32 value=3.0", 0},
    {"arange", "", "count=262144 dtype=f32 start=0.0 step=1.0", 0},
    {"fft", "f32:16,1024", "axis=1", 0},
    {"fft", "f32:16,1000", "axis=1", 0},
    {"fft", "f32:512,100", "axis=1", 0},
    {"det", "f32:64,32,32", "", 0},
    {"ctc_loss", "f32:64,32,32 i64:32,16 i64:32 i64:32", "", 16},
    {"ctc_loss", "f32:64,32,64 i64:32,16 i64:32 i64:32", "", 64},
    {"repeat", "f32:256,256", "repeats=2,2,", 0},
    {"tril", "f32:512,512", "", 0},
    {"linear", "f32:256,256 f32:256,256 f32:256", "", 0},
    {"attention", "f32:4,128,64 f32:4,128,64 f32:4,128,64", "", 0},
    {"unfold", "f32:512,512", "axis=1 size=4 stride=4", 0},
    {"reshape", "f32:512,512", "shape=1024,256,", 0},
    {"max_with_indices", "f32:512,512", "axis=1", 0},
    {"min_with_indices", "f32:512,512", "axis=0", 0},
    {"conv_x_backward", "f32:1,16,62,62 f32:16,16,3,3", "shape=1,16,64,64,", 0},
    {"conv_weight_backward", "f32:1,16,64,64 f32:1,16,62,62", "shape=16,16,3,3,", 0},
    {"conv_bias_backward", "f32:4,16,64,64", "", 0},
    {"conv_transpose_x_backward", "f32:1,16,34,34 f32:16,16,3,3", "shape=1,16,32,32,", 0},
    {"conv_transpose_weight_backward", "f32:1,16,32,32 f32:1,16,34,34", "shape=16,16,3,3,", 0},
    {"col2im", "f32:1,144,3844", "output_size=64,64, kernel=3,3,", 0},
    {"deform_im2col", "f32:1,16,64,64 f32:1,18,62,62 f32:1,9,62,62", "kernel=3,3,", 0},
    {"max_pool_backward", "f32:1,16,64,64 i64:1,16,64,64",
     "shape=1,16,128,128, kernel=2,2, strides=2,2,", 16384},
    {"avg_pool_backward", "f32:1,16,126,126", "shape=1,16,128,128, kernel=3,3,", 0},
    {"adaptive_avg_pool_backward", "f32:1,16,7,9", "shape=1,16,128,128,", 0},
    {"max_unpool", "f32:1,16,64,64 i64:1,16,64,64", "shape=1,16,128,128,", 16384},
    {"interpolate_backward", "f32:1,16,128,128", "shape=1,16,64,64, mode=linear", 0},
    {"roi_align", "f32:1,16,64,64 f32:64,4 i64:64", "output_size=7,7,", 1},
    {"softmin", "f32:512,512", "axis=1", 0},
    {"group_norm", "f32:4,16,64,64 f32:16 f32:16", "groups=4", 0},
    {"instance_norm", "f32:4,16,64,64 f32:16 f32:16", "", 0},
    {"rms_norm_backward", "f32:512,512 f32:512,512 f32:512", "", 0},
    {"group_norm_backward", "f32:4,16,64,64 f32:4,16,64,64 f32:16", "groups=4", 0},
    {"instance_norm_backward", "f32:4,16,64,64 f32:4,16,64,64 f32:16", "", 0},
    {"batch_norm_train", "f32:4,16,64,64 f32:16 f32:16 f32:16 f32:16", "", 0},
    {"batch_norm_backward", "f32:4,16,64,64 f32:4,16,64,64 f32:16", "", 0},
    {"slice_assign", "f32:512,512 f32:510,510", "starts=1,1, ends=511,511,", 0},
    {"embedding", "f32:512,512 i64:512", "", 512},
    {"embedding_backward", "f32:512,512 i64:512", "count=512", 512},
    {"one_hot", "f32:2 i64:512", "count=512", 512},
    {"reverse_sequence", "f32:512,512 i64:512", "", 512},
    {"roll", "f32:512,512", "shifts=7, axes=1,", 0},
    {"triu", "f32:512,512", "", 0},
    {"eye", "", "shape=512,512, dtype=f32", 0},
    {"depth_to_space", "f32:1,64,64,64", "size=2", 0},
    {"space_to_depth", "f32:1,16,128,128", "size=2", 0},
    {"cross", "f32:65536,3 f32:65536,3", "axis=1", 0},
    {"random_uniform", "", "shape=512,512, dtype=f32 min=0.0 max=1.0", 0},
    {"random_int", "", "shape=512,512, dtype=i32 min=0 max=9", 0},
    {"random_normal", "", "shape=512,512, dtype=f32", 0},
    {"random_bernoulli", "", "shape=512,512, dtype=f32 probability=0.5", 0},
    {"random_permutation", "", "count=131072 dtype=i64", 0},
    {"linear_x_backward", "f32:256,256 f32:256,256", "", 0},
    {"linear_weight_backward", "f32:256,256 f32:256,256", "", 0},
    {"linear_bias_backward", "f32:512,512", "", 0},
    {"einsum", "f32:8,64,64 f32:8,64,64", "equation=bij,bjk->bik", 0},
    {"lstm", "f32:16,16,64 f32:1,256,64 f32:1,256,64", "", 0},
    {"gru", "f32:16,16,64 f32:1,192,64 f32:1,192,64", "", 0},
    {"rnn", "f32:16,16,64 f32:1,64,64 f32:1,64,64", "", 0},
    {"rfft", "f32:16,1024", "axis=1", 0},
    {"irfft", "f32:16,513 f32:16,513", "axis=1", 0},
    {"ctc_loss_backward", "f32:64,32,32 f32:32 i64:32,16 i64:32 i64:32", "", 16},
    {"deform_im2col_backward", "f32:1,16,64,64 f32:1,18,62,62 f32:1,9,62,62 f32:1,144,3844",
     "kernel=3,3,", 0},
    {"deform_conv", "f32:1,16,32,32 f32:1,18,30,30 f32:16,16,3,3", "", 0},
    {"deform_conv_backward",
     "f32:1,16,32,32 f32:1,18,30,30 f32:16,16,3,3 f32:1,9,30,30 f32:1,16,30,30", "", 0},
    {"quantize", "f32:512,512 f32:512,16", "dtype=q8f blocks=1,32,", 0},
    {"quantize", "f32:512,512 f32", "dtype=q4s", 0},
    {"quantize_dynamic", "f32:512,512", "dtype=q8f blocks=1,32,", 0},
    {"quantize_dynamic", "f32:512,512", "dtype=q2s mode=abs_mean", 0},
    {"dequantize", "q8f:512,512/1,32", "dtype=f32", 0},
    {"dequantize", "q4s:512,512", "dtype=f16", 0},
    {"quantized_scales", "q8s:2048,2048/1,16", "", 0},
    {"matmul_quantized", "f32:8,512 q8s:512,512", "dtype=f32", 0},
    {"matmul_quantized", "f32:1,1024 q4f:1024,1024/1,32", "dtype=f32 transpose_b=true", 0},
    {"matmul_quantized", "f32:64,256 q4f:256,256/1,32", "dtype=f32", 0},
    {"linear_quantized", "f32:8,512 q8f:512,512/32,0 f32:512", "", 0},
};

typedef struct call { ///< a case made ready
    kiln_op op;
    kiln_tensor_desc descs[MOST_INPUTS];
    uint32_t n_inputs;
    kiln_attr attrs[KILN_MAX_ATTRS];
    int64_t ints[MOST_INTS];
    uint32_t n_ints;
    char texts[4][24];
    uint32_t n_texts;
    int64_t range;
} call;

// ---- reading a line of the table ----

static const char *parse_list(const char *text, int64_t *out, uint32_t *count)
{
    while (*count < KILN_MAX_RANK && (*text == ':' || *text == ',' || *text == '/')) {
        char *end = NULL;
        out[(*count)++] = strtoll(text + 1, &end, 10);
        text = end;
        if (*text == '/') {
            break;
        }
    }
    return text;
}

static kiln_status parse_inputs(const char *text, call *c, kiln_error *err)
{
    while (*text != '\0') {
        kiln_tensor_desc *desc = &c->descs[c->n_inputs++];
        char name[8] = "";
        int64_t blocks[KILN_MAX_RANK] = {0};
        uint32_t rank = 0;
        uint32_t n_blocks = 0;
        size_t length = strcspn(text, ": ");
        memcpy(name, text, length < sizeof(name) ? length : sizeof(name) - 1);
        desc->dtype = kiln_dtype_from_name(name);
        if (desc->dtype == KILN_DTYPE_NONE || c->n_inputs == MOST_INPUTS) {
            return kiln_fail(err, INTERNAL, "no input: %s", text);
        }
        text = parse_list(text + length, desc->dims, &rank);
        desc->rank = (uint8_t)rank;
        text = parse_list(text, blocks, &n_blocks);
        if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT) {
            desc->scheme = kiln_scheme_make(KILN_DTYPE_F32, false, blocks, n_blocks);
        }
        text += strspn(text, " ");
    }
    return KILN_STATUS_OK;
}

static kiln_attr parse_value(const char *text, size_t length, call *c)
{
    if (length == 4 && strncmp(text, "true", 4) == 0) {
        return (kiln_attr){KILN_ATTR_BOOL, 1, {.i = 1}};
    }
    if (strchr("-0123456789", text[0]) == NULL) {
        char *copy = c->texts[c->n_texts++];
        snprintf(copy, sizeof(c->texts[0]), "%.*s", (int)length, text);
        kiln_dtype dtype = kiln_dtype_from_name(copy);
        return dtype != KILN_DTYPE_NONE
                   ? (kiln_attr){KILN_ATTR_DTYPE, 1, {.i = dtype}}
                   : (kiln_attr){KILN_ATTR_STRING, (uint32_t)length, {.text = copy}};
    }
    if (memchr(text, ',', length) != NULL) {
        kiln_attr list = {KILN_ATTR_I64_LIST, 0, {.ints = &c->ints[c->n_ints]}};
        for (const char *at = text; at < text + length;) {
            char *end = NULL;
            c->ints[c->n_ints++] = strtoll(at, &end, 10);
            list.count++;
            at = end + (*end == ',');
        }
        return list;
    }
    return memchr(text, '.', length) != NULL
               ? (kiln_attr){KILN_ATTR_F64, 1, {.f = strtod(text, NULL)}}
               : (kiln_attr){KILN_ATTR_I64, 1, {.i = strtoll(text, NULL, 10)}};
}

static kiln_status parse_attrs(const char *text, call *c, kiln_error *err)
{
    const kiln_op_signature *signature = kiln_op_info_of(c->op)->signature;
    while (*text != '\0') {
        size_t name = strcspn(text, "=");
        size_t value = strcspn(text + name + 1, " ");
        unsigned i = 0;
        while (i < signature->n_attrs &&
               (strlen(kiln_attr_name(signature->attrs[i].key)) != name ||
                strncmp(kiln_attr_name(signature->attrs[i].key), text, name) != 0)) {
            i++;
        }
        if (i == signature->n_attrs) {
            return kiln_fail(err, INTERNAL, "no attribute: %s", text);
        }
        c->attrs[i] = parse_value(text + name + 1, value, c);
        text += name + 1 + value;
        text += strspn(text, " ");
    }
    return KILN_STATUS_OK;
}

static kiln_status parse(const kernel_case *line, call *c, kiln_error *err)
{
    memset(c, 0, sizeof(*c));
    c->op = kiln_op_from_name(line->op);
    c->range = line->range;
    if (c->op == KILN_OP_COUNT) {
        return kiln_fail(err, INTERNAL, "no operator");
    }
    kiln_status status = parse_inputs(line->inputs, c, err);
    return status == KILN_STATUS_OK ? parse_attrs(line->attrs, c, err) : status;
}

/// Elementwise operators by their signature: as many lines of numbers as they have inputs.
static void of_table(kiln_op op, call *c)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    static const kiln_dtype order[] = {KILN_DTYPE_F32, KILN_DTYPE_I32, KILN_DTYPE_BOOL};
    kiln_dtype dtype = KILN_DTYPE_F32;
    memset(c, 0, sizeof(*c));
    for (int i = 2; i >= 0; i--) {
        unsigned kind = (unsigned)kiln_dtype_kind_of(order[i]);
        dtype = (kind & (unsigned)info->accept) != 0 ? order[i] : dtype;
    }
    bool small = op == KILN_OP_ENCODE_SMALL || op == KILN_OP_DECODE_SMALL; // by its dtype
    c->op = op;
    c->range = 2;
    c->n_inputs = info->signature->min_inputs;
    for (uint32_t i = 0; i < c->n_inputs && i < MOST_INPUTS; i++) {
        bool mask = (info->signature->mask_inputs >> i & 1u) != 0;
        c->descs[i] = (kiln_tensor_desc){
            .dtype = mask ? KILN_DTYPE_BOOL : dtype, .rank = 1, .dims = {KERNEL_ELEMS}};
    }
    for (unsigned i = 0; i < info->signature->n_attrs; i++) {
        bool type = info->signature->attrs[i].key == KILN_KEY_DTYPE;
        if (!info->signature->attrs[i].optional) {
            c->attrs[i] =
                type ? (kiln_attr){KILN_ATTR_DTYPE, 1, {.i = KILN_DTYPE_I32}}
                     : (kiln_attr){KILN_ATTR_I64, 1, {.i = small ? KILN_DTYPE_F8E4M3FN : 1}};
        }
    }
}

// ---- one side ----

static kiln_status make_plain(kiln_device *device, const kiln_tensor_desc *desc, int64_t range,
                              kiln_tensor **out, kiln_error *err)
{
    int64_t count = kiln_desc_count(desc);
    size_t size = kiln_dtype_size(desc->dtype);
    unsigned char *data = malloc((size_t)count * size + 1);
    uint32_t state = 1;
    for (int64_t i = 0; data != NULL && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        bool real = kiln_dtype_kind_of(desc->dtype) == KILN_KIND_FLOAT;
        kiln_attr number = {KILN_ATTR_F64, 1, {.f = (double)(state >> 8) / 16777216.0}};
        if (!real) {
            int64_t below = range > 0 ? range : 100;
            number = (kiln_attr){KILN_ATTR_I64, 1, {.i = (int64_t)(state >> 8) % below}};
        }
        (void)kiln_number_store(&number, desc->dtype, data + (size_t)i * size);
    }
    kiln_status status = data == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an input")
                                      : kiln_tensor_create(device, desc->dtype, desc->rank,
                                                           desc->dims, data, out, err);
    free(data);
    return status;
}

static kiln_status make_input(kiln_device *device, const kiln_tensor_desc *desc, int64_t range,
                              kiln_tensor **out, kiln_error *err)
{
    kiln_tensor_desc plain = *desc;
    kiln_tensor *numbers = NULL;
    int64_t blocks[KILN_MAX_RANK] = {0};
    if (kiln_dtype_kind_of(desc->dtype) != KILN_KIND_QUANT) {
        return make_plain(device, desc, range, out, err);
    }
    for (uint32_t i = 0; i < desc->rank; i++) {
        blocks[i] = kiln_scheme_block(desc->scheme, i);
    }
    plain.dtype = KILN_DTYPE_F32;
    kiln_status status = make_plain(device, &plain, range, &numbers, err);
    status = status == KILN_STATUS_OK
                 ? kiln_quantize_dynamic(numbers, desc->dtype, blocks, desc->rank,
                                         kiln_scheme_scale(desc->scheme), "min_max", out, err)
                 : status;
    kiln_release(numbers);
    return status;
}

static kiln_status run_call(kiln_device *device, const call *c, kiln_tensor *const *inputs,
                            double *out_seconds, kiln_error *err)
{
    const kiln_op_info *info = kiln_op_info_of(c->op);
    kiln_tensor *results[KILN_MAX_OUTPUTS] = {NULL};
    kiln_tensor *dense = NULL;
    kiln_status status = kiln_sync(device, err);
    uint64_t start = kiln_time_ns();
    if (status == KILN_STATUS_OK) {
        status = kiln_record(device, c->op, inputs, c->n_inputs, c->attrs, info->signature->n_attrs,
                             results, err);
    }
    if (status == KILN_STATUS_OK && info->cls == KILN_CLASS_VIEW) {
        status = kiln_contiguous(results[0], &dense, err);
    }
    status = status == KILN_STATUS_OK ? kiln_sync(device, err) : status;
    *out_seconds = (double)(kiln_time_ns() - start) / 1e9;
    for (unsigned i = 0; i < info->n_outputs; i++) {
        kiln_release(results[i]);
    }
    kiln_release(dense);
    return status;
}

static kiln_status time_on(kiln_device *device, const call *c, uint32_t rounds, double *out,
                           kiln_error *err)
{
    kiln_tensor *inputs[MOST_INPUTS] = {NULL};
    double times[MAX_KERNEL_ROUNDS] = {0};
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < c->n_inputs; i++) {
        status = make_input(device, &c->descs[i], c->range, &inputs[i], err);
    }
    status = status == KILN_STATUS_OK ? run_call(device, c, inputs, out, err) : status; // compiles
    for (uint32_t r = 0; status == KILN_STATUS_OK && r < rounds; r++) {
        status = run_call(device, c, inputs, &times[r], err);
    }
    *out = kiln_quantile(times, rounds, 0);
    for (uint32_t i = 0; i < c->n_inputs; i++) {
        kiln_release(inputs[i]);
    }
    return status;
}

// ---- all of them ----

typedef struct kernel_sides {
    kiln_device *device;
    kiln_device *reference;
    uint32_t rounds;
    uint32_t timed;
    uint32_t slower;
    bool covered[KILN_OP_COUNT];
} kernel_sides;

static void time_call(const bench_options *options, kernel_sides *s, const call *c)
{
    kiln_error err = KILN_ERROR_INIT;
    const char *name = kiln_op_info_of(c->op)->name;
    if (!bench_wanted(options, name)) {
        return;
    }
    double ours = 0;
    double theirs = 0;
    kiln_status status = time_on(s->device, c, s->rounds, &ours, &err);
    status = status == KILN_STATUS_OK
                 ? time_on(s->reference, c, s->rounds > 3 ? 3 : s->rounds, &theirs, &err)
                 : status;
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "bench kernels: %s: %s\n", name, err.message);
        return;
    }
    s->covered[c->op] = true;
    s->timed++;
    s->slower += theirs < ours;
    bench_report(options, &(bench_result){.name = name,
                                          .value = ours * 1e6,
                                          .unit = "us",
                                          .against = "reference, one core",
                                          .ratio = theirs / ours,
                                          .bar = 1,
                                          .peer_version = "ir/reference",
                                          .device = kiln_device_info_of(s->device)->name,
                                          .samples = s->rounds});
}

/// The n-th case: elementwise operators, then the lines above. Past the last: `c->op` is
/// KILN_OP_COUNT.
static kiln_status case_at(size_t n, call *c, kiln_error *err)
{
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        if (kiln_op_info_of((kiln_op)op)->cls == KILN_CLASS_ELEMENTWISE && n-- == 0) {
            of_table((kiln_op)op, c);
            return KILN_STATUS_OK;
        }
    }
    if (n < sizeof(kernel_cases) / sizeof(kernel_cases[0])) {
        return parse(&kernel_cases[n], c, err);
    }
    c->op = KILN_OP_COUNT;
    return KILN_STATUS_OK;
}

const char *bench_kernels_case(size_t n)
{
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        if (kiln_op_info_of((kiln_op)op)->cls == KILN_CLASS_ELEMENTWISE && n-- == 0) {
            return kiln_op_info_of((kiln_op)op)->name;
        }
    }
    return n < sizeof(kernel_cases) / sizeof(kernel_cases[0]) ? kernel_cases[n].op : NULL;
}

kiln_status bench_kernels_covered(bool covered[KILN_OP_COUNT], kiln_error *err)
{
    call c = {.op = KILN_OP_COUNT};
    kiln_status status = KILN_STATUS_OK;
    memset(covered, 0, KILN_OP_COUNT * sizeof(covered[0]));
    for (size_t i = 0; status == KILN_STATUS_OK; i++) {
        kiln_tensor_desc outputs[KILN_MAX_OUTPUTS] = {0};
        status = case_at(i, &c, err);
        if (status != KILN_STATUS_OK || c.op == KILN_OP_COUNT) {
            break;
        }
        const kiln_op_record record = {.op = c.op,
                                       .n_inputs = (uint16_t)c.n_inputs,
                                       .n_outputs = kiln_op_info_of(c.op)->n_outputs,
                                       .n_attrs = kiln_op_info_of(c.op)->signature->n_attrs,
                                       .inputs = c.descs,
                                       .attrs = c.attrs};
        status = kiln_ir_infer(&record, outputs, err);
        covered[c.op] = true;
    }
    return status;
}

static void time_all(const bench_options *options, kernel_sides *s)
{
    call c = {.op = KILN_OP_COUNT};
    for (size_t i = 0;; i++) {
        kiln_error err = KILN_ERROR_INIT;
        if (case_at(i, &c, &err) != KILN_STATUS_OK) {
            fprintf(stderr, "bench kernels: %s\n", err.message);
        } else if (c.op == KILN_OP_COUNT) {
            break;
        } else {
            time_call(options, s, &c);
        }
    }
    fprintf(stderr, "bench kernels: %u timed, %u slower than the reference", s->timed, s->slower);
    for (int op = 0; options->only == NULL && options->n_names == 0 && op < KILN_OP_COUNT; op++) {
        kiln_op_class cls = kiln_op_info_of((kiln_op)op)->cls;
        if (!s->covered[op] && cls != KILN_CLASS_CONTROL && cls != KILN_CLASS_CUSTOM) {
            fprintf(stderr, "; not %s", kiln_op_info_of((kiln_op)op)->name);
        }
    }
    fprintf(stderr, "\n");
}

kiln_status bench_kernels(const bench_options *options, kiln_error *err)
{
    kiln_context *context = NULL;
    kernel_sides s = {.rounds = options->samples > 0 ? options->samples : KERNEL_ROUNDS};
    kiln_status status = KILN_STATUS_OK;
    s.rounds = s.rounds > MAX_KERNEL_ROUNDS ? MAX_KERNEL_ROUNDS : s.rounds;
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    // Programs are taken out of the driver and written at waits, which are timed here.
    KILN_TRY(out, status, kiln_context_set(context, "cache-dir", "off", err));
    KILN_TRY(out, status, kiln_device_open(context, options->device, &s.device, err));
    KILN_TRY(out, status, kiln_device_open(context, "reference", &s.reference, err));
    KILN_TRY(out, status, kiln_device_set_fusion(s.device, false, err));
    bench_header(options);
    time_all(options, &s);
out:
    kiln_device_release(s.reference);
    kiln_device_release(s.device);
    kiln_context_destroy(context);
    return status;
}
