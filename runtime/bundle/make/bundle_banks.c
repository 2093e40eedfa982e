// SPDX-License-Identifier: MIT OR Apache-2.0
// Which bank of a board's memory each buffer lies in. An argument of a kernel is connected to one
// bank when the bitstream is made, so all buffers that are ever given to it lie there, and all that
// share an argument lie together. Inputs and outputs, which the caller's memory may be, lie in bank
// 0, where we assume that drivers put what nobody places. The groups that are left are dealt out by
// the bytes that a run moves through them, the largest first, each to the bank with the least.

#include "bundle_maker.h"

#include <string.h>

typedef struct bank_sets { ///< arguments of kernels, then buffers, in sets that have to lie
                           ///< together
    bundle_manifest *manifest;
    uint32_t *parents; ///< a root is its own
    uint64_t *bytes; ///< of each root: moved by a run
    uint32_t *banks; ///< of each root; UINT32_MAX: not yet
    uint32_t *first_arg; ///< of each program
    uint32_t *first_buffer; ///< of each set of shapes
    uint32_t count;
} bank_sets;

// ---- numbers ----

static uint32_t number_of_arg(const bank_sets *sets, uint32_t program, uint32_t kernel,
                              uint32_t arg)
{
    uint32_t number = sets->first_arg[program] + arg;
    for (uint32_t k = 0; k < kernel; k++) {
        number += sets->manifest->programs[program].kernels[k].n_args;
    }
    return number;
}

static bool count_members(bank_sets *sets, kiln_arena *arena)
{
    const bundle_manifest *manifest = sets->manifest;
    sets->first_arg = kiln_arena_alloc(arena, (manifest->n_programs + 1u) * sizeof(uint32_t));
    sets->first_buffer = kiln_arena_alloc(arena, (manifest->n_shapes + 1u) * sizeof(uint32_t));
    if (sets->first_arg == NULL || sets->first_buffer == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        sets->first_arg[i] = sets->count;
        for (uint32_t k = 0; k < manifest->programs[i].n_kernels; k++) {
            sets->count += manifest->programs[i].kernels[k].n_args;
        }
    }
    for (uint32_t s = 0; s < manifest->n_shapes; s++) {
        sets->first_buffer[s] = sets->count;
        sets->count += manifest->shapes[s].n_buffers;
    }
    sets->parents = kiln_arena_alloc(arena, (sets->count + 1u) * sizeof(*sets->parents));
    sets->bytes = kiln_arena_alloc(arena, (sets->count + 1u) * sizeof(*sets->bytes));
    sets->banks = kiln_arena_alloc(arena, (sets->count + 1u) * sizeof(*sets->banks));
    for (uint32_t i = 0; sets->parents != NULL && i < sets->count; i++) {
        sets->parents[i] = i;
    }
    return sets->parents != NULL && sets->bytes != NULL && sets->banks != NULL;
}

// ---- what lies together ----

static uint32_t root_of(const bank_sets *sets, uint32_t member)
{
    while (sets->parents[member] != member) {
        sets->parents[member] = sets->parents[sets->parents[member]];
        member = sets->parents[member];
    }
    return member;
}

/// The smaller number is the root, so that the order of the launches does not matter.
static void join_sets(bank_sets *sets, uint32_t a, uint32_t b)
{
    a = root_of(sets, a);
    b = root_of(sets, b);
    sets->parents[a > b ? a : b] = a > b ? b : a;
}

/// The buffer that a launch gives to an argument, or UINT32_MAX.
static uint32_t buffer_given(const bundle_step *step, uint32_t arg)
{
    return !step->is_copy && step->args[arg].kind == BUNDLE_ARG_BUFFER ? step->args[arg].buffer
                                                                       : UINT32_MAX;
}

static void join_launch(bank_sets *sets, uint32_t s, const bundle_step *step)
{
    for (uint32_t i = 0; i < step->n_args; i++) {
        uint32_t buffer = buffer_given(step, i);
        if (buffer != UINT32_MAX) {
            join_sets(sets, number_of_arg(sets, step->program, step->kernel, i),
                      sets->first_buffer[s] + buffer);
        }
    }
}

