// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of collectives, operations and algorithms, and which algorithm a message gets: ordered
// ranges over (kind, bytes), from the table or from the user's override in one grammar. How an
// algorithm works is not known here.
#include "coll_algorithms.h"

#include <string.h>

enum { CONSTRAINT_ANY, CONSTRAINT_POWER_OF_TWO, CONSTRAINT_NODES };
#define CONSTRAINT_TEXT_ANY ""
#define CONSTRAINT_TEXT_POWER_OF_TWO "a power of two"
#define CONSTRAINT_TEXT_NODES "several nodes of several ranks each"

typedef struct algorithm_row {
    kiln_coll_algorithm_info info;
    kilni_coll_init_fn init;
    int constraint;
} algorithm_row;

static const algorithm_row rows[KILN_COLL_ALGORITHM_COUNT] = {
#define KILN_COLL_ALGORITHM(kind, id, name, init, min_ranks, constraint, low, high, first, last,   \
                            doc, reference)                                                        \
    [KILN_COLL_##kind##_##id] = {{KILN_COLL_##kind, name, min_ranks, CONSTRAINT_TEXT_##constraint, \
                                  low, high, first, last, doc, reference},                         \
                                 init,                                                             \
                                 CONSTRAINT_##constraint},
#include "algorithms.def"
#undef KILN_COLL_ALGORITHM
};

static const char *const kind_names[KILN_COLL_KIND_COUNT] = {
    "all_reduce", "reduce",  "broadcast",  "all_gather", "reduce_scatter", "barrier",
    "gather",     "scatter", "all_to_all", "send",       "receive"};
static const char *const op_names[KILN_COLL_OP_COUNT] = {"sum", "mean", "min", "max", "prod"};

const char *kiln_coll_kind_name(kiln_coll_kind kind)
{
    return (unsigned)kind < KILN_COLL_KIND_COUNT ? kind_names[kind] : NULL;
}

const char *kiln_coll_op_name(kiln_coll_op op)
{
    return (unsigned)op < KILN_COLL_OP_COUNT ? op_names[op] : NULL;
}

kiln_coll_op kiln_coll_op_from_name(const char *name)
{
    int i = 0;
    while (i < KILN_COLL_OP_COUNT && strcmp(op_names[i], name) != 0) {
        i++;
    }
    return (kiln_coll_op)i;
}

static bool is_row(kiln_coll_algorithm algorithm)
{
    return (int)algorithm > KILN_COLL_AUTO && algorithm < KILN_COLL_ALGORITHM_COUNT;
}

const kiln_coll_algorithm_info *kiln_coll_algorithm_row(kiln_coll_algorithm algorithm)
{
    return is_row(algorithm) ? &rows[algorithm].info : NULL;
}

kilni_coll_init_fn kilni_coll_init_of(kiln_coll_algorithm algorithm)
{
    return is_row(algorithm) ? rows[algorithm].init : NULL;
}

bool kilni_coll_fits(kiln_coll_algorithm algorithm, kilni_coll_extent extent)
{
    const algorithm_row *row = &rows[algorithm];
    uint32_t ranks = extent.ranks;
    bool fits = row->constraint == CONSTRAINT_ANY;
    if (row->constraint == CONSTRAINT_POWER_OF_TWO) {
        fits = (ranks & (ranks - 1)) == 0;
    } else if (row->constraint == CONSTRAINT_NODES) {
        fits = extent.node > 1 && ranks > extent.node && ranks % extent.node == 0;
    }
    return fits && ranks >= row->info.min_ranks;
}

bool kiln_coll_algorithm_fits(kiln_coll_algorithm algorithm, uint32_t ranks,
                              uint32_t ranks_per_node)
{
    return is_row(algorithm) &&
           kilni_coll_fits(algorithm, (kilni_coll_extent){ranks, ranks_per_node});
}

// ---- the override ----

/// A piece of the override's text.
typedef struct piece {
    const char *text;
    size_t length;
} piece;

typedef struct select_item {
    kiln_coll_kind kind;
    kiln_coll_algorithm algorithm;
    uint64_t low;
    uint64_t high;
    uint32_t first; ///< ranks
    uint32_t last;
    const char *wrong; ///< what cannot be understood, or NULL
    piece text;
    const char *next;
} select_item;

/// Cuts up to `mark` (or the end) off the front of `rest`.
static piece cut(piece *rest, char mark)
{
    const char *found = memchr(rest->text, mark, rest->length);
    size_t length = found == NULL ? rest->length : (size_t)(found - rest->text);
    piece front = {rest->text, length};
    size_t skipped = found == NULL ? length : length + 1;
    rest->text += skipped;
    rest->length -= skipped;
    return front;
}

static bool equals(piece part, const char *name)
{
    return strlen(name) == part.length && memcmp(part.text, name, part.length) == 0;
}

