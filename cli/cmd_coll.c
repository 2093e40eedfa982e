// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln coll list` and `kiln coll check`: the table of algorithms, and every algorithm tried on
// devices against a plain loop, in one process or, under mpirun, in all of its processes. What an
// algorithm does is collective/'s affair.

#include "cli_json.h"
#include "collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LOCAL = 16 };

typedef struct coll_options {
    bool is_check;
    cli_json_options json; ///< of the list
    const char *devices[MOST_LOCAL];
    size_t n_devices;
    uint64_t deadline_ms;
    uint64_t seconds;
} coll_options;

static const struct argp_option coll_options_table[] = {
    {"device", 'd', "ADDRESS", 0,
     "a device of the group; again for more (default: the first OpenCL device and reference)", 0},
    {"deadline", 't', "MS", 0, "deadline of each wait (default: 30000)", 0},
    {"seconds", 's', "N", 0, "check again and again for so long", 0},
    {0},
};

static error_t parse_coll_option(int key, char *text, struct argp_state *state)
{
    static const char *const actions[] = {"list", "check", NULL};
    char guess[CLI_GUESS_ROOM];
    coll_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->json;
        return 0;
    case 'd':
        if (options->n_devices == MOST_LOCAL) {
            argp_error(state, "at most %d devices", MOST_LOCAL);
        }
        options->devices[options->n_devices++] = text;
        return 0;
    case 't':
    case 's':
        *(key == 't' ? &options->deadline_ms : &options->seconds) = strtoull(text, &end, 10);
        if (*text == '\0' || *end != '\0') {
            argp_error(state, "\"%s\" is no number", text);
        }
        return 0;
    case ARGP_KEY_ARG:
        options->is_check = strcmp(text, "check") == 0;
        if (state->arg_num > 0 || (!options->is_check && strcmp(text, "list") != 0)) {
            argp_error(state, "say list or check, not \"%s\"%s", text,
                       cli_guess(guess, text, cli_listed_name, actions));
        }
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "say list or check");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- list ----

static const char *size_text(char out_text[24], uint64_t bytes)
{
    if (bytes == UINT64_MAX) {
        return "any";
    }
    snprintf(out_text, 24, bytes % 1024 == 0 && bytes > 0 ? "%lluK" : "%llu",
             (unsigned long long)(bytes % 1024 == 0 ? bytes / 1024 : bytes));
    return out_text;
}

static json_t *list_json(void)
{
    json_t *all = json_array();
    const kiln_coll_algorithm_info *row = NULL;
    for (int a = 1; (row = kiln_coll_algorithm_row((kiln_coll_algorithm)a)) != NULL; a++) {
        json_array_append_new(
            all,
            json_pack("{s:s, s:s, s:I, s:o, s:I, s:o, s:s, s:s}", "collective",
                      kiln_coll_kind_name(row->kind), "algorithm", row->name, "low_bytes",
                      (json_int_t)row->low_bytes, "high_bytes",
                      row->high_bytes == UINT64_MAX ? json_null()
                                                    : json_integer((json_int_t)row->high_bytes),
                      "first_ranks", (json_int_t)row->first_ranks, "last_ranks",
                      row->last_ranks == UINT32_MAX ? json_null()
                                                    : json_integer((json_int_t)row->last_ranks),
                      "order", row->doc, "constraint", row->constraint));
    }
    return all;
}

static int list(const cli_json_options *json)
{
    kiln_error err = KILN_ERROR_INIT;
    if (json->wanted) {
        return cli_json_write(json, list_json(), &err) == KILN_STATUS_OK ? CLI_OK
                                                                         : cli_fail("coll", &err);
    }
    printf("%-15s %-13s %-16s %-10s %s\n", "collective", "algorithm", "bytes", "ranks", "order");
    const kiln_coll_algorithm_info *row = NULL;
    for (int a = 1; (row = kiln_coll_algorithm_row((kiln_coll_algorithm)a)) != NULL; a++) {
        char low[24];
        char bytes[64];
        char high[24];
        char ranks[32];
        snprintf(bytes, sizeof(bytes), "%s-%s", size_text(low, row->low_bytes),
                 size_text(high, row->high_bytes));
        if (row->last_ranks == UINT32_MAX) {
            snprintf(ranks, sizeof(ranks), "%u-any", row->first_ranks);
        } else {
            snprintf(ranks, sizeof(ranks), "%u-%u", row->first_ranks, row->last_ranks);
        }
        printf("%-15s %-13s %-16s %-10s %s%s%s\n", kiln_coll_kind_name(row->kind), row->name, bytes,
               ranks, row->doc, row->constraint[0] == '\0' ? "" : "; ranks must be ",
               row->constraint);
    }
    return CLI_OK;
}

