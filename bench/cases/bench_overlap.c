// SPDX-License-Identifier: MIT OR Apache-2.0
// A data-parallel training step against the longer of what it computes and what it sends: of
// members that share an optimiser's state, and of members that average their gradients during
// backward. On devices of one host both would take the same processors, so each member receives
// over a link that only takes time: its memory waits before it takes what came. Beside each figure
// stands the most that dependencies allow (bench_overlap_limit.c). What calls take of the
// processors no step can hide either: the second figure is against the longer of all three, of
// which the third is the processor time of both parts, shared out evenly. The members of
// `averaged-mpi` and `sharded-mpi` are the processes that mpirun started.
#include "bench_overlap.h"
#include "bench.h"
#include "coll_memory.h"
#include "collective.h"
#include "kiln_train.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_MEMBERS = 4, TEAM_LAYERS = 12, LAYER_WIDTH = 256, BATCH_ROWS = 1024 };

typedef struct team_case {
    const char *name;
    bench_overlap_form form;
    uint32_t count;
    bool is_apart; ///< members have processors of their own, as many each; else all share all
    bool is_mpi; ///< a member in each process, all of them under mpirun; who wants it names it
} team_case;

static const team_case cases[] = {{"averaged2", BENCH_AVERAGED, 2, false, false},
                                  {"sharded2", BENCH_SHARDED, 2, false, false},
                                  {"averaged-apart2", BENCH_AVERAGED, 2, true, false},
                                  {"sharded-apart2", BENCH_SHARDED, 2, true, false},
                                  {"averaged4", BENCH_AVERAGED, 4, false, false},
                                  {"sharded4", BENCH_SHARDED, 4, false, false},
                                  {"averaged-mpi", BENCH_AVERAGED, 1, false, true},
                                  {"sharded-mpi", BENCH_SHARDED, 1, false, true}};

typedef struct team {
    const team_case *what;
    uint32_t count; ///< of this process
    kiln_context *context;
    kiln_device *devices[MOST_MEMBERS];
    kiln_tensor *batches[MOST_MEMBERS];
    kiln_params *sets[MOST_MEMBERS];
    kiln_collective *group;
    kiln_sharded *sharded; ///< of that form
    kiln_coll_memory_ops slow;
    // Of the other form, in the order of backward:
    kiln_tensor *gradients[TEAM_LAYERS][MOST_MEMBERS];
    kiln_tensor *means[TEAM_LAYERS][MOST_MEMBERS];
    size_t given[MOST_MEMBERS];
} team;

// ---- the link ----

static kiln_coll_memory_ops quick; ///< the devices' own
static _Atomic double ns_per_byte;

static void take_time(const kiln_coll_area *area)
{
    uint64_t ns = (uint64_t)((double)kiln_coll_area_bytes(area) * ns_per_byte);
    const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u),
                                   .tv_nsec = (long)(ns % 1000000000u)};
    (void)nanosleep(&pause, NULL);
}

static kiln_status write_slowly(kiln_coll_memory *memory, const kiln_coll_area *area,
                                const void *data, kiln_error *err)
{
    take_time(area);
    return quick.write(memory, area, data, err);
}

/// What comes from another rank is written where this maps it, on devices that are not written.
static kiln_status map_slowly(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    if ((access & KILN_COLL_WRITE) != 0) {
        take_time(area);
    }
    return quick.map(memory, area, access, out_pointer, err);
}

/// Before the first call of the group.
static void slow_down(team *self)
{
    quick = *self->group->ranks[0].memory->base.ops;
    self->slow = quick;
    self->slow.write = write_slowly;
    self->slow.map = map_slowly;
    for (uint32_t m = 0; m < self->count; m++) {
        self->group->ranks[m].memory->base.ops = &self->slow;
        self->group->ranks[m].memory->base.stream = NULL; // all of it is written or mapped
    }
}

// ---- the team ----

/// Gives up the members' gradients, or means, of a layer.
static void release_row(kiln_tensor **row)
{
    for (uint32_t m = 0; m < MOST_MEMBERS; m++) {
        kiln_release(row[m]);
        row[m] = NULL;
    }
}

