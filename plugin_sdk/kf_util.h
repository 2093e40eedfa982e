// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_util.h: what most fusers need besides the ABI. Header only, C99 and C++11, optional: a plugin
// may ignore it. Nothing here crosses the boundary; another version of it may live in every plugin.
//
//   kf_op_understood    the one-line check that keeps an old fuser away from newer operations
//   kf_dtype_of         names and sizes of element types in OpenCL C
//   kf_text             a string builder, and emitters of OpenCL C
//   kf_formula          a builder of postfix formulas
//   kf_cost             a roofline estimate from the device's facts
//   kf_decline          a reason for `kiln explain`
//   kf_estimate         the formulas of a builder's answer
#ifndef KILN_PLUGIN_SDK_KF_UTIL_H
#define KILN_PLUGIN_SDK_KF_UTIL_H

#include "kiln_fuser.h"
#include "kiln_fuser_ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KF_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define KF_PRINTF(f, a)
#endif

// ---- understanding what one is shown ----

// What every host of major 1 shows at least, however much later this header is than the host.
#define KF_OP_SIZE_V1_0 56u
#define KF_TENSOR_SIZE_V1_0 48u

/// 1 when the bytes of a description past `known_size` are all zero: nothing in it is newer than
/// us. One of an older host is shorter and has no such bytes; KF_HAS tells what it lacks.
static inline uint32_t kf_tail_is_zero(const void *object, uint32_t struct_size,
                                       uint32_t known_size)
{
    const unsigned char *bytes = (const unsigned char *)object;
    uint32_t i;
    for (i = known_size; i < struct_size; i++) {
        if (bytes[i] != 0) {
            return 0;
        }
    }
    return 1;
}

static inline uint32_t kf_tensor_understood(const kf_tensor *tensor)
{
    return tensor->struct_size >= KF_TENSOR_SIZE_V1_0 &&
           kf_tail_is_zero(tensor, tensor->struct_size, (uint32_t)sizeof(kf_tensor)) &&
           (tensor->flags & ~KF_TENSOR_KNOWN_FLAGS) == 0 && tensor->scheme == 0 &&
           tensor->reserved == 0 && tensor->rank <= KF_MAX_RANK;
}

/// Does a fuser that knows `op` up to `max_version` and the attributes `keys` know all that is said
/// here? Anything else (a newer version, an unknown flag, critical attribute or tail, a quantised
/// tensor) means: close.
static inline uint32_t kf_op_understood(const kf_op *op, uint32_t max_version, const uint32_t *keys,
                                        uint32_t n_keys)
{
    uint32_t i, k;
    if (op->struct_size < KF_OP_SIZE_V1_0 ||
        !kf_tail_is_zero(op, op->struct_size, (uint32_t)sizeof(kf_op)) ||
        op->version > max_version || (op->flags & ~KF_OP_KNOWN_FLAGS) != 0) {
        return 0;
    }
    for (i = 0; i < op->n_attrs; i++) {
        uint32_t known = (op->attrs[i].flags & KF_ATTR_FLAG_HINT) != 0;
        for (k = 0; k < n_keys && !known; k++) {
            known = op->attrs[i].key == keys[k] && op->attrs[i].flags == 0;
        }
        if (!known) {
            return 0;
        }
    }
    for (i = 0; i < op->n_inputs; i++) {
        if (!kf_tensor_understood(op->inputs[i])) {
            return 0;
        }
    }
    for (i = 0; i < op->n_outputs; i++) {
        if (!kf_tensor_understood(op->outputs[i])) {
            return 0;
        }
    }
    return 1;
}

/// The attribute with this key, or NULL.
static inline const kf_attr *kf_op_attr(const kf_op *op, uint32_t key)
{
    uint32_t i;
    for (i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].key == key) {
            return &op->attrs[i];
        }
    }
    return NULL;
}

static inline uint32_t kf_same_dims(const kf_tensor *a, const kf_tensor *b)
{
    uint32_t i;
    if (a->rank != b->rank) {
        return 0;
    }
    for (i = 0; i < a->rank; i++) {
        if (a->dims[i].symbol != b->dims[i].symbol) {
            return 0;
        }
    }
    return 1;
}

/// Reports why an operation (or the block: KF_NONE) was not taken. Gives 0, so that a check can
/// read `return kf_decline(...)`.
static inline uint32_t kf_decline(const kf_host *host, uint32_t code, uint32_t op_index,
                                  const char *format, ...) KF_PRINTF(4, 5);