// ---- check ----

typedef struct checker {
    kiln_context *context;
    kiln_device *devices[MOST_LOCAL];
    uint32_t count; ///< of this process
    uint32_t first;
    uint32_t total;
    uint32_t per_node; ///< ranks of each process, which all have the same options; 0: one process
    kiln_collective *group;
    unsigned long cases;
    bool has_bits;
    unsigned char *bits; ///< of the first result of a rough trial
} checker;

/// One call on all ranks.
typedef struct trial {
    kiln_coll_kind kind;
    kiln_coll_op op;
    kiln_dtype dtype;
    int64_t count;
    uint32_t root;
    bool is_rough; ///< sums are rounded: what is compared is that all ranks have the same bits
} trial;

/// Small numbers, exact in every dtype, whose sums and products are so too; rough ones are not.
static double number_at(const trial *what, uint32_t rank, int64_t i)
{
    static const double factors[] = {-1, 1, 2};
    int64_t mixed = i * 7 + (int64_t)rank * 3;
    if (what->is_rough) {
        return (double)(mixed % 1009 - 500) / 3.0 * (double)(1 + (i + rank) % 13);
    }
    return what->op == KILN_COLL_PROD ? factors[mixed % 3] : (double)(mixed % 11 - 4);
}

static void put(kiln_dtype dtype, void *data, int64_t i, double value)
{
    unsigned char *at = (unsigned char *)data + (size_t)i * kiln_dtype_size(dtype);
    float single = (float)value;
    uint16_t half = kiln_f32_to_bf16(single);
    int32_t whole = (int32_t)value;
    const void *bytes = dtype == KILN_DTYPE_F32   ? (const void *)&single
                        : dtype == KILN_DTYPE_I32 ? (const void *)&whole
                                                  : (const void *)&half;
    memcpy(at, bytes, kiln_dtype_size(dtype));
}

static double combined_at(const trial *what, uint32_t ranks, int64_t i)
{
    double value = number_at(what, 0, i);
    for (uint32_t rank = 1; rank < ranks; rank++) {
        double other = number_at(what, rank, i);
        switch (what->op) {
        case KILN_COLL_MIN:
            value = other < value ? other : value;
            break;
        case KILN_COLL_MAX:
            value = other > value ? other : value;
            break;
        case KILN_COLL_PROD:
            value *= other;
            break;
        default:
            value += other;
        }
    }
    if (what->op == KILN_COLL_MEAN) {
        value = what->dtype == KILN_DTYPE_I32 ? (double)((int)value / (int)ranks)
                                              : (double)((float)value / (float)ranks);
    }
    return value;
}

/// Whether an input has a part for each rank.
static bool has_parts(const trial *what)
{
    return what->kind == KILN_COLL_SCATTER || what->kind == KILN_COLL_ALL_TO_ALL;
}

/// Element `i` of what `rank` gets.
static double expected_at(const checker *self, const trial *what, uint32_t rank, int64_t i)
{
    int64_t ranks = (int64_t)self->total;
    int64_t extra = what->count % ranks;
    switch (what->kind) {
    case KILN_COLL_BROADCAST:
        return number_at(what, what->root, i);
    case KILN_COLL_GATHER:
    case KILN_COLL_ALL_GATHER:
        return number_at(what, (uint32_t)(i / what->count), i % what->count);
    case KILN_COLL_SCATTER:
        return number_at(what, what->root, rank * what->count + i);
    case KILN_COLL_ALL_TO_ALL:
        return number_at(what, (uint32_t)(i / what->count), rank * what->count + i % what->count);
    case KILN_COLL_SEND:
        return number_at(what, (uint32_t)((rank + ranks - 1) % ranks), i);
    case KILN_COLL_REDUCE_SCATTER:
        return combined_at(what, self->total,
                           what->count / ranks * rank + (rank < extra ? rank : extra) + i);
    default:
        return combined_at(what, self->total, i);
    }
}

