// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser's program into ir's neutral form. The fuser is not trusted: counts are bounded before
// arrays are read, texts are checked, every reference is in range, unknown flags and non-zero
// unknown tails are refused. Everything is copied, so nothing of the plugin is needed afterwards.
// Whether the program does what the block asks is program_check.c.
#include <inttypes.h>
#include <string.h>

#include "host_services.h"
#include "translate.h"

enum {
    MAX_SOURCES = 1024,
    MAX_LAUNCHES = 1024,
    MAX_TEMPS = 1024,
    MAX_STEPS = 4096,
    MAX_DEFINES = 256,
    MAX_CODE_BYTES = 64 << 20,
    MAX_NAME = 255,
    MAX_OPTIONS = 1 << 16
};

static const uint64_t known_math =
    KF_MATH_CONTRACT | KF_MATH_REASSOC | KF_MATH_FTZ | KF_MATH_APPROX;

typedef struct translator {
    const kilni_fuse_translation *input;
    kiln_program *out;
    kiln_error *err;
    kf_launch *launches; ///< in the form for this device
    uint32_t sources[MAX_SOURCES]; ///< their new numbers
} translator;

static const uint32_t unused = UINT32_MAX;

static kiln_status no_memory(translator *t)
{
    return kiln_fail(t->err, RESOURCE_EXHAUSTED, "no memory for a program");
}

static kiln_status check_count(translator *t, uint64_t count, uint64_t limit, const void *array,
                               const char *what)
{
    if (count > limit) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "program has %" PRIu64 " %s, at most %" PRIu64,
                         count, what, limit);
    }
    if (count > 0 && array == NULL) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "program has %" PRIu64 " %s at NULL", count,
                         what);
    }
    return KILN_STATUS_OK;
}

static bool starts_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Length of the C identifier at the start of a text.
static uint64_t name_length(kf_str text)
{
    uint64_t n = 0;
    while (n < text.len &&
           (starts_name(text.ptr[n]) || (n > 0 && text.ptr[n] >= '0' && text.ptr[n] <= '9'))) {
        n++;
    }
    return n;
}

static const char *copy_text(translator *t, const char *bytes, uint64_t length)
{
    char *copy = kiln_arena_alloc(t->input->arena, length + 1);
    if (copy != NULL && bytes != NULL) {
        memcpy(copy, bytes, length);
    }
    return copy;
}

// ---- sources ----

static kiln_status take_defines(translator *t, const kf_source *from, kiln_program_source *to)
{
    kiln_status status = check_count(t, from->n_defines, MAX_DEFINES, from->defines, "defines");
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const char **defines = kiln_arena_alloc(t->input->arena, from->n_defines * sizeof(*defines));
    if (defines == NULL) {
        return no_memory(t);
    }
    for (uint64_t i = 0; i < from->n_defines; i++) {
        kf_str text = from->defines[i];
        uint64_t name = kilni_fuse_text_ok(text, MAX_NAME) ? name_length(text) : 0;
        if (name == 0 || (name < text.len && text.ptr[name] != '=')) {
            return kiln_fail(t->err, INVALID_ARGUMENT,
                             "define %" PRIu64 " is not NAME or NAME=VALUE", i);
        }
        defines[i] = copy_text(t, text.ptr, text.len);
        if (defines[i] == NULL) {
            return no_memory(t);
        }
    }
    to->defines = defines;
    to->n_defines = (uint32_t)from->n_defines;
    return KILN_STATUS_OK;
}