static inline uint32_t kf_decline(const kf_host *host, uint32_t code, uint32_t op_index,
                                  const char *format, ...)
{
    char text[256];
    kf_diag diag;
    va_list args;
    int n;
    if (!KF_CAN(host, kf_host, report)) {
        return 0;
    }
    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    memset(&diag, 0, sizeof(diag));
    diag.struct_size = (uint32_t)sizeof(diag);
    diag.severity = KF_SEVERITY_INFO;
    diag.code = code;
    diag.op_index = op_index;
    diag.message.ptr = text;
    diag.message.len = n < 0 ? 0 : (uint64_t)n < sizeof(text) ? (uint64_t)n : sizeof(text) - 1;
    host->report(host, &diag);
    return 0;
}

/// Has the device a compiler for OpenCL C? If not, the reason is reported.
static inline uint32_t kf_has_compiler(const kf_host *host, const kf_device *device)
{
    return (device->features & KF_FEATURE_COMPILER) != 0 ||
           kf_decline(host, KF_CODE_DEVICE, KF_NONE, "the device has no compiler");
}

// ---- element types in OpenCL C ----

#define KF_KIND_BOOL 1u
#define KF_KIND_UINT 2u
#define KF_KIND_INT 3u
#define KF_KIND_FLOAT 4u

typedef struct kf_dtype {
    uint32_t id; // KF_DTYPE_*, 0 = unknown
    uint32_t kind;
    uint32_t bytes;
    uint32_t reserved;
    const char *name; // "f32"
    const char *storage; // type behind a __global pointer: "half" is only for vload_half
    const char *compute; // type that a value has in a register
    const char *unsign; // unsigned type as wide as `compute`
} kf_dtype;

/// What OpenCL C 1.2 calls an element type. f16 and bf16 are computed in float: load f16 with
/// vload_half, bf16 by its bits.
static inline kf_dtype kf_dtype_of(uint32_t id)
{
    static const kf_dtype table[] = {
        {KF_DTYPE_BOOL, KF_KIND_BOOL, 1, 0, "bool", "uchar", "uchar", "uchar"},
        {KF_DTYPE_U8, KF_KIND_UINT, 1, 0, "u8", "uchar", "uchar", "uchar"},
        {KF_DTYPE_U16, KF_KIND_UINT, 2, 0, "u16", "ushort", "ushort", "ushort"},
        {KF_DTYPE_U32, KF_KIND_UINT, 4, 0, "u32", "uint", "uint", "uint"},
        {KF_DTYPE_U64, KF_KIND_UINT, 8, 0, "u64", "ulong", "ulong", "ulong"},
        {KF_DTYPE_I8, KF_KIND_INT, 1, 0, "i8", "char", "char", "uchar"},
        {KF_DTYPE_I16, KF_KIND_INT, 2, 0, "i16", "short", "short", "ushort"},
        {KF_DTYPE_I32, KF_KIND_INT, 4, 0, "i32", "int", "int", "uint"},
        {KF_DTYPE_I64, KF_KIND_INT, 8, 0, "i64", "long", "long", "ulong"},
        {KF_DTYPE_F16, KF_KIND_FLOAT, 2, 0, "f16", "half", "float", "uint"},
        {KF_DTYPE_BF16, KF_KIND_FLOAT, 2, 0, "bf16", "ushort", "float", "uint"},
        {KF_DTYPE_F32, KF_KIND_FLOAT, 4, 0, "f32", "float", "float", "uint"},
        {KF_DTYPE_F64, KF_KIND_FLOAT, 8, 0, "f64", "double", "double", "ulong"},
    };
    static const kf_dtype unknown = {0, 0, 0, 0, "unknown", "void", "void", "void"};
    uint32_t i;
    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].id == id) {
            return table[i];
        }
    }
    return unknown;
}

/// Elements of a vector register of `vector_bytes`: 1, 2, 4, 8 or 16, as in float4 and vload4.
static inline uint32_t kf_vector_width(uint32_t vector_bytes, uint32_t element_bytes)
{
    uint32_t width = element_bytes == 0 ? 1 : vector_bytes / element_bytes;
    return width >= 16 ? 16 : width >= 8 ? 8 : width >= 4 ? 4 : width >= 2 ? 2 : 1;
}

// ---- text ----