static kiln_status check_coll_output(checker *self, const trial *what, uint32_t local,
                                     kiln_tensor *tensor, kiln_error *err)
{
    int64_t count = kiln_tensor_count(tensor);
    size_t bytes = kiln_tensor_bytes(tensor);
    unsigned char *got = malloc(bytes + 1);
    unsigned char *wanted = malloc(bytes + 1);
    kiln_status status = got != NULL && wanted != NULL
                             ? kiln_read(tensor, got, bytes, err)
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    for (int64_t i = 0; i < count && status == KILN_STATUS_OK && !what->is_rough; i++) {
        put(what->dtype, wanted, i, expected_at(self, what, self->first + local, i));
    }
    if (what->is_rough && status == KILN_STATUS_OK) {
        memcpy(wanted, self->has_bits ? self->bits : got, bytes);
        memcpy(self->bits, wanted, bytes);
        self->has_bits = true;
    }
    if (status == KILN_STATUS_OK && memcmp(got, wanted, bytes) != 0) {
        status = kiln_fail(
            err, DATA_LOSS, "rank %u: %s %s of %lld %s gave other values than a loop",
            self->first + local, kiln_coll_kind_name(what->kind), kiln_coll_op_name(what->op),
            (long long)what->count, kiln_dtype_name(what->dtype));
    }
    free(got);
    free(wanted);
    return status;
}

static kiln_status make_inputs(const checker *self, const trial *what, kiln_tensor **inputs,
                               kiln_error *err)
{
    const int64_t count = what->count * (has_parts(what) ? self->total : 1);
    unsigned char *data = malloc((size_t)count * kiln_dtype_size(what->dtype) + 1);
    kiln_status status =
        data != NULL ? KILN_STATUS_OK : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for inputs");
    for (uint32_t k = 0; k < self->count && status == KILN_STATUS_OK; k++) {
        for (int64_t i = 0; i < count; i++) {
            put(what->dtype, data, i, number_at(what, self->first + k, i));
        }
        status =
            kiln_tensor_create(self->devices[k], what->dtype, 1, &count, data, &inputs[k], err);
    }
    free(data);
    return status;
}

/// Every rank sends to the next one; each pair is called on by the processes that have a part in
/// it.
static kiln_status pass_on(const checker *self, kiln_tensor **inputs, kiln_tensor **outputs,
                           kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t from = 0; from < self->total && self->total > 1; from++) {
        uint32_t to = (from + 1) % self->total;
        uint32_t sender = from - self->first; // in this process where below the count
        uint32_t receiver = to - self->first;
        if (sender < self->count && status == KILN_STATUS_OK) {
            status = kiln_collective_send(self->group, inputs[sender], from, to, err);
        }
        if (receiver < self->count && status == KILN_STATUS_OK) {
            status = kiln_collective_receive(self->group, inputs[receiver], from, to,
                                             &outputs[receiver], err);
        }
    }
    return status;
}

static kiln_status call(const checker *self, const trial *what, kiln_tensor **inputs,
                        kiln_tensor **outputs, kiln_error *err)
{
    const char *op = kiln_coll_op_name(what->op);
    switch (what->kind) {
    case KILN_COLL_ALL_REDUCE:
        return kiln_collective_all_reduce(self->group, inputs, op, outputs, err);
    case KILN_COLL_REDUCE:
        return kiln_collective_reduce(self->group, inputs, op, what->root, outputs, err);
    case KILN_COLL_BROADCAST:
        return kiln_collective_broadcast(self->group, inputs, what->root, outputs, err);
    case KILN_COLL_ALL_GATHER:
        return kiln_collective_all_gather(self->group, inputs, outputs, err);
    case KILN_COLL_REDUCE_SCATTER:
        return kiln_collective_reduce_scatter(self->group, inputs, op, outputs, err);
    case KILN_COLL_GATHER:
        return kiln_collective_gather(self->group, inputs, what->root, outputs, err);
    case KILN_COLL_SCATTER:
        return kiln_collective_scatter(self->group, inputs, what->root, outputs, err);
    case KILN_COLL_ALL_TO_ALL:
        return kiln_collective_all_to_all(self->group, inputs, outputs, err);
    case KILN_COLL_SEND:
        return pass_on(self, inputs, outputs, err);
    default:
        return kiln_collective_barrier(self->group, err);
    }
}

