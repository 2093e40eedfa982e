// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_rows.h: chains (kf_chain.h) with reductions: every value lies on some axes of one iteration
// space, one set of which is reduced. For fusers of reductions, softmax, norms and the like.
//   kf_rows_push      takes an operation: elementwise, reduction, softmax, a view that only adds,
//                     removes or repeats axes, a drop; else the reason is reported
//   kf_rows_push_fitting  the same, given back when the fuser's own rule says no
//   kf_rows_is_full   does a value vary along the reduced axes?
//   kf_rows_value_axis  the axis of a value that an axis of the space is
//   kf_rows_is_even   do rows end with whole vectors? _near: at multiples of their size?
//   kf_rows_combine   text that joins two partial results; _identity what it starts from
// A value's phase is the number of reductions that must be finished one after the other before it
// can be computed. A softmax is taken apart into its five operations. f16 and bf16 are accumulated
// in f32, also inside a softmax.
#ifndef KILN_PLUGIN_SDK_KF_ROWS_H
#define KILN_PLUGIN_SDK_KF_ROWS_H

#include "kf_row_parts.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- views ----

/// A reshape that only adds and removes axes of extent 1.
static inline uint32_t kf_rows_reshape(const kf_tensor *in, const kf_rows_place *from,
                                       const kf_tensor *out, kf_rows_place *place)
{
    uint32_t i, next = 0;
    *place = *from;
    memset(place->axes, KF_ROWS_NO_AXIS, sizeof(place->axes));
    for (i = 0; i < out->rank; i++) {
        if (out->dims[i].symbol == 0) {
            continue;
        }
        while (next < in->rank && in->dims[next].symbol == 0) {
            next++;
        }
        if (next == in->rank || in->dims[next].symbol != out->dims[i].symbol) {
            return 0;
        }
        place->axes[i] = from->axes[next++];
    }
    while (next < in->rank && in->dims[next].symbol == 0) {
        next++;
    }
    return next == in->rank;
}

/// A reshape: one that only adds and removes axes of extent 1, or one of all elements between the
/// space and its second shape, which the first such reshape brings.
static inline uint32_t kf_rows_reshaped(kf_rows *rows, const kf_op *op, const kf_rows_place *from,
                                        kf_rows_place *place)
{
    const kf_tensor *out = op->outputs[0];
    uint32_t symbols[KF_MAX_RANK], rank = kf_rows_symbols_of(out, symbols);
    if (from->form == KF_ROWS_ON_AXES && kf_rows_reshape(op->inputs[0], from, out, place)) {
        return 1;
    }
    if (from->form == KF_ROWS_TURNED || from->mask != kf_rows_all(rows)) {
        return 0;
    }
    if (kf_rows_same_shape(symbols, rank, rows->symbols, rows->rank)) {
        kf_rows_whole_place(rows->symbols, rows->rank, symbols, rank, place);
    } else {
        if (rows->second_rank == 0) {
            rows->second_rank = rank;
            memcpy(rows->second, symbols, rank * sizeof(symbols[0]));
        }
        if (!kf_rows_is_second(rows, out)) {
            return 0;
        }
        kf_rows_flat_place(rows->symbols, rows->rank, place);
    }
    place->phase = from->phase;
    return 1;
}

static inline uint32_t kf_rows_view(kf_rows *rows, const kf_chain_device *device,
                                    const kf_host *host, const kf_op *op)
{
    const kf_rows_place *from = op->n_inputs == 1 ? kf_rows_place_of(rows, op->inputs[0]) : NULL;
    const kf_chain_value *value =
        from == NULL ? NULL : kf_chain_known(&rows->chain, op->inputs[0]->id);
    kf_rows_place place, inputs[3];
    kf_chain_op *own;
    uint32_t ok;
    if (value == NULL || !value->computed) {
        return kf_decline(host, KF_CODE_LAYOUT, op->position, "a view of what others computed");
    }
    if (!kf_rows_operands_fit(rows, device, host, op, NULL, 0, 1)) {
        return 0;
    }
    ok = op->kind == KF_OP_RESHAPE ? kf_rows_reshaped(rows, op, from, &place)
                                   : kf_rows_fit(rows, op, &place, inputs);
    if (!ok) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "a view of another shape");
    }
    own = kf_chain_push(&rows->chain, NULL, KF_CHAIN_ALIAS, op->inputs[0]->dtype);
    kf_chain_take_input(own, (uint32_t)(value - rows->chain.values));
    own->result = (uint16_t)kf_chain_add_value(&rows->chain, op->outputs[0], 1);
    kf_rows_note(rows, own->result, &place);
    return 1;
}

