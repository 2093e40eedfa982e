// SPDX-License-Identifier: MIT OR Apache-2.0
// What CLBlast is told of a device: its own choice for an unknown device reaches a tenth of one.
// Values come from a search on this device (the store), else from the shipped table, else for
// processors from a rule. How they are searched is cl_blas_search.c's business.

#include "cl_blas_parameters.h"
#include "cl_facts.h"
#include "cl_kernel.h"
#include "cl_state.h"

#include <clblast_c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const kilni_cl_blas_kernel kilni_cl_blas_kernels[KILNI_CL_BLAS_CLASSES] = {
    [KILNI_CL_BLAS_LARGE] = {"Xgemm",
                             16,
                             {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB",
                              "NDIMC", "NWG", "SA", "SB", "STRM", "STRN", "VWM", "VWN"}},
    [KILNI_CL_BLAS_SMALL] = {"XgemmDirect",
                             10,
                             {"KWID", "MDIMAD", "MDIMCD", "NDIMBD", "NDIMCD", "PADA", "PADB",
                              "VWMD", "VWND", "WGD"}},
    [KILNI_CL_BLAS_BORDER] = {"GemmRoutine", 1, {"XGEMM_MIN_INDIRECT_SIZE"}},
};

static uint32_t *value_of(kilni_cl_blas_class cls, uint32_t *values, const char *name)
{
    const kilni_cl_blas_kernel *kernel = &kilni_cl_blas_kernels[cls];
    for (uint32_t i = 0; i < kernel->count; i++) {
        if (strcmp(kernel->names[i], name) == 0) {
            return &values[i];
        }
    }
    return NULL;
}

uint32_t kilni_cl_blas_value(kilni_cl_blas_class cls, const uint32_t *values, const char *name)
{
    uint32_t copy[KILNI_CL_BLAS_MOST];
    memcpy(copy, values, sizeof(copy));
    const uint32_t *value = value_of(cls, copy, name);
    return value != NULL ? *value : 0;
}

// ---- what a kernel can have ----

static bool divides(uint32_t part, uint32_t whole)
{
    return part > 0 && whole > 0 && whole % part == 0;
}

static bool is_group(const kilni_cl_backend *backend, uint32_t columns, uint32_t rows)
{
    const kiln_device_info *info = &backend->info;
    return (uint64_t)columns * rows <= info->max_work_group &&
           (info->max_work_items[0] == 0 || columns <= info->max_work_items[0]) &&
           (info->max_work_items[1] == 0 || rows <= info->max_work_items[1]);
}

static bool is_vector(uint32_t width)
{
    return width == 1 || width == 2 || width == 4 || width == 8 || width == 16;
}

// The conditions are those of CLBlast's own tuner (src/tuning/kernels/xgemm.hpp).
static bool is_large_sound(const kilni_cl_backend *backend, kiln_dtype dtype, const uint32_t *v)
{
#define V(name) kilni_cl_blas_value(KILNI_CL_BLAS_LARGE, v, #name)
    uint32_t columns = V(MDIMC), rows = V(NDIMC);
    bool staged = V(GEMMK) == 0; // else rows and columns stay in registers
    uint64_t local =
        (uint64_t)(V(SA) * V(KWG) * V(MWG) + V(SB) * V(KWG) * V(NWG)) * kiln_dtype_size(dtype);
    return V(GEMMK) <= 1 && divides(KILNI_CL_BLAS_LEAST_TILE, V(MWG)) &&
           divides(KILNI_CL_BLAS_LEAST_TILE, V(NWG)) && V(SA) <= 1 && V(SB) <= 1 && V(STRM) <= 1 &&
           V(STRN) <= 1 && is_vector(V(VWM)) && is_vector(V(VWN)) &&
           is_group(backend, columns, rows) && divides(V(KWI), V(KWG)) &&
           divides(columns * V(VWM), V(MWG)) && divides(rows * V(VWN), V(NWG)) &&
           divides(V(MDIMA) * V(VWM), V(MWG)) && divides(V(NDIMB) * V(VWN), V(NWG)) &&
           local <= backend->info.local_bytes &&
           (staged ? V(KREG) == 1 && divides(V(MDIMA), columns * rows) &&
                         divides(columns * rows / V(MDIMA), V(KWG)) &&
                         divides(V(NDIMB), columns * rows) &&
                         divides(columns * rows / V(NDIMB), V(KWG))
                   : V(SA) == 0 && V(SB) == 0 && V(KWG) == 1 && V(MDIMA) == columns &&
                         V(NDIMB) == rows && divides(V(VWN), V(KREG)));
#undef V
}

