// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds streams that a fuser takes. First it learns: after a prefix that the fuser took it is
// offered every operator of the table, in several draws of operands and attributes; what it takes
// is noted as what may follow the last operator, one is kept, of operators of all classes alike,
// and so on until the fuser is ready. Then a stream for a seed is one of those, on other extents,
// cut and grown again along the notes. All of it follows from the plugin and the seed: numbers of
// offers are bounded, never time.

#include "cli.h"
#include "plugin_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_OPS = 14, // wanted once a fuser is ready; chains that are not are followed further
    LONGEST = 28,
    FUSERS = 8, // with notes of their own
    KEPT = 16,
    FEW = 4, // more lessons until there are so many
    LESSONS = 24,
    MOST_OFFERS = 400000,
    CLASSES = KILN_CLASS_CUSTOM + 1
};

typedef struct notes { ///< what is known of a fuser
    uint32_t n;
    uint32_t given; ///< of those kept: the author's, which stay
    uint32_t offers;
    uint32_t swept[KILN_OP_COUNT + 1]; ///< times, up to 2, that all operators were offered after it
    bool follows[KILN_OP_COUNT + 1][KILN_OP_COUNT]; ///< [KILN_OP_COUNT]: at the beginning
    stream kept[KEPT]; ///< ready at their end
} notes;

typedef struct corpus {
    bool learned;
    bool taken[CHECK_GIVEN]; ///< by some fuser, of the streams that were given
    notes fusers[FUSERS];
} corpus;

static corpus *known; // of the plugin that this process checks, or that its parent checks
static int known_fd = -1;

kf_status check_feed(check *c, kf_builder *builder, stream_view *view, uint32_t from, uint32_t to,
                     kf_state *state)
{
    kf_status status = KF_OK;
    for (uint32_t i = from; i < to && status == KF_OK; i++) {
        const kf_op *op = stream_view_op(view, i);
        *state = (kf_state){.struct_size = (uint32_t)sizeof(*state)};
        status = c->plugin->builder_fuse(builder, stream_view_block(view), &op, 1, state);
    }
    return status;
}

typedef struct grower { ///< a stream that grows
    check *c;
    kf_fuser *fuser;
    notes *notes;
    bool learns;
    stream s;
    kf_state state; ///< of the fuser after all of `s`
} grower;

/// What a fresh builder says of all of it.
static bool ask(grower *g, const stream *s, kf_state *state)
{
    const kf_plugin *p = g->c->plugin;
    kf_builder *builder = NULL;
    stream_view *view = stream_view_create(s, NULL);
    *state = (kf_state){.struct_size = (uint32_t)sizeof(*state), .status = KF_CLOSED};
    bool good = p->builder_create(g->fuser, &builder) == KF_OK &&
                check_feed(g->c, builder, view, 0, s->n_ops, state) == KF_OK;
    p->builder_destroy(builder);
    stream_view_destroy(view);
    g->notes->offers += g->learns;
    return good;
}

static bool covers(const kf_state *state, const stream *s)
{
    return state->ready && state->len >= s->n_ops;
}

/// Is all of it taken, whether the fuser is ready or not yet?
static bool takes(grower *g)
{
    return g->s.n_ops > 0 && ask(g, &g->s, &g->state) &&
           (g->state.status == KF_OPEN || covers(&g->state, &g->s));
}

static bool is_used(const stream *s, uint32_t tensor)
{
    for (uint32_t i = 0; i < s->n_ops; i++) {
        for (uint32_t k = 0; k < s->ops[i].n_inputs; k++) {
            if (s->ops[i].op != KILN_OP_DROP && s->ops[i].inputs[k] == tensor) {
                return true;
            }
        }
    }
    return false;
}

/// Drops what was used, as a program does that lets go of its intermediates.
static void drop_used(stream *s, uint32_t percent)
{
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        if (stream_is_result(s, i) && is_used(s, i) && stream_chance(s, percent)) {
            (void)stream_drop(s, i);
        }
    }
}

