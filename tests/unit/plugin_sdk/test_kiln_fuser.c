// SPDX-License-Identifier: MIT OR Apache-2.0
// The fuser ABI's layout: size, offset and alignment of every field against the committed list. A
// line of tests/golden/kf_layout_v1.txt never changes within major version 1; new fields only add
// lines at the end of structs that are not frozen. `test_kiln_fuser --print` writes the list.
#include <stdalign.h>

#include "harness.h"
#include "kf_util.h"

#define STRUCT(type)                                                                               \
    kf_text_addf(out, #type " size %u align %u\n", (unsigned)sizeof(type), (unsigned)alignof(type));
#define FIELD(type, field)                                                                         \
    kf_text_addf(out, "  %s offset %u size %u\n", #field, (unsigned)offsetof(type, field),         \
                 (unsigned)sizeof(((type *)0)->field));

static void print_values(kf_text *out)
{
    STRUCT(kf_str)
    FIELD(kf_str, ptr)
    FIELD(kf_str, len)
    STRUCT(kf_blob)
    FIELD(kf_blob, ptr)
    FIELD(kf_blob, len)
    STRUCT(kf_dim)
    FIELD(kf_dim, value)
    FIELD(kf_dim, symbol)
    FIELD(kf_dim, flags)
    STRUCT(kf_attr)
    FIELD(kf_attr, key)
    FIELD(kf_attr, type)
    FIELD(kf_attr, flags)
    FIELD(kf_attr, count)
    FIELD(kf_attr, v)
    STRUCT(kf_scalar)
    FIELD(kf_scalar, type)
    FIELD(kf_scalar, reserved)
    FIELD(kf_scalar, v)
    STRUCT(kf_ins)
    FIELD(kf_ins, op)
    FIELD(kf_ins, arg)
    FIELD(kf_ins, sym)
    FIELD(kf_ins, imm)
    STRUCT(kf_expr)
    FIELD(kf_expr, ins)
    FIELD(kf_expr, n)
    STRUCT(kf_karg)
    FIELD(kf_karg, kind)
    FIELD(kf_karg, access)
    FIELD(kf_karg, ref)
    FIELD(kf_karg, dtype)
    FIELD(kf_karg, axis)
    FIELD(kf_karg, reserved)
    FIELD(kf_karg, value)
    STRUCT(kf_temp)
    FIELD(kf_temp, bytes)
    FIELD(kf_temp, align)
    FIELD(kf_temp, flags)
    FIELD(kf_temp, prepack)
    FIELD(kf_temp, reserved)
    STRUCT(kf_step)
    FIELD(kf_step, kind)
    FIELD(kf_step, index)
}

static void print_stream(kf_text *out)
{
    STRUCT(kf_diag)
    FIELD(kf_diag, struct_size)
    FIELD(kf_diag, severity)
    FIELD(kf_diag, code)
    FIELD(kf_diag, op_index)
    FIELD(kf_diag, message)
    STRUCT(kf_host)
    FIELD(kf_host, struct_size)
    FIELD(kf_host, abi_minor)
    FIELD(kf_host, ctx)
    FIELD(kf_host, name)
    FIELD(kf_host, version)
    FIELD(kf_host, report)
    FIELD(kf_host, alloc)
    FIELD(kf_host, free)
    FIELD(kf_host, cancelled)
    FIELD(kf_host, extension)
    STRUCT(kf_block)
    FIELD(kf_block, struct_size)
    FIELD(kf_block, reserved)
    FIELD(kf_block, ctx)
    FIELD(kf_block, dim_value)
    FIELD(kf_block, scalar_value)
    STRUCT(kf_tensor)
    FIELD(kf_tensor, struct_size)
    FIELD(kf_tensor, id)
    FIELD(kf_tensor, dtype)
    FIELD(kf_tensor, scheme)
    FIELD(kf_tensor, rank)
    FIELD(kf_tensor, flags)
    FIELD(kf_tensor, facts)
    FIELD(kf_tensor, align_log2)
    FIELD(kf_tensor, div_by)
    FIELD(kf_tensor, reserved)
    FIELD(kf_tensor, dims)
    STRUCT(kf_op)
    FIELD(kf_op, struct_size)
    FIELD(kf_op, kind)
    FIELD(kf_op, version)
    FIELD(kf_op, flags)
    FIELD(kf_op, n_inputs)
    FIELD(kf_op, n_outputs)
    FIELD(kf_op, n_attrs)
    FIELD(kf_op, position)
    FIELD(kf_op, inputs)
    FIELD(kf_op, outputs)
    FIELD(kf_op, attrs)
    STRUCT(kf_state)
    FIELD(kf_state, struct_size)
    FIELD(kf_state, status)
    FIELD(kf_state, ready)
    FIELD(kf_state, len)
    FIELD(kf_state, confidence)
    FIELD(kf_state, launches)
    FIELD(kf_state, est_ns)
    FIELD(kf_state, est_bytes_read)
    FIELD(kf_state, est_bytes_written)
    FIELD(kf_state, est_flops)
    FIELD(kf_state, temp_bytes)
}

static void print_device(kf_text *out)
{
    STRUCT(kf_device)
    FIELD(kf_device, struct_size)
    FIELD(kf_device, device_type)
    FIELD(kf_device, code_shape)
    FIELD(kf_device, vendor_id)
    FIELD(kf_device, features)
    FIELD(kf_device, dtype_storage)
    FIELD(kf_device, dtype_arithmetic)
    FIELD(kf_device, dtype_accelerated)
    FIELD(kf_device, global_bytes)
    FIELD(kf_device, max_alloc_bytes)
    FIELD(kf_device, local_bytes)
    FIELD(kf_device, max_group_size)
    FIELD(kf_device, max_group_dim)
    FIELD(kf_device, max_param_bytes)
    FIELD(kf_device, compute_units)
    FIELD(kf_device, subgroup_size)
    FIELD(kf_device, vector_bytes)
    FIELD(kf_device, mem_align_bytes)
    FIELD(kf_device, cl_version)
    FIELD(kf_device, cl_c_version)
    FIELD(kf_device, cache_line_bytes)
    FIELD(kf_device, opset)
    FIELD(kf_device, cache_bytes)
    FIELD(kf_device, mem_bytes_per_s)
    FIELD(kf_device, flops_f32)
    FIELD(kf_device, flops_f16)
    FIELD(kf_device, flops_f64)
    FIELD(kf_device, launch_ns)
    FIELD(kf_device, name)
    FIELD(kf_device, driver)
    FIELD(kf_device, extensions)
    FIELD(kf_device, fingerprint)
}

static void print_program(kf_text *out)
{
    STRUCT(kf_source)
    FIELD(kf_source, struct_size)
    FIELD(kf_source, format)
    FIELD(kf_source, code)
    FIELD(kf_source, fingerprint)
    FIELD(kf_source, defines)
    FIELD(kf_source, n_defines)
    FIELD(kf_source, math_flags)
    FIELD(kf_source, cl_c_version)
    FIELD(kf_source, reserved)
    STRUCT(kf_launch)
    FIELD(kf_launch, struct_size)
    FIELD(kf_launch, source)
    FIELD(kf_launch, dims)
    FIELD(kf_launch, n_args)
    FIELD(kf_launch, kernel)
    FIELD(kf_launch, global)
    FIELD(kf_launch, local)
    FIELD(kf_launch, args)
    FIELD(kf_launch, flags)
    FIELD(kf_launch, reserved)
    STRUCT(kf_program)
    FIELD(kf_program, struct_size)
    FIELD(kf_program, flags)
    FIELD(kf_program, sources)
    FIELD(kf_program, n_sources)
    FIELD(kf_program, launches)
    FIELD(kf_program, n_launches)
    FIELD(kf_program, temps)
    FIELD(kf_program, n_temps)
    FIELD(kf_program, steps)
    FIELD(kf_program, n_steps)
    FIELD(kf_program, guard)
    STRUCT(kf_opt_info)
    FIELD(kf_opt_info, struct_size)
    FIELD(kf_opt_info, len)
    FIELD(kf_opt_info, n_variants)
    FIELD(kf_opt_info, reserved)
    FIELD(kf_opt_info, name)
    FIELD(kf_opt_info, key)
}

static void print_plugin(kf_text *out)
{
    STRUCT(kf_plugin)
    FIELD(kf_plugin, struct_size)
    FIELD(kf_plugin, abi_minor)
    FIELD(kf_plugin, id)
    FIELD(kf_plugin, version)
    FIELD(kf_plugin, vendor)
    FIELD(kf_plugin, fuser_ids)
    FIELD(kf_plugin, n_fusers)
    FIELD(kf_plugin, init)
    FIELD(kf_plugin, deinit)
    FIELD(kf_plugin, extension)
    FIELD(kf_plugin, fuser_create)
    FIELD(kf_plugin, fuser_destroy)
    FIELD(kf_plugin, builder_create)
    FIELD(kf_plugin, builder_clone)
    FIELD(kf_plugin, builder_fuse)
    FIELD(kf_plugin, builder_state)
    FIELD(kf_plugin, builder_reset)
    FIELD(kf_plugin, builder_finish)
    FIELD(kf_plugin, builder_destroy)
    FIELD(kf_plugin, opt_info)
    FIELD(kf_plugin, opt_describe)
    FIELD(kf_plugin, opt_to_state)
    FIELD(kf_plugin, opt_from_state)
    FIELD(kf_plugin, opt_destroy)
    STRUCT(kf_manifest)
    FIELD(kf_manifest, struct_size)
    FIELD(kf_manifest, abi_major)
    FIELD(kf_manifest, abi_minor)
    FIELD(kf_manifest, min_host_minor)
    FIELD(kf_manifest, opset_max)
    FIELD(kf_manifest, sanitizer)
    FIELD(kf_manifest, cpu_features)
    FIELD(kf_manifest, flags)
    FIELD(kf_manifest, id)
    FIELD(kf_manifest, version)
    FIELD(kf_manifest, build)
    STRUCT(kf_note)
    FIELD(kf_note, namesz)
    FIELD(kf_note, descsz)
    FIELD(kf_note, type)
    FIELD(kf_note, name)
    FIELD(kf_note, desc)
}

static void print_layout(kf_text *out)
{
    print_values(out);
    print_stream(out);
    print_device(out);
    print_program(out);
    print_plugin(out);
}

static void test_layout_is_the_committed_one(void)
{
    kf_text layout = {0};
    size_t bytes = 0;
    char *golden = kiln_test_read_file(KILN_SOURCE_DIR "/tests/golden/kf_layout_v1.txt", &bytes);
    print_layout(&layout);
    KILN_CHECK(!layout.failed);
    if (KILN_CHECK(golden != NULL) && strcmp(layout.ptr, golden) != 0) {
        const char *a = layout.ptr, *b = golden;
        size_t line = 1;
        while (*a != '\0' && *a == *b) {
            line += *a == '\n';
            a++;
            b++;
        }
        KILN_FAIL("kf_layout_v1.txt differs from line %zu on: the ABI may only grow", line);
    }
    free(golden);
    kf_text_free(&layout);
}

/// Every struct begins with its size, or is frozen and never grows: the header says which.
static void test_growing_structs_start_with_their_size(void)
{
    KILN_CHECK_INT(offsetof(kf_plugin, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_host, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_block, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_device, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_state, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_manifest, struct_size), 0);
    size_t bytes = 0, structs = 0, marked = 0;
    char *header = kiln_test_read_file(KILN_SOURCE_DIR "/plugin_sdk/kiln_fuser.h", &bytes);
    if (header == NULL) {
        KILN_FAIL("kiln_fuser.h cannot be read");
        return;
    }
    const char *at = header;
    while ((at = strstr(at, "struct kf_")) != NULL) {
        const char *end = strchr(at, '\n'), *brace = strchr(at, '{');
        if (end == NULL) {
            break;
        }
        if (brace != NULL && brace < end) {
            bool frozen = strstr(at, "// frozen") != NULL && strstr(at, "// frozen") < end;
            bool sized = strncmp(end + 1, "    uint32_t struct_size", 24) == 0;
            bool note = strncmp(at, "struct kf_note", 14) == 0; // ELF's own layout
            structs++;
            marked += frozen || sized || note;
            if (!frozen && !sized && !note) {
                KILN_FAIL("%.30s neither starts with struct_size nor is frozen", at);
            }
        }
        at = end;
    }
    KILN_CHECK(structs >= 20);
    KILN_CHECK_INT(structs, marked);
    free(header);
}

static void test_out_structs_are_never_overrun(void)
{
    struct {
        kf_opt_info info;
        unsigned char after[64];
    } room;
    struct {
        kf_opt_info info;
        uint64_t newer[2];
    } newer;
    memset(&room, 0x11, sizeof(room));
    memset(&newer, 0x22, sizeof(newer));
    room.info.struct_size = (uint32_t)sizeof(room.info);
    KF_OUT(&room.info, &newer);
    KILN_CHECK_INT(room.info.struct_size, sizeof(room.info));
    KILN_CHECK_INT(room.info.len, 0x22222222);
    KILN_CHECK_INT(room.after[0], 0x11);
    KILN_CHECK(KF_HAS(&room.info, kf_opt_info, key));
    room.info.struct_size = (uint32_t)offsetof(kf_opt_info, key) + 1;
    KILN_CHECK(!KF_HAS(&room.info, kf_opt_info, key));
}

static const kiln_test_case cases[] = {
    KILN_TEST(test_layout_is_the_committed_one),
    KILN_TEST(test_growing_structs_start_with_their_size),
    KILN_TEST(test_out_structs_are_never_overrun),
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        kf_text layout = {0};
        print_layout(&layout);
        fputs(layout.failed ? "" : layout.ptr, stdout);
        kf_text_free(&layout);
        return 0;
    }
    return kiln_test_run("unit/plugin_sdk/kiln_fuser", cases, sizeof(cases) / sizeof(cases[0]),
                         argc, argv);
}