static bool is_small_sound(const kilni_cl_backend *backend, kiln_dtype dtype, const uint32_t *v)
{
#define V(name) kilni_cl_blas_value(KILNI_CL_BLAS_SMALL, v, #name)
    uint32_t columns = V(MDIMCD), rows = V(NDIMCD), tile = V(WGD);
    uint64_t local = (uint64_t)tile * (2 * tile + V(PADA) + V(PADB)) * kiln_dtype_size(dtype);
    return V(PADA) <= 1 && V(PADB) <= 1 && is_vector(V(VWMD)) && is_vector(V(VWND)) &&
           is_group(backend, columns, rows) && divides(V(KWID), tile) &&
           divides(columns * V(VWMD), tile) && divides(rows * V(VWND), tile) &&
           divides(V(MDIMAD) * V(VWMD), tile) && divides(V(NDIMBD) * V(VWND), tile) &&
           divides(V(MDIMAD), columns * rows) && divides(columns * rows / V(MDIMAD), tile) &&
           divides(V(NDIMBD), columns * rows) && divides(columns * rows / V(NDIMBD), tile) &&
           local <= backend->info.local_bytes;
#undef V
}

bool kilni_cl_blas_is_sound(const kilni_cl_backend *backend, kiln_dtype dtype,
                            kilni_cl_blas_class cls, const uint32_t *values)
{
    enum { MOST_VALUE = 256, MOST_BORDER = 1 << 20 };
    for (uint32_t i = 0; i < kilni_cl_blas_kernels[cls].count; i++) {
        if (values[i] > (cls == KILNI_CL_BLAS_BORDER ? MOST_BORDER : MOST_VALUE)) {
            return false;
        }
    }
    return cls == KILNI_CL_BLAS_BORDER ||
           (cls == KILNI_CL_BLAS_LARGE ? is_large_sound(backend, dtype, values)
                                       : is_small_sound(backend, dtype, values));
}

// ---- to the library ----

kiln_status kilni_cl_blas_set(const kilni_cl_backend *backend, kiln_dtype dtype,
                              kilni_cl_blas_class cls, const uint32_t *values, kiln_error *err)
{
    const kilni_cl_blas_kernel *kernel = &kilni_cl_blas_kernels[cls];
    const char *names[KILNI_CL_BLAS_MOST];
    size_t sizes[KILNI_CL_BLAS_MOST];
    for (uint32_t i = 0; i < kernel->count; i++) {
        names[i] = kernel->names[i];
        sizes[i] = values[i];
    }
    CLBlastStatusCode code = CLBlastOverrideParameters(
        backend->device, kernel->name,
        dtype == KILN_DTYPE_F32 ? CLBlastPrecisionSingle : CLBlastPrecisionDouble, kernel->count,
        names, sizes);
    return code == CLBlastSuccess
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "CLBlast gives %d for the parameters of %s",
                           (int)code, kernel->name);
}

// ---- text ----

// A processor's name says which it is, but its vectors decide.
static void name_device(const kilni_cl_backend *backend, char *out, size_t capacity)
{
    if (backend->info.type == KILN_DEVICE_CPU) {
        (void)snprintf(out, capacity, "cpu, vectors of %u bytes", backend->info.vector_bytes);
    } else {
        (void)snprintf(out, capacity, "%s", backend->info.name);
    }
}

void kilni_cl_blas_print(const kilni_cl_backend *backend, kiln_dtype dtype,
                         const kilni_cl_blas_choice *choice, kiln_string *out)
{
    char device[128];
    name_device(backend, device, sizeof(device));
    for (uint32_t cls = 0; cls < KILNI_CL_BLAS_CLASSES; cls++) {
        const kilni_cl_blas_kernel *kernel = &kilni_cl_blas_kernels[cls];
        if ((choice->given & 1u << cls) == 0) {
            continue;
        }
        kiln_string_printf(out, "%s | %s | %s |", device, kiln_dtype_name(dtype), kernel->name);
        for (uint32_t i = 0; i < kernel->count; i++) {
            kiln_string_printf(out, " %s=%u", kernel->names[i], choice->values[cls][i]);
        }
        kiln_string_append(out, "\n", 1);
    }
}

// The text up to the next bar, without the spaces around it. False: there is no bar.
static bool take_field(char **at, char **out_field)
{
    char *field = *at + strspn(*at, " ");
    char *bar = strchr(field, '|');
    if (bar == NULL) {
        return false;
    }
    *at = bar + 1;
    while (bar > field && bar[-1] == ' ') {
        bar--;
    }
    *bar = '\0';
    *out_field = field;
    return true;
}