/// Takes one operation, or closes the block, with the reason reported to the host.
static inline void kf_rows_push(kf_rows *rows, const kf_chain_device *device, const kf_host *host,
                                const kf_op *op)
{
    uint32_t taken;
    if (rows->closed) {
        return;
    }
    switch (op->kind) {
    case KF_OP_DROP:
        taken = kf_chain_drop(&rows->chain, host, op);
        break;
    case KF_OP_SUM:
    case KF_OP_MEAN:
    case KF_OP_PROD:
    case KF_OP_MAX:
    case KF_OP_MIN:
    case KF_OP_MAX_ABS:
    case KF_OP_ANY:
    case KF_OP_ALL:
        taken = kf_rows_reduction(rows, device, host, op);
        break;
    case KF_OP_SOFTMAX:
    case KF_OP_LOG_SOFTMAX:
        taken = kf_rows_softmax(rows, device, host, op);
        break;
    case KF_OP_SOFTMAX_BACKWARD:
    case KF_OP_LOG_SOFTMAX_BACKWARD:
        taken = kf_rows_softmax_backward(rows, device, host, op);
        break;
    case KF_OP_LAYER_NORM:
    case KF_OP_RMS_NORM:
        taken = kf_rows_norm(rows, device, host, op);
        break;
    case KF_OP_RESHAPE:
    case KF_OP_EXPAND:
        taken = kf_rows_view(rows, device, host, op);
        break;
    default:
        taken = kf_rows_elementwise(rows, device, host, kf_ew_row_of(op->kind), op);
    }
    rows->closed = !taken;
    rows->len += taken;
}

/// As kf_rows_push; an operation with which the block does not pass `fits` is given back, and the
/// block closed. `before` is scratch.
static inline void
kf_rows_push_fitting(kf_rows *rows, kf_rows *before, const kf_chain_device *device,
                     const kf_host *host, const kf_op *op,
                     uint32_t (*fits)(const kf_rows *rows, const kf_host *host, uint32_t position))
{
    if (rows->closed) {
        return;
    }
    kf_rows_copy(before, rows);
    kf_rows_push(rows, device, host, op);
    if (!rows->closed && !fits(rows, host, op->position)) {
        kf_rows_copy(rows, before);
        rows->closed = 1;
    }
}

// ---- text of reductions ----

/// What `kind` of nothing is, in the partial type.
static inline void kf_rows_identity(kf_text *text, uint32_t kind, uint32_t partial)
{
    kf_dtype dtype = kf_dtype_of(partial);
    uint32_t lowest = kind == KF_OP_MAX, highest = kind == KF_OP_MIN;
    uint64_t ones = ~0ull >> (64 - 8 * dtype.bytes);
    if (!lowest && !highest) {
        kf_text_add(text, kind == KF_OP_PROD || kind == KF_OP_ALL ? "1" : "0");
    } else if (dtype.kind == KF_KIND_FLOAT) {
        kf_text_add(text, lowest ? "-INFINITY" : "INFINITY");
    } else if (dtype.kind == KF_KIND_INT) {
        kf_text_addf(text, "(%s)0x%llxul", dtype.compute,
                     (unsigned long long)(lowest ? (ones >> 1) + 1 : ones >> 1));
    } else {
        kf_text_addf(text, "(%s)0x%llxul", dtype.compute, (unsigned long long)(lowest ? 0 : ones));
    }
}

/// Joins the vectors named `a` and `b` of partial results; both orders give the same bits, but for
/// which NaN it is. That of `b` is put over the larger, so that the next join waits for one
/// comparison only, with `a`.
static inline void kf_rows_combine(kf_text *text, uint32_t kind, uint32_t partial, uint32_t width,
                                   const char *a, const char *b)
{
    const char *operands[5];
    uint32_t most = kind == KF_OP_MAX || kind == KF_OP_MAX_ABS, least = kind == KF_OP_MIN;
    uint32_t op = kind == KF_OP_SUM || kind == KF_OP_MEAN ? KF_OP_ADD
                  : kind == KF_OP_PROD                    ? KF_OP_MUL
                  : most                                  ? KF_OP_MAXIMUM
                  : least                                 ? KF_OP_MINIMUM
                  : kind == KF_OP_ANY                     ? KF_OP_LOGICAL_OR
                                                          : KF_OP_LOGICAL_AND;
    const char *expression = kf_ew_text(kf_ew_row_of(op), partial);
    if ((most || least) && kf_dtype_of(partial).kind == KF_KIND_FLOAT) {
        expression = most ? "as_$T(as_$M(select($a, $b, $b > $a)) | ($b != $b))"
                          : "as_$T(as_$M(select($a, $b, $b < $a)) | ($b != $b))";
    }
    operands[0] = a;
    operands[1] = b;
    operands[2] = operands[3] = operands[4] = "";
    kf_ew_template(text, expression, partial, width, operands);
}

