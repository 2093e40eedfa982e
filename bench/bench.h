// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BENCH_H
#define KILN_BENCH_H

/// bench: what `kiln bench NAME` measures. Each figure stands beside a peer's from the same run, as
/// a ratio that is always larger-is-better, with the device, the peer's version and the number of
/// samples.

#include "kiln.h"

#include <stdio.h>

enum { BENCH_MOST_NAMES = 32, BENCH_MOST_PYTHONS = 4 };

typedef struct bench_options {
    const char *device; ///< NULL: the first OpenCL device
    const char *program; ///< path of the running command, for benches that start it again
    const char *model; ///< of `start`
    const char *only; ///< NULL, or a word in the names of the cases to measure
    bool json; ///< no table
    FILE *lines; ///< where each result goes as a line of JSON; NULL: nowhere
    uint32_t samples; ///< 0: the bench's own number
    const char *names[BENCH_MOST_NAMES]; ///< of the cases to measure; none: all
    size_t n_names;
    const char *folder; ///< of `models`; NULL: below the cache
    const char *pythons[BENCH_MOST_PYTHONS]; ///< interpreters with peers
    size_t n_pythons;
} bench_options;

typedef struct bench_result {
    const char *name; ///< case
    double value;
    const char *unit;
    const char *against; ///< what the ratio is to
    double ratio; ///< larger is better
    double bar; ///< what the ratio must reach; 0: none
    const char *peer_version;
    const char *device;
    uint32_t samples;
} bench_result;

typedef struct bench_entry {
    const char *name;
    const char *summary;
    kiln_status (*run)(const bench_options *options, kiln_error *err);
    const char *(*case_name)(size_t index); ///< NULL past the last; NULL: it has no choice of cases
} bench_entry;

/// The benches; NULL past the last.
const bench_entry *bench_at(size_t index);

kiln_status bench_choice(const bench_options *options, kiln_error *err);
kiln_status bench_conv(const bench_options *options, kiln_error *err);
kiln_status bench_elementwise(const bench_options *options, kiln_error *err);
kiln_status bench_fusion(const bench_options *options, kiln_error *err);
kiln_status bench_kernels(const bench_options *options, kiln_error *err);
kiln_status bench_matmul(const bench_options *options, kiln_error *err);
kiln_status bench_models(const bench_options *options, kiln_error *err);
kiln_status bench_ops(const bench_options *options, kiln_error *err);
kiln_status bench_overlap(const bench_options *options, kiln_error *err);
kiln_status bench_overhead(const bench_options *options, kiln_error *err);
kiln_status bench_coll(const bench_options *options, kiln_error *err);
kiln_status bench_remote(const bench_options *options, kiln_error *err);
kiln_status bench_start(const bench_options *options, kiln_error *err);
kiln_status bench_warm(const bench_options *options, kiln_error *err);

/// The names that --only chooses from, as bench_entry has them; cases of one name follow each
/// other.
const char *bench_conv_case(size_t index);
const char *bench_fusion_case(size_t index);
const char *bench_kernels_case(size_t index);
const char *bench_matmul_case(size_t index);
const char *bench_models_case(size_t index);
const char *bench_ops_case(size_t index);
const char *bench_overlap_case(size_t index);
const char *bench_remote_case(size_t index);

/// A case of `remote`: answers of the digits model beside a bare ping-pong and the model's own
/// time.
kiln_status bench_remote_digits(const bench_options *options, const kiln_env *env, uint32_t rounds,
                                kiln_error *err);

/// The programs of `fusion`, for others that measure them; false past the last. One thread at a
/// time.
struct choice_program;
bool bench_fusion_program(size_t index, struct choice_program *out_program);

/// One line of the table, or one JSON object. `bench_header` before the first.
void bench_header(const bench_options *options);
void bench_report(const bench_options *options, const bench_result *result);

/// Whether a case of this name is to be measured: it is named, or nobody named one, and `only` is
/// in its name.
bool bench_wanted(const bench_options *options, const char *name);

/// Marks the operators that `bench kernels` times; fails on a case that its operator refuses.
kiln_status bench_kernels_covered(bool covered[KILN_OP_COUNT], kiln_error *err);

/// Removes a folder with all in it.
void bench_remove_tree(const char *path);

/// Caches of a bench's own, empty, which the processes that it starts find by their environment;
/// with `pocl` PoCL's too.
typedef struct bench_caches {
    char root[64];
    char kiln[96];
    char pocl[96];
} bench_caches;
kiln_status bench_caches_make(const bench_options *options, bool pocl, bench_caches *out_caches,
                              kiln_error *err);
void bench_caches_remove(const bench_caches *caches);

/// Runs this command with `arguments` (ended by NULL, two to fourteen) and gives what it printed
/// and how long the whole process took; fails when it does.
kiln_status bench_process_run(const bench_options *options, const char *const *arguments,
                              char *out_text, size_t capacity, double *out_ms, kiln_error *err);

/// The OpenCL device of this name; NULL: none.
struct _cl_device_id *bench_cl_device(const char *name);

/// Seconds of an f32 product of m x k and k x n by CLBlast as it ships, the median of 3.
kiln_status bench_clblast_time(const char *device_name, size_t m, size_t k, size_t n,
                               double *out_seconds, kiln_error *err);

/// A copy kernel on a context of its own: the fastest of several shapes, chosen by trial. It is the
/// ceiling that bandwidth-bound kernels are held against.
typedef struct bench_copy bench_copy;
kiln_status bench_copy_create(const char *device_name, size_t bytes, bench_copy **out_copy,
                              kiln_error *err);
void bench_copy_destroy(bench_copy *copy);

/// Seconds of one copy, mean over `repeats` enqueued together. `bench_copy_shape` names the shape
/// that won.
kiln_status bench_copy_time(bench_copy *copy, uint32_t repeats, double *out_seconds,
                            kiln_error *err);
const char *bench_copy_shape(const bench_copy *copy);

#endif