// NAME=VALUE, each parameter of the kernel once.
static bool read_values(kilni_cl_blas_class cls, char *text, uint32_t *values)
{
    uint32_t seen = 0;
    for (char *at = text + strspn(text, " "); *at != '\0'; at += strspn(at, " ")) {
        char *name = at;
        char *equals = strchr(at, '=');
        if (equals == NULL) {
            return false;
        }
        *equals = '\0';
        unsigned long number = strtoul(equals + 1, &at, 10);
        uint32_t *value = value_of(cls, values, name);
        if (at == equals + 1 || value == NULL || number > UINT32_MAX ||
            (seen & 1u << (value - values)) != 0) {
            return false;
        }
        *value = (uint32_t)number;
        seen |= 1u << (value - values);
    }
    return seen == (1u << kilni_cl_blas_kernels[cls].count) - 1;
}

static kilni_cl_blas_class class_of(const char *kernel)
{
    uint32_t cls = 0;
    while (cls < KILNI_CL_BLAS_CLASSES && strcmp(kilni_cl_blas_kernels[cls].name, kernel) != 0) {
        cls++;
    }
    return (kilni_cl_blas_class)cls;
}

static kiln_status parse_line(const kilni_cl_backend *backend, kiln_dtype dtype, char *line,
                              uint32_t number, kilni_cl_blas_choice *choice, kiln_error *err)
{
    char own[128];
    char *device, *type, *kernel;
    char *at = line;
    uint32_t values[KILNI_CL_BLAS_MOST] = {0};
    if (line[0] == '#' || line[strspn(line, " ")] == '\0') {
        return KILN_STATUS_OK;
    }
    kilni_cl_blas_class cls = KILNI_CL_BLAS_CLASSES;
    if (take_field(&at, &device) && take_field(&at, &type) && take_field(&at, &kernel)) {
        cls = class_of(kernel);
    }
    if (cls == KILNI_CL_BLAS_CLASSES || !read_values(cls, at, values)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "line %u is not: device | dtype | kernel of CLBlast | all its "
                         "parameters as NAME=VALUE",
                         number);
    }
    name_device(backend, own, sizeof(own));
    if (strcmp(device, own) != 0 || strcmp(type, kiln_dtype_name(dtype)) != 0) {
        return KILN_STATUS_OK;
    }
    if (!kilni_cl_blas_is_sound(backend, dtype, cls, values)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "line %u has parameters that %s cannot have on this device", number,
                         kernel);
    }
    memcpy(choice->values[cls], values, sizeof(values));
    choice->given |= 1u << cls;
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_blas_parse(const kilni_cl_backend *backend, kiln_dtype dtype, const char *text,
                                size_t length, kilni_cl_blas_choice *choice, kiln_error *err)
{
    enum { MOST_LINE = 512 };
    char line[MOST_LINE];
    const char *end = text + length;
    for (uint32_t number = 1; text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t bytes = (size_t)((stop != NULL ? stop : end) - text);
        if (bytes >= sizeof(line) || memchr(text, '\0', bytes) != NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "line %u is longer than %d bytes, or no text",
                             number, MOST_LINE - 1);
        }
        memcpy(line, text, bytes);
        line[bytes] = '\0';
        kiln_status status = parse_line(backend, dtype, line, number, choice, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        text = stop != NULL ? stop + 1 : end;
    }
    return KILN_STATUS_OK;
}

// ---- what is known ----

static kiln_hash128 choice_key(const kilni_cl_backend *backend, kiln_dtype dtype)
{
    return kilni_cl_device_key(backend, dtype == KILN_DTYPE_F32 ? "blas f32" : "blas f64");
}

// What is not sound is not there: a store may be another build's.
static void drop_unsound(const kilni_cl_backend *backend, kiln_dtype dtype,
                         kilni_cl_blas_choice *choice)
{
    for (uint32_t cls = 0; cls < KILNI_CL_BLAS_CLASSES; cls++) {
        if (!kilni_cl_blas_is_sound(backend, dtype, (kilni_cl_blas_class)cls,
                                    choice->values[cls])) {
            choice->given &= ~(1u << cls);
        }
    }
}

kilni_cl_blas_choice kilni_cl_blas_recall(const kilni_cl_backend *backend, kiln_dtype dtype)
{
    kilni_cl_blas_choice stored = {0};
    kiln_blob entry = {0};
    if (backend->store == NULL ||
        kiln_store_get(backend->store, KILN_STORE_DEVICES, choice_key(backend, dtype), &entry,
                       NULL) != KILN_STATUS_OK) {
        return stored;
    }
    if (entry.length == sizeof(stored)) {
        memcpy(&stored, entry.data, sizeof(stored));
    }
    kiln_free(backend->env, entry.data);
    if (stored.format != KILNI_CL_BLAS_FORMAT) {
        return (kilni_cl_blas_choice){0};
    }
    drop_unsound(backend, dtype, &stored);
    return stored;
}

