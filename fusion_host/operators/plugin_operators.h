// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_PLUGIN_OPERATORS_H
#define KILN_FUSION_HOST_PLUGIN_OPERATORS_H

/// The operators that a plugin brings, and the fuser of their kernels.

#include "fuse_plugin.h"

/// What the extension kiln.operators/1 gives; none is well. The fuser of their kernels is the
/// host's own and beside the plugin: it has its strikes and its place in the order of candidates.
kiln_status kilni_fuse_operators_take(const kiln_fuse_registry *registry, kilni_fuse_plugin *plugin,
                                      kiln_error *err);
void kilni_fuse_operators_drop(const kiln_env *env, kilni_fuse_plugin *plugin);
kiln_status kilni_fuse_operator_fuser(const kiln_env *env, kilni_fuse_plugin *plugin,
                                      kiln_error *err);
void kilni_fuse_operator_fuser_drop(const kiln_env *env, kilni_fuse_plugin *plugin);
/// The values of an operator's parameters in the ABI's structs; texts need a place each.
void kilni_fuse_operator_attrs(const kiln_custom_op *op, const kiln_attr *values, kf_attr *out,
                               kf_blob *texts);

#endif
