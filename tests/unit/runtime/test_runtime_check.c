// SPDX-License-Identifier: MIT OR Apache-2.0
// Checked mode against fusers that lie (tests/plugins/hostile): the user's results are right, what
// is wrong is named, the fuser gets a strike, the program never comes back, and the smallest stream
// that shows it lies in a file that shows it again.

#include "rt_binding.h"
#include "rt_check.h"
#include "rt_device.h"
#include "rt_run.h"
#include "rt_tensor.h"
#include "runtime_fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4096 };

static float x[N], expected[N];
static char seen[16384]; ///< what the log said

static void keep_log(const kiln_log_record *record, void *user)
{
    size_t at = strlen(seen);
    (void)user;
    snprintf(seen + at, sizeof(seen) - at, "%s\n", record->message);
}

typedef struct checked {
    fixture f;
    char folder[256];
} checked;

static const char *plugin_path(const char *name)
{
    char file[64];
    snprintf(file, sizeof(file), "evil_%s.so", name);
    return kiln_test_path(KILN_TEST_BUILD_DIR "/lib/kiln/test_plugins", file);
}

/// A device with one hostile fuser and no other; NULL: with those that ship.
static bool open_in(checked *c, const char *folder, const char *name, const char *mode)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.log = keep_log;
    memset(c, 0, sizeof(*c));
    seen[0] = '\0';
    snprintf(c->folder, sizeof(c->folder), "%s", folder);
    fixture *f = &c->f;
    FIXTURE_OK(f, kiln_context_create(&options, &f->context, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "cache-dir", c->folder, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "check", mode, &f->err));
    if (name != NULL) {
        FIXTURE_OK(f, kiln_context_set(f->context, "plugins", "test.hostile-kernel", &f->err));
        FIXTURE_OK(f, kiln_plugin_load(f->context, plugin_path(name), &f->err));
    }
    if (kiln_device_open(f->context, kiln_test_address("opencl:0"), &f->device, &f->err) !=
        KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", f->err.message);
        kiln_context_destroy(f->context);
        return false;
    }
    seen[0] = '\0'; // of plugins that are there only now
    return true;
}

static bool open(checked *c, const char *name, const char *mode)
{
    return open_in(c, kiln_test_tmpdir(), name, mode);
}

/// abs(relu(-(x + 2))), everything between let go.
static void run(checked *c, float *out)
{
    fixture *f = &c->f;
    const int64_t dims[] = {N};
    kiln_tensor *t[5] = {fixture_f32(f, 1, dims, x)};
    FIXTURE_OK(f, kiln_add_scalar(t[0], kiln_f64(2), &t[1], &f->err));
    FIXTURE_OK(f, kiln_neg(t[1], &t[2], &f->err));
    kiln_release(t[1]);
    FIXTURE_OK(f, kiln_relu(t[2], &t[3], &f->err));
    kiln_release(t[2]);
    FIXTURE_OK(f, kiln_abs(t[3], &t[4], &f->err));
    kiln_release(t[3]);
    FIXTURE_OK(f, kiln_read(t[4], out, sizeof(float) * N, &f->err));
    kiln_release(t[4]);
    float again[N];
    FIXTURE_OK(f, kiln_read(t[0], again, sizeof(again), &f->err));
    KILN_CHECK_MEM(again, x, sizeof(x)); // whatever a kernel did to it
    kiln_release(t[0]);
}

static void fill(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = sinf((float)i) * 5;
    }
    x[5] = NAN;
    x[6] = -INFINITY;
    x[7] = -2.0f;
    for (int i = 0; i < N; i++) {
        float v = -(x[i] + 2);
        expected[i] = isnan(v) ? NAN : v > 0 ? v : 0.0f;
    }
}

static bool same(const float *out)
{
    for (int i = 0; i < N; i++) {
        if (!(isnan(out[i]) && isnan(expected[i])) && out[i] != expected[i]) {
            return false;
        }
    }
    return true;
}

static kiln_device_stats stats_of(const checked *c)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(c->f.device, &stats);
    return stats;
}

