// SPDX-License-Identifier: MIT OR Apache-2.0
// The backend suite: every operator of the table, every dtype, every sample, on the backend named
// by
// --backend=ADDRESS or KILN_TEST_BACKEND, against the reference evaluator on dense memory. Each
// sample runs on dense inputs, on one of the other layouts in turn, and in place where an input
// fits the result. The last case fails for every pair of operator and dtype that the table allows
// and no sample passed (coverage.h), and, with --matrix=FILE, where that file says otherwise.
// --cases=N takes only the first N samples with elements of each pair.
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coverage.h"
#include "expand_run.h"
#include "harness.h"
#include "ir.h"
#include "layout.h"
#include "samples.h"
#ifdef KILN_TEST_WITH_CL
#include "cl_backend.h"
#endif
#ifdef KILN_TEST_WITH_REMOTE
#include "remote_grpc.h"
#include "remote_host.h"
#endif

enum { MAX_REPORTS = 3 };

static kiln_env env;
static kiln_backend *tested;
static kiln_backend *judge;
static bool expands; ///< composites, also where the tested backend runs them itself
static uint32_t tried_dtypes = UINT32_MAX;
static unsigned most_cases = UINT_MAX; ///< with elements, of each pair
static const char *matrix; ///< a file to hold against the run, or NULL
static coverage_table covered;
static uint64_t fewest_launches[KILN_OP_COUNT]; ///< of a run with elements; 0: none was counted

typedef struct operands {
    kiln_view inputs[KILN_MAX_INPUTS];
    void *memory[KILN_MAX_INPUTS];
    void *dense[KILN_MAX_INPUTS];
    size_t bytes[KILN_MAX_INPUTS];
    unsigned count;
} operands;

static void operands_fini(operands *o)
{
    for (unsigned i = 0; i < o->count; i++) {
        free(o->memory[i]);
        free(o->dense[i]);
    }
}

static bool operands_init(operands *o, const kiln_op_record *record, const void *const *data,
                          layout_kind kind)
{
    o->count = 0;
    for (unsigned i = 0; i < record->n_inputs; i++) {
        if (!layout_make(kind, &record->inputs[i], data[i], &o->inputs[i], &o->memory[i],
                         &o->bytes[i], &o->dense[i])) {
            operands_fini(o);
            return false;
        }
        o->count++;
    }
    return true;
}

/* A copy of a record whose tensors have ids that were never used: backends may go by them. */
typedef struct fresh_record {
    kiln_op_record record;
    kiln_tensor_desc inputs[KILN_MAX_INPUTS];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS];
} fresh_record;

static void make_fresh(const kiln_op_record *record, fresh_record *out_fresh)
{
    static uint64_t last_id = 1000;
    out_fresh->record = *record;
    out_fresh->record.inputs = out_fresh->inputs;
    out_fresh->record.outputs = out_fresh->outputs;
    for (unsigned i = 0; i < record->n_inputs; i++) {
        out_fresh->inputs[i] = record->inputs[i];
        out_fresh->inputs[i].id = ++last_id;
    }
    for (unsigned i = 0; i < record->n_outputs; i++) {
        out_fresh->outputs[i] = record->outputs[i];
        out_fresh->outputs[i].id = ++last_id;
    }
}

/* Results of an operation on a backend: buffers of its own, read back into `data`. */
typedef struct results {
    void *data[KILN_MAX_OUTPUTS];
    unsigned count;
} results;

static void results_fini(results *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        free(r->data[i]);
    }
}

static bool results_init(results *r, const kiln_op_record *record)
{
    r->count = 0;
    for (unsigned i = 0; i < record->n_outputs; i++) {
        int64_t bytes = kiln_desc_bytes(&record->outputs[i]);
        r->data[i] = calloc(1, bytes > 0 ? (size_t)bytes : 1);
        if (r->data[i] == NULL) {
            results_fini(r);
            return false;
        }
        r->count++;
    }
    return true;
}