static kiln_status check_format(translator *t, const kf_source *from, uint32_t index)
{
    const kiln_device_info *device = t->input->device;
    switch (from->format) {
    case KF_FORMAT_OPENCL_C:
        if (!kilni_fuse_utf8_ok(from->code.ptr, from->code.len) ||
            memchr(from->code.ptr, 0, from->code.len) != NULL) {
            return kiln_fail(t->err, INVALID_ARGUMENT, "source %u is not UTF-8 text", index);
        }
        return KILN_STATUS_OK;
    case KF_FORMAT_SPIRV:
        if ((device->features & KILN_FEATURE_IL_SPIRV) == 0) {
            return kiln_fail(t->err, INVALID_ARGUMENT,
                             "source %u is SPIR-V, which the device does not take", index);
        }
        return KILN_STATUS_OK;
    case KF_FORMAT_BINARY:
        if (from->fingerprint.len != sizeof(device->fingerprint) || from->fingerprint.ptr == NULL ||
            memcmp(from->fingerprint.ptr, &device->fingerprint, sizeof(device->fingerprint)) != 0) {
            return kiln_fail(t->err, INVALID_ARGUMENT, "source %u is a binary for another device",
                             index);
        }
        return KILN_STATUS_OK;
    default:
        return kiln_fail(t->err, INVALID_ARGUMENT, "source %u has unknown format %u", index,
                         from->format);
    }
}

static kiln_status check_math(translator *t, uint64_t flags, uint32_t index)
{
    if ((flags & ~known_math) != 0) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "source %u has unknown math flags %#" PRIx64,
                         index, flags);
    }
    if ((flags & (KF_MATH_APPROX | KF_MATH_FTZ)) != 0) {
        return kiln_fail(t->err, INVALID_ARGUMENT,
                         "source %u needs approximate arithmetic, which was not asked for", index);
    }
    return KILN_STATUS_OK;
}

static kiln_status take_options(translator *t, const kf_source *from, uint32_t index,
                                kiln_program_source *to)
{
    kf_str text = from->options;
    if (text.len == 0) {
        return KILN_STATUS_OK;
    }
    if (!kilni_fuse_text_ok(text, MAX_OPTIONS)) {
        return kiln_fail(t->err, INVALID_ARGUMENT,
                         "source %u has compiler options that are no text", index);
    }
    to->vendor_options = copy_text(t, text.ptr, text.len);
    return to->vendor_options != NULL ? kilni_fuse_check_options(to->vendor_options, index, t->err)
                                      : no_memory(t);
}

static kiln_status take_source(translator *t, const kf_source *given, uint32_t index,
                               kiln_program_source *to)
{
    kf_source form;
    const kf_source *from = &form;
    kiln_status status = kilni_fuse_source_form(t->input->device, given, index, &form, t->err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (from->code.ptr == NULL || from->code.len == 0 || from->code.len > MAX_CODE_BYTES) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "source %u has %" PRIu64 " bytes of code", index,
                         from->code.len);
    }
    status = check_format(t, from, index);
    if (status == KILN_STATUS_OK) {
        status = check_math(t, from->math_flags, index);
    }
    if (status == KILN_STATUS_OK) {
        status = take_defines(t, from, to);
    }
    if (status == KILN_STATUS_OK && from->format != KF_FORMAT_BINARY) {
        status = take_options(t, from, index, to);
    } else if (status == KILN_STATUS_OK && given->format == KF_FORMAT_BINARY &&
               from->options.len > 0) {
        status = kiln_fail(t->err, INVALID_ARGUMENT, "source %u is a binary with compiler options",
                           index);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    to->format = (kiln_source_format)from->format;
    to->code = copy_text(t, from->code.ptr, from->code.len);
    to->length = from->code.len;
    to->cl_c_version = from->cl_c_version;
    to->math |= (from->math_flags & KF_MATH_CONTRACT) != 0 ? KILN_MATH_CONTRACT : 0;
    to->math |= (from->math_flags & KF_MATH_REASSOC) != 0 ? KILN_MATH_REASSOCIATE : 0;
    if (from->format == KF_FORMAT_BINARY) {
        to->fingerprint = t->input->device->fingerprint;
    }
    return to->code != NULL ? KILN_STATUS_OK : no_memory(t);
}

