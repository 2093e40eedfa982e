// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_SDK_KF_OPERATOR_HPP
#define KILN_PLUGIN_SDK_KF_OPERATOR_HPP

/// Part of kiln_fuser.hpp: operators that a plugin brings (kf_operators.h). An operator is a class
/// with static functions, all of them pure:
///
///   kf_status infer(const kf_call &, const kf_shape *const *inputs, kf_shape *const *outputs);
///   kf_status reference(const kf_call &, const kf_memory *const *inputs,
///                       const kf_memory *const *outputs);
///   kiln::program kernel(const kf_host *, const kf_device &, const kf_op &);      // optional
///
/// What they refuse they say with kiln::refuse or kiln::decline; `kernel` then throws
/// kiln::declined().

#include "kf_operators.h"
#include "kf_plugin_row.hpp"
#include "kf_sealed_program.hpp"

#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

struct kf_kernel {
    explicit kf_kernel(kiln::program p) : program(std::move(p))
    {
    }
    kiln::sealed_program program;
};

namespace kiln
{

/// Says why a call is not one of the operator's; what `infer` and `reference` then return.
inline kf_status refuse(const kf_call &call, std::uint32_t code, const char *why)
{
    (void)kf_decline(call.host, code, KF_NONE, "%s", why);
    return KF_DECLINED;
}

namespace glue
{

template <class O>
kf_status operator_infer(const kf_call *call, const kf_shape *const *inputs,
                         kf_shape *const *outputs)
{
    return guarded([&] { return O::infer(*call, inputs, outputs); });
}

template <class O>
kf_status operator_reference(const kf_call *call, const kf_memory *const *inputs,
                             const kf_memory *const *outputs)
{
    return guarded([&] { return O::reference(*call, inputs, outputs); });
}

template <class O>
kf_status kernel_create(const kf_host *host, const kf_device *device, const kf_block *,
                        const kf_op *op, kf_kernel **out)
{
    *out = nullptr;
    return guarded([&]() -> kf_status {
        *out = std::make_unique<kf_kernel>(O::kernel(host, kf_device_whole(device), *op)).release();
        return KF_OK;
    });
}

inline kf_status kernel_describe(const kf_kernel *kernel, kf_program *out)
{
    const kf_program view = kernel->program.view();
    KF_OUT(out, &view);
    return KF_OK;
}

inline void kernel_destroy(kf_kernel *kernel)
{
    delete kernel;
}

template <class O, class = void> struct kernel_of {
    static void put(kf_operator &)
    {
    }
};
template <class O> struct kernel_of<O, std::void_t<decltype(&O::kernel)>> {
    static void put(kf_operator &op)
    {
        op.kernel_create = kernel_create<O>;
        op.kernel_describe = kernel_describe;
        op.kernel_destroy = kernel_destroy;
    }
};

} // namespace glue

/// For KILN_PLUGIN: the operator of class O, "domain::name", with one input and one output unless
/// more is said.
template <class O> plugin_row operator_named(const char *name, const char *doc)
{
    plugin_row row;
    row.op.struct_size = static_cast<std::uint32_t>(sizeof(row.op));
    row.op.version = row.op.min_inputs = row.op.max_inputs = row.op.n_outputs = 1;
    row.op.name = glue::str_of(name);
    row.op.doc = glue::str_of(doc);
    row.op.infer = glue::operator_infer<O>;
    row.op.reference = glue::operator_reference<O>;
    glue::kernel_of<O>::put(row.op);
    return row;
}

} // namespace kiln

#endif