static void disband(team *self)
{
    for (size_t i = 0; i < TEAM_LAYERS; i++) {
        release_row(self->gradients[i]);
        release_row(self->means[i]);
    }
    kiln_sharded_destroy(self->sharded);
    kiln_collective_destroy(self->group);
    for (uint32_t m = 0; m < MOST_MEMBERS; m++) {
        kiln_params_destroy(self->sets[m]);
        kiln_release(self->batches[m]);
        kiln_device_release(self->devices[m]);
    }
    kiln_context_destroy(self->context);
    *self = (team){0};
}

/// Of the case of MPI the device is the caller's choice.
static kiln_status open_team_member(team *self, uint32_t m, const char *chosen, kiln_error *err)
{
    const int64_t batch[] = {BATCH_ROWS, LAYER_WIDTH};
    const int64_t weight[] = {LAYER_WIDTH, LAYER_WIDTH};
    kiln_init_options init = KILN_INIT_OPTIONS_INIT;
    kiln_status status = KILN_STATUS_OK;
    char text[32];
    init.kind = KILN_INIT_XAVIER_UNIFORM;
    if (self->what->is_apart) {
        snprintf(text, sizeof(text), "opencl:0#%u/%u", m, self->count);
    } else {
        snprintf(text, sizeof(text), "opencl:%u", m);
    }
    KILN_TRY(out, status,
             kiln_device_open(self->context, self->what->is_mpi ? chosen : text, &self->devices[m],
                              err));
    KILN_TRY(out, status,
             kiln_full(self->devices[m], batch, 2, KILN_DTYPE_F32, kiln_f64(0.5 + m),
                       &self->batches[m], err));
    KILN_TRY(out, status, kiln_params_create(self->devices[m], 1, &self->sets[m], err));
    for (int l = 0; l < TEAM_LAYERS && status == KILN_STATUS_OK; l++) {
        snprintf(text, sizeof(text), "layer.%d", l);
        status = kiln_params_add(self->sets[m], text, KILN_DTYPE_F32, 2, weight, &init, err);
    }
out:
    return status;
}

static kiln_status gather_team(team *self, const team_case *what, const char *chosen,
                               kiln_error *err)
{
    uint32_t count = what->count;
    kiln_sharded_options options = KILN_SHARDED_OPTIONS_INIT;
    kiln_status status = KILN_STATUS_OK;
    options.late = 1;
    options.bucket_bytes = 1; // each layer is a row
    *self = (team){.what = what, .count = count};
    KILN_TRY(out, status, kiln_context_create(NULL, &self->context, err));
    for (uint32_t m = 0; m < count; m++) {
        KILN_TRY(out, status, open_team_member(self, m, chosen, err));
    }
    KILN_TRY(out, status,
             self->what->is_mpi
                 ? kiln_collective_create_mpi(self->devices, count, NULL, &self->group, err)
                 : kiln_collective_create(self->devices, count, NULL, &self->group, err));
    if (kiln_collective_ranks(self->group) == 1) {
        status = kiln_fail(err, FAILED_PRECONDITION,
                           "%s is measured in several processes: mpirun -np 2 kiln bench overlap "
                           "%s",
                           what->name, what->name);
        goto out;
    }
    slow_down(self);
    if (self->what->form == BENCH_SHARDED) {
        status = kiln_sharded_create(self->group, self->sets, count, &options, &self->sharded, err);
    }
out:
    return status;
}

// ---- means ----

typedef struct giver {
    team *self;
    uint32_t member;
} giver;

static kiln_status average(team *self, size_t i, kiln_error *err)
{
    kiln_status status =
        kiln_collective_all_reduce(self->group, self->gradients[i], "mean", self->means[i], err);
    release_row(self->gradients[i]);
    return status;
}

