// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions that a fused kernel calls: access to memory for each element type, and the
// arithmetic that does not fit into one expression. Only what a kernel uses is written. Everything
// works on vectors of V elements, the ends of rows included: there the lanes past the end read as
// 1.
//
// sin, cos, tan and fmod go lane by lane: at vector width PoCL's depend on neighbouring lanes.
//
// Templates: $C element type of the computation, $T $U $M its vector, the unsigned and the mask
// vector, $V elements, $W bits, $X name of the element type, $S type in memory.
#include "elementwise_internal.h"

typedef struct helper {
    const char *name; // followed by the element type in expressions: "div_int"
    uint32_t kinds; // bit KF_KIND_*
    const char *text;
} helper;

#define BIT(kind) (1u << (kind))
#define FLOATS BIT(KF_KIND_FLOAT)
#define SIGNED BIT(KF_KIND_INT)
#define UNSIGNED BIT(KF_KIND_UINT)

#define EACH(function)                                                                             \
    "static inline $T each_" function "_$C($T x) {\n"                                              \
    "    $C e[$V];\n"                                                                              \
    "    vstore$V(x, 0, e);\n"                                                                     \
    "    for (int k = 0; k < $V; k++) {\n"                                                         \
    "        e[k] = " function "(e[k]);\n"                                                         \
    "    }\n"                                                                                      \
    "    return vload$V(0, e);\n"                                                                  \
    "}\n"