/// Digits with K, M or G behind them.
static bool parse_size(piece part, uint64_t *out_bytes)
{
    uint64_t value = 0;
    uint64_t unit = 1;
    size_t i = 0;
    for (; i < part.length && part.text[i] >= '0' && part.text[i] <= '9'; i++) {
        if (value > (UINT64_MAX >> 40)) {
            return false;
        }
        value = value * 10 + (uint64_t)(part.text[i] - '0');
    }
    if (i > 0 && i + 1 == part.length) {
        char letter = part.text[i++];
        unit = letter == 'K' ? 1024 : letter == 'M' ? 1024 * 1024 : 0;
        unit = letter == 'G' ? 1024 * 1024 * 1024 : unit;
    }
    *out_bytes = value * unit;
    return i > 0 && i == part.length && unit > 0;
}

/// "low-" or "low-high".
static bool parse_range(piece part, uint64_t *out_low, uint64_t *out_high)
{
    piece low = cut(&part, '-');
    return parse_size(low, out_low) && (part.length == 0 || parse_size(part, out_high));
}

/// Sizes, "@" and ranks; either may be missing.
static bool parse_where(piece part, select_item *item)
{
    bool has_ranks = memchr(part.text, '@', part.length) != NULL;
    piece sizes = cut(&part, '@');
    uint64_t first = item->first;
    uint64_t last = item->last;
    if (sizes.length > 0 || !has_ranks) {
        if (!parse_range(sizes, &item->low, &item->high) || item->low >= item->high) {
            return false;
        }
    }
    if (has_ranks && (!parse_range(part, &first, &last) || first > last || last > UINT32_MAX)) {
        return false;
    }
    item->first = (uint32_t)first;
    item->last = (uint32_t)last;
    return true;
}

static void find_names(piece kind, piece algorithm, select_item *item)
{
    int k = 0;
    while (k < KILN_COLL_KIND_COUNT && !equals(kind, kind_names[k])) {
        k++;
    }
    item->kind = (kiln_coll_kind)k;
    item->wrong = k == KILN_COLL_KIND_COUNT ? "no such collective" : "no such algorithm";
    for (int a = KILN_COLL_AUTO + 1; a < KILN_COLL_ALGORITHM_COUNT; a++) {
        if (rows[a].info.kind == item->kind && equals(algorithm, rows[a].info.name)) {
            item->algorithm = (kiln_coll_algorithm)a;
            item->wrong = NULL;
        }
    }
}

/// The item at `text`: kind ":" [[low "-" [high]] ["@" first "-" [last]] ":"] algorithm.
static select_item parse_item(const char *text)
{
    select_item item = {.high = UINT64_MAX, .last = UINT32_MAX};
    size_t length = strcspn(text, ",");
    item.text = (piece){text, length};
    item.next = text[length] == ',' ? text + length + 1 : NULL;
    piece rest = item.text;
    piece kind = cut(&rest, ':');
    piece middle = cut(&rest, ':');
    bool has_range = rest.length > 0;
    find_names(kind, has_range ? rest : middle, &item);
    if (item.wrong == NULL && has_range && !parse_where(middle, &item)) {
        item.wrong = "no range of sizes or ranks, such as 64K-2M@2-8";
    }
    return item;
}

kiln_status kilni_coll_select_check(const char *select, kiln_error *err)
{
    for (const char *at = select; at != NULL && *select != 0;) {
        select_item item = parse_item(at);
        if (item.wrong != NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "choice of algorithms: '%.*s': %s",
                             (int)item.text.length, item.text.text, item.wrong);
        }
        at = item.next;
    }
    return KILN_STATUS_OK;
}

kiln_coll_algorithm kilni_coll_choose(const char *select, kiln_coll_kind kind, uint64_t bytes,
                                      kilni_coll_extent extent)
{
    uint32_t ranks = extent.ranks;
    for (const char *at = select; at != NULL && *select != 0;) {
        select_item item = parse_item(at);
        if (item.wrong == NULL && item.kind == kind && bytes >= item.low && bytes < item.high &&
            ranks >= item.first && ranks <= item.last && kilni_coll_fits(item.algorithm, extent)) {
            return item.algorithm;
        }
        at = item.next;
    }
    for (int a = KILN_COLL_AUTO + 1; a < KILN_COLL_ALGORITHM_COUNT; a++) {
        const kiln_coll_algorithm_info *info = &rows[a].info;
        if (info->kind == kind && bytes >= info->low_bytes && bytes < info->high_bytes &&
            ranks >= info->first_ranks && ranks <= info->last_ranks &&
            kilni_coll_fits((kiln_coll_algorithm)a, extent)) {
            return (kiln_coll_algorithm)a;
        }
    }
    return KILN_COLL_AUTO;
}
