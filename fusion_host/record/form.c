// SPDX-License-Identifier: MIT OR Apache-2.0
// Forms of recorded segments: which plan made for other lengths serves. Decides what lengths a plan
// relies on: those with one symbol are equal, a length of 1 stays 1 and no other becomes 1 (it
// would be broadcast), 0 stays 0, and what divides by 4 or 16 goes on doing so.
#include <string.h>

#include "form.h"

/// Goes through the words of operations in order.
typedef struct word_walk {
    const kilni_fuse_recorded *recorded;
    uint32_t at;
    void (*word)(uint32_t word, uint32_t at, void *user);
    void (*symbol)(uint32_t word, uint32_t at, void *user);
    void *user;
} word_walk;

static void pass_words(word_walk *w, uint32_t end)
{
    for (; w->at < end; w->at++) {
        w->word(w->recorded->words[w->at], w->at, w->user);
    }
}

static void pass_operand(word_walk *w, const kiln_tensor_desc *desc)
{
    bool fresh = (w->recorded->words[w->at] & KILNI_FUSE_NEW_TENSOR) != 0;
    pass_words(w, w->at + 1);
    for (uint32_t i = 0; fresh && i < desc->rank; i++, w->at++) {
        w->symbol(w->recorded->words[w->at], w->at, w->user);
    }
}

static void walk_words(word_walk *w, uint32_t n_ops)
{
    for (uint32_t i = 0; i < n_ops; i++) {
        const kiln_op_record *op = &w->recorded->ops[i];
        pass_words(w, w->at + 1);
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            const kiln_tensor_desc *desc = &op->inputs[k];
            bool fresh = (w->recorded->words[w->at] & KILNI_FUSE_NEW_TENSOR) != 0;
            pass_operand(w, desc);
            pass_words(w, w->at + (fresh && desc->scheme != 0 ? 2 : 0));
        }
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            pass_operand(w, &op->outputs[k]);
            pass_words(w, w->at + (op->outputs[k].scheme != 0 ? 2 : 0));
        }
        pass_words(w, w->recorded->marks[i].words_end);
    }
}

// ---- hash ----

static void mix(uint64_t *hash, uint32_t word)
{
    *hash = (*hash ^ word) * 0x9E3779B97F4A7C15u;
    *hash ^= *hash >> 32;
}

static void hash_word(uint32_t word, uint32_t at, void *user)
{
    (void)at;
    mix(user, word);
}

static void hash_symbol(uint32_t word, uint32_t at, void *user)
{
    (void)word;
    (void)at;
    mix(user, 0);
}

uint64_t kilni_fuse_form_hash(const kilni_fuse_recorded *recorded, uint32_t n_ops)
{
    uint64_t hash = n_ops;
    word_walk w = {.recorded = recorded, .word = hash_word, .symbol = hash_symbol, .user = &hash};
    walk_words(&w, n_ops);
    return hash;
}

// ---- a form, and what it serves ----

kilni_fuse_form *kilni_fuse_form_create(kiln_arena *arena, const kilni_fuse_recorded *recorded,
                                        uint32_t n_ops)
{
    const kilni_fuse_mark *end = &recorded->marks[n_ops - 1];
    kilni_fuse_form *form = kiln_arena_alloc(arena, sizeof(*form));
    if (form == NULL || end->n_symbols > KILNI_FUSE_FORM_SYMBOLS) {
        return NULL;
    }
    form->hash = kilni_fuse_form_hash(recorded, n_ops);
    form->n_words = end->words_end;
    form->n_symbols = end->n_symbols;
    form->words = kiln_arena_copy(arena, recorded->words, end->words_end * sizeof(uint32_t));
    form->symbols = kiln_arena_copy(arena, recorded->symbols, end->n_symbols * sizeof(int64_t));
    return form->words != NULL && form->symbols != NULL ? form : NULL;
}

typedef struct matching {
    const kilni_fuse_form *form;
    const kilni_fuse_recorded *recorded;
    int64_t *values;
    bool holds;
} matching;

static void match_word(uint32_t word, uint32_t at, void *user)
{
    matching *m = user;
    m->holds = m->holds && m->form->words[at] == word;
}

static bool is_of(uint32_t length_class, int64_t value)
{
    switch (length_class) {
    case KILNI_FUSE_LENGTH_EMPTY:
        return value == 0;
    case KILNI_FUSE_LENGTH_BY_16:
        return value > 0 && value % 16 == 0;
    case KILNI_FUSE_LENGTH_BY_4:
        return value > 0 && value % 4 == 0;
    default:
        return value > 0;
    }
}

static bool is_near(int64_t value, int64_t planned)
{
    return value / KILNI_FUSE_FORM_GROWTH <= planned && planned / KILNI_FUSE_FORM_GROWTH <= value;
}

static void match_symbol(uint32_t word, uint32_t at, void *user)
{
    matching *m = user;
    uint32_t planned = m->form->words[at];
    uint32_t symbol = planned & KILNI_FUSE_SYMBOL_MASK;
    int64_t value = m->recorded->symbols[word & KILNI_FUSE_SYMBOL_MASK];
    if (!m->holds) {
        return;
    }
    if (symbol == 0 || value == 1) {
        m->holds = symbol == 0 && value == 1;
    } else if ((planned & KILNI_FUSE_NEW_SYMBOL) != 0) {
        m->values[symbol] = value;
        m->holds = is_of(planned >> KILNI_FUSE_LENGTH_SHIFT & 3, value) &&
                   is_near(value, m->form->symbols[symbol]);
    } else {
        m->holds = m->values[symbol] == value;
    }
}

bool kilni_fuse_form_serves(const kilni_fuse_form *form, uint64_t hash,
                            const kilni_fuse_recorded *recorded, uint32_t n_ops,
                            int64_t *out_values)
{
    if (form->hash != hash || form->n_words != recorded->marks[n_ops - 1].words_end) {
        return false;
    }
    matching m = {.form = form, .recorded = recorded, .values = out_values, .holds = true};
    word_walk w = {.recorded = recorded, .word = match_word, .symbol = match_symbol, .user = &m};
    out_values[0] = 1;
    walk_words(&w, n_ops);
    return m.holds;
}