// A division by 0 or of the smallest by -1 would trap: those lanes are divided by 1 and replaced.
static const helper helpers[] = {
    {"each_sin_", FLOATS, EACH("sin")},
    {"each_cos_", FLOATS, EACH("cos")},
    {"each_tan_", FLOATS, EACH("tan")},
    {"div_", SIGNED,
     "static inline $T div_$C($T a, $T b) {\n"
     "    $M zero = b == ($T)(0), minus = b == ($T)(-1);\n"
     "    $T q = a / select(b, ($T)(1), zero | minus);\n"
     "    q = select(q, as_$T(($U)(0) - as_$U(a)), minus);\n"
     "    return select(q, ($T)(0), zero);\n"
     "}\n"},
    {"div_", UNSIGNED,
     "static inline $T div_$C($T a, $T b) {\n"
     "    $M zero = b == ($T)(0);\n"
     "    return select(a / select(b, ($T)(1), zero), ($T)(0), zero);\n"
     "}\n"},
    {"fmod_", FLOATS,
     "static inline $T fmod_$C($T a, $T b) {\n"
     "    $C x[$V], y[$V];\n"
     "    vstore$V(a, 0, x);\n"
     "    vstore$V(b, 0, y);\n"
     "    for (int k = 0; k < $V; k++) {\n"
     "        x[k] = fmod(x[k], y[k]);\n"
     "    }\n"
     "    return vload$V(0, x);\n"
     "}\n"},
    {"fmod_", SIGNED,
     "static inline $T fmod_$C($T a, $T b) {\n"
     "    return a % select(b, ($T)(1), (b == ($T)(0)) | (b == ($T)(-1)));\n"
     "}\n"},
    {"fmod_", UNSIGNED,
     "static inline $T fmod_$C($T a, $T b) {\n"
     "    return a % select(b, ($T)(1), b == ($T)(0));\n"
     "}\n"},
    {"rem_", SIGNED,
     "static inline $T rem_$C($T a, $T b) {\n"
     "    $T r = a % select(b, ($T)(1), (b == ($T)(0)) | (b == ($T)(-1)));\n"
     "    return select(r, r + b, (r != ($T)(0)) & ((r ^ b) < ($T)(0)));\n"
     "}\n"},
    {"rem_", FLOATS,
     "static inline $T rem_$C($T a, $T b) {\n"
     "    $C x[$V], y[$V];\n"
     "    vstore$V(a, 0, x);\n"
     "    vstore$V(b, 0, y);\n"
     "    for (int k = 0; k < $V; k++) {\n"
     "        x[k] = fmod(x[k], y[k]);\n"
     "    }\n"
     "    $T r = vload$V(0, x);\n"
     "    $T s = select(r, r + b, ((r < ($T)(0)) ^ (b < ($T)(0))) & (r == r));\n"
     "    return select(s, copysign(($T)(0), b), r == ($T)(0));\n"
     "}\n"},
    {"pow_", FLOATS, // PoCL's pow of double vectors fails at the ends of the range
     "static inline $T pow_$C($T a, $T b) {\n"
     "    if (sizeof($C) < 8) {\n"
     "        return pow(a, b);\n"
     "    }\n"
     "    $C x[$V], y[$V];\n"
     "    vstore$V(a, 0, x);\n"
     "    vstore$V(b, 0, y);\n"
     "    for (int k = 0; k < $V; k++) {\n"
     "        x[k] = pow(x[k], y[k]);\n"
     "    }\n"
     "    return vload$V(0, x);\n"
     "}\n"},
    {"pow_", SIGNED,
     "static inline $T pow_$C($T a, $T b) {\n"
     "    $C x[$V], n[$V];\n"
     "    vstore$V(a, 0, x);\n"
     "    vstore$V(b, 0, n);\n"
     "    for (int k = 0; k < $V; k++) {\n"
     "        if (n[k] < 0) {\n"
     "            x[k] = x[k] == 1 ? 1 : x[k] == -1 ? ((n[k] & 1) != 0 ? -1 : 1) : 0;\n"
     "            continue;\n"
     "        }\n"
     "        ulong r = 1, s = (ulong)x[k];\n"
     "        for (ulong e = (ulong)n[k]; e != 0; e >>= 1) {\n"
     "            r *= (e & 1) != 0 ? s : 1;\n"
     "            s *= s;\n"
     "        }\n"
     "        x[k] = ($C)r;\n"
     "    }\n"
     "    return vload$V(0, x);\n"
     "}\n"},
    {"pow_", UNSIGNED,
     "static inline $T pow_$C($T a, $T b) {\n"
     "    $C x[$V], n[$V];\n"
     "    vstore$V(a, 0, x);\n"
     "    vstore$V(b, 0, n);\n"
     "    for (int k = 0; k < $V; k++) {\n"
     "        ulong r = 1, s = x[k];\n"
     "        for (ulong e = n[k]; e != 0; e >>= 1) {\n"
     "            r *= (e & 1) != 0 ? s : 1;\n"
     "            s *= s;\n"
     "        }\n"
     "        x[k] = ($C)r;\n"
     "    }\n"
     "    return vload$V(0, x);\n"
     "}\n"},
    {"shl_", SIGNED | UNSIGNED,
     "static inline $T shl_$C($T a, $T b) {\n"
     "    $M valid = as_$U(b) < ($U)($W);\n"
     "    $U r = as_$U(a) << as_$U(select(($T)(0), b, valid));\n"
     "    return select(($T)(0), as_$T(r), valid);\n"
     "}\n"},
    {"shr_", SIGNED | UNSIGNED,
     "static inline $T shr_$C($T a, $T b) {\n"
     "    $M valid = as_$U(b) < ($U)($W);\n"
     "    return select(($T)(0), a >> select(($T)(0), b, valid), valid);\n"
     "}\n"},
    {"clamp_", FLOATS,
     "static inline $T clamp_$C($T x, $T low, $T high) {\n"
     "    x = select(x, low, (x < low) | (low != low));\n"
     "    return select(x, high, (high < x) | (high != high));\n"
     "}\n"},
};

enum { HELPER_COUNT = sizeof(helpers) / sizeof(helpers[0]) };

// ---- templates ---------------------------------------------------------------------------------

static const char *mask_element(uint32_t bytes)
{
    return bytes == 1 ? "char" : bytes == 2 ? "short" : bytes == 4 ? "int" : "long";
}

static uint32_t compute_bytes(const kf_dtype *dtype)
{
    return dtype->kind == KF_KIND_FLOAT && dtype->bytes == 2 ? 4 : dtype->bytes;
}