static void test_an_honest_fuser_passes(void)
{
    static float out[N];
    checked c;
    fill();
    if (!open(&c, "none", "always")) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        run(&c, out);
        KILN_CHECK(same(out));
    }
    KILN_CHECK_INT(stats_of(&c).blocks_fused, 3);
    KILN_CHECK_STR(seen, "");
    fixture_close(&c.f);
}

/// The file that a reduction left, or NULL.
static const char *find_file(const checked *c)
{
    DIR *dir = opendir(c->folder);
    const char *path = NULL;
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        if (strncmp(e->d_name, "wrong-", 6) == 0) {
            path = kiln_test_path(c->folder, e->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return path;
}

typedef struct lie {
    const char *name;
    const char *said; ///< in the log
    const char *kept; ///< an operation that the smallest stream has
    unsigned most_ops; ///< of it

} lie;

static const lie lies[] = {
    {"wrong", "result %5: element", "relu", 2},
    {"nan", "is nan, expected", "", 2},
    {"overwrite", "it writes behind result %5, 0 bytes away", "", 2},
    {"underwrite", "it writes before result %5, 0 bytes away", "", 2},
    {"writes_input", "it writes into input %1", "add_scalar", 2},
    {"temp_overrun", "it writes behind temporary 0, 0 bytes away", "", 2},
    {"unwritten", "is nan, expected", "", 2},
};

static void check_file(checked *c, const lie *l)
{
    const char *path = find_file(c);
    fixture *f = &c->f;
    kiln_replay *replay = NULL;
    unsigned n_ops = 0;
    bool kept = l->kept[0] == '\0';
    if (!KILN_CHECK(path != NULL)) {
        return;
    }
    KILN_CHECK_CONTAINS(seen, path);
    FIXTURE_OK(f, kiln_replay_read(kiln_context_env(f->context), path, &replay, &f->err));
    for (size_t i = 0; replay != NULL && i < kiln_ir_graph_op_count(replay->graph); i++) {
        const kiln_op_record *record = kiln_ir_graph_op(replay->graph, i);
        n_ops += record->op != KILN_OP_DROP;
        kept = kept || strcmp(kiln_op_info_of(record->op)->name, l->kept) == 0;
    }
    KILN_CHECK(kept);
    if (n_ops == 0 || n_ops > l->most_ops) {
        KILN_FAIL("%s: %u operations are left", l->name, n_ops);
    }
    if (replay != NULL) {
        KILN_CHECK_CONTAINS(replay->note, "test.hostile-kernel/evil");
    }
    kiln_replay_destroy(replay);
}

static void test_lies_are_found(void)
{
    const lie *l = kiln_test_param();
    static float out[N];
    checked c;
    fill();
    if (!open(&c, l->name, "first")) {
        return;
    }
    run(&c, out);
    KILN_CHECK(same(out));
    KILN_CHECK_CONTAINS(seen, l->said);
    KILN_CHECK_CONTAINS(seen, "block of test.hostile-kernel/evil is wrong");
    check_file(&c, l);
    for (int i = 0; i < 4; i++) { // shorter blocks are wrong as well, until the third strike
        run(&c, out);
        KILN_CHECK(same(out));
    }
    KILN_CHECK_CONTAINS(seen, strcmp(l->name, "writes_input") == 0 // later into what dies anyway
                                  ? "(failure 1)"
                                  : "(failure 3): disabled");
    uint64_t fused = stats_of(&c).blocks_fused;
    run(&c, out);
    KILN_CHECK(same(out));
    KILN_CHECK(stats_of(&c).blocks_fused == fused || strcmp(l->name, "writes_input") == 0);
    fixture_close(&c.f);
}

/// Without the check the lies are believed: the test above would fail otherwise, too.
static void test_unchecked_lies_are_believed(void)
{
    static float out[N];
    checked c;
    fill();
    if (open(&c, "wrong", "off")) {
        run(&c, out);
        KILN_CHECK(!same(out));
        KILN_CHECK_STR(seen, "");
        fixture_close(&c.f);
    }
}

static void test_modes(void)
{
    checked c;
    kiln_error err = KILN_ERROR_INIT;
    static float out[N];
    fill();
    if (!open(&c, "none", "first")) {
        return;
    }
    run(&c, out);
    uint64_t before = stats_of(&c).backend.kernels_launched;
    run(&c, out);
    KILN_CHECK_INT(stats_of(&c).backend.kernels_launched - before, 1); // once is enough
    fixture_close(&c.f);
    kiln_context *context = NULL;
    KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_context_set(context, "check", "sometimes", &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "check is sometimes; off, first and always are known");
    kiln_context_destroy(context);
}

/// A captured graph is checked as any other plan, and goes on unfused.
static void test_graphs_are_checked(void)
{
    static float out[N];
    checked c;
    fill();
    if (!open(&c, "wrong", "always")) {
        return;
    }
    fixture *f = &c.f;
    const int64_t dims[] = {N};
    kiln_tensor *in = fixture_f32(f, 1, dims, x), *t[4] = {NULL}, *result = NULL;
    kiln_graph *graph = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, &in, 1, &f->err));
    FIXTURE_OK(f, kiln_add_scalar(in, kiln_f64(2), &t[0], &f->err));
    FIXTURE_OK(f, kiln_neg(t[0], &t[1], &f->err));
    kiln_release(t[0]);
    FIXTURE_OK(f, kiln_relu(t[1], &t[2], &f->err));
    kiln_release(t[1]);
    FIXTURE_OK(f, kiln_abs(t[2], &t[3], &f->err));
    kiln_release(t[2]);
    FIXTURE_OK(f, kiln_graph_end(f->device, &t[3], 1, &graph, &f->err));
    kiln_release(t[3]);
    for (int i = 0; i < 3 && graph != NULL; i++) {
        FIXTURE_OK(f, kiln_graph_run(graph, &in, 1, &result, 1, &f->err));
        FIXTURE_OK(f, kiln_read(result, out, sizeof(out), &f->err));
        KILN_CHECK(same(out));
        kiln_release(result);
    }
    KILN_CHECK_CONTAINS(seen, "is wrong");
    kiln_graph_destroy(graph);
    kiln_release(in);
    fixture_close(f);
}

