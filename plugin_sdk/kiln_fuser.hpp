// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kiln_fuser.hpp: the fuser ABI for C++17. Header only; a plugin derives from two classes and names
// them in KILN_PLUGIN. Objects own what they are made of, copies are clones, and no exception
// leaves the plugin: one that would is KF_E_INTERNAL for the host (KF_E_NOMEM for std::bad_alloc,
// KF_DECLINED for kiln::declined), and a strike.
//
//   kiln::expr      a formula over extents: kiln::sym(1) * 4, ceil_div(n, 256)
//   kiln::tensor    what is worth keeping of a kf_tensor
//   kiln::program   sources, launches with their arguments, temporaries, steps
//   kiln::builder   derive: what was accepted so far; copyable
//   kiln::fuser     derive: one for each device
//   kf_operator.hpp a class of static functions that is an operator of the plugin's own
#ifndef KILN_PLUGIN_SDK_KILN_FUSER_HPP
#define KILN_PLUGIN_SDK_KILN_FUSER_HPP

#include "kf_builder.hpp"
#include "kf_expr.hpp"
#include "kf_glue.hpp"
#include "kf_operator.hpp"
#include "kf_plugin_row.hpp"
#include "kf_program.hpp"
#include "kf_sealed_program.hpp"
#include "kf_tensor.hpp"

/// Once, at file scope, outside of namespaces: the manifest and the exported function. After the
/// texts one kiln::fuser_named<F>("id") or kiln::operator_named<O>("domain::name", "doc") or more.
#define KILN_PLUGIN(ID, VERSION, VENDOR, ...)                                                      \
    KF_MANIFEST(ID, VERSION, 0, KF_OPSET_MAX, 0, 0);                                               \
    extern "C" const kf_plugin *kf_plugin_query_v1(std::uint32_t)                                  \
    {                                                                                              \
        static const kiln::plugin_row given[] = {__VA_ARGS__};                                     \
        static const kiln::glue::sorted<sizeof(given) / sizeof(given[0])> rows(given);             \
        static const kf_plugin plugin = kiln::glue::table(ID, VERSION, VENDOR, rows.ids);          \
        return &plugin;                                                                            \
    }

#endif