/// A gradient of one member. With the last member's it is averaged, beside the rest of backward.
static kiln_status take_gradient(void *user, kiln_tensor *leaf, kiln_tensor *gradient,
                                 kiln_error *err)
{
    team *self = ((giver *)user)->self;
    uint32_t member = ((giver *)user)->member;
    size_t i = self->given[member]++;
    bool whole = true;
    (void)leaf; // all members find them in one order
    self->gradients[i][member] = kiln_retain(gradient);
    for (uint32_t m = 0; m < self->count; m++) {
        whole = whole && self->given[m] > i;
    }
    return whole ? average(self, i, err) : KILN_STATUS_OK;
}

/// What is recorded next waits for the means, as an optimiser would.
static kiln_status await_means(team *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < TEAM_LAYERS; i++) {
        for (uint32_t m = 0; m < self->count && status == KILN_STATUS_OK; m++) {
            status = kiln_collective_resolve(self->means[i][m], err);
        }
        release_row(self->means[i]);
    }
    memset(self->given, 0, sizeof(self->given));
    return status;
}

// ---- what is timed ----

/// The sum of squares behind all layers; each asks for its weight when it comes to it.
static kiln_status go_forward(const team *self, uint32_t m, kiln_tape *tape, kiln_tensor **out_loss,
                              kiln_error *err)
{
    const int64_t axes[] = {0, 1};
    kiln_tensor *x = kiln_retain(self->batches[m]);
    kiln_tensor *squares = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (size_t l = 0; l < TEAM_LAYERS; l++) {
        kiln_tensor *weight = kiln_params_tensor(self->sets[m], l);
        kiln_tensor *product = NULL;
        KILN_TRY(out, status, kiln_tape_track(tape, weight, err));
        KILN_TRY(out, status, kiln_matmul(x, weight, false, false, &product, err));
        kiln_release(x);
        x = NULL;
        status = kiln_tanh(product, &x, err);
        kiln_release(product);
        KILN_TRY(out, status, status);
    }
    KILN_TRY(out, status, kiln_mul(x, x, &squares, err));
    KILN_TRY(out, status, kiln_sum(squares, axes, 2, false, out_loss, err));
out:
    kiln_release(x);
    kiln_release(squares);
    return status;
}

/// One step of all members; with `sends` false the gradients go nowhere.
static kiln_status train(team *self, bool sends, kiln_error *err)
{
    giver givers[MOST_MEMBERS];
    kiln_tape *tapes[MOST_MEMBERS] = {NULL};
    kiln_tensor *losses[MOST_MEMBERS] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t m = 0; m < self->count; m++) {
        KILN_TRY(out, status, kiln_tape_create(self->devices[m], &tapes[m], err));
        givers[m] = (giver){self, m};
        if (sends && self->what->form == BENCH_SHARDED) {
            KILN_TRY(out, status, kiln_sharded_join(self->sharded, m, tapes[m], err));
        } else if (sends) {
            KILN_TRY(out, status, kiln_tape_hand(tapes[m], take_gradient, &givers[m], err));
        }
        KILN_TRY(out, status, go_forward(self, m, tapes[m], &losses[m], err));
    }
    KILN_TRY(out, status, kiln_backward_all(tapes, losses, self->count, err));
    for (uint32_t m = 0; m < self->count; m++) {
        for (size_t l = 0; l < TEAM_LAYERS && !sends; l++) {
            kiln_tensor *gradient = NULL; // nobody wants it: it is computed, and goes
            KILN_TRY(out, status,
                     kiln_gradient(tapes[m], kiln_params_tensor(self->sets[m], l), &gradient, err));
            kiln_status flushed = kiln_flush(self->devices[m], err);
            kiln_release(gradient);
            KILN_TRY(out, status, flushed);
        }
    }
    if (sends) {
        status = self->what->form == BENCH_SHARDED ? kiln_sharded_step(self->sharded, NULL, 0, err)
                                                   : await_means(self, err);
    }
out:
    for (uint32_t m = 0; m < self->count; m++) {
        kiln_release(losses[m]);
        kiln_tape_destroy(tapes[m]);
    }
    return status;
}