/// A block that may write over its inputs is checked on copies of them.
static void test_in_place_is_checked(void)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    static float out[2][N];
    for (int round = 0; round < 2; round++) {
        fixture f = {0};
        options.log = keep_log;
        seen[0] = '\0';
        FIXTURE_OK(&f, kiln_context_create(&options, &f.context, &f.err));
        FIXTURE_OK(&f, kiln_context_set(f.context, "cache-dir", kiln_test_tmpdir(), &f.err));
        FIXTURE_OK(&f, kiln_context_set(f.context, "check", round == 0 ? "off" : "always", &f.err));
        FIXTURE_OK(&f, kiln_context_set(f.context, "plugins", "org.kiln.elementwise", &f.err));
        kiln_status loaded = kiln_plugin_load(
            f.context, KILN_TEST_BUILD_DIR "/lib/kiln/plugins/elementwise.so", &f.err);
        KILN_CHECK(loaded == KILN_STATUS_OK || loaded == KILN_STATUS_ALREADY_EXISTS);
        if (kiln_device_open(f.context, kiln_test_address("opencl:0"), &f.device, &f.err) !=
            KILN_STATUS_OK) {
            kiln_test_skip("no OpenCL device: %s", f.err.message);
            kiln_context_destroy(f.context);
            return;
        }
        fill();
        const int64_t dims[] = {N};
        kiln_tensor *a = fixture_f32(&f, 1, dims, x), *b = fixture_f32(&f, 1, dims, x);
        kiln_tensor *t[3] = {NULL};
        FIXTURE_OK(&f, kiln_mul(a, b, &t[0], &f.err));
        kiln_release(a);
        kiln_release(b);
        FIXTURE_OK(&f, kiln_add_scalar(t[0], kiln_f64(0.5), &t[1], &f.err));
        kiln_release(t[0]);
        FIXTURE_OK(&f, kiln_neg(t[1], &t[2], &f.err));
        kiln_release(t[1]);
        FIXTURE_OK(&f, kiln_read(t[2], out[round], sizeof(out[round]), &f.err));
        kiln_release(t[2]);
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(f.device, &stats);
        KILN_CHECK_INT(stats.blocks_fused, 1);
        KILN_CHECK(strstr(seen, "wrong") == NULL && strstr(seen, "not checked") == NULL);
        fixture_close(&f);
    }
    KILN_CHECK_MEM(out[1], out[0], sizeof(out[0]));
}