/// Those that the launches use, in their order: another form's source may not fit this device.
static kiln_status take_sources(translator *t, const kf_program *program)
{
    kiln_program_source *sources =
        kiln_arena_alloc(t->input->arena, program->n_sources * sizeof(*sources));
    uint32_t count = 0;
    if (sources == NULL) {
        return no_memory(t);
    }
    for (uint32_t i = 0; i < program->n_sources; i++) {
        if (t->sources[i] == unused) {
            continue;
        }
        kiln_status status = take_source(t, program->sources[i], i, &sources[count]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        t->sources[i] = count++;
    }
    t->out->sources = sources;
    t->out->n_sources = count;
    return KILN_STATUS_OK;
}

/// The form of each launch for this device, and which sources these need.
static kiln_status choose_forms(translator *t, const kf_program *program)
{
    t->launches = kiln_arena_alloc(t->input->arena, program->n_launches * sizeof(*t->launches) + 1);
    if (t->launches == NULL) {
        return no_memory(t);
    }
    memset(t->sources, 0xff, sizeof(t->sources));
    for (uint32_t i = 0; i < program->n_launches; i++) {
        kiln_status status = kilni_fuse_launch_form(t->input->device, program->launches[i], i,
                                                    &t->launches[i], t->err);
        if (status == KILN_STATUS_OK && t->launches[i].source >= program->n_sources) {
            status = kiln_fail(t->err, INVALID_ARGUMENT, "launch %u names source %u of %" PRIu64, i,
                               t->launches[i].source, program->n_sources);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        t->sources[t->launches[i].source] = 0;
    }
    return KILN_STATUS_OK;
}

// ---- launches ----

static kiln_status check_ref(translator *t, uint32_t ref, uint32_t count, const char *what)
{
    return ref < count ? KILN_STATUS_OK
                       : kiln_fail(t->err, INVALID_ARGUMENT, "argument names %s %u of %u", what,
                                   ref, count);
}

static kiln_status check_tensor_arg(translator *t, const kf_karg *arg)
{
    const kilni_fuse_block_view *view = t->input->view;
    kiln_status status = check_ref(t, arg->ref, view->marks[t->input->len - 1].n_tensors, "tensor");
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint32_t tensor = view->tensors[arg->ref];
    if (!view->recorded->infos[tensor].has_dims) {
        return kiln_fail(t->err, INVALID_ARGUMENT,
                         "argument names tensor %u, which is only dropped", arg->ref);
    }
    if (arg->kind == KF_ARG_STRIDE && arg->axis >= view->recorded->tensors[tensor].rank) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "argument names axis %u of tensor %u of rank %u",
                         arg->axis, arg->ref, view->recorded->tensors[tensor].rank);
    }
    return KILN_STATUS_OK;
}

static kiln_status check_access(translator *t, const kf_karg *arg)
{
    return arg->access >= KF_ACCESS_READ && arg->access <= KF_ACCESS_READ_WRITE
               ? KILN_STATUS_OK
               : kiln_fail(t->err, INVALID_ARGUMENT, "argument has access %u", arg->access);
}

static kiln_status check_number_type(translator *t, const kf_karg *arg)
{
    bool index = arg->dtype == KILN_DTYPE_I32 || arg->dtype == KILN_DTYPE_I64;
    bool any = kiln_dtype_size((kiln_dtype)arg->dtype) > 0;
    if (arg->kind == KF_ARG_SCALAR ? any : index) {
        return KILN_STATUS_OK;
    }
    const char *name = kiln_dtype_name((kiln_dtype)arg->dtype);
    return kiln_fail(t->err, INVALID_ARGUMENT, "a number of %s; it takes %s",
                     name != NULL ? name : "an unknown dtype",
                     arg->kind == KF_ARG_SCALAR ? "one of whole bytes" : "i32 or i64");
}

static const kiln_arg_kind arg_kinds[] = {
    [KF_ARG_TENSOR] = KILN_ARG_TENSOR, [KF_ARG_TEMP] = KILN_ARG_TEMP,
    [KF_ARG_OFFSET] = KILN_ARG_OFFSET, [KF_ARG_STRIDE] = KILN_ARG_STRIDE,
    [KF_ARG_DIM] = KILN_ARG_DIM,       [KF_ARG_SCALAR] = KILN_ARG_SCALAR,
    [KF_ARG_VALUE] = KILN_ARG_FORMULA, [KF_ARG_LOCAL] = KILN_ARG_LOCAL,
};