static kiln_status share_alone(const team *self, kiln_error *err)
{
    kiln_tensor *gradients[MOST_MEMBERS * TEAM_LAYERS];
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < self->count * (size_t)TEAM_LAYERS; i++) {
        gradients[i] =
            kiln_retain(kiln_params_tensor(self->sets[i / TEAM_LAYERS], i % TEAM_LAYERS));
    }
    status = kiln_sharded_step(self->sharded, gradients, self->count * (size_t)TEAM_LAYERS, err);
    for (size_t i = 0; i < self->count * (size_t)TEAM_LAYERS; i++) {
        kiln_release(gradients[i]);
    }
    return status;
}

static kiln_status average_alone(team *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t l = 0; l < TEAM_LAYERS && status == KILN_STATUS_OK; l++) {
        for (uint32_t m = 0; m < self->count; m++) {
            self->gradients[l][m] = kiln_retain(kiln_params_tensor(self->sets[m], l));
        }
        status = average(self, l, err);
    }
    return status == KILN_STATUS_OK ? await_means(self, err) : status;
}

/// A step of gradients that are there: the parameters themselves.
static kiln_status send_alone(team *self, kiln_error *err)
{
    return self->what->form == BENCH_SHARDED ? share_alone(self, err) : average_alone(self, err);
}

/// All that was begun has ended.
static kiln_status settle_team(const team *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t m = 0; m < self->count && status == KILN_STATUS_OK; m++) {
        for (size_t l = 0; l < TEAM_LAYERS; l++) {
            (void)kiln_params_tensor(self->sets[m], l);
        }
        status = kiln_sync(self->devices[m], err);
    }
    return status;
}

enum { COMPUTES, SENDS, DOES_BOTH, PARTS_TIMED, TEAM_STEPS = 3 };

typedef struct part_time {
    double seconds;
    double processor; ///< seconds of it, of all threads
} part_time;

/// Of one step, of some in a row.
static kiln_status time_part(team *self, int side, part_time *out_time, kiln_error *err)
{
    kiln_status status =
        self->what->is_mpi ? kiln_collective_barrier(self->group, err) : KILN_STATUS_OK;
    uint64_t before = kiln_processor_ns();
    uint64_t begin = kiln_time_ns();
    for (int i = 0; i < TEAM_STEPS && status == KILN_STATUS_OK; i++) {
        status = side == SENDS ? send_alone(self, err) : train(self, side == DOES_BOTH, err);
    }
    status = status == KILN_STATUS_OK ? settle_team(self, err) : status;
    out_time->seconds = (double)(kiln_time_ns() - begin) / 1e9 / TEAM_STEPS;
    out_time->processor = (double)(kiln_processor_ns() - before) / 1e9 / TEAM_STEPS;
    return status;
}

/// A link over which sending takes `share` of the time of computing.
static kiln_status choose_link(team *self, double share, kiln_error *err)
{
    double members = kiln_collective_ranks(self->group);
    double bytes = 2.0 * TEAM_LAYERS * LAYER_WIDTH * LAYER_WIDTH * sizeof(float) * (members - 1);
    part_time time = {0};
    ns_per_byte = 0;
    kiln_status status = time_part(self, COMPUTES, &time, err); // warms up
    status = status == KILN_STATUS_OK ? time_part(self, DOES_BOTH, &time, err) : status;
    status = status == KILN_STATUS_OK ? time_part(self, COMPUTES, &time, err) : status;
    ns_per_byte = share * time.seconds * 1e9 / (bytes / members);
    return status;
}

enum { MOST_SAMPLES = 64 };

/// Medians of all parts, in turns.
static kiln_status sample_parts(team *self, uint32_t count, part_time *medians, kiln_error *err)
{
    double seconds[MOST_SAMPLES], processor[MOST_SAMPLES];
    static part_time samples[PARTS_TIMED][MOST_SAMPLES];
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < count; i++) {
        for (int side = 0; side < PARTS_TIMED && status == KILN_STATUS_OK; side++) {
            status = time_part(self, side, &samples[side][i], err);
        }
    }
    for (int side = 0; side < PARTS_TIMED; side++) {
        for (uint32_t i = 0; i < count; i++) {
            seconds[i] = samples[side][i].seconds;
            processor[i] = samples[side][i].processor;
        }
        medians[side] =
            (part_time){kiln_quantile(seconds, count, 0.5), kiln_quantile(processor, count, 0.5)};
    }
    return status;
}

