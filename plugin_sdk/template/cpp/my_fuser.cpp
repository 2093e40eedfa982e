// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser in C++: relu(a + b) over dense f32 tensors of one shape. What it takes is `accepts`, the
// kernel `source`, the program `finish`; kiln_fuser.hpp keeps the rules of the plugin interface.
#include <kiln/kiln_fuser.hpp>

namespace
{

const char source[] = R"(
__kernel void my_kernel(__global const float *a, __global const float *b, __global float *out,
                        long count, long each)
{
    long begin = get_global_id(0) * each;
    long end = min(begin + each, count);
    for (long i = begin; i < end; i++) {
        float sum = a[i] + b[i];
        out[i] = sum < 0.0f ? 0.0f : sum; // NaN stays NaN
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
    bool accepts(const kf_op &op) const;
    bool ready() const
    {
        return n_ops_ == 2 && sum_dropped_;
    }

    const own_fuser *fuser_;
    bool open_ = true;
    bool sum_dropped_ = false;
    unsigned n_ops_ = 0;
    unsigned len_ = 0; // operations covered, drops included
    kiln::tensor a_, b_, sum_, out_;
};

class own_fuser : public kiln::fuser
{
  public:
    own_fuser(const kf_host *to, const kf_device &device)
        : host(to), cost(kf_cost_of(&device)), on_cpu(device.code_shape == KF_SHAPE_BLOCK)
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
    bool on_cpu;
};

bool plain(const kf_tensor &t)
{
    return t.dtype == KF_DTYPE_F32 && kiln::tensor(t).dense();
}

/// The add first, then a relu of its result; attributes: none.
bool my_builder::accepts(const kf_op &op) const
{
    const kf_host *host = fuser_->host;
    if (n_ops_ == 2 || op.kind != (n_ops_ == 0 ? KF_OP_ADD : KF_OP_RELU)) {
        return kiln::decline(host, KF_CODE_UNKNOWN_OP, op, "not the next operation");
    }
    if (!kf_op_understood(&op, 1, nullptr, 0)) {
        return kiln::decline(host, KF_CODE_NOT_UNDERSTOOD, op, "something newer than this fuser");
    }
    if (n_ops_ == 1 && op.inputs[0]->id != sum_.id) {
        return kiln::decline(host, KF_CODE_UNKNOWN_OP, op, "a relu of something else");
    }
    for (unsigned i = 0; i < op.n_inputs; i++) {
        if (!plain(*op.inputs[i]) || !kf_same_dims(op.inputs[i], op.outputs[0])) {
            return kiln::decline(host, KF_CODE_LAYOUT, op, "only dense f32 tensors of one shape");
        }
    }
    return plain(*op.outputs[0]) || kiln::decline(host, KF_CODE_DTYPE, op, "only results of f32");
}

void my_builder::fuse(const kiln::values &, const kf_op &op)
{
    if (op.kind == KF_OP_DROP && kf_op_understood(&op, 1, nullptr, 0)) {
        sum_dropped_ = sum_dropped_ || op.inputs[0]->id == sum_.id;
    } else if (accepts(op)) {
        if (n_ops_ == 0) {
            a_ = kiln::tensor(*op.inputs[0]);
            b_ = kiln::tensor(*op.inputs[1]);
            sum_ = kiln::tensor(*op.outputs[0]);
        } else {
            out_ = kiln::tensor(*op.outputs[0]);
        }
        n_ops_++;
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
    answer.ready = ready();
    if (answer.ready) {
        answer.len = len_;
        answer.bytes_read = a_.id == b_.id ? a_.bytes() : a_.bytes() + b_.bytes();
        answer.bytes_written = out_.bytes();
        answer.ns = kiln::roofline_ns(fuser_->cost, answer.bytes_read + answer.bytes_written,
                                      out_.count() * 2);
    }
    return answer;
}

kiln::program my_builder::finish() const
{
    const std::int64_t each = fuser_->on_cpu ? 16384 : 4;
    kiln::program program("my-fuser", len_);
    program.run(program.source(source), "my_kernel")
        .global({kiln::ceil_div(out_.count(), each)})
        .read(a_)
        .read(b_)
        .write(out_)
        .value(out_.count())
        .value(each);
    return program;
}

} // namespace

KILN_PLUGIN("org.example.my-fuser", "0.1.0", "Example", kiln::fuser_named<own_fuser>("my-fuser"))