/// A growing string. A failed allocation sets `failed` and makes everything after it do nothing, so
/// only the end needs a check. Zero-initialise; kf_text_free gives the memory back.
typedef struct kf_text {
    char *ptr;
    uint64_t len;
    uint64_t cap;
    uint32_t failed;
    uint32_t reserved;
} kf_text;

static inline void kf_text_free(kf_text *text)
{
    free(text->ptr);
    memset(text, 0, sizeof(*text));
}

static inline uint32_t kf_text_reserve(kf_text *text, uint64_t extra)
{
    uint64_t need = text->len + extra + 1;
    if (text->failed) {
        return 0;
    }
    if (need > text->cap) {
        uint64_t cap = text->cap * 2 > need ? text->cap * 2 : need + 256;
        char *grown = (char *)realloc(text->ptr, (size_t)cap);
        if (grown == NULL) {
            text->failed = 1;
            return 0;
        }
        text->ptr = grown;
        text->cap = cap;
    }
    return 1;
}

static inline void kf_text_bytes(kf_text *text, const char *bytes, uint64_t len)
{
    if (kf_text_reserve(text, len)) {
        memcpy(text->ptr + text->len, bytes, (size_t)len);
        text->len += len;
        text->ptr[text->len] = '\0';
    }
}

static inline void kf_text_add(kf_text *text, const char *string)
{
    kf_text_bytes(text, string, strlen(string));
}

static inline void kf_text_addf(kf_text *text, const char *format, ...) KF_PRINTF(2, 3);
static inline void kf_text_addf(kf_text *text, const char *format, ...)
{
    va_list args, again;
    int n;
    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        text->failed = 1;
    } else if (kf_text_reserve(text, (uint64_t)n)) {
        vsnprintf(text->ptr + text->len, (size_t)n + 1, format, again);
        text->len += (uint64_t)n;
    }
    va_end(again);
}

// ---- OpenCL C ----

