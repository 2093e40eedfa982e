// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_TRANSLATE_H
#define KILN_FUSION_HOST_TRANSLATE_H

/// A fuser's program into one of the host's, trusting nothing; and such a program as bytes.

#include "block_view.h"

/// What a kernel's arguments may take together; what OpenCL promises where the device does not say.
static inline uint64_t kilni_fuse_param_bytes(const kiln_device_info *device)
{
    return device->max_parameter_bytes != 0 ? device->max_parameter_bytes : 1024;
}

/// A fuser's program, copied into `arena` and verified as hostile input against the block's first
/// `len` operations and the extents at hand. Guards for the values that the fuser asked for are in
/// it.
typedef struct kilni_fuse_translation {
    const kilni_fuse_block_view *view;
    uint32_t len;
    const kiln_device_info *device; ///< limits
    const int64_t *facts;
    const int64_t *values; ///< of the block's symbols
    const kilni_fuse_asks *asks; ///< what it asked for
    kiln_arena *arena;
} kilni_fuse_translation;

/// A struct of the plugin as this host knows it: `known` bytes, of which the plugin has at least
/// `least`; what it lacks is zero, and what lies behind must be.
kiln_status kilni_fuse_read_struct(const void *object, uint32_t least, void *out, uint32_t known,
                                   const char *what, uint32_t index, kiln_error *err);
/// The form of a launch, and of a source, for the device. UNIMPLEMENTED: there is none.
kiln_status kilni_fuse_launch_form(const kiln_device_info *device, const kf_launch *given,
                                   uint32_t index, kf_launch *out, kiln_error *err);
kiln_status kilni_fuse_source_form(const kiln_device_info *device, const kf_source *given,
                                   uint32_t index, kf_source *out, kiln_error *err);

/// Whether a source may have these options for the device's own compiler; "": it has none.
kiln_status kilni_fuse_check_options(const char *text, uint32_t source, kiln_error *err);

kiln_status kilni_fuse_translate(const kilni_fuse_translation *input, const kf_program *program,
                                 kiln_program **out_program, kiln_error *err);
kiln_status kilni_fuse_formula_translate(const kilni_fuse_translation *input, kf_expr expr,
                                         kiln_formula *out_formula, kiln_error *err);
kiln_status kilni_fuse_formula_now(const kilni_fuse_translation *input, const kiln_formula *formula,
                                   int64_t *out_value, kiln_error *err);
kiln_status kilni_fuse_program_check(const kilni_fuse_translation *input,
                                     const kiln_program *program, kiln_error *err);

/// A program as bytes, as it lies on disk.
void kilni_fuse_write_number(kiln_string *s, uint64_t value);
void kilni_fuse_write_text(kiln_string *s, const char *text);
void kilni_fuse_write_program(kiln_string *s, const kiln_program *program);
/// Names the content of a program; equal key, equal program.
kiln_hash128 kilni_fuse_program_key(const kiln_env *env, const kiln_program *program,
                                    bool *out_failed);

#endif
