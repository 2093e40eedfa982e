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

#include "kf_formula.h"
#include "kf_text.h"
#include "kiln_fuser.h"
#include "kiln_fuser_ops.h"

#ifdef __cplusplus
extern "C" {
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

/// All facts that this header knows; those that an older host does not tell are 0.
static inline kf_device kf_device_whole(const kf_device *given)
{
    kf_device device;
    memset(&device, 0, sizeof(device));
    memcpy(&device, given,
           given->struct_size < sizeof(device) ? given->struct_size : sizeof(device));
    device.struct_size = (uint32_t)sizeof(device);
    return device;
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

// ---- results ----

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

/// Behind kf_opt_info_fill: there are `count` variants, and variant_ns[i] is what variant i takes
/// (NULL: not said); it must outlive `out`. Hosts of 1.0 do not ask for the times.
static inline void kf_opt_info_variants(kf_opt_info *out, uint32_t count, const kf_expr *variant_ns)
{
    out->n_variants = count;
    if (KF_HAS(out, kf_opt_info, n_variant_ns)) {
        out->variant_ns = variant_ns;
        out->n_variant_ns = variant_ns != NULL ? count : 0;
    }
}

/// The host's place for the plugin's own data, or NULL; hosts of 1.0 have none.
static inline const kf_store *kf_store_of(const kf_host *host)
{
    return KF_CAN(host, kf_host, extension)
               ? (const kf_store *)host->extension(host, KF_STORE_EXTENSION)
               : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
