// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_CHECK_H
#define KILN_PLUGIN_CHECK_H

/// What the checks of `kiln plugin check` share. Each check runs in a process of its own and leaves
/// its verdict in memory that outlives it, so that a crash or a hang says where it happened.

#include "plugin_stream.h"

typedef enum check_verdict {
    CHECK_PASSED = 0,
    CHECK_FAILED = 1,
    CHECK_SKIPPED = 2,
    CHECK_INCONCLUSIVE = 3, ///< its time was over before it was
    CHECK_VERDICTS
} check_verdict;

enum { CHECK_GIVEN = 16 }; ///< files of recorded streams at most

typedef struct check_given { ///< a recorded stream from one of its operations on
    const char *file;
    uint32_t file_number;
    stream s;
} check_given;

typedef struct check_result { ///< shared with the parent
    check_verdict verdict;
    char text[480]; ///< why it failed or was skipped, or a figure
    char step[160]; ///< what was being done: told when the process dies
    uint64_t ns;
} check_result;

typedef struct check {
    const char *path;
    uint64_t seed;
    const kf_plugin *plugin; ///< after check_load
    kf_host host;
    kf_device device;
    uint64_t host_blocks; ///< that the plugin holds
    uint64_t host_calls;
    uint64_t fail_at; ///< this call of alloc and later ones fail; 0: none
    char said[200]; ///< last diagnostic
    char overheard[300]; ///< first warning of the host's log
    char decided[300]; ///< the last reason that the host's log gave for not fusing
    bool large; ///< streams of large tensors
    bool fixed_device; ///< `device` is the one to check for; otherwise check_fuser chooses it
    uint32_t streams; ///< tried for each fuser by the checks of rules; half as many are run
    const check_given *given; ///< recorded by the author, to be tried first
    uint32_t n_given;
    bool run_only; ///< small streams, results not compared: oclgrind is slow and has errors
    uint64_t begin;
    uint64_t deadline; ///< in kiln_time_ns; the process is killed then
    check_result *result;
} check;

typedef struct check_row {
    const char *name;
    uint32_t level;
    void (*run)(check *c);
    const char *what;
} check_row;

extern const check_row check_static_rows[];
extern const check_row check_life_rows[];
extern const check_row check_corpus_rows[];
extern const check_row check_rules_rows[];
extern const check_row check_variant_rows[];
extern const check_row check_run_rows[];
extern const check_row check_operator_rows[];
extern const check_row check_gradient_rows[];
extern const check_row check_host_rows[];
extern const check_row check_speed_rows[];

/// Sets the verdict; the first failure stays. Returns false, so that a caller can return the
/// result.
bool check_fail(check *c, const char *format, ...) KILN_PRINTF(2, 3);
void check_skip(check *c, const char *format, ...) KILN_PRINTF(2, 3);
/// There was too little time for a verdict.
void check_leave_open(check *c, const char *format, ...) KILN_PRINTF(2, 3);
void check_say(check *c, const char *format, ...) KILN_PRINTF(2, 3); ///< a figure of a good check
void check_step(check *c, const char *format, ...) KILN_PRINTF(2, 3);
bool check_good(const check *c);

/// Opens the library, calls query and init. False: it failed.
bool check_load(check *c);
/// Creates the fuser at `index` for the first invented device that it does not decline, or for the
/// fixed device. NULL: it declined all of them, or failed.
kf_fuser *check_fuser(check *c, uint32_t index);
/// The invented device number `which`: a CPU first, then others. False past the last.
bool check_profile(uint32_t which, kf_device *out, const char **out_name);

/// Corpus discovery: offers operators to all fusers until there is something to make streams of.
/// What was learned lies in an unnamed file that later processes share. `fd` is that file's, or -1
/// to make one; the result is the file, -1 on failure.
int check_corpus_open(int fd);
void check_discover(check *c);
/// Draws a stream that the fuser takes and that ends where it is ready. False: found none.
bool check_draw_stream(check *c, kf_fuser *fuser, uint32_t index, uint64_t seed, stream *out);
/// "silu is recorded as sigmoid, mul; ", of each composite whose place in `ops` is true. `where`
/// stands behind it: "" for every device.
void check_list_pieces(const bool *ops, const char *where, char *out, size_t capacity);
/// Sets the verdict of a check that needs streams when there are none: it fails, but where streams
/// only run, on a device that the author has not chosen.
void check_no_streams(check *c);
/// Shows operations [from, to) one by one.
kf_status check_feed(check *c, kf_builder *builder, stream_view *view, uint32_t from, uint32_t to,
                     kf_state *state);
typedef struct check_bench { ///< a context with this plugin alone, and an OpenCL device
    kiln_context *context;
    kiln_device *device;
} check_bench;

/// Opens them; from then on check_fuser creates fusers for this device. False: there is no device,
/// so the check is skipped, or it failed.
bool check_bench_open(check *c, check_bench *b);
void check_bench_close(check_bench *b);
/// How many blocks have run fused on the device.
uint64_t check_blocks_of(kiln_device *device);
/// Whether to begin something new. Kernel compilers may be slow, so the answer is no after half of
/// the time.
bool check_has_time(const check *c);
/// How far two ways of computing may differ, relative to the largest result.
double check_tolerance(kiln_dtype dtype);

#endif
