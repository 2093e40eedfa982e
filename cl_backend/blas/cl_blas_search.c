// SPDX-License-Identifier: MIT OR Apache-2.0
// Searches CLBlast's parameters on a device. From the best set so far a few parameters are changed
// at random; what compiles, gives the same result and is faster is the best from then on. Small and
// large products are searched apart, as the library has a kernel for each; then the length from
// which on the large one is faster. What parameters mean, and where they are kept, is the matter of
// cl_blas_parameters.c.

#include "cl_blas_search.h"
#include "cl_backend.h"
#include "cl_blas.h"
#include "cl_blas_parameters.h"
#include "cl_measure.h"
#include "cl_pool.h"
#include "cl_queue.h"
#include "cl_state.h"
#include "cl_transfer.h"

#include <math.h>
#include <string.h>
#include <time.h>

// ---- values that are tried ----

enum { MOST_STEPS = 6 };

typedef struct steps {
    const char *name;
    uint32_t values[MOST_STEPS]; ///< up to the first that is smaller than the one before
} steps;

// Some of what CLBlast's own tuner tries, and one work-item for a tile, which is for processors.
static const steps large_steps[] = {
    {"GEMMK", {0, 1}},
    {"KREG", {1, 2, 4, 8}},
    {"KWG", {1, 16, 32, 64}},
    {"KWI", {1, 2, 4, 8}},
    {"MDIMA", {1, 8, 16, 32}},
    {"MDIMC", {1, 8, 16, 32}},
    {"MWG", {8, 16, 32, 64, 128}},
    {"NDIMB", {1, 8, 16, 32}},
    {"NDIMC", {1, 8, 16, 32}},
    {"NWG", {4, 8, 16, 32, 64, 128}},
    {"SA", {0, 1}},
    {"SB", {0, 1}},
    {"STRM", {0, 1}},
    {"STRN", {0, 1}},
    {"VWM", {1, 2, 4, 8, 16}},
    {"VWN", {1, 2, 4, 8, 16}},
};
static const steps small_steps[] = {
    {"KWID", {1, 2, 4, 8, 16}}, {"MDIMAD", {1, 8, 16, 32}}, {"MDIMCD", {1, 8, 16, 32}},
    {"NDIMBD", {1, 8, 16, 32}}, {"NDIMCD", {1, 8, 16, 32}}, {"PADA", {0, 1}},
    {"PADB", {0, 1}},           {"VWMD", {1, 2, 4, 8}},     {"VWND", {1, 2, 4, 8}},
    {"WGD", {8, 16, 32, 64}},
};
static const double worth = 0.97; ///< of the time before; what gains less is noise

static const uint32_t borders[] = {24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512};
enum { BORDERS = sizeof(borders) / sizeof(borders[0]) };

/// Where a search on a GPU begins: sets that most can run.
static const uint32_t first_large[KILNI_CL_BLAS_MOST] = {0,  1,  16, 2, 16, 16, 64, 16,
                                                         16, 64, 1,  1, 0,  0,  4,  4};
static const uint32_t first_small[KILNI_CL_BLAS_MOST] = {2, 8, 8, 8, 8, 1, 1, 1, 1, 8};

typedef struct search {
    kilni_cl_backend *backend;
    kiln_dtype dtype;
    kiln_buffer *buffers[3];
    int64_t length; ///< of the buffers' matrices, at most
    double *expected; ///< of the class at hand
    void *result; ///< as read
    uint64_t begin_ns;
    uint64_t budget_ns;
    uint32_t random;
    void (*progress)(double done, void *user);
    void *user;
    kilni_cl_blas_choice choice;
    kiln_cl_blas_report *report;
    kiln_error *err;
} search;

static uint32_t draw(search *s, uint32_t below)
{
    s->random ^= s->random << 13; // Marsaglia's xorshift
    s->random ^= s->random >> 17;
    s->random ^= s->random << 5;
    return s->random % below;
}

static uint32_t count_steps(const steps *row)
{
    uint32_t count = 1;
    while (count < MOST_STEPS && row->values[count] > row->values[count - 1]) {
        count++;
    }
    return count;
}