void ew_emit_template(kf_text *text, const char *template_text, uint32_t dtype_id, uint32_t width,
                      const char *const *operands)
{
    kf_dtype dtype = kf_dtype_of(dtype_id);
    const char *mask = mask_element(compute_bytes(&dtype));
    for (const char *p = template_text; *p != '\0'; p++) {
        if (*p != '$') {
            kf_text_bytes(text, p, 1);
            continue;
        }
        p++;
        switch (*p) {
        case 'a':
        case 'b':
        case 'c':
            kf_text_add(text, operands[*p - 'a']);
            break;
        case 's':
        case 't':
            kf_text_add(text, operands[3 + *p - 's']);
            break;
        case '0':
        case '1':
            kf_text_addf(text, "(%s%u)(%c)", dtype.compute, width, *p);
            break;
        case 'C':
            kf_text_add(text, dtype.compute);
            break;
        case 'T':
            kf_text_addf(text, "%s%u", dtype.compute, width);
            break;
        case 'U':
            kf_text_addf(text, "%s%u", dtype.unsign, width);
            break;
        case 'M':
            kf_text_addf(text, "%s%u", mask, width);
            break;
        case 'V':
            kf_text_addf(text, "%u", width);
            break;
        case 'W':
            kf_text_addf(text, "%u", compute_bytes(&dtype) * 8);
            break;
        case 'X':
            kf_text_add(text, dtype.name);
            break;
        case 'S':
            kf_text_add(text, dtype.storage);
            break;
        default:
            text->failed = 1;
            return;
        }
    }
}

// ---- casts -------------------------------------------------------------------------------------

static void emit_float_to_int(kf_text *text, const kf_dtype *from, const kf_dtype *to,
                              uint32_t width)
{
    uint32_t bits = to->bytes * 8, is_signed = to->kind == KF_KIND_INT;
    double above = 1;
    const char *suffix = from->bytes == 8 ? "" : "f";
    const char *mask = mask_element(to->bytes);
    uint64_t high = ~0ull >> (64 - bits + is_signed);
    for (uint32_t i = is_signed; i < bits; i++) {
        above *= 2;
    }
    kf_text_addf(text, "    const %s%u above = %.1f%s, below = %.1f%s;\n", from->compute, width,
                 above, suffix, is_signed ? -above : 0.0, suffix);
    kf_text_addf(text,
                 "    %s%u y = convert_%s%u_rtz(select(x, (%s%u)(0), (x >= above) | "
                 "(x < below) | (x != x)));\n",
                 to->compute, width, to->compute, width, from->compute, width);
    kf_text_addf(text, "    y = select(y, (%s%u)(0x%llx), convert_%s%u(x >= above));\n",
                 to->compute, width, (unsigned long long)high, mask, width);
    kf_text_addf(text, "    return select(y, (%s%u)(0x%llx), convert_%s%u(x < below));\n",
                 to->compute, width, is_signed ? (unsigned long long)high + 1 : 0ull, mask, width);
}

static void emit_cast(kf_text *text, uint32_t from_id, uint32_t to_id, uint32_t width)
{
    kf_dtype from = kf_dtype_of(from_id), to = kf_dtype_of(to_id);
    kf_text_addf(text, "static inline %s%u cast_%s_%s(%s%u x) {\n", to.compute, width, from.name,
                 to.name, from.compute, width);
    if (to.kind == KF_KIND_BOOL) {
        kf_text_addf(text,
                     "    return as_uchar%u(convert_char%u(x != (%s%u)(0))) & (uchar%u)(1);\n",
                     width, width, from.compute, width, width);
    } else if (from.kind == KF_KIND_FLOAT && to.kind != KF_KIND_FLOAT) {
        emit_float_to_int(text, &from, &to, width);
    } else {
        kf_text_addf(text, "    return convert_%s%u(x);\n", to.compute, width);
    }
    kf_text_add(text, "}\n");
}

// ---- memory ------------------------------------------------------------------------------------

