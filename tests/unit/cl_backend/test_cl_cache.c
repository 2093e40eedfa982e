// SPDX-License-Identifier: MIT OR Apache-2.0
// The program cache on disk, across processes: hit, miss, damage, other launch shapes, two writers.
// The program runs itself again as `test_cl_cache --child FOLDER ...` for a process that has
// nothing in memory.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cl_binary.h"
#include "cl_fixture.h"
#include "cl_program_cache.h"

static const char source[] =
    "__kernel void fill(__global int *x, int v) { x[get_global_id(0)] = v; }\n"
    "__kernel void twice(__global int *x, int v) { x[get_global_id(0)] = 2 * v; }\n";
static const char *const names[] = {"fill", "twice"};

typedef struct outcome {
    uint64_t built;
    uint64_t loaded;
    uint64_t misses;
    uint64_t damaged;
    uint64_t saved;
    int value;
} outcome;

static kiln_built *build_both(cl_fixture *f)
{
    cl_program_text text;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    cl_program_text_init(&text, source, names, 2);
    KILN_CHECK_INT(f->base->program->build(f->base, &text.program, &built, &err), KILN_STATUS_OK);
    return built;
}

/// What the last of 64 elements is after kernel `kernel` of 21.
static int launch_one(cl_fixture *f, kiln_built *built, uint32_t kernel, size_t local)
{
    int value = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *buffer = cl_fixture_buffer(f, 64 * sizeof(int), NULL);
    kiln_launch_arg args[2] = {{.kind = KILN_VALUE_BUFFER, .buffer = buffer},
                               {.kind = KILN_VALUE_BYTES, .length = 4, .bytes = 21}};
    kiln_launch launch = {.launch = kernel,
                          .n_dims = 1,
                          .global = {64, 1, 1},
                          .local = {local, 1, 1},
                          .args = args,
                          .n_args = 2};
    KILN_CHECK_INT(f->base->program->launch(f->base, built, &launch, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(
        f->base->transfer->read(f->base, buffer, 63 * sizeof(int), &value, sizeof(int), &err),
        KILN_STATUS_OK);
    f->base->memory->free(f->base, buffer);
    return value;
}

// Opens, builds, runs kernel `kernel` with `local` work-items, closes. `counters` are those before
// closing, but for `saved`, which the log of the next opening would not tell: it is taken from what
// close leaves dirty.
static bool run_once(const char *folder, uint32_t kernel, size_t local, outcome *out)
{
    cl_fixture f;
    kiln_backend_stats stats;
    kiln_cl_counters counters;
    cl_settings settings = {.cache = folder};
    if (!cl_fixture_open(&f, &settings)) {
        return false;
    }
    kiln_built *built = build_both(&f);
    out->value = launch_one(&f, built, kernel, local);
    kilni_cl_programs_save(f.backend);
    f.base->device->stats(f.base, &stats);
    kiln_cl_counters_get(f.base, &counters);
    out->built = stats.programs_built;
    out->loaded = stats.programs_loaded;
    out->misses = counters.cache_misses;
    out->damaged = counters.cache_damaged;
    out->saved = counters.cache_saved;
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
    return true;
}

// ---- processes ----

static char self[4096];

// Starts this program again; its PoCL has an empty cache of its own, so only ours can help.
static pid_t start_child(const char *folder, const char *kernel, const char *local,
                         const char *result)
{
    pid_t pid = fork();
    if (pid == 0) {
        char pocl[4200];
        snprintf(pocl, sizeof(pocl), "%s.pocl", result);
        setenv("POCL_CACHE_DIR", pocl, 1);
        execl(self, self, "--child", folder, kernel, local, result, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static bool finish_child(pid_t pid, const char *result, outcome *out)
{
    int status = 0;
    size_t bytes = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0) {
        KILN_FAIL("the child ended with %d", status);
        return false;
    }
    char *data = kiln_test_read_file(result, &bytes);
    bool whole = data != NULL && bytes == sizeof(*out);
    if (whole) {
        memcpy(out, data, sizeof(*out));
    }
    free(data);
    return KILN_CHECK(whole);
}

static bool run_child(const char *folder, const char *kernel, const char *local,
                      const char *result_name, outcome *out)
{
    const char *result = kiln_test_path(kiln_test_tmpdir(), result_name);
    return finish_child(start_child(folder, kernel, local, result), result, out);
}

static char **child_argv;

static void child_case(void)
{
    outcome out = {0};
    uint32_t kernel = (uint32_t)strtoul(child_argv[3], NULL, 10);
    size_t local = (size_t)strtoul(child_argv[4], NULL, 10);
    if (run_once(child_argv[2], kernel, local, &out)) {
        kiln_test_write_file(child_argv[5], &out, sizeof(out));
    }
}

// The counts of a child are its parent's business, not part of the output.
static int child_main(char **argv)
{
    static const kiln_test_case child_cases[] = {KILN_TEST(child_case)};
    child_argv = argv;
    if (freopen("/dev/null", "w", stdout) == NULL) {
        return 1;
    }
    return kiln_test_run("unit/cl_backend/cache-child", child_cases, 1, 1, argv);
}

static bool is_gpu; ///< measured when it is opened for the first time, with a program of its own

static bool have_device(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return false;
    }
    is_gpu = f.backend->info.type == KILN_DEVICE_GPU;
    cl_fixture_close(&f);
    return true;
}

// ---- cases ----

static void test_second_process_hits(void)
{
    outcome first = {0};
    outcome second = {0};
    const char *folder = kiln_test_tmpdir();
    if (!have_device() || !run_child(folder, "0", "16", "hit1", &first) ||
        !run_child(folder, "0", "16", "hit2", &second)) {
        return;
    }
    KILN_CHECK_INT(first.built, 1);
    KILN_CHECK_INT(first.misses, 1);
    KILN_CHECK_INT(first.saved, is_gpu ? 2 : 1);
    KILN_CHECK_INT(first.value, 21);
    KILN_CHECK_INT(second.built, 0);
    KILN_CHECK_INT(second.loaded, 1);
    KILN_CHECK_INT(second.misses, 0);
    KILN_CHECK_INT(second.saved, 0);
    KILN_CHECK_INT(second.value, 21);
}

// A kernel or local size that the entry lacks still runs, and is in the entry afterwards.
static void test_other_shapes_are_added(void)
{
    outcome out = {0};
    cl_fixture f;
    const char *folder = kiln_test_tmpdir();
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    bool pocl = f.backend->pocl;
    cl_fixture_close(&f);
    if (!pocl) {
        kiln_test_skip("only PoCL compiles for each local size");
        return;
    }
    if (!run_once(folder, 0, 16, &out)) {
        return;
    }
    KILN_CHECK_INT(out.saved, 1);
    KILN_CHECK(run_once(folder, 0, 32, &out));
    KILN_CHECK_INT(out.loaded, 1);
    KILN_CHECK_INT(out.saved, 1);
    KILN_CHECK(run_once(folder, 1, 32, &out));
    KILN_CHECK_INT(out.value, 42);
    KILN_CHECK_INT(out.saved, 1);
    KILN_CHECK(run_once(folder, 0, 16, &out));
    KILN_CHECK_INT(out.saved, 0);
    KILN_CHECK(run_once(folder, 0, 32, &out));
    KILN_CHECK_INT(out.saved, 0);
}

static kiln_hash128 program_key(cl_fixture *f)
{
    kiln_string options;
    kiln_string_init(&options, &f->env);
    kiln_string_printf(&options, "-cl-std=CL1.2 %s", f->backend->compiler.exact_options);
    kilni_cl_build build = {.format = KILN_SOURCE_OPENCL_C,
                            .code = source,
                            .length = sizeof(source) - 1,
                            .options = options.text,
                            .label = ""};
    kiln_hash128 key = kilni_cl_build_key(f->backend, &build);
    kiln_string_fini(&options);
    return key;
}

// Replaces the stored entry: cut to `keep` bytes, one byte at `flip` inverted.
static bool damage(const char *folder, size_t keep, size_t flip)
{
    cl_fixture f;
    kiln_blob blob = {0};
    kiln_error err = KILN_ERROR_INIT;
    cl_settings settings = {.cache = folder};
    if (!cl_fixture_open(&f, &settings)) {
        return false;
    }
    kiln_hash128 key = program_key(&f);
    bool found = KILN_CHECK_INT(
        kiln_store_get(f.backend->store, KILN_STORE_PROGRAMS, key, &blob, &err), KILN_STATUS_OK);
    if (found) {
        unsigned char *bytes = blob.data;
        size_t length = keep < blob.length ? keep : blob.length;
        if (flip < length) {
            bytes[flip] ^= 0xff;
        }
        KILN_CHECK_INT(
            kiln_store_put(f.backend->store, KILN_STORE_PROGRAMS, key, bytes, length, &err),
            KILN_STATUS_OK);
        kiln_free(&f.env, blob.data);
    }
    cl_fixture_close(&f);
    return found;
}

static void damaged_entry(size_t keep, size_t flip, const char *name)
{
    outcome out = {0};
    const char *folder = kiln_test_tmpdir();
    if (!have_device() || !run_once(folder, 0, 16, &out) || !damage(folder, keep, flip)) {
        return;
    }
    char first[64];
    char second[64];
    snprintf(first, sizeof(first), "%s1", name);
    snprintf(second, sizeof(second), "%s2", name);
    if (!run_child(folder, "0", "16", first, &out)) {
        return;
    }
    KILN_CHECK_INT(out.damaged, 1);
    KILN_CHECK_INT(out.built, 1);
    KILN_CHECK_INT(out.value, 21);
    KILN_CHECK_INT(out.saved, 1);
    if (run_child(folder, "0", "16", second, &out)) { // the new entry is good
        KILN_CHECK_INT(out.damaged, 0);
        KILN_CHECK_INT(out.loaded, 1);
    }
}

static void test_cut_entry(void)
{
    damaged_entry(200, SIZE_MAX, "cut");
}

static void test_empty_entry(void)
{
    damaged_entry(3, SIZE_MAX, "empty");
}

static void test_wrong_head(void)
{
    damaged_entry(SIZE_MAX, 0, "head");
}

static void test_hostile_count(void)
{
    damaged_entry(SIZE_MAX, 15, "count");
}

static void test_binary_that_the_driver_refuses(void)
{
    damaged_entry(SIZE_MAX, 24 + 16 + 2, "binary");
}

static void test_two_processes_at_once(void)
{
    outcome a = {0};
    outcome b = {0};
    const char *folder = kiln_test_tmpdir();
    const char *result_a = kiln_test_path(kiln_test_tmpdir(), "both1");
    const char *result_b = kiln_test_path(kiln_test_tmpdir(), "both2");
    if (!have_device()) {
        return;
    }
    pid_t pid_a = start_child(folder, "0", "16", result_a);
    pid_t pid_b = start_child(folder, "1", "16", result_b);
    bool whole = finish_child(pid_a, result_a, &a);
    if (finish_child(pid_b, result_b, &b) && whole) {
        KILN_CHECK_INT(a.value, 21);
        KILN_CHECK_INT(b.value, 42);
        KILN_CHECK_INT(a.damaged + b.damaged, 0);
    }
}

static void test_without_a_cache(void)
{
    outcome out = {0};
    if (!have_device() || !run_once("off", 0, 16, &out)) {
        return;
    }
    KILN_CHECK_INT(out.built, 1);
    KILN_CHECK_INT(out.misses, 0);
    KILN_CHECK_INT(out.saved, 0);
    KILN_CHECK_INT(out.value, 21);
}

// Close alone writes what is new.
static void test_close_saves(void)
{
    cl_fixture f;
    cl_program_text text;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    outcome out = {0};
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    cl_program_text_init(&text, source, names, 2);
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &built, &err), KILN_STATUS_OK);
    kiln_buffer *buffer = cl_fixture_buffer(&f, 64 * sizeof(int), NULL);
    kiln_launch_arg args[2] = {{.kind = KILN_VALUE_BUFFER, .buffer = buffer},
                               {.kind = KILN_VALUE_BYTES, .length = 4, .bytes = 21}};
    kiln_launch launch = {
        .n_dims = 1, .global = {64, 1, 1}, .local = {16, 1, 1}, .args = args, .n_args = 2};
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err), KILN_STATUS_OK);
    f.base->memory->free(f.base, buffer);
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
    if (run_once(settings.cache, 0, 16, &out)) {
        KILN_CHECK_INT(out.loaded, 1);
    }
}