/// The first lines of every source: no contraction, and double where it is used.
static inline void kf_cl_prelude(kf_text *text, uint32_t uses_f64)
{
    kf_text_add(text, "#pragma OPENCL FP_CONTRACT OFF\n");
    if (uses_f64) {
        kf_text_add(text, "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                          "#endif\n");
    }
}

// ---- formulas ----

/// A formula under construction. Overflow of the array sets `failed`.
typedef struct kf_formula {
    uint32_t n;
    uint32_t failed;
    kf_ins ins[KF_MAX_EXPR];
} kf_formula;

static inline void kf_formula_put(kf_formula *f, uint32_t op, uint32_t arg, uint32_t sym,
                                  int64_t imm)
{
    if (f->n == KF_MAX_EXPR) {
        f->failed = 1;
        return;
    }
    f->ins[f->n].op = (uint16_t)op;
    f->ins[f->n].arg = (uint16_t)arg;
    f->ins[f->n].sym = sym;
    f->ins[f->n].imm = imm;
    f->n++;
}

static inline void kf_formula_imm(kf_formula *f, int64_t value)
{
    kf_formula_put(f, KF_INS_IMM, 0, 0, value);
}

static inline void kf_formula_sym(kf_formula *f, uint32_t symbol)
{
    kf_formula_put(f, KF_INS_SYM, 0, symbol, 0);
}

static inline void kf_formula_op(kf_formula *f, uint32_t op)
{
    kf_formula_put(f, op, 0, 0, 0);
}

/// Applies `op` to what was pushed last and `value`.
static inline void kf_formula_imm_op(kf_formula *f, int64_t value, uint32_t op)
{
    kf_formula_imm(f, value);
    kf_formula_op(f, op);
}

/// Pushes the product of extents; symbol 0 is 1 and is left out.
static inline void kf_formula_product(kf_formula *f, const uint32_t *symbols, uint32_t count)
{
    uint32_t i, factors = 0;
    for (i = 0; i < count; i++) {
        if (symbols[i] != 0) {
            kf_formula_sym(f, symbols[i]);
            if (factors++ > 0) {
                kf_formula_op(f, KF_INS_MUL);
            }
        }
    }
    if (factors == 0) {
        kf_formula_imm(f, 1);
    }
}

/// Pushes the number of elements of a tensor.
static inline void kf_formula_numel(kf_formula *f, const kf_tensor *tensor)
{
    uint32_t symbols[KF_MAX_RANK];
    uint32_t i;
    for (i = 0; i < tensor->rank; i++) {
        symbols[i] = tensor->dims[i].symbol;
    }
    kf_formula_product(f, symbols, tensor->rank);
}

static inline void kf_formula_append(kf_formula *f, kf_expr expr)
{
    uint64_t i;
    for (i = 0; i < expr.n; i++) {
        kf_formula_put(f, expr.ins[i].op, expr.ins[i].arg, expr.ins[i].sym, expr.ins[i].imm);
    }
}

/// A view of the formula; lives as long as `f` and while it is not changed.
static inline kf_expr kf_formula_expr(const kf_formula *f)
{
    kf_expr expr;
    expr.ins = f->ins;
    expr.n = f->failed ? 0 : f->n;
    return expr;
}

// ---- cost ----

/// What a byte, a flop and a launch cost on a device, in units that keep formulas within int64.
typedef struct kf_cost {
    int64_t ps_per_kib; // picoseconds for 1024 bytes moved
    int64_t ps_per_kflop; // picoseconds for 1024 f32 operations
    int64_t launch_ns;
} kf_cost;

static inline kf_cost kf_cost_of(const kf_device *device)
{
    kf_cost cost;
    uint64_t bandwidth = device->mem_bytes_per_s ? device->mem_bytes_per_s : 10000000000ull;
    uint64_t flops = device->flops_f32 ? device->flops_f32 : 10000000000ull;
    cost.ps_per_kib = (int64_t)(1024000000000000ull / bandwidth) + 1;
    cost.ps_per_kflop = (int64_t)(1024000000000000ull / flops) + 1;
    cost.launch_ns = device->launch_ns ? (int64_t)device->launch_ns : 5000;
    return cost;
}

/// Pushes the predicted nanoseconds of a program that moves `bytes` and computes `flops`, both
/// formulas: the roofline max(bytes / bandwidth, flops / rate), and its launches.
static inline void kf_formula_roofline(kf_formula *f, const kf_cost *cost, kf_expr bytes,
                                       kf_expr flops, uint32_t launches)
{
    kf_formula_append(f, bytes);
    kf_formula_imm(f, cost->ps_per_kib);
    kf_formula_op(f, KF_INS_MUL);
    if (flops.n > 0) {
        kf_formula_append(f, flops);
        kf_formula_imm(f, cost->ps_per_kflop);
        kf_formula_op(f, KF_INS_MUL);
        kf_formula_op(f, KF_INS_MAX);
    }
    kf_formula_imm(f, 1024000);
    kf_formula_op(f, KF_INS_FLOOR_DIV);
    kf_formula_imm(f, launches * cost->launch_ns);
    kf_formula_op(f, KF_INS_ADD);
}

// ---- results ----

/// What a block costs. A formula left empty, or that overflowed, is absent from the answer.
typedef struct kf_estimate {
    kf_formula read; // bytes
    kf_formula written; // bytes
    kf_formula flops;
    kf_formula temp; // bytes
    kf_formula ns;
} kf_estimate;

/// Empties the formulas; their instructions need no clearing.
static inline void kf_estimate_init(kf_estimate *estimate)
{
    estimate->read.n = estimate->read.failed = 0;
    estimate->written.n = estimate->written.failed = 0;
    estimate->flops.n = estimate->flops.failed = 0;
    estimate->temp.n = estimate->temp.failed = 0;
    estimate->ns.n = estimate->ns.failed = 0;
}

/// Puts the length, the launches and the formulas, as views of `estimate`, into an answer.
static inline void kf_estimate_answer(const kf_estimate *estimate, uint32_t len, uint32_t launches,
                                      kf_state *state)
{
    state->len = len;
    state->confidence = KF_CONFIDENCE_MODEL;
    state->launches = launches;
    state->est_ns = kf_formula_expr(&estimate->ns);
    state->est_bytes_read = kf_formula_expr(&estimate->read);
    state->est_bytes_written = kf_formula_expr(&estimate->written);
    state->est_flops = kf_formula_expr(&estimate->flops);
    state->temp_bytes = kf_formula_expr(&estimate->temp);
}

/// The facts of an optimization of one variant; the name and the key must outlive `out`.
static inline void kf_opt_info_fill(kf_opt_info *out, uint32_t len, const kf_text *name,
                                    const uint8_t *key, uint64_t key_bytes)
{
    kf_opt_info view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.len = len;
    view.n_variants = 1;
    view.name.ptr = name->ptr;
    view.name.len = name->len;
    view.key.ptr = key;
    view.key.len = key_bytes;
    KF_OUT(out, &view);
}

#ifdef __cplusplus
}
#endif
#endif