static uint64_t launched(kiln_backend *backend)
{
    kiln_backend_stats stats = {.ops_executed = 0};
    backend->device->stats(backend, &stats);
    return stats.kernels_launched;
}

static bool has_elements(const kiln_op_record *record)
{
    for (unsigned i = 0; i < record->n_outputs; i++) {
        if (kiln_desc_count(&record->outputs[i]) > 0) {
            return true;
        }
    }
    return false;
}

/* Not of operations on nothing: they skip what is usual, or fill the result. */
static void count_launches(const kiln_op_record *record, uint64_t count)
{
    uint64_t *fewest = &fewest_launches[record->op];
    bool elements = has_elements(record);
    for (unsigned i = 0; i < record->n_inputs; i++) {
        elements = elements && kiln_desc_count(&record->inputs[i]) > 0;
    }
    if (elements && count > 0 && (*fewest == 0 || count < *fewest)) {
        *fewest = count;
    }
}

static kiln_status run_on_buffers(kiln_backend *backend, const kiln_op_record *record,
                                  const kiln_view *inputs, int in_place, results *out,
                                  kiln_error *err)
{
    kiln_buffer *buffers[KILN_MAX_OUTPUTS] = {NULL};
    kiln_view outputs[KILN_MAX_OUTPUTS];
    kiln_status status = KILN_STATUS_OK;
    fresh_record fresh;
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_outputs; i++) {
        size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i]);
        bool replaces = i == 0 && in_place >= 0;
        if (bytes > 0 && !replaces) {
            status = backend->memory->alloc(backend, bytes, &buffers[i], err);
        }
        outputs[i] =
            kiln_view_dense(&record->outputs[i], replaces ? inputs[in_place].buffer : buffers[i]);
    }
    if (status == KILN_STATUS_OK) {
        uint64_t before = launched(backend);
        make_fresh(record, &fresh);
        status = execute_or_expand(&env, backend, &fresh.record, inputs, outputs, err);
        if (backend == tested && !kiln_ir_is_expanded(backend, record)) {
            count_launches(record, launched(backend) - before);
        }
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_outputs; i++) {
        size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i]);
        if (bytes > 0) {
            status =
                backend->transfer->read(backend, outputs[i].buffer, 0, out->data[i], bytes, err);
        }
    }
    for (unsigned i = 0; i < record->n_outputs; i++) {
        backend->memory->free(backend, buffers[i]);
    }
    return status;
}

/* Uploads `memory`, runs, reads the results. in_place: the input whose memory takes the first
 * result, or -1. */
static kiln_status run(kiln_backend *backend, const kiln_op_record *record, kiln_view *inputs,
                       void *const *memory, const size_t *bytes, int in_place, results *out,
                       kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    unsigned made = 0;
    for (; status == KILN_STATUS_OK && made < record->n_inputs; made++) {
        inputs[made].buffer = NULL;
        if (kiln_desc_count(&record->inputs[made]) == 0) {
            continue; // no elements, no buffer
        }
        status = backend->memory->alloc(backend, bytes[made], &inputs[made].buffer, err);
        if (status != KILN_STATUS_OK) {
            break;
        }
        status = backend->transfer->upload(backend, inputs[made].buffer, 0, memory[made],
                                           bytes[made], err);
    }
    if (status == KILN_STATUS_OK) {
        status = run_on_buffers(backend, record, inputs, in_place, out, err);
    }
    while (made > 0) {
        backend->memory->free(backend, inputs[--made].buffer);
    }
    return status;
}

static void report(const kiln_op_record *record, coverage *cover, const char *layout,
                   const char *text)
{
    kiln_string line;
    if (cover->failures++ >= MAX_REPORTS) {
        return;
    }
    kiln_string_init(&line, &env);
    for (unsigned i = 0; i < record->n_inputs && i < 4; i++) {
        kiln_string_printf(&line, "%s%s[", i > 0 ? " " : "",
                           kiln_dtype_name(record->inputs[i].dtype));
        for (unsigned d = 0; d < record->inputs[i].rank; d++) {
            kiln_string_printf(&line, "%s%lld", d > 0 ? "," : "",
                               (long long)record->inputs[i].dims[d]);
        }
        kiln_string_printf(&line, "]");
    }
    KILN_FAIL("%s(%s), %s: %s", kiln_op_info_of(record->op)->name,
              line.text != NULL ? line.text : "", layout, text);
    kiln_string_fini(&line);
}