kiln_status kilni_cl_blas_remember(const kilni_cl_backend *backend, kiln_dtype dtype,
                                   const kilni_cl_blas_choice *choice, kiln_error *err)
{
    if (backend->store == NULL) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the cache is off, so parameters of CLBlast cannot be kept");
    }
    return kiln_store_put(backend->store, KILN_STORE_DEVICES, choice_key(backend, dtype), choice,
                          sizeof(*choice), err);
}

// CLBlast's own choice for a CPU splits a tile over work-items and reaches a tenth of the machine.
// With one work-item for each tile, no local memory (so no barrier) and rows as vectors of the
// machine's width, PoCL keeps the tile in registers: 13 times as fast at 256 x 256 x 256 on two
// cores with AVX-512.
static kilni_cl_blas_choice rule_for_processors(const kilni_cl_backend *backend, kiln_dtype dtype)
{
    const uint32_t limit = 40; // smaller products use the kernel that needs no padding
    uint32_t lanes = backend->info.vector_bytes / (uint32_t)kiln_dtype_size(dtype);
    lanes = lanes > 16 ? 16 : lanes < 2 ? 2 : lanes;
    uint32_t columns = backend->info.vector_bytes >= 64 ? 8 : 4; // 2 * columns registers of sums
    return (kilni_cl_blas_choice){
        .given = 1u << KILNI_CL_BLAS_LARGE | 1u << KILNI_CL_BLAS_BORDER,
        .values = {[KILNI_CL_BLAS_LARGE] = {0, 1, 32, 1, 1, 1, 2 * lanes, 1, 1, columns, 0, 0, 0, 0,
                                            lanes, columns},
                   [KILNI_CL_BLAS_BORDER] = {limit}}};
}

// The shipped table lies among the texts of the kernels.
static const kilni_cl_source *table(void)
{
    const kilni_cl_source *source = kilni_cl_sources;
    while (source->name != NULL && strcmp(source->name, "blas_parameters.txt") != 0) {
        source++;
    }
    return source;
}

kilni_cl_blas_choice kilni_cl_blas_shipped(const kilni_cl_backend *backend, kiln_dtype dtype)
{
    kilni_cl_blas_choice choice = {0};
    kiln_error err = KILN_ERROR_INIT;
    if (backend->info.type == KILN_DEVICE_CPU) {
        choice = rule_for_processors(backend, dtype);
    }
    const kilni_cl_source *source = table();
    if (source->name != NULL && kilni_cl_blas_parse(backend, dtype, source->text, source->length,
                                                    &choice, &err) != KILN_STATUS_OK) {
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend",
                       "the shipped parameters of CLBlast: %s", err.message);
    }
    return choice;
}

static void hand_over(kilni_cl_backend *backend, kiln_dtype dtype)
{
    kilni_cl_blas_choice choice = kilni_cl_blas_shipped(backend, dtype);
    bool fixed = kiln_config_bool(backend->env->config, KILN_OPTION_DETERMINISTIC);
    kilni_cl_blas_choice stored =
        fixed ? (kilni_cl_blas_choice){0} : kilni_cl_blas_recall(backend, dtype);
    for (uint32_t cls = 0; cls < KILNI_CL_BLAS_CLASSES; cls++) {
        const kilni_cl_blas_choice *from = (stored.given & 1u << cls) != 0 ? &stored : &choice;
        kiln_error err = KILN_ERROR_INIT;
        if ((from->given & 1u << cls) != 0 &&
            kilni_cl_blas_set(backend, dtype, (kilni_cl_blas_class)cls, from->values[cls], &err) !=
                KILN_STATUS_OK) {
            kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend", "%s", err.message);
        }
    }
}

// The library keeps parameters for the process, and an override makes it compile again: once for
// each device.
void kilni_cl_blas_parameters_ready(kilni_cl_backend *backend, kiln_dtype dtype)
{
    enum { MAX_TUNED = 32 };
    static _Atomic(cl_device_id) tuned[2][MAX_TUNED];
    int row = dtype == KILN_DTYPE_F32 ? 0 : 1;
    for (int i = 0; i < MAX_TUNED; i++) {
        cl_device_id present = NULL;
        if (atomic_compare_exchange_strong(&tuned[row][i], &present, backend->device)) {
            hand_over(backend, dtype);
            return;
        }
        if (present == backend->device) {
            return;
        }
    }
}