static kiln_status run_trial(checker *self, const trial *what, kiln_error *err)
{
    kiln_tensor *inputs[MOST_LOCAL] = {NULL};
    kiln_tensor *outputs[MOST_LOCAL] = {NULL};
    kiln_status status = make_inputs(self, what, inputs, err);
    if (status == KILN_STATUS_OK) {
        status = call(self, what, inputs, outputs, err);
    }
    for (uint32_t k = 0; k < self->count; k++) {
        if (outputs[k] != NULL && status == KILN_STATUS_OK) {
            status = kiln_collective_resolve(outputs[k], err);
        }
        if (outputs[k] != NULL && status == KILN_STATUS_OK) {
            status = check_coll_output(self, what, k, outputs[k], err);
        }
        kiln_release(inputs[k]);
        kiln_release(outputs[k]);
    }
    self->cases++;
    return status;
}

/// Long enough to travel in pieces; with more ranks, which may share a core, only longer.
static int64_t long_count(const checker *self)
{
    return self->total <= 3 ? 2500007 : 50021;
}

static kiln_status check_long(checker *self, kiln_coll_kind kind, kiln_error *err)
{
    trial what = {.kind = kind,
                  .op = KILN_COLL_MEAN,
                  .dtype = KILN_DTYPE_F32,
                  .count = long_count(self),
                  .root = self->total - 1};
    what.count /= has_parts(&what) ? self->total : 1;
    return kind == KILN_COLL_BARRIER ? KILN_STATUS_OK : run_trial(self, &what, err);
}

/// Numbers whose sums are rounded: the same bits on all ranks of this process, and again.
static kiln_status check_bits(checker *self, kiln_error *err)
{
    const trial what = {.kind = KILN_COLL_ALL_REDUCE,
                        .op = KILN_COLL_SUM,
                        .dtype = KILN_DTYPE_F32,
                        .count = long_count(self),
                        .is_rough = true};
    self->has_bits = false;
    self->bits = malloc((size_t)what.count * sizeof(float));
    kiln_status status = self->bits != NULL
                             ? run_trial(self, &what, err)
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a result");
    if (status == KILN_STATUS_OK) {
        status = run_trial(self, &what, err);
    }
    free(self->bits);
    self->bits = NULL;
    return status;
}

/// All lengths, dtypes and operations for the algorithm that is chosen now.
static kiln_status check_kind(checker *self, kiln_coll_kind kind, kiln_error *err)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_I32, KILN_DTYPE_BF16};
    const int64_t counts[] = {0, 1, self->total - 1, self->total + 1, 20011};
    bool combines = kind == KILN_COLL_ALL_REDUCE || kind == KILN_COLL_REDUCE ||
                    kind == KILN_COLL_REDUCE_SCATTER;
    kiln_status status = KILN_STATUS_OK;
    for (size_t d = 0; d < 3; d++) {
        for (int op = 0; op < (combines ? KILN_COLL_OP_COUNT : 1); op++) {
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                const trial what = {.kind = kind,
                                    .op = (kiln_coll_op)op,
                                    .dtype = dtypes[d],
                                    .count = counts[c],
                                    .root = (uint32_t)(c % self->total)};
                KILN_TRY(out, status, run_trial(self, &what, err));
            }
        }
    }
    status = check_long(self, kind, err);
    if (status == KILN_STATUS_OK && kind == KILN_COLL_ALL_REDUCE) {
        status = check_bits(self, err);
    }
out:
    return status;
}

static kiln_status check_all(checker *self, bool is_quiet, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    const kiln_coll_algorithm_info *row = NULL;
    for (int a = 1; (row = kiln_coll_algorithm_row((kiln_coll_algorithm)a)) != NULL; a++) {
        char select[64];
        unsigned long before = self->cases;
        bool fits = kiln_coll_algorithm_fits((kiln_coll_algorithm)a, self->total, self->per_node);
        if (!fits && self->first == 0 && !is_quiet) {
            printf("%-15s %-13s not on %u ranks: %s\n", kiln_coll_kind_name(row->kind), row->name,
                   self->total, row->constraint);
        }
        if (!fits || row->kind == KILN_COLL_RECEIVE) { // which goes with send
            continue;
        }
        snprintf(select, sizeof(select), "%s:%s", kiln_coll_kind_name(row->kind), row->name);
        KILN_TRY(out, status, kiln_collective_select(self->group, select, err));
        KILN_TRY(out, status, check_kind(self, row->kind, err));
        if (self->first == 0 && !is_quiet) {
            printf("%-15s %-13s %lu cases on %u ranks\n", kiln_coll_kind_name(row->kind), row->name,
                   self->cases - before, self->total);
            (void)fflush(stdout); // a launcher may read it through a pipe
        }
    }
out:
    return status;
}