/// What one element brings in: its absolute value for max_abs.
static inline void kf_rows_term(kf_text *text, uint32_t kind, uint32_t partial, uint32_t width,
                                const char *a)
{
    const char *operands[5];
    operands[0] = a;
    operands[1] = operands[2] = operands[3] = operands[4] = "";
    if (kind == KF_OP_MAX_ABS) {
        kf_ew_template(text, kf_ew_text(kf_ew_row_of(KF_OP_ABS), partial), partial, width,
                       operands);
    } else {
        kf_text_add(text, a);
    }
}

/// Where the text defines JOIN_PTX, the larger or smaller f32 of two is one instruction of
/// NVIDIA's, from compute capability 8.0 on, which gives NaN when either is; of two zeros the
/// positive one is the larger.
static inline void kf_rows_join_ptx(kf_text *text, uint32_t kind, uint32_t width)
{
    static const char digits[] = "0123456789abcdef";
    const char *name = kind == KF_OP_MIN ? "min" : "max";
    uint32_t lane;
    kf_text_addf(text,
                 "#ifdef JOIN_PTX\nstatic inline float%u join_%u_f32(float%u a, float%u b) {\n"
                 "    float%u r;\n",
                 width, kind, width, width, width);
    for (lane = 0; lane < width; lane++) {
        const char digit[2] = {digits[lane], '\0'};
        kf_text_addf(text,
                     "    asm(\"%s.NaN.f32 %%0, %%1, %%2;\" : \"=f\"(r.s%s) : \"f\"(a.s%s), "
                     "\"f\"(b.s%s));\n",
                     name, digit, digit, digit);
    }
    kf_text_add(text, "    return r;\n}\n#else\n");
}

/// Functions over vectors of V: join_K_X, half_K_X (all lanes joined, in every lane) and only_X
/// (the first `count` lanes, others `rest`), for one kind and partial type. K is the kind's number.
static inline void kf_rows_functions(kf_text *text, uint32_t kind, uint32_t partial, uint32_t width)
{
    kf_dtype dtype = kf_dtype_of(partial);
    uint32_t step, lane;
    static const char digits[] = "0123456789abcdef";
    uint32_t extreme = partial == KF_DTYPE_F32 &&
                       (kind == KF_OP_MAX || kind == KF_OP_MAX_ABS || kind == KF_OP_MIN);
    if (extreme) {
        kf_rows_join_ptx(text, kind, width);
    }
    kf_text_addf(text, "static inline %s%u join_%u_%s(%s%u a, %s%u b) {\n    return ",
                 dtype.compute, width, kind, dtype.name, dtype.compute, width, dtype.compute,
                 width);
    kf_rows_combine(text, kind, partial, width, "a", "b");
    kf_text_addf(text, ";\n}\n%sstatic inline %s%u half_%u_%s(%s%u a) {\n",
                 extreme ? "#endif\n" : "", dtype.compute, width, kind, dtype.name, dtype.compute,
                 width);
    for (step = width / 2; step > 0; step /= 2) {
        kf_text_addf(text, "    a = join_%u_%s(a, a.s", kind, dtype.name);
        for (lane = 0; lane < width; lane++) {
            kf_text_bytes(text, &digits[lane ^ step], 1);
        }
        kf_text_add(text, ");\n");
    }
    kf_text_addf(text, "    return (%s%u)(a.s0);\n}\n", dtype.compute, width);
}