static void report_step(const team *self, const bench_options *options, const part_time *medians,
                        uint32_t count)
{
    double longer = medians[COMPUTES].seconds > medians[SENDS].seconds ? medians[COMPUTES].seconds
                                                                       : medians[SENDS].seconds;
    double processes = (double)kiln_collective_ranks(self->group) / self->count;
    double shared = (medians[COMPUTES].processor + medians[SENDS].processor) * processes /
                    (double)sysconf(_SC_NPROCESSORS_ONLN);
    double sends = medians[SENDS].seconds / medians[COMPUTES].seconds;
    char name[96];
    bench_result result = {.name = name,
                           .value = medians[DOES_BOTH].seconds * 1e3,
                           .unit = "ms",
                           .against = "the longer of computing and sending",
                           .ratio = longer / medians[DOES_BOTH].seconds,
                           .bar = 1 / 1.1,
                           .peer_version = "itself",
                           .device = kiln_device_info_of(self->devices[0])->name,
                           .samples = count};
    snprintf(name, sizeof(name), "%s step x %u%s, sends %.2f of computes, at most %.2f",
             self->what->form == BENCH_SHARDED ? "sharded" : "averaged",
             kiln_collective_ranks(self->group),
             self->what->is_mpi     ? " by MPI"
             : self->what->is_apart ? " apart"
                                    : "",
             sends, bench_overlap_limit(self->what->form, TEAM_LAYERS, sends));
    bench_report(options, &result);
    snprintf(name, sizeof(name), "the same, processors: %.0f and %.0f ms",
             medians[COMPUTES].processor * 1e3, medians[SENDS].processor * 1e3);
    result.against = "the longer of these and the processors";
    result.ratio = (longer > shared ? longer : shared) / medians[DOES_BOTH].seconds;
    result.bar = 0;
    bench_report(options, &result);
}

static kiln_status measure_overlap(team *self, const bench_options *options, double share,
                                   kiln_error *err)
{
    uint32_t count = options->samples != 0 ? options->samples : 5;
    part_time medians[PARTS_TIMED];
    count = count < MOST_SAMPLES ? count : MOST_SAMPLES;
    kiln_status status = choose_link(self, share, err);
    status = status == KILN_STATUS_OK ? sample_parts(self, count, medians, err) : status;
    if (status == KILN_STATUS_OK && kiln_collective_rank(self->group) == 0) {
        report_step(self, options, medians, count);
    }
    return status;
}

/// With a header before the first lines of all, from one process.
static kiln_status measure_team(const bench_options *options, const team_case *what,
                                bool *is_headed, kiln_error *err)
{
    static const double shares[] = {0.25, 0.5, 1, 2, 4};
    team self;
    kiln_status status = gather_team(&self, what, options->device, err);
    if (status == KILN_STATUS_OK && !*is_headed && kiln_collective_rank(self.group) == 0) {
        bench_header(options);
        *is_headed = true;
    }
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]) && status == KILN_STATUS_OK; i++) {
        status = measure_overlap(&self, options, shares[i], err);
    }
    disband(&self);
    return status;
}

const char *bench_overlap_case(size_t index)
{
    return index < sizeof(cases) / sizeof(cases[0]) ? cases[index].name : NULL;
}

kiln_status bench_overlap(const bench_options *options, kiln_error *err)
{
    bool divides = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    bool is_headed = false;
    kiln_status status = KILN_STATUS_OK;
    (void)setenv("POCL_DEVICES", "pthread pthread pthread pthread", /*overwrite=*/0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && status == KILN_STATUS_OK; i++) {
        bool fits = cases[i].is_mpi ? options->n_names != 0 : divides || !cases[i].is_apart;
        if (fits && bench_wanted(options, cases[i].name)) {
            status = measure_team(options, &cases[i], &is_headed, err);
        }
    }
    return status;
}