static void test_what_does_not_compile_runs_unfused(void)
{
    static const char *const names[] = {"no_compile", "no_kernel"};
    static float out[N];
    fill();
    for (size_t i = 0; i < 2; i++) {
        checked c;
        if (!open(&c, names[i], i == 0 ? "off" : "always")) {
            return;
        }
        run(&c, out);
        KILN_CHECK(same(out));
        KILN_CHECK_CONTAINS(seen, "runs unfused");
        KILN_CHECK_INT(stats_of(&c).blocks_fused, 0);
        fixture_close(&c.f);
    }
}

// ---- indices ----

enum { ROWS = 5, COLUMNS = 3, TAKEN = 4 };

static kiln_tensor *indices_of(fixture *f, const int32_t *values)
{
    kiln_tensor *t = NULL;
    const int64_t dims[] = {TAKEN};
    FIXTURE_OK(f, kiln_tensor_create(f->device, KILN_DTYPE_I32, 1, dims, values, &t, &f->err));
    return t;
}

/// neg(select(x, indices)) and x with its rows at the indices replaced by what was taken.
static void take_and_put(checked *c, const int32_t *values, float *out_taken, float *out_put)
{
    fixture *f = &c->f;
    const int64_t dims[] = {ROWS, COLUMNS};
    float data[ROWS * COLUMNS];
    kiln_tensor *t[3] = {NULL};
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        data[i] = (float)i;
    }
    kiln_tensor *in = fixture_f32(f, 2, dims, data), *indices = indices_of(f, values);
    FIXTURE_OK(f, kiln_select(in, indices, 0, &t[0], &f->err));
    FIXTURE_OK(f, kiln_neg(t[0], &t[1], &f->err));
    kiln_release(t[0]);
    FIXTURE_OK(f, kiln_select_assign(in, t[1], indices, 0, "add", &t[2], &f->err));
    FIXTURE_OK(f, kiln_read(t[1], out_taken, sizeof(float) * TAKEN * COLUMNS, &f->err));
    FIXTURE_OK(f, kiln_read(t[2], out_put, sizeof(data), &f->err));
    kiln_release(t[1]);
    kiln_release(t[2]);
    kiln_release(indices);
    kiln_release(in);
}

static unsigned times_said(const char *text)
{
    unsigned count = 0;
    for (const char *at = strstr(seen, text); at != NULL; at = strstr(at + 1, text)) {
        count++;
    }
    return count;
}

/// Said once for each place, and the results are those of a run that looks at nothing.
static void test_indices_outside_are_said(void)
{
    static const int32_t inside[TAKEN] = {4, 0, -5, 2}, outside[TAKEN] = {1, 5, -6, INT32_MAX};
    static float taken[3][TAKEN * COLUMNS], put[3][ROWS * COLUMNS];
    static const char *const modes[] = {"off", "first", "always"};
    for (int m = 0; m < 3; m++) {
        checked c;
        if (!open(&c, NULL, modes[m])) {
            return;
        }
        if (m != 1) { // `first` would look at these and no others
            take_and_put(&c, inside, taken[m], put[m]);
            KILN_CHECK_STR(seen, "");
        }
        for (int i = 0; i < 3; i++) {
            take_and_put(&c, outside, taken[m], put[m]);
        }
        KILN_CHECK_MEM(taken[m], taken[0], sizeof(taken[0]));
        KILN_CHECK_MEM(put[m], put[0], sizeof(put[0]));
        KILN_CHECK_INT(times_said("outside -5 to 4"), m == 0 ? 0 : 2);
        KILN_CHECK_INT(stats_of(&c).indices_outside, m == 0 ? 0 : 2);
        if (m > 0) {
            KILN_CHECK_CONTAINS(seen, "select (operation ");
            KILN_CHECK_CONTAINS(seen, "indices[1] is 5, outside -5 to 4, and 2 more of 4: clamped");
            KILN_CHECK_CONTAINS(seen, "select_assign (operation ");
            KILN_CHECK_CONTAINS(seen, "indices[1] is 5, outside -5 to 4, and 2 more of 4: dropped");
        }
        fixture_close(&c.f);
    }
}