static void compare_results(const kiln_op_record *record, const void *const *data, coverage *cover,
                            const char *layout, const results *actual, const results *expected)
{
    for (unsigned i = 0; i < record->n_outputs; i++) {
        char text[300];
        char named[330];
        if (!kiln_tolerance_judge(record, i, data, actual->data[i], expected->data[i], text,
                                  sizeof(text))) {
            snprintf(named, sizeof(named), "result %u: %s", i, text);
            report(record, cover, layout, record->n_outputs > 1 ? named : text);
            return;
        }
    }
    cover->passed += has_elements(record) ? 1 : 0;
}

static void compare(const kiln_op_record *record, coverage *cover, operands *o, layout_kind kind,
                    int in_place, const results *expected)
{
    static const char *const names[LAYOUT_COUNT] = {"dense", "padded", "flipped", "expanded"};
    const char *layout = in_place >= 0 ? "in place" : names[kind];
    kiln_error err = KILN_ERROR_INIT;
    results actual;
    if (!results_init(&actual, record)) {
        report(record, cover, layout, "no memory");
        return;
    }
    kiln_status status =
        run(tested, record, o->inputs, o->memory, o->bytes, in_place, &actual, &err);
    if (status == KILN_STATUS_UNIMPLEMENTED) {
        if (cover->unimplemented++ == 0) {
            snprintf(cover->reason, sizeof(cover->reason), "%.150s", err.message);
        }
    } else if (status != KILN_STATUS_OK) {
        report(record, cover, layout, err.message);
    } else {
        compare_results(record, (const void *const *)o->dense, cover, layout, &actual, expected);
    }
    cover->runs++;
    results_fini(&actual);
}

static bool may_replace(const kiln_op_record *record, unsigned input)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    return info->cls == KILN_CLASS_ELEMENTWISE && info->decompose == NULL &&
           record->inputs[input].dtype == record->outputs[0].dtype &&
           kiln_desc_same_shape(&record->inputs[input], &record->outputs[0]);
}

static void try_layout(const kiln_op_record *record, const void *const *data, coverage *cover,
                       layout_kind kind)
{
    kiln_view dense[KILN_MAX_INPUTS];
    size_t bytes[KILN_MAX_INPUTS];
    operands o;
    kiln_error err = KILN_ERROR_INIT;
    results expected = {.count = 0};
    if (!operands_init(&o, record, data, kind)) {
        report(record, cover, "layout", "no memory");
        return;
    }
    for (unsigned i = 0; i < record->n_inputs; i++) {
        dense[i] = kiln_view_dense(&record->inputs[i], NULL);
        bytes[i] = (size_t)kiln_desc_bytes(&record->inputs[i]);
    }
    if (!results_init(&expected, record)) {
        report(record, cover, "reference", "no memory");
    } else if (run(judge, record, dense, o.dense, bytes, -1, &expected, &err) != KILN_STATUS_OK) {
        report(record, cover, "reference", err.message);
    } else {
        compare(record, cover, &o, kind, -1, &expected);
        for (unsigned i = 0; kind == LAYOUT_DENSE && i < record->n_inputs; i++) {
            if (may_replace(record, i)) {
                compare(record, cover, &o, kind, (int)i, &expected);
            }
        }
    }
    operands_fini(&o);
    results_fini(&expected);
}

static void take_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    coverage *cover = user;
    cover->samples++;
    if (cover->passed >= most_cases) {
        return;
    }
    if (record->outputs == NULL) {
        report(record, cover, "sample", "inference refuses it");
        return;
    }
    try_layout(record, data, cover, LAYOUT_DENSE);
    bool dense_only = (tested->device->info(tested)->features & KILN_FEATURE_OWN_VIEWS) != 0;
    if (record->n_inputs > 0 && !dense_only) {
        try_layout(record, data, cover, (layout_kind)(1 + cover->samples % (LAYOUT_COUNT - 1)));
    }
}