/// One to three parameters become others. False: nothing that the kernel can have was found.
static bool change(search *s, kilni_cl_blas_class cls, const uint32_t *best, uint32_t *out)
{
    enum { MOST_DRAWS = 10000, MOST_CHANGES = 3 };
    const steps *rows = cls == KILNI_CL_BLAS_LARGE ? large_steps : small_steps;
    uint32_t count = kilni_cl_blas_kernels[cls].count;
    for (int i = 0; i < MOST_DRAWS; i++) {
        memcpy(out, best, KILNI_CL_BLAS_MOST * sizeof(*out));
        for (uint32_t changes = 1 + draw(s, MOST_CHANGES); changes > 0; changes--) {
            uint32_t row = draw(s, count); // rows are in the order of the kernel's names
            out[row] = rows[row].values[draw(s, count_steps(&rows[row]))];
        }
        if (memcmp(out, best, count * sizeof(*out)) != 0 &&
            kilni_cl_blas_is_sound(s->backend, s->dtype, cls, out)) {
            return true;
        }
    }
    return false;
}

// ---- one product ----

static kiln_status multiply(search *s, int64_t length)
{
    kilni_cl_operand operand[3];
    for (int i = 0; i < 3; i++) {
        operand[i] = (kilni_cl_operand){.buffer = s->buffers[i], .leading = length};
    }
    const kilni_cl_gemm gemm = {.dtype = s->dtype,
                                .m = length,
                                .n = length,
                                .k = length,
                                .batch = 1,
                                .a = operand[0],
                                .b = operand[1],
                                .c = operand[2]};
    return kilni_cl_blas_gemm(s->backend, &gemm, s->err);
}

static double element(kiln_dtype dtype, const void *result, size_t i)
{
    return dtype == KILN_DTYPE_F32 ? (double)((const float *)result)[i]
                                   : ((const double *)result)[i];
}

static kiln_status read_result(search *s, int64_t length)
{
    size_t bytes = (size_t)(length * length) * kiln_dtype_size(s->dtype);
    return s->backend->base.transfer->read(&s->backend->base, s->buffers[2], 0, s->result, bytes,
                                           s->err);
}

bool kilni_cl_blas_agrees(kiln_dtype dtype, const void *result, const double *expected,
                          size_t count)
{
    double tolerance = dtype == KILN_DTYPE_F32 ? 1e-4 : 1e-11;
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs(element(dtype, result, i) - expected[i]);
        largest = fmax(largest, fabs(expected[i]));
        worst = off > worst || isnan(off) ? off : worst;
    }
    return isfinite(largest) && worst <= tolerance * largest;
}

/// The least of a few samples, each of several products where they are short, in seconds for one.
static kiln_status time_product(search *s, int64_t length, double *out_seconds)
{
    enum { SAMPLES = 4, MOST_PRODUCTS = 64 };
    static const uint64_t sample_ns = 2000000;
    uint32_t products = 1;
    *out_seconds = HUGE_VAL;
    for (int sample = 0; sample < SAMPLES; sample++) {
        uint64_t begin = kiln_time_ns();
        for (uint32_t i = 0; i < products; i++) {
            kiln_status status = multiply(s, length);
            if (status != KILN_STATUS_OK) {
                return status;
            }
        }
        kiln_status status = kilni_cl_drain(s->backend, s->err);
        uint64_t taken = kiln_time_ns() - begin;
        if (status != KILN_STATUS_OK) {
            return status;
        }
        *out_seconds = fmin(*out_seconds, (double)taken * 1e-9 / products);
        uint64_t more = products * sample_ns / (taken + 1);
        products = more < 1 ? 1 : more > MOST_PRODUCTS ? MOST_PRODUCTS : (uint32_t)more;
    }
    return KILN_STATUS_OK;
}

// ---- one class ----

static uint64_t taken_ns(const search *s)
{
    return kiln_time_ns() - s->begin_ns;
}

static void tell(const search *s)
{
    if (s->progress != NULL) {
        s->progress(fmin(1, (double)taken_ns(s) / (double)(s->budget_ns + 1)), s->user);
    }
}

