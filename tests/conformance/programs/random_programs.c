// SPDX-License-Identifier: MIT OR Apache-2.0
// Random programs: operators drawn from the table, shapes and values from a seed. Each runs fused
// and unfused on the first OpenCL device and step by step on the reference. Chains of elementwise
// operators must agree between fused and unfused bit for bit, what only moves bits with the
// reference, too, NaNs included: every eighth program is such. Everything must agree with the
// reference within a bound that follows from the table of tolerances and the values at hand. Every
// other program runs fused wherever a fuser takes it, whatever its estimate (the option
// fuse-slower).
// --programs=N and --seed=S run more or others; a failure names the seed that repeats it alone.
// --choices=N measures of N programs instead whether blocks got the fastest candidate.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choice.h"
#include "harness.h"
#include "ir.h"
#include "kiln.h"
#include "program.h"

enum { WAYS = 2 }; ///< the estimates decide; blocks run fused whatever they say

static uint64_t first_seed = 1, n_programs = 24;
static bool measures; // choices, instead of judging results
static uint32_t uses[KILN_OP_COUNT];
static kiln_context *contexts[WAYS];
static kiln_device *devices[WAYS], *judge;

// ---- judging ----

static double distance(double a, double b)
{
    if ((isnan(a) && isnan(b)) || a == b) {
        return 0;
    }
    return isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
}

static bool compare(const program *p, uint32_t which, const unsigned char *bytes, double bound,
                    const unsigned char *against, const char *what)
{
    value a = p->values[which], b = p->values[which];
    a.bytes = (unsigned char *)(uintptr_t)bytes;
    b.bytes = (unsigned char *)(uintptr_t)against;
    for (int64_t i = 0; i < a.count; i++) {
        double x = value_element(&a, i), y = value_element(&b, i);
        if (distance(x, y) > bound) {
            KILN_FAIL("--seed=%llu: %%%u, element %lld: %.9g, %s %.9g, at most %.3g apart",
                      (unsigned long long)p->seed, which, (long long)i, x, what, y, bound);
            program_print(p);
            return false;
        }
    }
    return true;
}

/// Other devices may know one NaN of f16 only.
static bool is_pocl(void)
{
    return strncmp(kiln_device_info_of(devices[0])->platform, "Portable Computing", 18) == 0;
}

/// Zeros of one sign too, and NaNs that were only moved. What arithmetic makes of NaNs has the bits
/// that the device gives it (docs/numerics.md).
static bool compare_bits(const program *p, uint32_t which, const unsigned char *fused,
                         const unsigned char *plain, const char *what)
{
    size_t size = kiln_dtype_size(p->values[which].dtype);
    value a = p->values[which];
    a.bytes = (unsigned char *)(uintptr_t)fused;
    for (int64_t i = 0; i < a.count; i++) {
        size_t at = (size_t)i * size;
        bool exact = a.moved && (a.dtype != KILN_DTYPE_F16 || is_pocl());
        bool any = isnan(value_element(&a, i)) && !exact;
        if (memcmp(fused + at, plain + at, size) != 0 && !any) {
            KILN_FAIL("--seed=%llu: %%%u, element %lld has other bits %s",
                      (unsigned long long)p->seed, which, (long long)i, what);
            program_print(p);
            return false;
        }
    }
    return true;
}

static bool run(program *p, bool fused, unsigned char **out)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = devices[(p->seed / 8 + p->seed) % WAYS]; // so that of the eighths, too
    kiln_status status = kiln_device_set_fusion(device, fused, &err);
    if (status == KILN_STATUS_OK) {
        status = program_run(p, device, out, &err);
    }
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("--seed=%llu: %s", (unsigned long long)p->seed, err.message);
    }
    return status == KILN_STATUS_OK;
}

static void judge_program(program *p)
{
    unsigned char *fused[MAX_VALUES] = {NULL}, *plain[MAX_VALUES] = {NULL};
    bool ok = run(p, true, fused) && run(p, false, plain);
    for (uint32_t i = p->n_sources; ok && i < p->n_values; i++) {
        const value *v = &p->values[i];
        if (fused[i] == NULL || plain[i] == NULL) {
            continue;
        }
        ok = compare(p, i, plain[i], v->bound, v->bytes, "unfused, the reference") &&
             compare(p, i, fused[i], v->bound, v->bytes, "fused, the reference");
        if (ok && v->moved) {
            ok = compare_bits(p, i, plain[i], v->bytes, "unfused than the reference");
        }
        if (ok && v->elementwise) {
            ok = compare(p, i, fused[i], 0, plain[i], "fused, unfused") &&
                 compare_bits(p, i, fused[i], plain[i], "fused than unfused");
        }
    }
    for (uint32_t i = 0; i < MAX_VALUES; i++) {
        free(fused[i]);
        free(plain[i]);
    }
}