/// Keeps the stream as it is now, or with what was used dropped, if the fuser is ready then.
static bool keep_ready(grower *g, stream *best)
{
    static const uint32_t percents[] = {100, 60, 0};
    uint32_t first = stream_chance(&g->s, 30) ? 1 : 0;
    for (uint32_t i = 0; i < 3; i++) {
        stream dropped = g->s;
        kf_state state;
        drop_used(&dropped, percents[(first + i) % 3]);
        if (dropped.n_ops > 0 && ask(g, &dropped, &state) && covers(&state, &dropped)) {
            *best = dropped;
            return true;
        }
    }
    return false;
}

static kiln_op last_op(const stream *s)
{
    for (uint32_t i = s->n_ops; i > 0; i--) {
        if (s->ops[i - 1].op != KILN_OP_DROP) {
            return s->ops[i - 1].op;
        }
    }
    return KILN_OP_COUNT;
}

// ---- one operation more ----

/// Offers the operator with up to `offers` draws that the table allows; what is taken stays.
static bool offer(grower *g, kiln_op op, uint32_t offers)
{
    uint32_t n_ops = g->s.n_ops, n_tensors = g->s.n_tensors;
    for (uint32_t tries = 0; tries < 6 * offers && offers > 0; tries++) {
        if (!stream_grow(&g->s, op)) {
            continue;
        }
        offers--;
        if (takes(g)) {
            return true;
        }
        stream_cut(&g->s, n_ops, n_tensors);
    }
    return false;
}

/// An operator of those that may follow, of all classes alike; KILN_OP_COUNT: there is none.
static kiln_op known_follower(grower *g)
{
    const bool *row = g->notes->follows[last_op(&g->s)];
    kiln_op found[CLASSES];
    uint32_t seen[CLASSES] = {0}, classes = 0;
    for (kiln_op op = (kiln_op)0; op < KILN_OP_COUNT; op++) {
        if (row[op]) {
            kiln_op_class cls = kiln_op_info_of(op)->cls;
            classes += seen[cls] == 0;
            if (stream_below(&g->s, ++seen[cls]) == 0) {
                found[cls] = op;
            }
        }
    }
    uint32_t chosen = classes > 0 ? stream_below(&g->s, classes) : 0;
    for (uint32_t cls = 0; cls < CLASSES && classes > 0; cls++) {
        if (seen[cls] > 0 && chosen-- == 0) {
            return found[cls];
        }
    }
    return KILN_OP_COUNT;
}

static bool step_known(grower *g)
{
    for (int tries = 0; tries < 6; tries++) {
        kiln_op op = known_follower(g);
        if (op != KILN_OP_COUNT && offer(g, op, 6)) {
            return true;
        }
    }
    return false;
}

/// Offers every operator; notes what is taken and keeps one of it: often one that makes the fuser
/// ready, otherwise of all classes alike.
static bool step_sweep(grower *g)
{
    static grower found[CLASSES + 1]; // the last: ready
    uint32_t seen[CLASSES + 1] = {0}, classes = 0;
    kiln_op last = last_op(&g->s);
    uint32_t results = 0;
    for (uint32_t i = 0; i < g->s.n_tensors; i++) {
        results += stream_is_result(&g->s, i);
    }
    for (kiln_op op = (kiln_op)0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of(op);
        uint32_t several = stream_usable(op) && info->signature->min_inputs > 1;
        uint32_t n_ops = g->s.n_ops, n_tensors = g->s.n_tensors;
        if (!stream_usable(op) || !offer(g, op, 4 + several * (8 + 4 * (results & 7)))) {
            continue;
        }
        g->notes->follows[last][op] = true;
        uint32_t at = covers(&g->state, &g->s) ? (uint32_t)CLASSES : (uint32_t)info->cls;
        classes += seen[at] == 0;
        if (stream_below(&g->s, ++seen[at]) == 0) {
            found[at] = *g;
        }
        stream_cut(&g->s, n_ops, n_tensors);
    }
    g->notes->swept[last] = g->notes->swept[last] < 2 ? g->notes->swept[last] + 1 : 2;
    if (classes == 0) {
        return false;
    }
    uint32_t chosen = CLASSES;
    while (seen[chosen] == 0 || (classes > 1 && stream_chance(&g->s, 50))) {
        chosen = stream_below(&g->s, CLASSES + 1);
    }
    uint64_t state = g->s.state;
    g->s = found[chosen].s;
    g->s.state = state;
    g->state = found[chosen].state;
    return true;
}