/// `*out_seconds` is HUGE_VAL for what does not compile or gives something else.
static kiln_status try_values(search *s, kilni_cl_blas_class cls, const uint32_t *values,
                              int64_t length, double *out_seconds)
{
    *out_seconds = HUGE_VAL;
    s->report->tried++;
    kiln_status status = kilni_cl_blas_set(s->backend, s->dtype, cls, values, s->err);
    if (status == KILN_STATUS_OK) {
        status = multiply(s, length); // compiles
    }
    if (status == KILN_STATUS_OK) {
        status = read_result(s, length);
    }
    if (status == KILN_STATUS_OK &&
        kilni_cl_blas_agrees(s->dtype, s->result, s->expected, (size_t)(length * length))) {
        status = time_product(s, length, out_seconds);
    } else {
        s->report->refused++;
    }
    tell(s);
    return kilni_cl_usable(s->backend, s->err); // what was refused is no failure, a lost device is
}

/// Small products all by one kernel, and large ones by the other.
static kiln_status part_at(search *s, uint32_t border)
{
    return kilni_cl_blas_set(s->backend, s->dtype, KILNI_CL_BLAS_BORDER, &border, s->err);
}

/// The result and the time with what ships.
static kiln_status begin_class(search *s, kilni_cl_blas_class cls, int64_t length,
                               double *out_seconds)
{
    kiln_status status = part_at(s, cls == KILNI_CL_BLAS_LARGE ? 1 : 1 << 20);
    if (status == KILN_STATUS_OK && (s->choice.given & 1u << cls) != 0) {
        status = kilni_cl_blas_set(s->backend, s->dtype, cls, s->choice.values[cls], s->err);
    }
    if (status == KILN_STATUS_OK) {
        status = multiply(s, length);
    }
    if (status == KILN_STATUS_OK) {
        status = read_result(s, length);
    }
    for (size_t i = 0; i < (size_t)(length * length) && status == KILN_STATUS_OK; i++) {
        s->expected[i] = element(s->dtype, s->result, i);
    }
    tell(s);
    return status == KILN_STATUS_OK ? time_product(s, length, out_seconds) : status;
}

/// From `best` on, until the time is up.
static kiln_status climb(search *s, kilni_cl_blas_class cls, int64_t length, uint64_t until_ns,
                         uint32_t *best, double *best_seconds)
{
    uint32_t values[KILNI_CL_BLAS_MOST];
    double seconds = 0;
    kiln_status status = KILN_STATUS_OK;
    while (status == KILN_STATUS_OK && taken_ns(s) < until_ns && change(s, cls, best, values)) {
        status = try_values(s, cls, values, length, &seconds);
        if (seconds < *best_seconds * worth) {
            *best_seconds = seconds;
            memcpy(best, values, sizeof(values));
        }
    }
    return status;
}

/// Other work on the machine may have made the first times too long, so who won does so again.
static kiln_status confirm(search *s, kilni_cl_blas_class cls, int64_t length, const uint32_t *best,
                           double *shipped_seconds, double *best_seconds)
{
    double again = HUGE_VAL;
    kiln_status status = KILN_STATUS_OK;
    if ((s->choice.given & 1u << cls) != 0) { // else there is no way back to what ships
        status = try_values(s, cls, s->choice.values[cls], length, &again);
        *shipped_seconds = fmin(*shipped_seconds, again);
    }
    if (status == KILN_STATUS_OK) {
        status = try_values(s, cls, best, length, &again);
        *best_seconds = fmin(*best_seconds, again);
    }
    return status;
}

static kiln_status search_class(search *s, kilni_cl_blas_class cls, int64_t length,
                                uint64_t until_ns, double *out_before, double *out_after)
{
    double operations = 2.0 * (double)length * (double)length * (double)length;
    double shipped = 0, best_seconds = HUGE_VAL;
    uint32_t best[KILNI_CL_BLAS_MOST];
    bool given = (s->choice.given & 1u << cls) != 0;
    const uint32_t *first = cls == KILNI_CL_BLAS_LARGE ? first_large : first_small;
    memcpy(best, given ? s->choice.values[cls] : first, sizeof(best));
    kiln_status status = begin_class(s, cls, length, &shipped);
    if (given) {
        best_seconds = shipped;
    } else if (status == KILN_STATUS_OK &&
               kilni_cl_blas_is_sound(s->backend, s->dtype, cls, best)) {
        status = try_values(s, cls, best, length, &best_seconds);
    }
    if (status == KILN_STATUS_OK) {
        status = climb(s, cls, length, until_ns, best, &best_seconds);
    }
    if (status == KILN_STATUS_OK && best_seconds < shipped * worth) {
        status = confirm(s, cls, length, best, &shipped, &best_seconds);
    }
    *out_before = operations / shipped;
    *out_after = operations / fmin(shipped, best_seconds);
    if (status == KILN_STATUS_OK && best_seconds < shipped * worth) {
        memcpy(s->choice.values[cls], best, sizeof(best));
        s->choice.given |= 1u << cls;
    }
    return status == KILN_STATUS_OK && (s->choice.given & 1u << cls) != 0
               ? kilni_cl_blas_set(s->backend, s->dtype, cls, s->choice.values[cls], s->err)
               : status;
}