static kiln_status check_arg(translator *t, const kf_karg *arg, uint32_t n_temps)
{
    const kilni_fuse_block_mark *end = &t->input->view->marks[t->input->len - 1];
    switch (arg->kind) {
    case KF_ARG_TENSOR: {
        kiln_status status = check_tensor_arg(t, arg);
        return status == KILN_STATUS_OK ? check_access(t, arg) : status;
    }
    case KF_ARG_TEMP: {
        kiln_status status = check_ref(t, arg->ref, n_temps, "temporary");
        return status == KILN_STATUS_OK ? check_access(t, arg) : status;
    }
    case KF_ARG_OFFSET:
    case KF_ARG_STRIDE: {
        kiln_status status = check_tensor_arg(t, arg);
        return status == KILN_STATUS_OK ? check_number_type(t, arg) : status;
    }
    case KF_ARG_DIM: {
        kiln_status status = check_ref(t, arg->ref, end->n_symbols, "symbol");
        return status == KILN_STATUS_OK ? check_number_type(t, arg) : status;
    }
    case KF_ARG_SCALAR: {
        kiln_status status = check_ref(t, arg->ref, end->n_scalars, "scalar");
        return status == KILN_STATUS_OK ? check_number_type(t, arg) : status;
    }
    case KF_ARG_VALUE:
        return check_number_type(t, arg);
    case KF_ARG_LOCAL:
        return KILN_STATUS_OK;
    default:
        return kiln_fail(t->err, INVALID_ARGUMENT, "argument has unknown kind %u", arg->kind);
    }
}

static kiln_status take_arg(translator *t, const kf_karg *from, uint32_t n_temps,
                            kiln_program_arg *to)
{
    kiln_status status = check_arg(t, from, n_temps);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bool has_memory = from->kind == KF_ARG_TENSOR || from->kind == KF_ARG_TEMP;
    bool has_value = from->kind == KF_ARG_VALUE || from->kind == KF_ARG_LOCAL;
    to->kind = arg_kinds[from->kind];
    to->access = has_memory ? from->access : 0;
    to->ref = has_value ? 0 : from->ref;
    to->axis = from->kind == KF_ARG_STRIDE ? from->axis : 0;
    to->group = from->kind == KF_ARG_TENSOR ? from->group : 0;
    to->dtype =
        has_memory || from->kind == KF_ARG_LOCAL ? KILN_DTYPE_NONE : (kiln_dtype)from->dtype;
    if (!has_value) {
        return KILN_STATUS_OK;
    }
    if (from->value.n == 0) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "argument has no formula");
    }
    return kilni_fuse_formula_translate(t->input, from->value, &to->value, t->err);
}

static kiln_status take_sizes(translator *t, const kf_launch *from, kiln_program_launch *to)
{
    for (uint32_t i = 0; i < from->dims; i++) {
        kiln_status status =
            kilni_fuse_formula_translate(t->input, from->global[i], &to->global[i], t->err);
        if (status == KILN_STATUS_OK) {
            status = kilni_fuse_formula_translate(t->input, from->local[i], &to->local[i], t->err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        if (to->global[i].count == 0 || (to->local[i].count == 0) != (to->local[0].count == 0)) {
            return kiln_fail(t->err, INVALID_ARGUMENT, "size of dimension %u is missing", i);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status take_args(translator *t, const kf_launch *from, uint32_t n_temps,
                             kiln_program_launch *to)
{
    kiln_program_arg *args = kiln_arena_alloc(t->input->arena, from->n_args * sizeof(*args));
    if (args == NULL) {
        return no_memory(t);
    }
    for (uint32_t i = 0; i < from->n_args; i++) {
        kiln_status status = take_arg(t, &from->args[i], n_temps, &args[i]);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(t->err, "argument %u", i);
            return status;
        }
    }
    to->args = args;
    to->n_args = from->n_args;
    return KILN_STATUS_OK;
}

static kiln_status take_launch(translator *t, const kf_launch *from, uint32_t index,
                               const kf_program *program, kiln_program_launch *to)
{
    if (from->flags != 0 || from->dims < 1 || from->dims > 3) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "launch %u has %u dimensions and flags %#x",
                         index, from->dims, from->flags);
    }
    if (!kilni_fuse_text_ok(from->kernel, MAX_NAME) || from->kernel.len == 0 ||
        name_length(from->kernel) != from->kernel.len) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "launch %u has a kernel name that is no name",
                         index);
    }
    kiln_status status =
        check_count(t, from->n_args, KILN_LAUNCH_ARGS_MAX, from->args, "arguments of one launch");
    if (status != KILN_STATUS_OK) {
        return status;
    }
    to->source = t->sources[from->source];
    to->n_dims = from->dims;
    to->kernel = copy_text(t, from->kernel.ptr, from->kernel.len);
    status = to->kernel == NULL ? no_memory(t) : take_sizes(t, from, to);
    if (status == KILN_STATUS_OK) {
        status = take_args(t, from, (uint32_t)program->n_temps, to);
    }
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(t->err, "launch %u", index);
    }
    return status;
}

