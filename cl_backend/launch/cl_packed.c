// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches with many buffers. NVIDIA's driver (580.159 on an H200) takes 0.3 us for each buffer
// among a kernel's arguments at each launch, whether it was set anew or not, and 4.5 us for the
// launch itself: an optimiser's step over many small tensors is bound by that. Where memory is
// shared virtual memory, the kernel gets their addresses in one argument by value instead, 2 ns
// each, and the driver is told the few allocations that they lie in
// (CL_KERNEL_EXEC_INFO_SVM_PTRS; OpenCL 3.0, 5.9.3).
//
// A fuser's program knows nothing of it: behind its source comes a kernel that calls the fuser's.

#include <string.h>

#include "cl_buffer.h"
#include "cl_launch.h"
#include "cl_packed.h"
#include "cl_program.h"
#include "cl_state.h"
#include "cl_svm.h"

enum { FEW_BUFFERS = 12, MOST_SHARED = 16 };

// Since OpenCL 2.0; weak, for an older loader does not have it.
extern cl_int clSetKernelExecInfo(cl_kernel kernel, cl_uint name, size_t bytes, const void *value)
    __attribute__((weak));

// ---- text ----

/// Addresses and numbers of 64 bits come first, then those of 32.
typedef struct counts {
    uint32_t whole;
    uint32_t halves;
} counts;

static bool is_half(const kiln_program_arg *arg)
{
    return arg->kind != KILN_ARG_TENSOR && arg->kind != KILN_ARG_TEMP &&
           kiln_dtype_size(arg->dtype) == 4;
}

static size_t bytes_of(counts n)
{
    return n.whole * sizeof(uint64_t) + (n.halves + 1u) / 2u * sizeof(uint64_t);
}

/// How a parameter of the kernel is made of the member that it is packed in; NULL: it is not.
static const char *unpacked(const kiln_program_arg *arg)
{
    if (arg->kind == KILN_ARG_TENSOR || arg->kind == KILN_ARG_TEMP) {
        return "(__global void *)(";
    }
    switch (arg->kind == KILN_ARG_LOCAL ? KILN_DTYPE_NONE : arg->dtype) {
    case KILN_DTYPE_F32:
        return "as_float(";
    case KILN_DTYPE_F64:
        return "as_double(";
    case KILN_DTYPE_I32:
    case KILN_DTYPE_I64:
    case KILN_DTYPE_U32:
    case KILN_DTYPE_U64:
        return "(";
    default:
        return NULL;
    }
}

static bool fits(const kilni_cl_backend *backend, const kiln_program_launch *launch)
{
    uint32_t n_buffers = 0;
    counts n = {0, 0};
    bool known = true;
    for (uint32_t i = 0; i < launch->n_args && known; i++) {
        kiln_arg_kind kind = launch->args[i].kind;
        n_buffers += kind == KILN_ARG_TENSOR || kind == KILN_ARG_TEMP;
        known = unpacked(&launch->args[i]) != NULL;
        n.halves += known && is_half(&launch->args[i]);
    }
    n.whole = launch->n_args - n.halves;
    return known && n_buffers > FEW_BUFFERS && bytes_of(n) <= backend->info.max_parameter_bytes;
}

/// A kernel that several launches use may have a different local size in each.
static bool is_only(const kiln_program *program, const kiln_program_launch *launch)
{
    bool only = true;
    for (uint32_t i = 0; i < program->n_launches && only; i++) {
        const kiln_program_launch *other = &program->launches[i];
        only = other == launch || other->source != launch->source || other->kernel == NULL ||
               strcmp(other->kernel, launch->kernel) != 0;
    }
    return only;
}