/// Of several sets of shapes, equal constants are one buffer on the device.
static void join_same(bank_sets *sets, uint32_t s, uint32_t buffer)
{
    const bundle_buffer *one = &sets->manifest->shapes[s].buffers[buffer];
    for (uint32_t t = 0; t <= s && one->kind == BUNDLE_BUFFER_CONSTANT; t++) {
        const bundle_shapes *shapes = &sets->manifest->shapes[t];
        for (uint32_t i = 0; i < (t < s ? shapes->n_buffers : buffer); i++) {
            const bundle_buffer *other = &shapes->buffers[i];
            if (other->kind == BUNDLE_BUFFER_CONSTANT && other->offset == one->offset) {
                join_sets(sets, sets->first_buffer[t] + i, sets->first_buffer[s] + buffer);
            }
        }
    }
}

static void join_all(bank_sets *sets)
{
    for (uint32_t s = 0; s < sets->manifest->n_shapes; s++) {
        const bundle_shapes *shapes = &sets->manifest->shapes[s];
        for (uint32_t i = 0; i < shapes->n_buffers; i++) {
            join_same(sets, s, i);
        }
        for (uint32_t i = 0; i < shapes->n_steps; i++) {
            join_launch(sets, s, &shapes->steps[i]);
        }
    }
}

// ---- which bank ----

static void weigh_sets(bank_sets *sets)
{
    for (uint32_t s = 0; s < sets->manifest->n_shapes; s++) {
        const bundle_shapes *shapes = &sets->manifest->shapes[s];
        for (uint32_t i = 0; i < shapes->n_steps; i++) {
            const bundle_step *step = &shapes->steps[i];
            for (uint32_t k = 0; k < step->n_args; k++) {
                uint32_t buffer = buffer_given(step, k);
                if (buffer != UINT32_MAX) {
                    sets->bytes[root_of(sets, sets->first_buffer[s] + buffer)] +=
                        shapes->buffers[buffer].bytes;
                }
            }
        }
    }
}

static void place_callers(bank_sets *sets)
{
    const bundle_manifest *manifest = sets->manifest;
    for (uint32_t s = 0; s < manifest->n_shapes; s++) {
        const bundle_shapes *shapes = &manifest->shapes[s];
        for (uint32_t i = 0; i < manifest->n_inputs; i++) {
            sets->banks[root_of(sets, sets->first_buffer[s] + shapes->inputs[i].buffer)] = 0;
        }
        for (uint32_t i = 0; i < manifest->n_outputs; i++) {
            sets->banks[root_of(sets, sets->first_buffer[s] + shapes->outputs[i].buffer)] = 0;
        }
    }
}

/// The heaviest set without a bank; UINT32_MAX: all have one.
static uint32_t heaviest_set(const bank_sets *sets)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < sets->count; i++) {
        if (sets->parents[i] == i && sets->banks[i] == UINT32_MAX && sets->bytes[i] > 0 &&
            (best == UINT32_MAX || sets->bytes[i] > sets->bytes[best])) {
            best = i;
        }
    }
    return best;
}

static void deal_banks(bank_sets *sets, uint32_t n_banks)
{
    uint64_t loads[BUNDLE_BANKS] = {0};
    memset(sets->banks, 0xff, sets->count * sizeof(*sets->banks));
    place_callers(sets);
    for (uint32_t i = 0; i < sets->count; i++) {
        loads[0] += sets->banks[i] == 0 ? sets->bytes[i] : 0;
    }
    for (uint32_t set = heaviest_set(sets); set != UINT32_MAX; set = heaviest_set(sets)) {
        uint32_t least = 0;
        for (uint32_t i = 1; i < n_banks; i++) {
            least = loads[i] < loads[least] ? i : least;
        }
        sets->banks[set] = least;
        loads[least] += sets->bytes[set];
    }
}

static uint32_t bank_of(const bank_sets *sets, uint32_t member)
{
    uint32_t bank = sets->banks[root_of(sets, member)];
    return bank != UINT32_MAX ? bank : 0; // no launch uses it
}

// ---- for the bitstream ----