/// Grows until the fuser is ready with at least `wanted` operations, is closed, or takes nothing.
/// True: it was ready, and `best` is the longest stream at which it was.
static bool grow(grower *g, uint32_t wanted, uint32_t drops, stream *best)
{
    bool ready = g->s.n_ops > 0 && keep_ready(g, best);
    for (uint32_t taken = g->s.n_ops; taken < LONGEST && g->s.n_ops < STREAM_OPS / 2; taken++) {
        if (ready && (taken >= wanted || g->state.status == KF_CLOSED)) {
            break;
        }
        bool sweeps =
            g->learns ? g->notes->swept[last_op(&g->s)] < 2 || stream_chance(&g->s, 25) : false;
        bool grown = !sweeps && step_known(g);
        if (!grown && !(g->learns && g->notes->offers < MOST_OFFERS && step_sweep(g))) {
            break;
        }
        ready = keep_ready(g, best) || ready;
        drop_used(&g->s, drops);
    }
    return ready;
}

// ---- learning ----

static void keep(notes *n, const stream *s, uint32_t lesson)
{
    if (n->n < KEPT) {
        n->kept[n->n++] = *s;
        return;
    }
    stream *old = &n->kept[n->given + lesson % (KEPT - n->given)];
    if (s->n_ops > old->n_ops) { // long ones tell more
        *old = *s;
    }
}

static void learn_fuser(check *c, kf_fuser *fuser, notes *n)
{
    static grower g;
    static stream best;
    clock_t end = clock() + (clock_t)((c->deadline - c->begin) / 4000 / c->plugin->n_fusers);
    for (uint32_t lesson = 0; lesson < LESSONS || n->n < FEW; lesson++) {
        // One that keeps the rule of 1 ms is done before the time is.
        if (n->offers >= MOST_OFFERS || (lesson > 0 && clock() > end)) {
            break;
        }
        memset(&g, 0, sizeof(g));
        g = (grower){.c = c, .fuser = fuser, .notes = n, .learns = true};
        stream_init(&g.s, c->seed * 1000003 + lesson);
        check_step(c, "builder_fuse of every operator, seed %llu, lesson %u",
                   (unsigned long long)c->seed, lesson);
        uint32_t wanted = 1 + stream_below(&g.s, MOST_OPS);
        if (grow(&g, wanted, lesson % 2 == 0 ? 0 : 30, &best)) {
            keep(n, &best, lesson);
        }
    }
}

static void note_followers(notes *n, const stream *s)
{
    kiln_op last = KILN_OP_COUNT;
    for (uint32_t i = 0; i < s->n_ops; i++) {
        if (s->ops[i].op != KILN_OP_DROP) {
            n->follows[last][s->ops[i].op] = true;
            last = s->ops[i].op;
        }
    }
}

/// Keeps the longest beginnings of what the author has recorded at which the fuser is ready.
static void learn_given(check *c, kf_fuser *fuser, notes *n)
{
    static grower g;
    for (uint32_t i = 0; i < c->n_given; i++) {
        memset(&g, 0, sizeof(g));
        g = (grower){.c = c, .fuser = fuser, .notes = n, .learns = true, .s = c->given[i].s};
        check_step(c, "builder_fuse of %s", c->given[i].file);
        bool ready = false;
        while (!ready && g.s.n_ops > 0) {
            ready = ask(&g, &g.s, &g.state) && covers(&g.state, &g.s);
            stream_shorten(&g.s, g.s.n_ops - !ready);
        }
        if (ready) {
            known->taken[c->given[i].file_number] = true;
            note_followers(n, &g.s);
            if (n->given < KEPT / 2) {
                n->kept[n->given++] = g.s;
                n->n = n->given;
            }
        }
    }
}

int check_corpus_open(int fd)
{
    char path[] = "/tmp/kiln-corpus-XXXXXX";
    if (known != NULL) {
        return known_fd;
    }
    known_fd = fd >= 0 ? fd : mkstemp(path);
    if (fd < 0 && known_fd >= 0) {
        unlink(path);
    }
    if (known_fd < 0 || ftruncate(known_fd, sizeof(*known)) != 0) {
        return -1;
    }
    void *memory = mmap(NULL, sizeof(*known), PROT_READ | PROT_WRITE, MAP_SHARED, known_fd, 0);
    known = memory == MAP_FAILED ? NULL : memory;
    return known == NULL ? -1 : known_fd;
}

