// SPDX-License-Identifier: MIT OR Apache-2.0
// Rotary positions of rows: x * cos + concat(-high, low) * sin, five operations, where low and high
// are the halves of x or any tensors of that shape. Built outside of the tree by outsiders.py.
#include <kiln/kiln_fuser.hpp>

namespace
{

const char source[] = R"(
__kernel void rope(__global const float *x, __global const float *c, __global const float *s,
                   __global const float *low, long low0, long low_row, long low_one,
                   __global const float *high, long high0, long high_row, long high_one,
                   __global float *y, long width, long middle)
{
    long row = get_global_id(0);
    for (long i = 0; i < width; i++) {
        float turned = i < middle ? -high[high0 + row * high_row + i * high_one]
                                : low[low0 + row * low_row + (i - middle) * low_one];
        long at = row * width + i;
        float a = x[at] * c[at], b = turned * s[at];
        y[at] = a + b;
    }
}
)";

class own_fuser;

class my_builder : public kiln::copyable_builder<my_builder>
{
  public:
    explicit my_builder(const own_fuser *fuser) : fuser_(fuser)
    {
    }
    void fuse(const kiln::values &, const kf_op &op) override;
    kiln::answer state() const override;
    kiln::program finish() const override;

  private:
    enum { NEG, CONCAT, MUL_COS, MUL_SIN, ADD, N_OPS };
    bool takes(const kf_op &op) const;
    void keep(const kf_op &op);

    const own_fuser *fuser_;
    bool open_ = true;
    unsigned n_ops_ = 0, len_ = 0;
    unsigned dropped_ = 0; // bit i: the result of operation i is dead
    kiln::tensor results_[N_OPS];
    kiln::tensor low_, high_, x_, cos_, sin_;
};

class own_fuser : public kiln::fuser
{
  public:
    own_fuser(const kf_host *to, const kf_device &device) : host(to), cost(kf_cost_of(&device))
    {
        if ((device.features & KF_FEATURE_COMPILER) == 0) {
            throw kiln::declined();
        }
    }
    std::unique_ptr<kiln::builder> start() const override
    {
        return std::make_unique<my_builder>(this);
    }
    const kf_host *host;
    kf_cost cost;
};

bool matrix(const kf_tensor &t)
{
    return t.dtype == KF_DTYPE_F32 && t.rank == 2;
}

bool dense(const kf_tensor &t)
{
    return matrix(t) && kiln::tensor(t).dense();
}

std::int64_t axis_of(const kf_op &op)
{
    const kf_attr *axis = kf_op_attr(&op, KF_ATTR_AXIS);
    return axis != nullptr ? axis->v.i : 0;
}

bool my_builder::takes(const kf_op &op) const
{
    static const std::uint32_t kinds[] = {KF_OP_NEG, KF_OP_CONCAT, KF_OP_MUL, KF_OP_MUL, KF_OP_ADD};
    static const std::uint32_t known[] = {KF_ATTR_AXIS};
    const auto in = [&](unsigned i) -> const kf_tensor & { return *op.inputs[i]; };
    if (n_ops_ == N_OPS || op.kind != kinds[n_ops_]) {
        return kiln::decline(fuser_->host, KF_CODE_UNKNOWN_OP, op, "not the next operation");
    }
    if (!kf_op_understood(&op, 1, known, 1)) {
        return kiln::decline(fuser_->host, KF_CODE_NOT_UNDERSTOOD, op, "newer than this fuser");
    }
    bool right = dense(*op.outputs[0]);
    switch (n_ops_) {
    case NEG:
        right = right && matrix(in(0));
        break;
    case CONCAT:
        right = right && op.n_inputs == 2 && in(0).id == results_[NEG].id && matrix(in(1)) &&
                in(1).id != in(0).id && (axis_of(op) == 1 || axis_of(op) == -1) &&
                kiln::tensor(in(1)).symbols == high_.symbols;
        break;
    case MUL_COS:
        right = right && dense(in(0)) && dense(in(1)) && kf_same_dims(&in(0), &in(1)) &&
                in(0).id != results_[CONCAT].id && in(1).id != results_[CONCAT].id &&
                in(0).id != results_[NEG].id && in(1).id != results_[NEG].id &&
                kiln::tensor(in(0)).symbols == results_[CONCAT].symbols;
        break;
    case MUL_SIN:
        right = right && in(0).id == results_[CONCAT].id && dense(in(1)) && in(1).id != in(0).id &&
                in(1).id != results_[NEG].id && in(1).id != results_[MUL_COS].id &&
                kf_same_dims(&in(0), &in(1));
        break;
    default:
        right = right && in(0).id == results_[MUL_COS].id && in(1).id == results_[MUL_SIN].id;
        break;
    }
    return right ||
           kiln::decline(fuser_->host, KF_CODE_LAYOUT, op, "not as rotary positions have it");
}

void my_builder::keep(const kf_op &op)
{
    if (n_ops_ == NEG) {
        high_ = kiln::tensor(*op.inputs[0]);
    } else if (n_ops_ == CONCAT) {
        low_ = kiln::tensor(*op.inputs[1]);
    } else if (n_ops_ == MUL_COS) {
        x_ = kiln::tensor(*op.inputs[0]);
        cos_ = kiln::tensor(*op.inputs[1]);
    } else if (n_ops_ == MUL_SIN) {
        sin_ = kiln::tensor(*op.inputs[1]);
    }
    results_[n_ops_++] = kiln::tensor(*op.outputs[0]);
}

void my_builder::fuse(const kiln::values &, const kf_op &op)
{
    if (op.kind == KF_OP_DROP && kf_op_understood(&op, 1, nullptr, 0)) {
        for (unsigned i = 0; i < n_ops_; i++) {
            dropped_ |= results_[i].id == op.inputs[0]->id ? 1u << i : 0u;
        }
    } else if (takes(op)) {
        keep(op);
    } else {
        open_ = false;
        return;
    }
    len_++;
}

kiln::answer my_builder::state() const
{
    kiln::answer answer;
    answer.open = open_;
    answer.ready = n_ops_ == N_OPS && dropped_ == (1u << ADD) - 1;
    if (answer.ready) {
        answer.len = len_;
        answer.bytes_read = x_.bytes() * 4;
        answer.bytes_written = x_.bytes();
        answer.ns = kiln::roofline_ns(fuser_->cost, x_.bytes() * 5, x_.count() * 4);
    }
    return answer;
}

kiln::program my_builder::finish() const
{
    kiln::program program("rope", len_);
    program.run(program.source(source), "rope")
        .global({kiln::sym(x_.symbols[0])})
        .local({kiln::expr(1)})
        .read(x_)
        .read(cos_)
        .read(sin_)
        .read(low_)
        .offset(low_)
        .stride(low_, 0)
        .stride(low_, 1)
        .read(high_)
        .offset(high_)
        .stride(high_, 0)
        .stride(high_, 1)
        .write(results_[ADD])
        .value(kiln::sym(x_.symbols[1]))
        .value(kiln::sym(high_.symbols[1]));
    return program;
}

} // namespace

KILN_PLUGIN("org.example.rope", "0.1.0", "Example", kiln::fuser_named<own_fuser>("rope"))
