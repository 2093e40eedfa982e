// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_SDK_KF_PLUGIN_ROW_HPP
#define KILN_PLUGIN_SDK_KF_PLUGIN_ROW_HPP

/// Part of kiln_fuser.hpp: what KILN_PLUGIN lists, and how exceptions end at the C interface.

#include "kf_builder.hpp"
#include "kf_operators.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace kiln
{

namespace glue
{

/// Runs `f`; no exception gets past.
template <class F> kf_status guarded(F f)
{
#if defined(__cpp_exceptions)
    try {
        return f();
    } catch (const declined &) {
        return KF_DECLINED;
    } catch (const std::bad_alloc &) {
        return KF_E_NOMEM;
    } catch (...) {
        return KF_E_INTERNAL;
    }
#else
    return f();
#endif
}

inline kf_str str_of(const char *text)
{
    return kf_str{text, std::strlen(text)};
}

} // namespace glue

/// A fuser (fuser_named) or an operator (operator_named). The functions are for operators; what is
/// pointed to lives as long as the library.
struct plugin_row {
    const char *id = nullptr; ///< of a fuser
    std::unique_ptr<fuser> (*make)(const kf_host *, const kf_device &) = nullptr;
    kf_operator op = {}; ///< `params` is set in the plugin's own copy
    kf_param params[KF_MAX_PARAMS] = {};

    bool is_operator() const
    {
        return op.struct_size != 0;
    }
    /// A parameter, in the order of its numbers; without more flags it may be left out.
    plugin_row &param(const char *name, const kf_attr &fallback, std::uint32_t flags = 0)
    {
        if (op.n_params < KF_MAX_PARAMS) {
            params[op.n_params] = kf_param{glue::str_of(name), flags, 0, fallback};
        }
        op.n_params++; // the host refuses a plugin with too many
        return *this;
    }
    plugin_row &integer(const char *name, std::int64_t fallback)
    {
        kf_attr value = {0, KF_TYPE_I64, 0, 1, {}};
        value.v.i = fallback;
        return param(name, value);
    }
    plugin_row &real(const char *name, double fallback)
    {
        kf_attr value = {0, KF_TYPE_F64, 0, 1, {}};
        value.v.f = fallback;
        return param(name, value);
    }
    plugin_row &inputs(std::uint32_t least, std::uint32_t most)
    {
        op.min_inputs = least;
        op.max_inputs = most;
        return *this;
    }
    plugin_row &outputs(std::uint32_t count)
    {
        op.n_outputs = count;
        return *this;
    }
    plugin_row &version(std::uint32_t of_its_meaning)
    {
        op.version = of_its_meaning;
        return *this;
    }
    /// Another operator of the plugin, of the same version and parameters.
    plugin_row &gradient(const char *name)
    {
        op.gradient = glue::str_of(name);
        return *this;
    }
};

/// For KILN_PLUGIN: the fuser of class F, made by F(const kf_host *, const kf_device &).
template <class F> plugin_row fuser_named(const char *id)
{
    plugin_row row;
    row.id = id;
    row.make = [](const kf_host *host, const kf_device &device) {
        return std::unique_ptr<fuser>(std::make_unique<F>(host, device));
    };
    return row;
}

} // namespace kiln

#endif