static kiln_status take_launches(translator *t, const kf_program *program)
{
    kiln_program_launch *launches =
        kiln_arena_alloc(t->input->arena, program->n_launches * sizeof(*launches));
    if (launches == NULL) {
        return no_memory(t);
    }
    for (uint32_t i = 0; i < program->n_launches; i++) {
        kiln_status status = take_launch(t, &t->launches[i], i, program, &launches[i]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    t->out->launches = launches;
    t->out->n_launches = (uint32_t)program->n_launches;
    return KILN_STATUS_OK;
}

// ---- temporaries, steps, guard ----

static kiln_status take_temp(translator *t, const kf_temp *from, uint32_t index,
                             uint64_t n_launches, kiln_program_temp *to)
{
    bool persistent = from->flags == KF_TEMP_PERSISTENT;
    uint32_t align = from->align;
    if ((from->flags & ~KF_TEMP_PERSISTENT) != 0 || (align & (align - 1)) != 0 || align > 4096) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "temporary %u has flags %#x and alignment %u",
                         index, from->flags, align);
    }
    if (persistent ? from->prepack >= n_launches : from->prepack != KF_NONE && from->prepack != 0) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "temporary %u names launch %u", index,
                         from->prepack);
    }
    to->align = align;
    to->flags = persistent ? KILN_TEMP_PERSISTENT : 0;
    to->prepack_launch = persistent ? from->prepack : 0;
    kiln_status status = kilni_fuse_formula_translate(t->input, from->bytes, &to->bytes, t->err);
    if (status == KILN_STATUS_OK && to->bytes.count == 0) {
        status = kiln_fail(t->err, INVALID_ARGUMENT, "no size");
    }
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(t->err, "temporary %u", index);
    }
    return status;
}