static void emit_half_rounding(kf_text *text, uint32_t width)
{
    ew_emit_template(text,
                     "static inline float$V round_f16(float$V x) {\n"
                     "    ushort bits[$V];\n"
                     "    vstore_half$V_rte(x, 0, (__private half *)bits);\n"
                     "    return vload_half$V(0, (const __private half *)bits);\n"
                     "}\n"
                     "static inline float value_f16(ushort bits) {\n"
                     "    return vload_half(0, (const __private half *)&bits);\n"
                     "}\n",
                     KF_DTYPE_F16, width, NULL);
}

static void emit_bf16_rounding(kf_text *text, uint32_t width)
{
    ew_emit_template(
        text,
        "static inline ushort$V bits_bf16(float$V x) {\n"
        "    uint$V u = as_uint$V(x);\n"
        "    uint$V r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;\n"
        "    return convert_ushort$V(select(r, (u >> 16) | 0x40u, x != x) & 0xffffu);\n"
        "}\n"
        "static inline float value_bf16(ushort bits) {\n"
        "    return as_float((uint)bits << 16);\n"
        "}\n"
        "static inline float$V values_bf16(ushort$V bits) {\n"
        "    return as_float$V(convert_uint$V(bits) << 16);\n"
        "}\n"
        "static inline float$V round_bf16(float$V x) {\n"
        "    return values_bf16(bits_bf16(x));\n"
        "}\n",
        KF_DTYPE_BF16, width, NULL);
}

// one: an element; load, keep: a vector; part, put: the first `count` lanes, `stride` apart
static void emit_loads(kf_text *text, uint32_t dtype, uint32_t width)
{
    const char *one = "*p", *load = "vload$V(0, p)";
    if (dtype == KF_DTYPE_F16) {
        one = "vload_half(0, p)";
        load = "vload_half$V(0, p)";
    } else if (dtype == KF_DTYPE_BF16) {
        one = "value_bf16(*p)";
        load = "values_bf16(vload$V(0, p))";
    } else if (dtype == KF_DTYPE_BOOL) {
        one = "*p != 0";
        load = "as_uchar$V(vload$V(0, p) != (uchar$V)(0)) & (uchar$V)(1)";
    }
    ew_emit_template(text, "static inline $C one_$X(__global const $S *p) {\n    return ", dtype,
                     width, NULL);
    ew_emit_template(text, one, dtype, width, NULL);
    ew_emit_template(text, ";\n}\nstatic inline $T load_$X(__global const $S *p) {\n    return ",
                     dtype, width, NULL);
    ew_emit_template(text, load, dtype, width, NULL);
    ew_emit_template(text,
                     ";\n}\n"
                     "static inline $T part_$X(__global const $S *p, idx stride, int count) {\n"
                     "    $C e[$V];\n"
                     "    for (int k = 0; k < $V; k++) {\n"
                     "        e[k] = k < count ? one_$X(p + k * stride) : ($C)1;\n"
                     "    }\n"
                     "    return vload$V(0, e);\n"
                     "}\n",
                     dtype, width, NULL);
}

static void emit_stores(kf_text *text, uint32_t dtype, uint32_t width, uint32_t stream)
{
    const char *bits = "x", *put = "p[k] = e[k];";
    ew_emit_template(text, "static inline void keep_$X(__global $S *p, $T x, int stream) {\n",
                     dtype, width, NULL);
    if (dtype == KF_DTYPE_F16) {
        put = "vstore_half_rte(e[k], k, p);";
        ew_emit_template(text, "    vstore_half$V_rte(x, 0, p);\n", dtype, width, NULL);
    } else {
        bits = dtype == KF_DTYPE_BF16 ? "bits_bf16(x)" : "x";
        if (stream) {
            ew_emit_template(text,
                             "#ifdef STREAM\n"
                             "    if (stream) {\n"
                             "        __builtin_nontemporal_store(",
                             dtype, width, NULL);
            kf_text_add(text, bits);
            ew_emit_template(text, ", (__global $S$V *)p);\n        return;\n    }\n#endif\n",
                             dtype, width, NULL);
        }
        kf_text_add(text, "    vstore");
        kf_text_addf(text, "%u(%s, 0, p);\n", width, bits);
    }
    ew_emit_template(text,
                     "}\n"
                     "static inline void put_$X(__global $S *p, $T x, int count) {\n",
                     dtype, width, NULL);
    ew_emit_template(text, dtype == KF_DTYPE_BF16 ? "    ushort e[$V];\n" : "    $C e[$V];\n",
                     dtype, width, NULL);
    kf_text_addf(text, "    vstore%u(%s, 0, e);\n    for (int k = 0; k < count; k++) {\n        ",
                 width, bits);
    kf_text_addf(text, "%s\n    }\n}\n", put);
}