static kiln_status open_devices(checker *self, const coll_options *options, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < options->n_devices; i++) {
        self->count = (uint32_t)i + 1;
        KILN_TRY(out, status,
                 kiln_device_open(self->context, options->devices[i], &self->devices[i], err));
    }
    if (options->n_devices == 0) {
        self->count = 2;
        KILN_TRY(out, status, kiln_device_open(self->context, NULL, &self->devices[0], err));
        KILN_TRY(out, status, kiln_device_open(self->context, "reference", &self->devices[1], err));
    }
out:
    return status;
}

static bool is_under_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMI_SIZE") != NULL;
}

static kiln_status open_group(checker *self, const coll_options *options, kiln_error *err)
{
    kiln_coll_group_options group = KILN_COLL_GROUP_OPTIONS_INIT;
    group.deadline_ns = options->deadline_ms * 1000000;
    kiln_status status =
        is_under_mpi()
            ? kiln_collective_create_mpi(self->devices, self->count, &group, &self->group, err)
            : kiln_collective_create(self->devices, self->count, &group, &self->group, err);
    if (status == KILN_STATUS_OK) {
        self->first = kiln_collective_rank(self->group);
        self->total = kiln_collective_ranks(self->group);
        self->per_node = is_under_mpi() ? self->count : 0;
    }
    return status;
}

static kiln_status check_for(checker *self, uint64_t seconds, kiln_error *err)
{
    uint64_t end_ns = kiln_time_ns() + seconds * 1000000000;
    kiln_status status = check_all(self, /*is_quiet=*/false, err);
    // Rank 0 says whether to go on, so that all processes do the same.
    for (bool more = seconds > 0; more && status == KILN_STATUS_OK;) {
        float go_on = kiln_time_ns() < end_ns ? 1 : 0;
        kiln_tensor *said[MOST_LOCAL] = {NULL};
        kiln_tensor *heard[MOST_LOCAL] = {NULL};
        for (uint32_t k = 0; k < self->count && status == KILN_STATUS_OK; k++) {
            status = kiln_tensor_create(self->devices[k], KILN_DTYPE_F32, 0, NULL, &go_on, &said[k],
                                        err);
        }
        if (status == KILN_STATUS_OK) {
            status = kiln_collective_broadcast(self->group, said, /*root=*/0, heard, err);
        }
        for (uint32_t k = 0; k < self->count; k++) {
            if (heard[k] != NULL && status == KILN_STATUS_OK) {
                status = kiln_collective_resolve(heard[k], err);
            }
            if (k == 0 && status == KILN_STATUS_OK) {
                status = kiln_read(heard[k], &go_on, sizeof(go_on), err);
            }
            kiln_release(said[k]);
            kiln_release(heard[k]);
        }
        more = go_on > 0;
        if (more && status == KILN_STATUS_OK) {
            status = check_all(self, /*is_quiet=*/true, err);
        }
    }
    return status;
}

static int check(const coll_options *options)
{
    static const cli_device_options none;
    checker self = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = cli_open_context(&none, &self.context, &err);
    if (status == KILN_STATUS_OK) {
        status = open_devices(&self, options, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = open_group(&self, options, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = check_for(&self, options->seconds, &err);
    }
    int result = status == KILN_STATUS_OK ? CLI_OK : cli_fail("coll", &err);
    if (result == CLI_OK && self.first == 0) {
        printf("%lu cases passed\n", self.cases);
    }
    fflush(NULL);
    kiln_collective_destroy(self.group);
    if (result != CLI_OK && is_under_mpi()) {
        _exit(result); // MPI's own end would wait for the process that is lost
    }
    for (uint32_t i = 0; i < self.count; i++) {
        kiln_device_release(self.devices[i]);
    }
    cli_close_context(self.context);
    return result;
}

int cmd_coll(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        coll_options_table,
        parse_coll_option,
        "list|check",
        "Lists the algorithms of the collectives, or tries each of them on devices against a plain "
        "loop; under mpirun on the devices of all processes.",
        children,
        NULL,
        NULL};
    coll_options options = {.deadline_ms = 30000};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (options.is_check && options.json.wanted) {
        return cli_usage("coll", "--json goes with list");
    }
    return options.is_check ? check(&options) : list(&options.json);
}