/// The lines of a kernel, as v++ reads them: the unit of a kernel, an argument, a bank. False: its
/// arguments have no names.
static bool write_kernel(const bank_sets *sets, uint32_t program, uint32_t kernel, kiln_string *out)
{
    const bundle_kernel *of = &sets->manifest->programs[program].kernels[kernel];
    for (uint32_t i = 0; i < of->n_args; i++) {
        uint32_t member = number_of_arg(sets, program, kernel, i);
        if (sets->bytes[root_of(sets, member)] == 0) {
            continue; // no buffer was given to it
        }
        if (of->parameters == NULL || of->parameters[i].name == NULL) {
            return false;
        }
        kiln_string_printf(out, "sp=%s_1.%s:DDR[%u]\n", of->name, of->parameters[i].name,
                           bank_of(sets, member));
    }
    return true;
}

static kiln_status connect_program(kiln_bundle_maker *maker, const bank_sets *sets, uint32_t number,
                                   kiln_error *err)
{
    bundle_program *program = &maker->manifest.programs[number];
    kiln_string text;
    kiln_string_init(&text, maker->env);
    kiln_string_printf(&text, "# Made by `kiln bundle --banks`: the bank of each argument.\n"
                              "[connectivity]\n");
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t k = 0; k < program->n_kernels && status == KILN_STATUS_OK; k++) {
        if (!write_kernel(sets, number, k, &text)) {
            status = kiln_fail(err, UNIMPLEMENTED,
                               "the driver does not tell the arguments of kernel %.60s, so no "
                               "bank can be named for them",
                               program->kernels[k].name);
        }
    }
    if (status == KILN_STATUS_OK) {
        program->connections =
            text.failed ? NULL : kiln_arena_copy(&maker->arena, text.text, text.length + 1);
        status = program->connections != NULL
                     ? KILN_STATUS_OK
                     : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for memory banks");
    }
    kiln_string_fini(&text);
    return status;
}

static void place_buffers(const bank_sets *sets)
{
    for (uint32_t s = 0; s < sets->manifest->n_shapes; s++) {
        bundle_shapes *shapes = &sets->manifest->shapes[s];
        for (uint32_t i = 0; i < shapes->n_buffers; i++) {
            shapes->buffers[i].bank = bank_of(sets, sets->first_buffer[s] + i);
        }
    }
}

static void forget_banks(bundle_manifest *manifest)
{
    manifest->n_banks = 0;
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        manifest->programs[i].connections = NULL;
    }
    for (uint32_t s = 0; s < manifest->n_shapes; s++) {
        for (uint32_t i = 0; i < manifest->shapes[s].n_buffers; i++) {
            manifest->shapes[s].buffers[i].bank = 0;
        }
    }
}

kiln_status kilni_bundle_banks(kiln_bundle_maker *maker, uint32_t n_banks, kiln_error *err)
{
    kiln_arena arena;
    bank_sets sets = {.manifest = &maker->manifest};
    kiln_status status = KILN_STATUS_OK;
    kiln_arena_init(&arena, maker->env);
    if (!count_members(&sets, &arena)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for memory banks");
        goto out;
    }
    join_all(&sets);
    weigh_sets(&sets);
    deal_banks(&sets, n_banks);
    place_buffers(&sets);
    for (uint32_t i = 0; i < maker->manifest.n_programs; i++) {
        KILN_TRY(out, status, connect_program(maker, &sets, i, err));
    }
    maker->manifest.n_banks = n_banks;
out:
    if (status != KILN_STATUS_OK) {
        forget_banks(&maker->manifest);
    }
    kiln_arena_fini(&arena);
    return status;
}

kiln_status kiln_bundle_maker_banks(kiln_bundle_maker *maker, kiln_device *device, uint32_t n_banks,
                                    kiln_error *err)
{
    if (maker == NULL || device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "maker and device must not be NULL");
    }
    if (n_banks < 1 || n_banks > BUNDLE_BANKS) {
        return kiln_fail(err, INVALID_ARGUMENT, "%u banks of memory: 1 to %d can be named", n_banks,
                         BUNDLE_BANKS);
    }
    kiln_status status = kilni_bundle_stage(maker, BUNDLE_STAGE_BANKS, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_parameters_ask(maker, device, err);
    }
    return status == KILN_STATUS_OK ? kilni_bundle_banks(maker, n_banks, err) : status;
}
