// SPDX-License-Identifier: MIT OR Apache-2.0
// Products of f32 matrices with a constant right side, split along the inner axis (split-K), in
// C++:
//   pack    once: the constant, in panels of as many columns as fit into registers; kept
//   partial sums a slice of the inner axis for some rows of one panel: a work-item alone, or on
//           GPUs a work-group with tiles in local memory
//   join    adds the slices in order, then the bias, then relu
// Few rows and columns with a long inner axis leave a processor's cores idle otherwise. How many
// slices there are follows from the extents and the number of compute units by a formula, so that
// one program serves all sizes, and the same sizes always give the same bits.
#include <kiln/kiln_fuser.hpp>

// KF_SHAPE_BLOCK or KF_SHAPE_NDRANGE: that form on any device, for tests; 0: what the device wants.
#ifndef MATMUL_FORM
#define MATMUL_FORM 0
#endif

namespace
{

const char block_source[] = R"(
#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FMA fma
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#define PANEL (4 * W)
#if R == 6
#define EACH(f, j) f(0, j) f(1, j) f(2, j) f(3, j) f(4, j) f(5, j)
#else
#define EACH(f, j) f(0, j) f(1, j)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack(__global const float *b, __global float *packed, long inner, long columns, long step_inner,
          long step_column)
{
    long first = get_global_id(0) * PANEL;
    int count = (int)min((long)PANEL, columns - first);
    packed += get_global_id(0) * inner * PANEL;
    b += first * step_column;
    for (long k = 0; k < inner; k++) {
        for (int c = 0; c < PANEL; c++) {
            packed[k * PANEL + c] = c < count ? b[k * step_inner + c * step_column] : 0.0f;
        }
    }
}