static inline void kf_rows_only_function(kf_text *text, uint32_t partial, uint32_t width)
{
    kf_dtype dtype = kf_dtype_of(partial);
    uint32_t lane;
    kf_ew_template(text, "static inline $T only_$X($T x, $C rest, int count) {\n", partial, width,
                   NULL);
    kf_text_addf(text, "    const %s%u lanes = (%s%u)(", dtype.unsign, width, dtype.unsign, width);
    for (lane = 0; lane < width; lane++) {
        kf_text_addf(text, lane == 0 ? "%u" : ", %u", lane);
    }
    kf_text_addf(text, ");\n    return select((%s%u)(rest), x, lanes < (%s%u)((%s)count));\n}\n",
                 dtype.compute, width, dtype.unsign, width, dtype.unsign);
}

/// take_X: `count` lanes from p on, `stride` apart. Where at least V elements are `left` in memory
/// they are read as one vector, and the lanes past `count` are those of neighbours.
static inline void kf_rows_take_function(kf_text *text, uint32_t dtype, uint32_t width)
{
    kf_ew_template(
        text,
        "static inline $T take_$X(__global const $S *p, idx stride, int count, idx left) "
        "{\n"
        "    return stride == 1 && (count == $V || left >= $V) ? load_$X(p) : "
        "part_$X(p, stride, count);\n"
        "}\n",
        dtype, width, NULL);
}

/// Joins the partial results of the work-items of a row as a tree; `kind` has its functions.
static inline void kf_rows_team_function(kf_text *text, uint32_t kind, uint32_t partial,
                                         uint32_t width)
{
    kf_dtype dtype = kf_dtype_of(partial);
    kf_text_addf(text,
                 "static inline %s%u team_%u_%s(%s%u a, __local %s *seats, idx lane, idx lanes) {\n"
                 "    a = half_%u_%s(a);\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    seats[lane] = a.s0;\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    for (idx s = lanes / 2; s > 0; s /= 2) {\n"
                 "        if (lane < s) {\n",
                 dtype.compute, width, kind, dtype.name, dtype.compute, width, dtype.compute, kind,
                 dtype.name);
    kf_text_addf(text,
                 "            seats[lane] = join_%u_%s((%s%u)(seats[lane]), "
                 "(%s%u)(seats[lane + s])).s0;\n"
                 "        }\n"
                 "        barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    }\n"
                 "    return (%s%u)(seats[0]);\n}\n",
                 kind, dtype.name, dtype.compute, width, dtype.compute, width, dtype.compute,
                 width);
}

// ---- estimates ----

enum { KF_ROWS_TURNED_COST = 8 }; // of reading a transposed matrix line by line: measured

/// Pushes the bytes of all inputs, or of all results. Beyond `longest` instructions the rest counts
/// as if it had the whole space's shape. A transposed matrix counts as many times as its lines of
/// memory are fetched.
static inline void kf_rows_traffic(kf_formula *f, const kf_rows *rows, uint32_t outputs,
                                   uint32_t longest)
{
    uint32_t i, all = kf_rows_all(rows);
    int64_t whole = 0;
    kf_formula_imm(f, 0);
    for (i = 0; i < rows->chain.n_values; i++) {
        const kf_chain_value *value = &rows->chain.values[i];
        uint32_t turned = value->turned && !value->contiguous && kf_rows_is_full(rows, i);
        uint32_t bytes = kf_dtype_of(value->dtype).bytes * (turned ? KF_ROWS_TURNED_COST : 1);
        if ((outputs ? !kf_chain_is_output(value) : value->computed) ||
            rows->places[i].form == KF_ROWS_TURNED) { // a few elements, read again and again
            continue;
        }
        if (rows->places[i].mask == all || f->n > longest) {
            whole += bytes;
            continue;
        }
        kf_rows_extent(f, rows, rows->places[i].mask);
        kf_formula_imm(f, bytes);
        kf_formula_op(f, KF_INS_MUL);
        kf_formula_op(f, KF_INS_ADD);
    }
    kf_rows_extent(f, rows, all);
    kf_formula_imm(f, whole);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_op(f, KF_INS_ADD);
}

/// Pushes the operations where lines along the axes `line` are computed in vectors of `width`: the
/// last vector of each is computed as a whole.
static inline void kf_rows_work(kf_formula *f, const kf_rows *rows, uint32_t line, uint32_t width)
{
    kf_rows_extent(f, rows, line);
    kf_formula_imm_op(f, width, KF_INS_ROUND_UP);
    kf_rows_extent(f, rows, kf_rows_all(rows) & ~line);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_imm_op(f, rows->chain.flops, KF_INS_MUL);
}

#ifdef __cplusplus
}
#endif
#endif