// ---- choices ----

static void measure_choices(program *p, choice_tally *tally)
{
    char name[40];
    kiln_error err = KILN_ERROR_INIT;
    snprintf(name, sizeof(name), "program %llu", (unsigned long long)p->seed);
    const choice_program made = {name, p, program_inputs, program_record};
    if (p->n_steps > 0 && choice_measure(&made, tally, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s: %s", name, err.message);
    }
}

static void print_choices(const choice_tally *tally)
{
    printf("choices: %u blocks, within 5 %% of the fastest: tune off %u, lazy %u, full %u; ties "
           "among them: %u, %u, %u; %u not measured\n",
           tally->blocks, tally->good[CHOICE_OFF], tally->good[CHOICE_LAZY],
           tally->good[CHOICE_FULL], tally->ties[CHOICE_OFF], tally->ties[CHOICE_LAZY],
           tally->ties[CHOICE_FULL], tally->failed);
}

/// False where there is no device to run on.
static bool open_devices(void)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    bool open = true;
    for (int way = 0; way < WAYS && open; way++) {
        KILN_CHECK_INT(kiln_context_create(&options, &contexts[way], &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_context_set(contexts[way], "fuse-slower", way == 0 ? "0" : "1", &err),
                       KILN_STATUS_OK);
        open = kiln_device_open(contexts[way], kiln_test_address("opencl:0"), &devices[way],
                                &err) == KILN_STATUS_OK;
    }
    if (!open) {
        kiln_test_skip("no OpenCL device: %s", err.message);
        return false;
    }
    return KILN_CHECK_INT(kiln_device_open(contexts[0], "reference", &judge, &err), KILN_STATUS_OK);
}

static void close_devices(void)
{
    kiln_device_release(judge);
    for (int way = 0; way < WAYS; way++) {
        kiln_device_release(devices[way]);
        kiln_context_destroy(contexts[way]);
    }
}

static void say_what_ran(uint64_t steps)
{
    uint32_t covered = 0;
    uint64_t blocks = 0, ops = 0;
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        covered += uses[op] > 0;
    }
    for (int way = 0; way < WAYS; way++) {
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(devices[way], &stats);
        blocks += stats.blocks_fused;
        ops += stats.ops_fused;
    }
    printf("random programs: %llu from seed %llu, %llu operations, %u operators, %llu blocks of "
           "%llu operations fused\n",
           (unsigned long long)n_programs, (unsigned long long)first_seed,
           (unsigned long long)steps, covered, (unsigned long long)blocks, (unsigned long long)ops);
    KILN_CHECK(measures || n_programs < 20 || (covered >= 60 && ops > n_programs));
}

static void test_programs(void)
{
    choice_tally tally = {.device = kiln_test_address("opencl:0")};
    uint64_t steps = 0;
    bool open = open_devices();
    for (uint64_t i = 0; i < n_programs && open; i++) {
        program *p = calloc(1, sizeof(*p));
        if (!KILN_CHECK(p != NULL)) {
            break;
        }
        p->seed = p->state = first_seed + i;
        program_make(p, judge, uses);
        if (measures) {
            measure_choices(p, &tally);
        } else {
            judge_program(p);
        }
        steps += p->n_steps;
        program_fini(p);
        free(p);
    }
    if (open) {
        say_what_ran(steps);
    }
    if (open && measures) {
        print_choices(&tally);
    }
    close_devices();
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {KILN_TEST(test_programs)};
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--programs=", 11) == 0) {
            n_programs = strtoull(argv[i] + 11, NULL, 10);
        } else if (strncmp(argv[i], "--choices=", 10) == 0) {
            n_programs = strtoull(argv[i] + 10, NULL, 10);
            measures = true;
        } else if (strncmp(argv[i], "--seed=", 7) == 0) {
            first_seed = strtoull(argv[i] + 7, NULL, 10);
        } else {
            argv[kept++] = argv[i];
        }
    }
    return kiln_test_run("conformance/random_programs", cases, 1, kept, argv);
}