/// Looked at where the operation runs first, and no more.
static void test_first_looks_once(void)
{
    static const int32_t inside[TAKEN] = {4, 0, -5, 2}, outside[TAKEN] = {1, 5, -6, 7};
    static float taken[TAKEN * COLUMNS], put[ROWS * COLUMNS];
    checked c;
    if (!open(&c, NULL, "first")) {
        return;
    }
    take_and_put(&c, inside, taken, put);
    take_and_put(&c, outside, taken, put);
    KILN_CHECK_STR(seen, "");
    fixture_close(&c.f);
}

/// A plan that lies where another did is another: its indices are looked at.
static void test_a_plan_is_not_its_address(void)
{
    static const int32_t outside[TAKEN] = {1, 5, -6, 7};
    static const float data[ROWS * COLUMNS];
    const int64_t dims[] = {ROWS, COLUMNS};
    const kiln_attr axis = {.type = KILN_ATTR_I64, .count = 1};
    checked c;
    if (!open(&c, NULL, "first")) {
        return;
    }
    kiln_tensor *in = fixture_f32(&c.f, 2, dims, data), *indices = indices_of(&c.f, outside);
    void *const both[] = {in, indices};
    void *const *operands[] = {both};
    const kiln_tensor_desc inputs[] = {in->desc, indices->desc};
    const kiln_op_record record = {
        .op = KILN_OP_SELECT, .n_inputs = 2, .n_attrs = 1, .inputs = inputs, .attrs = &axis};
    kilni_binding *bindings[] = {&in->binding, &indices->binding};
    kiln_plan plan = {.n_ops = 1};
    const kiln_fuse_segment segment = {.plan = &plan, .ops = &record, .operands = operands};
    const kilni_run run = {.device = c.f.device, .segment = &segment, .bindings = bindings};
    pthread_mutex_lock(&c.f.device->lock);
    in->slot = 0;
    indices->slot = 1;
    kilni_check_indices(&run, 0);
    kilni_check_indices(&run, 0);
    KILN_CHECK_INT(times_said("outside -5 to 4"), 1);
    plan = (kiln_plan){.n_ops = 1};
    kilni_check_indices(&run, 0);
    KILN_CHECK_INT(times_said("outside -5 to 4"), 2);
    pthread_mutex_unlock(&c.f.device->lock);
    kiln_release(indices);
    kiln_release(in);
    fixture_close(&c.f);
}

int main(int argc, char **argv)
{
    enum { LIES = sizeof(lies) / sizeof(lies[0]) };
    static const kiln_test_case others[] = {
        KILN_TEST(test_an_honest_fuser_passes),
        KILN_TEST(test_unchecked_lies_are_believed),
        KILN_TEST(test_modes),
        KILN_TEST(test_graphs_are_checked),
        KILN_TEST(test_in_place_is_checked),
        KILN_TEST(test_what_does_not_compile_runs_unfused),
        KILN_TEST(test_indices_outside_are_said),
        KILN_TEST(test_first_looks_once),
        KILN_TEST(test_a_plan_is_not_its_address),
    };
    enum { OTHERS = sizeof(others) / sizeof(others[0]) };
    kiln_test_case cases[LIES + OTHERS];
    for (size_t i = 0; i < LIES; i++) {
        cases[i] = (kiln_test_case){lies[i].name, test_lies_are_found, &lies[i]};
    }
    memcpy(cases + LIES, others, sizeof(others));
    return kiln_test_run("unit/runtime/check", cases, LIES + OTHERS, argc, argv);
}