static kiln_status take_temps(translator *t, const kf_program *program)
{
    kiln_program_temp *temps = kiln_arena_alloc(t->input->arena, program->n_temps * sizeof(*temps));
    if (temps == NULL) {
        return no_memory(t);
    }
    for (uint32_t i = 0; i < program->n_temps; i++) {
        kiln_status status = take_temp(t, &program->temps[i], i, program->n_launches, &temps[i]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    t->out->temps = temps;
    t->out->n_temps = (uint32_t)program->n_temps;
    return KILN_STATUS_OK;
}

static kiln_status take_steps(translator *t, const kf_program *program)
{
    kiln_program_step *steps = kiln_arena_alloc(t->input->arena, program->n_steps * sizeof(*steps));
    if (steps == NULL) {
        return no_memory(t);
    }
    for (uint32_t i = 0; i < program->n_steps; i++) {
        const kf_step *from = &program->steps[i];
        uint64_t limit = from->kind == KF_STEP_LAUNCH ? program->n_launches : t->input->len;
        if ((from->kind != KF_STEP_LAUNCH && from->kind != KF_STEP_HOST_OP) ||
            from->index >= limit) {
            return kiln_fail(t->err, INVALID_ARGUMENT, "step %u has kind %u and index %u", i,
                             from->kind, from->index);
        }
        steps[i].kind = from->kind == KF_STEP_LAUNCH ? KILN_STEP_LAUNCH : KILN_STEP_HOST_OP;
        steps[i].index = from->index;
    }
    t->out->steps = steps;
    t->out->n_steps = (uint32_t)program->n_steps;
    return KILN_STATUS_OK;
}

/// The program's own guard, and the extents that the fuser has looked at.
static kiln_status take_guard(translator *t, const kf_program *program)
{
    const kilni_fuse_translation *input = t->input;
    kiln_formula guard;
    kiln_status status = kilni_fuse_formula_translate(input, program->guard, &guard, t->err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint32_t room = guard.count + 4 * input->asks->count;
    kiln_formula_step *steps = kiln_arena_alloc(input->arena, room * sizeof(*steps));
    if (steps == NULL) {
        return no_memory(t);
    }
    uint32_t count = guard.count;
    memcpy(steps, guard.steps != NULL ? guard.steps : steps, count * sizeof(*steps));
    uint32_t n_symbols = input->view->marks[input->len - 1].n_symbols;
    for (uint32_t i = 0; i < input->asks->count; i++) {
        const kilni_fuse_ask *ask = &input->asks->items[i];
        if (ask->is_scalar || ask->ref >= n_symbols) {
            continue;
        }
        bool first = count == 0;
        steps[count++] = (kiln_formula_step){.code = KILN_F_SYM, .sym = ask->ref};
        steps[count++] = (kiln_formula_step){.code = KILN_F_IMM, .imm = ask->value};
        steps[count++] = (kiln_formula_step){.code = KILN_F_EQ};
        if (!first) {
            steps[count++] = (kiln_formula_step){.code = KILN_F_AND};
        }
    }
    t->out->guard = (kiln_formula){steps, count};
    return KILN_STATUS_OK;
}

static kiln_status check_counts(translator *t, const kf_program *program)
{
    if (program->struct_size != sizeof(*program)) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "program has a struct size of %u",
                         program->struct_size);
    }
    uint32_t known = KF_PROGRAM_DETERMINISTIC | KF_PROGRAM_IN_PLACE_SAFE;
    if ((program->flags & ~known) != 0) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "program has unknown flags %#x", program->flags);
    }
    kiln_status status =
        check_count(t, program->n_sources, MAX_SOURCES, program->sources, "sources");
    if (status == KILN_STATUS_OK) {
        status = check_count(t, program->n_launches, MAX_LAUNCHES, program->launches, "launches");
    }
    if (status == KILN_STATUS_OK) {
        status = check_count(t, program->n_temps, MAX_TEMPS, program->temps, "temporaries");
    }
    if (status == KILN_STATUS_OK) {
        status = check_count(t, program->n_steps, MAX_STEPS, program->steps, "steps");
    }
    return status;
}

kiln_status kilni_fuse_translate(const kilni_fuse_translation *input, const kf_program *program,
                                 kiln_program **out_program, kiln_error *err)
{
    translator t = {.input = input, .err = err};
    bool failed = false;
    *out_program = NULL;
    t.out = kiln_arena_alloc(input->arena, sizeof(*t.out));
    if (t.out == NULL) {
        return no_memory(&t);
    }
    kiln_status status;
    KILN_TRY(out, status, check_counts(&t, program));
    KILN_TRY(out, status, choose_forms(&t, program));
    KILN_TRY(out, status, take_sources(&t, program));
    KILN_TRY(out, status, take_launches(&t, program));
    KILN_TRY(out, status, take_temps(&t, program));
    KILN_TRY(out, status, take_steps(&t, program));
    KILN_TRY(out, status, take_guard(&t, program));
    t.out->flags |=
        (program->flags & KF_PROGRAM_DETERMINISTIC) != 0 ? KILN_PROGRAM_DETERMINISTIC : 0;
    t.out->flags |=
        (program->flags & KF_PROGRAM_IN_PLACE_SAFE) != 0 ? KILN_PROGRAM_IN_PLACE_SAFE : 0;
    KILN_TRY(out, status, kilni_fuse_program_check(input, t.out, err));
    t.out->key = kilni_fuse_program_key(input->arena->env, t.out, &failed);
    KILN_TRY(out, status, failed ? no_memory(&t) : KILN_STATUS_OK);
    *out_program = t.out;
out:
    return status;
}
