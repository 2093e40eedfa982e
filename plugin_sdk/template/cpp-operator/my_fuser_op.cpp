// SPDX-License-Identifier: MIT OR Apache-2.0
// The operator example::my_fuser: x where it is not below 0, slope * x elsewhere. What it means is
// `reference`; the kernel has to give the same. kiln_fuser.hpp keeps the rules of the plugin
// interface.
#include <kiln/kiln_fuser.hpp>

namespace
{

enum { SLOPE }; // numbers of the parameters, in the order of KILN_PLUGIN below

const char kernel_source[] = R"(
__kernel void my_kernel(__global const float *x, __global float *y, long count, long each)
{
    long begin = get_global_id(0) * each;
    long end = min(begin + each, count);
    for (long i = begin; i < end; i++) {
        y[i] = x[i] < 0.0f ? SLOPE * x[i] : x[i];
    }
}
)";

/// The bits, because infinity has no name that all compilers know.
std::string number(float value)
{
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return "as_float(" + std::to_string(bits) + "u)";
}

struct my_operator {
    /// Shapes and dtypes of the outputs, from those of the inputs.
    static kf_status infer(const kf_call &call, const kf_shape *const *inputs,
                           kf_shape *const *outputs)
    {
        if (inputs[0]->dtype != KF_DTYPE_F32) {
            return kiln::refuse(call, KF_CODE_DTYPE, "takes f32");
        }
        kf_shape_copy(outputs[0], inputs[0]);
        return KF_OK;
    }

    /// On the host, with any strides.
    static kf_status reference(const kf_call &call, const kf_memory *const *inputs,
                               const kf_memory *const *outputs)
    {
        const auto *x = static_cast<const float *>(inputs[0]->data);
        auto *y = static_cast<float *>(outputs[0]->data);
        const auto slope = static_cast<float>(call.attrs[SLOPE].v.f);
        for (std::int64_t i = 0; i < kf_memory_count(outputs[0]); i++) {
            const float v = x[kf_memory_at(inputs[0], i)];
            y[kf_memory_at(outputs[0], i)] = v < 0 ? slope * v : v;
        }
        return KF_OK;
    }

    /// The program of one call. What it is not for is computed by the reference.
    static kiln::program kernel(const kf_host *host, const kf_device &device, const kf_op &op)
    {
        const kiln::tensor x(*op.inputs[0]), y(*op.outputs[0]);
        const std::int64_t each = device.code_shape == KF_SHAPE_BLOCK ? 16384 : 4;
        if (!x.dense()) {
            kiln::decline(host, KF_CODE_LAYOUT, op, "the kernel is for dense tensors");
            throw kiln::declined();
        }
        const auto slope = static_cast<float>(kf_op_attr(&op, KF_PARAM_KEY(SLOPE))->v.f);
        kiln::program program("my-fuser", 1);
        program.run(program.source("#define SLOPE " + number(slope) + kernel_source), "my_kernel")
            .global({kiln::ceil_div(y.count(), each)})
            .read(x)
            .write(y)
            .value(y.count())
            .value(each);
        return program;
    }
};

} // namespace

KILN_PLUGIN("org.example.my-fuser", "0.1.0", "Example",
            kiln::operator_named<my_operator>("example::my_fuser", "x, and slope * x below 0")
                .real("slope", 0.1)) // 0.1 when it is left out