// ---- the border ----

/// HUGE_VAL for what the kernel does not take: a length below its tiles.
static kiln_status time_borders(search *s, uint32_t border, double *out_seconds)
{
    kiln_status status = part_at(s, border);
    for (uint32_t i = 0; i < BORDERS && status == KILN_STATUS_OK && borders[i] <= s->length; i++) {
        out_seconds[i] = HUGE_VAL;
        bool ran = multiply(s, borders[i]) == KILN_STATUS_OK; // the first compiles
        if (ran && time_product(s, borders[i], &out_seconds[i]) != KILN_STATUS_OK) {
            out_seconds[i] = HUGE_VAL;
        }
        status = kilni_cl_usable(s->backend, s->err);
    }
    tell(s);
    return status;
}

/// The least length from which on the kernel for large products is always the faster.
static kiln_status search_border(search *s)
{
    double small[BORDERS], large[BORDERS];
    uint32_t best = BORDERS;
    if (taken_ns(s) >= s->budget_ns && (s->choice.given & 1u << KILNI_CL_BLAS_BORDER) != 0) {
        s->report->border = s->choice.values[KILNI_CL_BLAS_BORDER][0];
        return part_at(s, s->report->border);
    }
    kiln_status status = time_borders(s, 1 << 20, small);
    if (status == KILN_STATUS_OK) {
        status = time_borders(s, 1, large);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    while (best > 0 && (borders[best - 1] > s->length || large[best - 1] <= small[best - 1])) {
        best--;
    }
    uint32_t border = best < BORDERS ? borders[best] : 2 * borders[BORDERS - 1];
    s->choice.values[KILNI_CL_BLAS_BORDER][0] = border;
    s->choice.given |= 1u << KILNI_CL_BLAS_BORDER;
    s->report->border = border;
    return part_at(s, border);
}

// ---- all of it ----

static void fill(search *s)
{
    for (int64_t i = 0; i < s->length * s->length; i++) {
        double value = (double)draw(s, 2001) / 1000 - 1;
        if (s->dtype == KILN_DTYPE_F32) {
            ((float *)s->result)[i] = (float)value;
        } else {
            ((double *)s->result)[i] = value;
        }
    }
}

static kiln_status begin_search(search *s)
{
    kiln_backend *base = &s->backend->base;
    size_t elements = (size_t)(s->length * s->length);
    size_t bytes = elements * kiln_dtype_size(s->dtype);
    kiln_status status = KILN_STATUS_OK;
    s->expected = kiln_alloc_array(s->backend->env, elements, sizeof(*s->expected));
    s->result = kiln_alloc(s->backend->env, bytes);
    if (s->expected == NULL || s->result == NULL) {
        return kiln_fail(s->err, RESOURCE_EXHAUSTED, "no memory for the results of products");
    }
    for (int i = 0; i < 3 && status == KILN_STATUS_OK; i++) {
        status = kilni_cl_alloc(s->backend, bytes, &s->buffers[i], s->err);
        fill(s);
        if (status == KILN_STATUS_OK) {
            status = base->transfer->upload(base, s->buffers[i], 0, s->result, bytes, s->err);
        }
    }
    return status;
}

static void end_search(search *s)
{
    for (int i = 0; i < 3; i++) {
        kilni_cl_free(s->backend, s->buffers[i]);
    }
    kiln_free(s->backend->env, s->expected);
    kiln_free(s->backend->env, s->result);
}

static kiln_status run_search(search *s, bool processor)
{
    kiln_cl_blas_report *r = s->report;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, begin_search(s));
    KILN_TRY(out, status,
             search_class(s, KILNI_CL_BLAS_LARGE, s->length, s->budget_ns / 10 * 6,
                          &r->large_before, &r->large_after));
    KILN_TRY(out, status,
             search_class(s, KILNI_CL_BLAS_SMALL, processor ? 32 : 128, s->budget_ns / 10 * 9,
                          &r->small_before, &r->small_after));
    KILN_TRY(out, status, search_border(s));
    s->choice.format = KILNI_CL_BLAS_FORMAT;
    s->choice.measured_s = r->searched_s = (uint64_t)time(NULL);
    KILN_TRY(out, status, kilni_cl_blas_remember(s->backend, s->dtype, &s->choice, s->err));
out:
    end_search(s);
    return status;
}