static void test_op(void)
{
    kiln_op op = *(const kiln_op *)kiln_test_param();
    const kiln_op_info *info = kiln_op_info_of(op);
    if (tested == NULL) {
        kiln_test_skip("no device");
        return;
    }
    for (int d = 1; d < KILN_DTYPE_LIMIT; d++) {
        kiln_dtype dtype = (kiln_dtype)d;
        coverage *cover = &covered[op][dtype];
        if (!coverage_takes(op, dtype) || (tried_dtypes >> d & 1u) == 0) {
            continue;
        }
        kiln_sample_sink sink = {.env = &env, .take = take_sample, .user = cover};
        kiln_samples_make(op, dtype, &sink);
        KILN_CHECK(cover->samples > 0);
        if (cover->failures > MAX_REPORTS) {
            KILN_FAIL("%s %s: %u of %u runs fail", info->name, kiln_dtype_name(dtype),
                      cover->failures, cover->runs);
        }
    }
}

/* Whether all samples run, and on PoCL: other drivers make other kernels of some operators. */
static bool tells_launches(void)
{
    const kiln_device_info *info = tested != NULL ? tested->device->info(tested) : NULL;
    return info != NULL && strcmp(info->platform, "Portable Computing Language") == 0 &&
           most_cases == UINT_MAX;
}

/* What a device says that an operation launches is the least that any sample launched. */
static void test_launches(void)
{
    const kiln_device_info *info = tested->device->info(tested);
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        if (fewest_launches[op] > 0 && fewest_launches[op] != info->op_launches[op]) {
            KILN_FAIL("%s launches %" PRIu64 " kernels, and kernels.def says %u",
                      kiln_op_info_of((kiln_op)op)->name, fewest_launches[op],
                      info->op_launches[op]);
        }
    }
}

/* Last: what the other cases left open. */
static void test_coverage(void)
{
    unsigned differences = 0;
    if (tested == NULL) {
        kiln_test_skip("no device");
        return;
    }
    (void)coverage_check(covered, tried_dtypes, tested);
    if (matrix != NULL &&
        !coverage_check_matrix(covered, tried_dtypes, tested, matrix, &differences)) {
        KILN_FAIL("%s cannot be read", matrix);
    }
}

static const kiln_backend_provider *provider_of(const char *address)
{
    const kiln_backend_provider *providers[] = {
        kiln_ir_reference_provider(), kiln_ir_null_provider(),
#ifdef KILN_TEST_WITH_CL
        kiln_cl_provider(),
#endif
#ifdef KILN_TEST_WITH_REMOTE
        kiln_rpc_provider(),          kiln_rpc_tls_provider(),
#endif
    };
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
        size_t length = strlen(providers[i]->scheme);
        if (strncmp(address, providers[i]->scheme, length) == 0 && address[length] == ':') {
            return providers[i];
        }
    }
    return NULL;
}

/* A set of dtypes as bits from a list of names; 0 when one is unknown. */
static uint32_t dtypes_of(const char *list)
{
    uint32_t set = 0;
    while (*list != '\0') {
        char name[16] = "";
        size_t length = strcspn(list, ",");
        if (length >= sizeof(name)) {
            return 0;
        }
        memcpy(name, list, length);
        if (kiln_dtype_from_name(name) == KILN_DTYPE_NONE) {
            return 0;
        }
        set |= 1u << kiln_dtype_from_name(name);
        list += length + (list[length] == ',' ? 1 : 0);
    }
    return set;
}

/* Takes --backend=ADDRESS, --dtypes=LIST, --cases=N, --matrix=FILE and --expand out of the
 * arguments. */