#define ZERO(r, j) V x##r##_##j = (V)(0.0f);
#define FETCH(r, j) x##r##_##j = LOAD(j, sums + (g + r) * PANEL);
#define ROW(r, j) __global const float *a##r = a + min(first + g + r, rows - 1) * inner;
#define ADD(r, j) x##r##_##j = FMA((V)(a##r[k]), b##j, x##r##_##j);
#define STORE_SUM(r, j) STORE(x##r##_##j, j, sums + (g + r) * PANEL);

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void partial(__global const float *a, __global const float *packed, __global float *parts, long rows,
             long inner, long slice)
{
    long first = get_global_id(0) * ROWS, panel = get_global_id(1), part = get_global_id(2);
    long panels = get_global_size(1);
    long end = min(inner, (part + 1) * slice);
    int count = (int)min((long)ROWS, rows - first);
    float sums[ROWS * PANEL];
    for (int i = 0; i < ROWS * PANEL; i++) {
        sums[i] = 0.0f;
    }
    packed += panel * inner * PANEL;
    for (long from = part * slice; from < end; from += BLOCK) {
        long to = min(end, from + BLOCK);
        for (int g = 0; g < count; g += R) {
            EACH(ROW, 0)
            EACH(ZERO, 0) EACH(ZERO, 1) EACH(ZERO, 2) EACH(ZERO, 3)
            EACH(FETCH, 0) EACH(FETCH, 1) EACH(FETCH, 2) EACH(FETCH, 3)
            for (long k = from; k < to; k++) {
                __global const float *at = packed + k * PANEL;
                V b0 = LOAD(0, at), b1 = LOAD(1, at), b2 = LOAD(2, at), b3 = LOAD(3, at);
                EACH(ADD, 0) EACH(ADD, 1) EACH(ADD, 2) EACH(ADD, 3)
            }
            EACH(STORE_SUM, 0) EACH(STORE_SUM, 1) EACH(STORE_SUM, 2) EACH(STORE_SUM, 3)
        }
    }
    parts += ((part * rows + first) * panels + panel) * PANEL;
    for (int r = 0; r < count; r++) {
        for (int j = 0; j < 4; j++) {
            STORE(LOAD(j, sums + r * PANEL), j, parts + r * panels * PANEL);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void join(__global const float *parts, BIAS __global float *out, long rows, long columns,
          long n_parts, long each)
{
    long stride = (columns + PANEL - 1) / PANEL * PANEL;
    long end = min(rows, (long)(get_global_id(0) + 1) * each);
    for (long row = get_global_id(0) * each; row < end; row++) {
        for (long c = 0; c < columns; c += W) {
            int count = (int)min((long)W, columns - c);
            V sum = LOAD(0, parts + row * stride + c);
            for (long p = 1; p < n_parts; p++) {
                sum += LOAD(0, parts + (p * rows + row) * stride + c);
            }
            float e[W];
            if (count == W) {
                sum = FINISH(sum, LOAD(0, bias + c));
                STORE(sum, 0, out + row * columns + c);
                continue;
            }
            for (int i = 0; i < W; i++) {
                e[i] = i < count ? BIAS_AT(c + i) : 0.0f;
            }
            sum = FINISH(sum, LOAD(0, e));
            STORE(sum, 0, e);
            for (int i = 0; i < count; i++) {
                out[row * columns + c + i] = e[i];
            }
        }
    }
}
)";

// Work-groups of 128 have tiles of 64 rows, 64 columns and 16 terms in local memory; each
// work-item keeps 8 x 4 sums in registers. The left side is turned on its way in, so that both
// are read as vectors. What lies outside is 0 in both tiles and adds nothing.
const char items_source[] = R"(
#define PANEL (4 * W)
#define DEPTH 16

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void pack(__global const float *b, __global float *packed, long inner, long columns, long step_inner,
          long step_column)
{
    long at = get_global_id(0), k = at / PANEL % inner;
    long c = at / PANEL / inner * PANEL + at % PANEL;
    if (c < (columns + PANEL - 1) / PANEL * PANEL) {
        packed[at] = c < columns ? b[k * step_inner + c * step_column] : 0.0f;
    }
}

#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define ZERO(r) float4 x##r = (float4)(0.0f);
#define ADD(r) x##r = fma((float4)(s##r), y, x##r);
#define STORE_SUM(r) \
    if (row + r < rows) { \
        vstore4(x##r, 0, parts + ((part * rows + row + r) * panels + panel) * PANEL + column); \
    }

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void partial(__global const float *a, __global const float *packed, __global float *parts, long rows,
             long inner, long slice)
{
    __local float left[DEPTH * (ROWS + 4)], right[DEPTH * PANEL];
    int item = get_local_id(0), column = item % 16 * 4, top = item / 16 * 8;
    long first = get_group_id(0) * ROWS, panel = get_group_id(1), part = get_group_id(2);
    long panels = get_num_groups(1), row = first + top, from = part * slice;
    long end = min(inner, from + slice);
    EACH(ZERO)
    packed += panel * inner * PANEL;
    for (; from < end; from += DEPTH) {
        for (int i = item; i < DEPTH * ROWS; i += 128) {
            int k = i % DEPTH, r = i / DEPTH;
            left[k * (ROWS + 4) + r] =
                from + k < end && first + r < rows ? a[(first + r) * inner + from + k] : 0.0f;
        }
        for (int i = item; i < DEPTH * PANEL / 4; i += 128) {
            float4 y = from + i * 4 / PANEL < end ? vload4(i, packed + from * PANEL) : (float4)(0.0f);
            vstore4(y, i, right);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < DEPTH; k++) {
            float4 y = vload4(0, right + k * PANEL + column);
            float4 u = vload4(0, left + k * (ROWS + 4) + top);
            float4 v = vload4(1, left + k * (ROWS + 4) + top);
            float s0 = u.x, s1 = u.y, s2 = u.z, s3 = u.w, s4 = v.x, s5 = v.y, s6 = v.z, s7 = v.w;
            EACH(ADD)
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    EACH(STORE_SUM)
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void join(__global const float *parts, BIAS __global float *out, long rows, long columns,
          long n_parts, long each)
{
    long at = get_global_id(0), row = at / columns, c = at % columns;
    long stride = (columns + PANEL - 1) / PANEL * PANEL;
    if (row < rows) {
        float sum = parts[row * stride + c];
        for (long p = 1; p < n_parts; p++) {
            sum += parts[(p * rows + row) * stride + c];
        }
        out[at] = FINISH(sum, BIAS_AT(c));
    }
}
)";

class matmul_fuser;

/// A product and what may follow it. Plain data: a copy is a clone.
struct block {
    bool relu = false;
    bool biased = false;
    bool transposed = false;
    unsigned len = 0; // operations covered, drops included
    unsigned n_ops = 0;
    unsigned dropped = 0; // bit i: the result of operation i is dead
    std::uint32_t results[3] = {KF_NONE, KF_NONE, KF_NONE};
    kiln::tensor a, b, bias, out;

    /// Only the last result is wanted.
    bool whole() const
    {
        return n_ops > 0 && dropped == (1u << (n_ops - 1)) - 1;
    }
};

class matmul_builder : public kiln::copyable_builder<matmul_builder>
{
  public:
    explicit matmul_builder(const matmul_fuser *fuser) : fuser_(fuser)
    {
    }
    void fuse(const kiln::values &, const kf_op &op) override;
    kiln::answer state() const override;
    kiln::program finish() const override;

  private:
    bool takes(const kf_op &op);
    bool takes_product(const kf_op &op);
    bool takes_bias(const kf_op &op);
    bool takes_relu(const kf_op &op);
    void takes_drop(const kf_op &op);

    const matmul_fuser *fuser_;
    bool open_ = true;
    block shown_; // all that was accepted
    block ready_; // the longest part of it that could be finished; n_ops 0: none
};

class matmul_fuser : public kiln::fuser
{
  public:
    matmul_fuser(const kf_host *to, const kf_device &device)
        : host(to), cost(kf_cost_of(&device)),
          width(kf_vector_width(device.vector_bytes, sizeof(float))),
          items((MATMUL_FORM != 0 ? MATMUL_FORM : device.code_shape) == KF_SHAPE_NDRANGE)
    {
        if (!kf_has_compiler(to, &device)) {
            throw kiln::declined();
        }
        if (items && (device.max_group_size < group || device.local_bytes < 16384)) {
            kf_decline(to, KF_CODE_DEVICE, KF_NONE, "work-groups of 128 with 16 KiB are too large");
            throw kiln::declined();
        }
        width = items ? 16 : width < 4 ? 4 : width;
    }
    std::unique_ptr<kiln::builder> start() const override
    {
        return std::make_unique<matmul_builder>(this);
    }

    static constexpr std::uint32_t group = 128; // work-items, where they share tiles
    const kf_host *host;
    kf_cost cost;
    std::uint32_t width; // elements of a vector; a panel has four
    bool items;
};

/// Loops and sizes of a block on a device.
struct plan {
    static constexpr std::int64_t k_block =
        256; // of the inner axis, so that a panel stays in cache
    bool items;
    std::int64_t width, registers, rows_each;
    kiln::expr rows, inner, columns, panels, row_blocks, parts, slice, padded;

    plan(const block &block, const matmul_fuser &fuser)
        : items(fuser.items), width(fuser.width), registers(items         ? 8
                                                            : width >= 16 ? 6
                                                                          : 2),
          rows_each(registers * 8), rows(1)
    {
        kiln::tensor leading = block.a;
        inner = leading.extent_from_end(1);
        leading.symbols.pop_back();
        rows = leading.count();
        columns = block.out.extent_from_end(1);
        panels = ceil_div(columns, 4 * width);
        row_blocks = ceil_div(rows, rows_each);
        const kiln::expr units = kiln::device_fact(KF_DEVICE_FACT_COMPUTE_UNITS);
        // A GPU hides its latencies behind other work-groups: more and shorter slices.
        parts = max(1, min(ceil_div(inner, items ? 64 : k_block),
                           ceil_div(units * (items ? 4 : 2), panels * row_blocks)));
        slice = round_up(ceil_div(inner, parts), 16);
        padded = panels * (4 * width);
    }
    kiln::expr part_bytes() const
    {
        return parts * rows * padded * 4;
    }
    kiln::expr packed_bytes() const
    {
        return padded * inner * 4;
    }
};

bool plain(const kf_tensor &t)
{
    return t.dtype == KF_DTYPE_F32 && kiln::tensor(t).dense();
}

bool flag(const kf_op &op, std::uint32_t key)
{
    const kf_attr *attr = kf_op_attr(&op, key);
    return attr != nullptr && attr->v.i != 0;
}

bool matmul_builder::takes_product(const kf_op &op)
{
    const std::uint32_t keys[] = {KF_ATTR_TRANSPOSE_A, KF_ATTR_TRANSPOSE_B};
    const kf_host *host = fuser_->host;
    if (!kf_op_understood(&op, 1, keys, 2)) {
        return kiln::decline(host, KF_CODE_NOT_UNDERSTOOD, op, "something newer than this fuser");
    }
    if (!plain(*op.inputs[0]) || !plain(*op.inputs[1])) {
        return kiln::decline(host, KF_CODE_LAYOUT, op, "only dense tensors of f32");
    }
    if ((op.inputs[1]->flags & KF_TENSOR_CONST) == 0) {
        return kiln::decline(host, KF_CODE_COST, op, "the right side is no constant to pack");
    }
    if (op.inputs[0]->rank < 2 || op.inputs[1]->rank != 2 || flag(op, KF_ATTR_TRANSPOSE_A)) {
        return kiln::decline(host, KF_CODE_SHAPE, op, "only rows times one matrix");
    }
    shown_.a = kiln::tensor(*op.inputs[0]);
    shown_.b = kiln::tensor(*op.inputs[1]);
    shown_.transposed = flag(op, KF_ATTR_TRANSPOSE_B);
    return true;
}

/// The sum of the product and a row that is the same for all rows, in either order.
bool matmul_builder::takes_bias(const kf_op &op)
{
    const kf_host *host = fuser_->host;
    const unsigned other = op.inputs[0]->id == shown_.results[0] ? 1 : 0;
    if (!kf_op_understood(&op, 1, nullptr, 0)) {
        return kiln::decline(host, KF_CODE_NOT_UNDERSTOOD, op, "something newer than this fuser");
    }
    const kiln::tensor bias(*op.inputs[other]);
    if (op.inputs[1 - other]->id != shown_.results[0] || bias.id == shown_.results[0]) {
        return kiln::decline(host, KF_CODE_UNKNOWN_OP, op, "a sum of something else");
    }
    bool fits = plain(*op.inputs[other]) && kiln::tensor(*op.outputs[0]).same_shape(shown_.out) &&
                !bias.symbols.empty() && bias.symbols.back() == shown_.out.symbols.back();
    for (std::size_t i = 0; i + 1 < bias.symbols.size(); i++) {
        fits = fits && bias.symbols[i] == 0;
    }
    if (!fits) {
        return kiln::decline(host, KF_CODE_SHAPE, op, "not one number for each column");
    }
    shown_.bias = bias;
    return shown_.biased = true;
}

bool matmul_builder::takes_relu(const kf_op &op)
{
    if (!kf_op_understood(&op, 1, nullptr, 0)) {
        return kiln::decline(fuser_->host, KF_CODE_NOT_UNDERSTOOD, op,
                             "something newer than this fuser");
    }
    if (op.inputs[0]->id != shown_.results[shown_.n_ops - 1]) {
        return kiln::decline(fuser_->host, KF_CODE_UNKNOWN_OP, op, "a relu of something else");
    }
    return shown_.relu = true;
}

bool matmul_builder::takes(const kf_op &op)
{
    bool taken = false;
    if (shown_.n_ops == 0 && op.kind == KF_OP_MATMUL) {
        taken = takes_product(op);
    } else if (shown_.n_ops == 1 && op.kind == KF_OP_ADD) {
        taken = takes_bias(op);
    } else if (shown_.n_ops > 0 && !shown_.relu && op.kind == KF_OP_RELU) {
        taken = takes_relu(op);
    } else {
        return kiln::decline(fuser_->host, KF_CODE_UNKNOWN_OP, op,
                             "not a product, its bias or its relu");
    }
    if (taken) {
        shown_.out = kiln::tensor(*op.outputs[0]);
        shown_.results[shown_.n_ops++] = shown_.out.id;
    }
    return taken;
}

void matmul_builder::takes_drop(const kf_op &op)
{
    for (unsigned i = 0; i < shown_.n_ops; i++) {
        shown_.dropped |= shown_.results[i] == op.inputs[0]->id ? 1u << i : 0u;
    }
}

void matmul_builder::fuse(const kiln::values &, const kf_op &op)
{
    if (op.kind == KF_OP_DROP && kf_op_understood(&op, 1, nullptr, 0)) {
        takes_drop(op);
    } else if (!takes(op)) {
        open_ = false;
        return;
    }
    shown_.len++;
    if (shown_.whole()) {
        ready_ = shown_;
    }
}

/// Bytes: the left side for every panel, the packed right side, the parts written and read, the
/// result. Time: one flop costs 1.25 times what the device's fastest does, as measured, 6 times on
/// a GPU.
kiln::answer matmul_builder::state() const
{
    kiln::answer answer;
    answer.open = open_;
    answer.ready = ready_.n_ops > 0;
    if (answer.ready) {
        const plan p(ready_, *fuser_);
        answer.len = ready_.len;
        answer.launches = 2;
        answer.temp_bytes = p.part_bytes();
        answer.bytes_read = ready_.a.bytes() + p.packed_bytes() + p.part_bytes();
        answer.bytes_written = p.part_bytes() + ready_.out.bytes();
        answer.flops = round_up(p.rows, p.registers) * p.padded * p.inner * 2;
        const kiln::expr once = ready_.a.bytes() + p.packed_bytes() + ready_.out.bytes();
        answer.ns = kiln::roofline_ns(fuser_->cost, once + p.part_bytes() * 2,
                                      floor_div(answer.flops * (p.items ? 24 : 5), 4), 2);
    }
    return answer;
}

std::string constants(const plan &p, const block &block)
{
    const std::string w = std::to_string(p.width);
    std::string text = "#define W " + w + "\n#define V float" + (p.items ? "" : w) +
                       "\n#define LOAD vload" + w + "\n#define STORE vstore" + w + "\n#define R " +
                       std::to_string(p.registers) + "\n#define ROWS " +
                       std::to_string(p.rows_each) + "\n#define BLOCK " +
                       std::to_string(plan::k_block) + "\n";
    text += std::string("#define PLUS_BIAS(x, y) ") + (block.biased ? "(x) + (y)\n" : "(x)\n");
    text += std::string("#define BIAS ") + (block.biased ? "__global const float *bias,\n" : "\n");
    text += std::string("#define BIAS_AT(c) ") + (block.biased ? "bias[c]\n" : "0.0f\n");
    // NaN stays NaN.
    text += "static inline V finish(V x) { return " +
            std::string(block.relu ? "select(x, (V)(0.0f), x < (V)(0.0f))" : "x") + "; }\n";
    text += "#define FINISH(x, y) finish(PLUS_BIAS(x, y))\n";
    return text;
}

kiln::program matmul_builder::finish() const
{
    const plan p(ready_, *fuser_);
    kiln::program program("matmul-split", ready_.len);
    const std::uint32_t text =
        program.source(constants(p, ready_) + (p.items ? items_source : block_source));
    const kiln::expr group = p.items ? matmul_fuser::group : 1;
    std::uint32_t packed = 0;
    program.packed(text, "pack", p.packed_bytes(), packed)
        .global({p.items ? round_up(p.padded * p.inner, group) : p.panels})
        .local({group})
        .read(ready_.b)
        .temp(packed, KF_ACCESS_WRITE)
        .value(p.inner)
        .value(p.columns)
        .value(ready_.transposed ? kiln::expr(1) : p.columns)
        .value(ready_.transposed ? p.inner : kiln::expr(1));
    const std::uint32_t parts = program.temporary(p.part_bytes());
    program.run(text, "partial")
        .global({p.row_blocks * group, p.panels, p.parts})
        .local({group, 1, 1})
        .read(ready_.a)
        .temp(packed, KF_ACCESS_READ)
        .temp(parts, KF_ACCESS_WRITE)
        .value(p.rows)
        .value(p.inner)
        .value(p.slice);
    kiln::launch &join = program.run(text, "join");
    join.global({p.items ? round_up(p.rows * p.columns, group) : ceil_div(p.rows, 4)})
        .local({group})
        .temp(parts, KF_ACCESS_READ);
    if (ready_.biased) {
        join.read(ready_.bias);
    }
    join.write(ready_.out).value(p.rows).value(p.columns).value(p.parts).value(4);
    return program;
}

} // namespace

KILN_PLUGIN("org.example.matmul-split", "1.0.0", "Example",
            kiln::fuser_named<matmul_fuser>("matmul-split"))