// ---- choice ------------------------------------------------------------------------------------

static void emit_arithmetic(kf_text *text, const ew_block *block, uint32_t width)
{
    // By helper, the computing types for which it is written already.
    const char *written[HELPER_COUNT][8] = {{0}};
    for (uint32_t i = 0; i < block->n_ops; i++) {
        const ew_op *op = &block->ops[i];
        const char *expression = ew_row_text(op->row, op->dtype);
        kf_dtype dtype = kf_dtype_of(op->dtype);
        for (uint32_t h = 0; h < HELPER_COUNT; h++) {
            if (strncmp(expression, helpers[h].name, strlen(helpers[h].name)) != 0 ||
                (helpers[h].kinds & BIT(dtype.kind)) == 0) {
                continue;
            }
            for (uint32_t k = 0; k < 8; k++) {
                if (written[h][k] == NULL) {
                    written[h][k] = dtype.compute;
                    ew_emit_template(text, helpers[h].text, op->dtype, width, NULL);
                    break;
                }
                if (strcmp(written[h][k], dtype.compute) == 0) {
                    break;
                }
            }
        }
    }
}

static void emit_casts(kf_text *text, const ew_block *block, uint32_t width)
{
    for (uint32_t i = 0; i < block->n_ops; i++) {
        const ew_op *op = &block->ops[i];
        uint32_t to = block->values[op->result].dtype, again = 0;
        if (op->row->result != EW_CAST) {
            continue;
        }
        for (uint32_t k = 0; k < i && !again; k++) {
            again = block->ops[k].row->result == EW_CAST && block->ops[k].dtype == op->dtype &&
                    block->values[block->ops[k].result].dtype == to;
        }
        if (!again) {
            emit_cast(text, op->dtype, to, width);
        }
    }
}

void ew_emit_helpers(kf_text *text, const ew_block *block, const ew_layout *layout)
{
    uint64_t used = 0, read = 0, written = 0;
    for (uint32_t i = 0; i < block->n_values; i++) {
        used |= 1ull << block->values[i].dtype;
    }
    for (uint32_t i = 0; i < layout->n_inputs; i++) {
        read |= 1ull << block->values[layout->inputs[i]].dtype;
    }
    for (uint32_t i = 0; i < layout->n_outputs; i++) {
        written |= 1ull << block->values[layout->outputs[i]].dtype;
    }
    kf_cl_prelude(text, (uint32_t)(used >> KF_DTYPE_F64) & 1u);
    kf_text_addf(text, "typedef %s idx;\n", layout->wide ? "long" : "int");
    if (layout->stream != 0) {
        kf_text_add(text, "#ifdef __has_builtin\n"
                          "#if __has_builtin(__builtin_nontemporal_store)\n"
                          "#define STREAM\n"
                          "#endif\n"
                          "#endif\n");
    }
    if ((used >> KF_DTYPE_F16) & 1u) {
        emit_half_rounding(text, layout->width);
    }
    if ((used >> KF_DTYPE_BF16) & 1u) {
        emit_bf16_rounding(text, layout->width);
    }
    for (uint32_t dtype = 1; dtype < 64; dtype++) {
        if ((read >> dtype) & 1u) {
            emit_loads(text, dtype, layout->width);
        }
        if ((written >> dtype) & 1u) {
            emit_stores(text, dtype, layout->width, layout->stream != 0);
        }
    }
    emit_arithmetic(text, block, layout->width);
    emit_casts(text, block, layout->width);
}