static const char *take_options(int *argc, char **argv)
{
    const char *address = getenv("KILN_TEST_BACKEND");
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strncmp(argv[i], "--backend=", 10) == 0) {
            address = argv[i] + 10;
        } else if (strcmp(argv[i], "--expand") == 0) {
            expands = true;
        } else if (strncmp(argv[i], "--dtypes=", 9) == 0) {
            tried_dtypes = dtypes_of(argv[i] + 9);
        } else if (strncmp(argv[i], "--cases=", 8) == 0) {
            most_cases = (unsigned)strtoul(argv[i] + 8, NULL, 10);
        } else if (strncmp(argv[i], "--matrix=", 9) == 0) {
            matrix = argv[i] + 9;
        } else {
            argv[kept++] = argv[i];
        }
    }
    *argc = kept;
    return address != NULL ? address : "reference:";
}

static bool open_backends(const char *address)
{
    kiln_error err = KILN_ERROR_INIT;
#ifdef KILN_TEST_WITH_REMOTE
    if (strcmp(address, "grpc:") == 0) {
        address = remote_host_start(&err);
    }
    if (address == NULL) {
        fprintf(stderr, "conformance: no server: %s\n", err.message);
        return false;
    }
#endif
    const kiln_backend_provider *provider = provider_of(address);
    const kiln_backend_provider *reference = kiln_ir_reference_provider();
    if (provider == NULL) {
        fprintf(stderr, "conformance: no backend for %s\n", address);
        return false;
    }
    if (reference->open(&env, "reference:", &judge, &err, reference->user) != KILN_STATUS_OK) {
        fprintf(stderr, "conformance: %s\n", err.message);
        return false;
    }
    kiln_status status = provider->open(&env, address, &tested, &err, provider->user);
    if (status != KILN_STATUS_OK && status != KILN_STATUS_NOT_FOUND) {
        fprintf(stderr, "conformance: %s: %s\n", address, err.message);
        return false;
    }
    expand_on = expands ? tested : NULL;
    return true;
}

/* Hundreds of programs that run once: storing them would compile each a second time on PoCL. */
/// The environment is read only for a server's sake: whom to trust, and who one is.
static bool cache_off(const char *address)
{
    kiln_error err = KILN_ERROR_INIT;
    bool remote = strncmp(address, "grpcs:", 6) == 0;
    bool ok =
        kiln_config_create(&env.allocator, NULL, remote, &env.config, &err) == KILN_STATUS_OK &&
        kiln_config_set(env.config, "cache-dir", "off", KILN_ORIGIN_FLAG, &err) == KILN_STATUS_OK;
    if (!ok) {
        fprintf(stderr, "conformance: %s\n", err.message);
    }
    return ok;
}

int main(int argc, char **argv)
{
    static kiln_op ops[KILN_OP_COUNT];
    static kiln_test_case cases[KILN_OP_COUNT + 2];
    size_t count = 0;
    const char *address = take_options(&argc, argv);
    char suite[96];
    env.allocator = kiln_allocator_default();
    if (!cache_off(address)) {
        return 3;
    }
    snprintf(suite, sizeof(suite), "conformance/%s", address);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (tried_dtypes == 0) {
        fprintf(stderr, "conformance: --dtypes takes names of dtypes, such as f32,i64\n");
        return 2;
    }
    if (!open_backends(address)) {
        return 3;
    }
    for (unsigned i = 0; i < KILN_OP_COUNT; i++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)i);
        ops[i] = (kiln_op)i;
        if (info->cls != KILN_CLASS_CONTROL && info->cls != KILN_CLASS_CUSTOM) {
            cases[count++] = (kiln_test_case)KILN_TEST_PARAM(test_op, info->name, &ops[i]);
        }
    }
    if (tells_launches()) {
        cases[count++] = (kiln_test_case)KILN_TEST(test_launches);
    }
    cases[count++] = (kiln_test_case)KILN_TEST(test_coverage);
    int status = kiln_test_run(suite, cases, count, argc, argv);
    if (tested != NULL) {
        tested->device->close(tested);
    }
    judge->device->close(judge);
#ifdef KILN_TEST_WITH_REMOTE
    remote_host_stop();
#endif
    kiln_config_destroy(env.config);
    return status;
}