static notes *notes_of(uint32_t index)
{
    return &known->fusers[index < FUSERS ? index : FUSERS - 1];
}

void check_discover(check *c)
{
    if (check_corpus_open(-1) < 0) {
        check_fail(c, "no room for what the fusers take: /tmp is full or cannot be written");
        return;
    }
    if (known->learned) {
        return;
    }
    memset(known, 0, sizeof(*known)); // another process may have died over it
    for (uint32_t i = 0; i < c->plugin->n_fusers; i++) {
        kf_device device = c->device;
        kf_fuser *fuser = check_fuser(c, i);
        if (fuser != NULL) {
            learn_given(c, fuser, notes_of(i));
            learn_fuser(c, fuser, notes_of(i));
        }
        c->plugin->fuser_destroy(fuser);
        c->device = device;
    }
    known->learned = true;
}

// ---- a stream for a seed ----

/// One of those that are known, on other extents if that can be.
static bool recall(grower *g)
{
    stream_cut(&g->s, 0, 0);
    const stream *from = &g->notes->kept[stream_below(&g->s, g->notes->n)];
    for (int tries = 0; tries < 4; tries++) {
        if (stream_adapt(&g->s, from) && takes(g)) {
            return true;
        }
        stream_cut(&g->s, 0, 0);
    }
    if (g->c->large || g->c->run_only) {
        return false;
    }
    uint64_t state = g->s.state;
    g->s = *from;
    g->s.state = state;
    return takes(g);
}

/// Takes some of the last operations away.
static void cut_some(stream *s)
{
    stream_shorten(s, 1 + stream_below(s, s->n_ops));
}

/// Random extents are seldom those at which a convolution pays: half of the large streams of who
/// takes one begin with one that does.
static bool begin_conv(grower *g)
{
    return g->c->large && g->notes->follows[KILN_OP_COUNT][KILN_OP_CONV] &&
           stream_chance(&g->s, 50) && stream_begin_conv(&g->s) && takes(g);
}

bool check_draw_stream(check *c, kf_fuser *fuser, uint32_t index, uint64_t seed, stream *out)
{
    static grower g;
    check_discover(c);
    if (known == NULL) {
        return false;
    }
    memset(&g, 0, sizeof(g));
    g = (grower){.c = c, .fuser = fuser, .notes = notes_of(index)};
    check_step(c, "builder_fuse of random operations, seed %llu", (unsigned long long)seed);
    for (uint64_t tries = 0; tries < (c->large ? 40u : 6u) && g.notes->n > 0; tries++) {
        uint64_t start = seed + (tries << 32);
        if (c->large) {
            stream_init_large(&g.s, start);
        } else if (c->run_only) {
            stream_init_small(&g.s, start);
        } else {
            stream_init(&g.s, start);
        }
        uint32_t wanted = 1 + stream_below(&g.s, MOST_OPS);
        if (c->large || stream_chance(&g.s, 65) || tries > 2) {
            if (!begin_conv(&g) && !recall(&g)) {
                continue;
            }
            if (!c->large && stream_chance(&g.s, 40) && tries < 3) {
                cut_some(&g.s);
                (void)takes(&g);
            }
        }
        if (grow(&g, wanted, stream_chance(&g.s, 40) ? 30 : 0, out) &&
            (!c->large || stream_is_large(out))) {
            return true;
        }
    }
    return false;
}

void check_no_streams(check *c)
{
    if (c->plugin->n_fusers == 0) {
        check_skip(c, "brings no fuser");
    } else if (check_good(c) && c->run_only) {
        check_skip(c, "its fusers take none of the table's operators on this device");
    } else if (check_good(c)) {
        check_fail(c,
                   "after %u offers of all operators of the table no fuser was ready, so nothing "
                   "of it can be checked without --stream (see the check corpus)",
                   notes_of(0)->offers);
    }
}

// ---- the check ----

static bool has_expanded(const stream *s)
{
    for (uint32_t i = 0; i < s->n_ops; i++) {
        if (cli_op_is_always_expanded(s->ops[i].op)) {
            return true;
        }
    }
    return false;
}