static kiln_status check_searchable(kilni_cl_backend *backend, kiln_dtype dtype, kiln_error *err)
{
    const kilni_cl_gemm gemm = {.dtype = dtype, .m = 1, .n = 1, .k = 1, .batch = 1};
    if (!kilni_cl_blas_takes(backend, &gemm)) {
        return kiln_fail(err, UNIMPLEMENTED, "CLBlast multiplies no matrices of %s on %s",
                         kiln_dtype_size(dtype) != 0 ? kiln_dtype_name(dtype) : "this dtype",
                         backend->info.name);
    }
    return backend->store != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, FAILED_PRECONDITION,
                           "the cache is off, so parameters of CLBlast cannot be kept");
}

kiln_status kiln_cl_blas_search(kiln_backend *base, kiln_dtype dtype, uint64_t budget_ns,
                                void (*progress)(double done, void *user), void *user,
                                kiln_cl_blas_report *out_report, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    bool processor = backend->info.type == KILN_DEVICE_CPU;
    kiln_status status = check_searchable(backend, dtype, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    *out_report = (kiln_cl_blas_report){.struct_size = sizeof(*out_report)};
    search s = {.backend = backend,
                .dtype = dtype,
                .length = processor ? 512 : 2048,
                .begin_ns = kiln_time_ns(),
                .budget_ns = budget_ns,
                .random = 2463534242u,
                .progress = progress,
                .user = user,
                .choice = kilni_cl_blas_shipped(backend, dtype),
                .report = out_report,
                .err = err};
    kilni_cl_blas_parameters_ready(backend, dtype); // first, so that what is set here stays
    return run_search(&s, processor);
}

// ---- to and from elsewhere ----

static const kiln_dtype blas_dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_F64};
enum { BLAS_DTYPES = 2 };

uint64_t kiln_cl_blas_searched(kiln_backend *base, kiln_dtype dtype, bool *out_fresh)
{
    kilni_cl_blas_choice known = kilni_cl_blas_recall(kilni_cl_backend_of(base), dtype);
    uint64_t now_s = (uint64_t)time(NULL);
    *out_fresh = known.given != 0 &&
                 (now_s < known.measured_s || now_s - known.measured_s <= KILNI_CL_SPEEDS_HOLD_S);
    return known.given != 0 ? known.measured_s : 0;
}

kiln_status kiln_cl_blas_export(kiln_backend *base, kiln_string *out, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    for (int i = 0; i < BLAS_DTYPES; i++) {
        kilni_cl_blas_choice known = kilni_cl_blas_recall(backend, blas_dtypes[i]);
        if (known.given == 0) {
            known = kilni_cl_blas_shipped(backend, blas_dtypes[i]);
        }
        kilni_cl_blas_print(backend, blas_dtypes[i], &known, out);
    }
    return out->failed ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a text")
                       : KILN_STATUS_OK;
}

kiln_status kiln_cl_blas_import(kiln_backend *base, const char *text, size_t length,
                                uint32_t *out_lines, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    *out_lines = 0;
    for (int i = 0; i < BLAS_DTYPES; i++) {
        kilni_cl_blas_choice brought = {.format = KILNI_CL_BLAS_FORMAT};
        kiln_status status =
            kilni_cl_blas_parse(backend, blas_dtypes[i], text, length, &brought, err);
        brought.measured_s = (uint64_t)time(NULL);
        if (status == KILN_STATUS_OK && brought.given != 0) {
            status = kilni_cl_blas_remember(backend, blas_dtypes[i], &brought, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        for (uint32_t cls = 0; cls < KILNI_CL_BLAS_CLASSES; cls++) {
            *out_lines += brought.given >> cls & 1u;
        }
    }
    return KILN_STATUS_OK;
}