/// A wait, when no build was near for long.
static void wait_quietly(cl_fixture *f)
{
    kiln_error err = KILN_ERROR_INIT;
    f->backend->programs.last_dirty_ns = 0;
    f->backend->programs.last_saved_ns = 0;
    KILN_CHECK_INT(f->base->device->sync(f->base, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f->backend->programs.last_dirty_ns, 0); // the next one need not wait as long
    KILN_CHECK_INT(f->backend->programs.dirty, 0);
}

/// A program that was written while its process goes on stays as it is, and is written again for
/// another shape or kernel.
static void test_programs_are_written_at_waits(void)
{
    cl_fixture f;
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    if (!f.backend->pocl) {
        cl_fixture_close(&f);
        kiln_test_skip("only PoCL compiles for each local size");
        return;
    }
    kiln_built *built = build_both(&f);
    const kilni_cl_program *program = f.backend->programs.list;
    cl_program before = program->program;
    static const struct {
        uint32_t kernel;
        size_t local;
        int value;
    } steps[] = {{0, 16, 21}, {1, 16, 42}, {0, 32, 21}, {1, 64, 42}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        KILN_CHECK_INT(launch_one(&f, built, steps[i].kernel, steps[i].local), steps[i].value);
        KILN_CHECK_INT(f.backend->programs.dirty, 1);
        wait_quietly(&f);
        KILN_CHECK_INT(f.backend->counters.cache_saved, i + 1);
        KILN_CHECK(program->program == before);
        KILN_CHECK_INT(launch_one(&f, built, steps[i].kernel, steps[i].local), steps[i].value);
        KILN_CHECK_INT(f.backend->programs.dirty, 0);
    }
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
}

/// Each allocation for an entry fails once; and a program that was never compiled has none.
static void test_entries_without_memory(void)
{
    cl_fixture f;
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    kiln_faults faults;
    kiln_error err = KILN_ERROR_INIT;
    uint32_t refused = 0;
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    kiln_built *built = build_both(&f);
    KILN_CHECK_INT(launch_one(&f, built, 0, 16), 21);
    kiln_faults_init(&faults);
    const kiln_env env = {.allocator = faults.allocator};
    kilni_cl_backend beside = {.env = &env};
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        kiln_blob entry = {0};
        kiln_status status = kilni_cl_entry_make(&beside, f.backend->programs.list, &entry, &err);
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK((status == KILN_STATUS_OK) == (entry.data != NULL));
        refused += status != KILN_STATUS_OK;
        kiln_free(&env, entry.data);
    }
    KILN_CHECK_INT(refused, 3); // two binaries and the entry
    const char *text = source;
    kilni_cl_program empty = {.label = (char *)"an empty one"};
    kiln_blob entry = {0};
    empty.program = clCreateProgramWithSource(f.backend->context, 1, &text, NULL, NULL);
    KILN_CHECK_INT(kilni_cl_entry_make(f.backend, &empty, &entry, &err), KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_CONTAINS(err.message, "no binary of an empty one");
    KILN_CHECK(entry.data == NULL);
    clReleaseProgram(empty.program);
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
}

static const kiln_test_case cases[] = {KILN_TEST(test_second_process_hits),
                                       KILN_TEST(test_other_shapes_are_added),
                                       KILN_TEST(test_cut_entry),
                                       KILN_TEST(test_empty_entry),
                                       KILN_TEST(test_wrong_head),
                                       KILN_TEST(test_hostile_count),
                                       KILN_TEST(test_binary_that_the_driver_refuses),
                                       KILN_TEST(test_two_processes_at_once),
                                       KILN_TEST(test_without_a_cache),
                                       KILN_TEST(test_close_saves),
                                       KILN_TEST(test_programs_are_written_at_waits),
                                       KILN_TEST(test_entries_without_memory)};

int main(int argc, char **argv)
{
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0) {
        return 1;
    }
    if (argc == 6 && strcmp(argv[1], "--child") == 0) {
        return child_main(argv);
    }
    return kiln_test_run("unit/cl_backend/cache", cases, sizeof(cases) / sizeof(cases[0]), argc,
                         argv);
}