void check_list_pieces(const bool *ops, const char *where, char *out, size_t capacity)
{
    size_t used = 0;
    out[0] = '\0';
    for (kiln_op op = (kiln_op)0; op < KILN_OP_COUNT; op++) {
        char simpler[200];
        if (ops[op] && used + 2 < capacity) {
            cli_op_expansion(op, simpler, sizeof(simpler));
            snprintf(out + used, capacity - used, "%s is recorded as %s%s; ",
                     kiln_op_info_of(op)->name, simpler, where);
            used = strlen(out);
        }
    }
}

/// Those of the operators that the fuser takes which no device records as they are.
static void list_expanded(const notes *n, char *out, size_t capacity)
{
    bool ops[KILN_OP_COUNT] = {false};
    for (kiln_op op = (kiln_op)0; op < KILN_OP_COUNT; op++) {
        for (int last = 0; last <= KILN_OP_COUNT; last++) {
            ops[op] = ops[op] || (n->follows[last][op] && cli_op_is_always_expanded(op));
        }
    }
    check_list_pieces(ops, "", out, capacity);
}

/// What it takes must be able to arrive.
static void check_arrival(check *c, kf_str id, const notes *n, char *expanded, size_t capacity)
{
    uint32_t never = 0;
    list_expanded(n, expanded, capacity);
    for (uint32_t i = 0; i < n->n; i++) {
        never += has_expanded(&n->kept[i]);
    }
    if (n->n > 0 && never == n->n) {
        check_fail(c, "%.*s takes no stream that can arrive: %sname these operators instead",
                   (int)id.len, id.ptr, expanded);
    }
}

static void tell_corpus(check *c, uint32_t index, uint64_t *longest, bool *operators,
                        char *expanded, size_t capacity)
{
    const notes *n = notes_of(index);
    kf_str id = c->plugin->fuser_ids[index];
    for (uint32_t i = 0; i < n->n; i++) {
        uint64_t own = 0;
        for (uint32_t k = 0; k < n->kept[i].n_ops; k++) {
            own += n->kept[i].ops[k].op != KILN_OP_DROP;
            operators[n->kept[i].ops[k].op] = n->kept[i].ops[k].op != KILN_OP_DROP;
        }
        *longest = own > *longest ? own : *longest;
    }
    check_arrival(c, id, n, expanded, capacity);
    if (n->n == 0) {
        check_fail(c,
                   "%.*s was ready after none of %u offers of all operators of the table; "
                   "record what it takes (`kiln plugin record`) and name the file by --stream",
                   (int)id.len, id.ptr, n->offers);
    }
}

static void check_corpus(check *c)
{
    bool operators[KILN_OP_COUNT] = {false};
    char expanded[300] = "";
    uint64_t longest = 0, fusers = 0, kinds = 0;
    if (!check_load(c)) {
        return;
    }
    if (c->plugin->n_fusers == 0) {
        check_no_streams(c);
        return;
    }
    check_discover(c);
    for (uint32_t i = 0; known != NULL && i < c->plugin->n_fusers && check_good(c); i++) {
        kf_fuser *fuser = check_fuser(c, i);
        if (fuser != NULL) {
            tell_corpus(c, i, &longest, operators, expanded, sizeof(expanded));
            fusers++;
        }
        c->plugin->fuser_destroy(fuser);
    }
    for (uint32_t i = 0; known != NULL && i < c->n_given && check_good(c); i++) {
        if (!known->taken[c->given[i].file_number]) {
            check_fail(c, "no fuser takes anything of %s", c->given[i].file);
        }
    }
    for (int i = 0; i < KILN_OP_COUNT; i++) {
        kinds += operators[i];
    }
    if (fusers == 0 && check_good(c)) {
        check_fail(c, "its fusers decline every invented device: CPU, GPUs and FPGA");
    }
    check_say(c, "%s%llu %s streams of %llu %s, the longest of %llu %s", expanded,
              (unsigned long long)fusers, kiln_plural(fusers, "fuser takes", "fusers take"),
              (unsigned long long)kinds, kiln_plural(kinds, "operator", "operators"),
              (unsigned long long)longest, kiln_plural(longest, "operation", "operations"));
}

const check_row check_corpus_rows[] = {
    {"corpus", 2, check_corpus, "every fuser takes something that can be made of the table"},
    {NULL, 0, NULL, NULL},
};