static bool in_word(const char *code, size_t length, size_t at)
{
    char c = at < length ? code[at] : ' ';
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// What becomes of local variables of a kernel that is called is the compiler's choice (OpenCL C
/// 1.2, 6.5.2 and 6.8), and a number is no pointer to constant memory, so a program that has any is
/// left alone.
static bool has_other_memory(const kiln_program_source *source)
{
    static const char *const words[] = {"local", "__local", "constant", "__constant"};
    enum { WORDS = sizeof(words) / sizeof(words[0]) };
    const char *code = source->code;
    bool found = false;
    for (size_t at = 0; at + 5 <= source->length && !found; at++) {
        for (size_t i = 0; i < WORDS && !in_word(code, source->length, at - 1); i++) {
            size_t length = strlen(words[i]);
            found = found ||
                    (at + length <= source->length && memcmp(code + at, words[i], length) == 0 &&
                     !in_word(code, source->length, at + length));
        }
    }
    return found;
}

static bool is_packed(kilni_cl_backend *backend, const kiln_program *program, uint32_t index)
{
    const kiln_program_launch *launch = &program->launches[index];
    return launch->source < program->n_sources && launch->kernel != NULL &&
           program->sources[launch->source].format == KILN_SOURCE_OPENCL_C &&
           fits(backend, launch) && is_only(program, launch) &&
           !has_other_memory(&program->sources[launch->source]) && clSetKernelExecInfo != NULL &&
           kilni_cl_shares(backend);
}

/// The launch's local size, where it needs no extents, is the kernel's required one.
static void write_local(const kiln_program_launch *launch, kiln_string *text)
{
    int64_t sizes[3] = {1, 1, 1};
    for (uint32_t i = 0; i < launch->n_dims && i < 3; i++) {
        if (launch->local[i].count != 1 || launch->local[i].steps[0].code != KILN_F_IMM) {
            return;
        }
        sizes[i] = launch->local[i].steps[0].imm;
    }
    kiln_string_printf(text, "__attribute__((reqd_work_group_size(%lld, %lld, %lld)))\n",
                       (long long)sizes[0], (long long)sizes[1], (long long)sizes[2]);
}

static void write_kernel(const kiln_program_launch *launch, uint32_t index, kiln_string *text)
{
    counts n = {0, 0};
    for (uint32_t i = 0; i < launch->n_args; i++) {
        n.halves += is_half(&launch->args[i]);
    }
    kiln_string_printf(text, "\ntypedef struct { ulong at[%u]; ", launch->n_args - n.halves);
    if (n.halves > 0) {
        kiln_string_printf(text, "uint half_at[%u]; ", (n.halves + 1u) / 2u * 2u);
    }
    kiln_string_printf(text, "} kiln_packed_%u;\n__kernel ", index);
    n.halves = 0;
    write_local(launch, text);
    kiln_string_printf(text, "void kiln_run_packed_%u(const kiln_packed_%u kiln_args)\n{\n    %s(",
                       index, index, launch->kernel);
    for (uint32_t i = 0; i < launch->n_args; i++) {
        bool half = is_half(&launch->args[i]);
        kiln_string_printf(text, "%s%skiln_args.%s[%u])", i == 0 ? "" : ",\n        ",
                           unpacked(&launch->args[i]), half ? "half_at" : "at",
                           half ? n.halves++ : n.whole++);
    }
    kiln_string_printf(text, ");\n}\n");
}

void kilni_cl_packed_text(kilni_cl_backend *backend, const kiln_program *program, uint32_t source,
                          kiln_string *text)
{
    for (uint32_t i = 0; i < program->n_launches; i++) {
        if (program->launches[i].source == source && is_packed(backend, program, i)) {
            write_kernel(&program->launches[i], i, text);
        }
    }
}

bool kilni_cl_packed_name(kilni_cl_backend *backend, const kiln_program *program, uint32_t index,
                          kiln_string *name)
{
    if (!is_packed(backend, program, index)) {
        return false;
    }
    kiln_string_printf(name, "kiln_run_packed_%u", index);
    return !name->failed;
}

// ---- arguments ----

/// The allocations that a launch's buffers lie in.
typedef struct shared_list {
    void *at[MOST_SHARED];
    uint32_t count;
} shared_list;

static bool note_shared(shared_list *list, void *shared)
{
    for (uint32_t i = list->count; i-- > 0;) {
        if (list->at[i] == shared) {
            return true;
        }
    }
    if (list->count == MOST_SHARED) {
        return false;
    }
    list->at[list->count++] = shared;
    return true;
}

/// The value of an argument; `*out_half`: it has 32 bits.
static bool pack(const kiln_launch_arg *arg, shared_list *list, uint64_t *out_value, bool *out_half)
{
    const kilni_cl_buffer *buffer = NULL;
    switch (arg->kind) {
    case KILN_VALUE_BYTES:
        *out_half = arg->length == sizeof(uint32_t);
        *out_value = arg->bytes;
        return true;
    case KILN_VALUE_BUFFER:
        buffer = arg->buffer != NULL ? kilni_cl_buffer_of(arg->buffer) : NULL;
        *out_value = buffer != NULL ? (uint64_t)(uintptr_t)buffer->address : 0;
        return buffer == NULL || (buffer->address != NULL && note_shared(list, buffer->shared));
    default:
        return false;
    }
}

bool kilni_cl_packed_args(kilni_cl_backend *backend, kilni_cl_kernel *packed,
                          const kiln_launch *launch, kilni_cl_args *out_args)
{
    enum { SVM_PTRS = 0x11B6 };
    uint64_t values[KILN_LAUNCH_ARGS_MAX + 1];
    uint32_t halves[KILN_LAUNCH_ARGS_MAX + 1];
    counts n = {0, 0};
    shared_list list = {.count = 0};
    if (launch->n_args > KILN_LAUNCH_ARGS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < launch->n_args; i++) {
        bool half = false;
        uint64_t value = 0;
        if (!pack(&launch->args[i], &list, &value, &half)) {
            return false;
        }
        if (half) {
            halves[n.halves++] = (uint32_t)value;
        } else {
            values[n.whole++] = value;
        }
    }
    halves[n.halves] = 0; // the struct's size is a multiple of 8
    memcpy(&values[n.whole], halves, bytes_of(n) - n.whole * sizeof(uint64_t));
    if (clSetKernelExecInfo(packed->kernel, SVM_PTRS, list.count * sizeof(void *), list.at) !=
        CL_SUCCESS) {
        return false;
    }
    backend->counters.packed++;
    *out_args = kilni_cl_args_begin(backend, packed);
    kilni_cl_push_bytes(out_args, values, bytes_of(n));
    return true;
}
