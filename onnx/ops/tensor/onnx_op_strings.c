// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators that make strings or look into them, on the host. What moves strings or compares
// them is like any other value's, see onnx_text.c. Decides that letters are those of UTF-8,
// whatever `locale` says.
#include "onnx_strings.h"

#include <locale.h>
#include <string.h>
#include <wctype.h>

static const char *text_of(const kilni_onnx_call *call, int32_t number)
{
    return kilni_onnx_text_at(call->session, number);
}

// ---- letters ----

static void append_letter(kiln_string *string, uint32_t letter)
{
    char bytes[4];
    size_t length = letter < 0x80 ? 1 : letter < 0x800 ? 2 : letter < 0x10000 ? 3 : 4;
    static const uint32_t heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1;) {
        bytes[i] = (char)(0x80 | (letter & 0x3f));
        letter >>= 6;
    }
    bytes[0] = (char)(heads[length] | letter);
    kiln_string_append(string, bytes, length);
}

// ---- StringNormalizer ----

typedef enum letter_case { CASE_NONE, CASE_LOWER, CASE_UPPER } letter_case;

static letter_case case_of(kilni_onnx_call *call)
{
    const char *action = kilni_onnx_attr_text(call, "case_change_action", "NONE");
    if (strcmp(action, "NONE") != 0 && strcmp(action, "LOWER") != 0 &&
        strcmp(action, "UPPER") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "case_change_action '%s' is not NONE, LOWER or UPPER", action);
    }
    return action[0] == 'L' ? CASE_LOWER : action[0] == 'U' ? CASE_UPPER : CASE_NONE;
}

static int32_t in_case(kilni_onnx_call *call, int32_t number, letter_case how, locale_t letters)
{
    const char *text = text_of(call, number);
    kiln_string changed;
    if (how == CASE_NONE) {
        return number;
    }
    kiln_string_init(&changed, &call->session->env);
    while (*text != '\0') {
        const char *from = text;
        uint32_t letter = kilni_onnx_letter(&text);
        if (letter >= 0x80 && letter < 0x100 && text == from + 1) {
            kiln_string_append(&changed, from, 1); // a byte that is no UTF-8
            continue;
        }
        wint_t other = how == CASE_LOWER ? towlower_l((wint_t)letter, letters)
                                         : towupper_l((wint_t)letter, letters);
        append_letter(&changed, (uint32_t)other);
    }
    number = kilni_onnx_text_number(call, changed.length > 0 ? changed.text : "", changed.length);
    kiln_string_fini(&changed);
    return number;
}

/// Whether a word is one of those left out, which are in `case_of_words` already.
static bool is_left_out(const int32_t *words, uint32_t count, int32_t number)
{
    for (uint32_t i = 0; i < count; i++) {
        if (words[i] == number) {
            return true;
        }
    }
    return false;
}

typedef struct normalizer {
    letter_case action;
    letter_case compared; ///< the case in which words are compared
    locale_t letters;
    int32_t *words; ///< those left out
    uint32_t n_words;
} normalizer;

static void begin_normalizer(kilni_onnx_call *call, normalizer *n)
{
    bool exact = kilni_onnx_attr_int(call, "is_case_sensitive", 0) != 0;
    const kilni_onnx_attr *words = kilni_onnx_attr_find(call, "stopwords");
    n->action = case_of(call);
    n->compared = exact ? CASE_NONE : CASE_LOWER;
    n->letters = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (n->letters == (locale_t)0) {
        KILNI_ONNX_FAIL(call, UNAVAILABLE, "the system has no locale C.UTF-8: install it");
    }
    uint32_t count = words != NULL && words->type == KILNI_ONNX_ATTR_STRINGS ? words->count : 0;
    n->words = kiln_alloc_array(&call->session->env, count + 1u, sizeof(*n->words));
    if (n->words == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %u words", count);
    }
    for (; kilni_onnx_ok(call) && n->n_words < count; n->n_words++) {
        const char *word = words->texts[n->n_words];
        int32_t number = kilni_onnx_text_number(call, word, strlen(word));
        n->words[n->n_words] = in_case(call, number, n->compared, n->letters);
    }
}

/// The words of a row that stay, in their new case; at least one, which is empty then.
static void normalize(kilni_onnx_call *call, const normalizer *n, kilni_onnx_ref x)
{
    const int32_t *from = kilni_onnx_text_numbers(call, x);
    int64_t count = kilni_onnx_ok(call) ? kiln_desc_count(&x->desc) : 0;
    const int64_t room[] = {count + 1};
    kilni_onnx_ref kept = kilni_onnx_text_made(call, 1, room);
    int64_t dims[] = {1, 0};
    int64_t *length = kilni_onnx_ok(call) && x->desc.rank == 2 ? &dims[1] : &dims[0];
    *length = 0;
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        int32_t compared = in_case(call, from[i], n->compared, n->letters);
        if (!is_left_out(n->words, n->n_words, compared)) {
            ((int32_t *)kept->owned)[(*length)++] = in_case(call, from[i], n->action, n->letters);
        }
    }
    *length = *length == 0 ? 1 : *length; // the empty one, by its number 0
    if (kilni_onnx_ok(call)) {
        kilni_onnx_ref y = kilni_onnx_text_made(call, x->desc.rank, dims);
        if (y != NULL) {
            memcpy(y->owned, kept->owned, (size_t)*length * sizeof(int32_t));
        }
        kilni_onnx_out(call, 0, y);
    }
}

void kilni_onnx_op_string_normalizer(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in_text(call, 0);
    normalizer n = {.letters = (locale_t)0};
    if (kilni_onnx_ok(call) &&
        (x->desc.rank < 1 || x->desc.rank > 2 || (x->desc.rank == 2 && x->desc.dims[0] != 1))) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "strings of rank %u, not [n] or [1, n]",
                        x->desc.rank);
    }
    if (kilni_onnx_ok(call)) {
        begin_normalizer(call, &n);
        normalize(call, &n, x);
    }
    if (n.letters != (locale_t)0) {
        freelocale(n.letters);
    }
    kiln_free(&call->session->env, n.words);
}

// ---- StringConcat ----

void kilni_onnx_op_string_concat(kilni_onnx_call *call)
{
    kilni_onnx_ref a = kilni_onnx_in_text(call, 0);
    kilni_onnx_ref b = kilni_onnx_in_text(call, 1);
    kiln_tensor_desc shape = {.rank = 0};
    if (kilni_onnx_ok(call)) {
        const kiln_tensor_desc both[] = {a->desc, b->desc};
        const kiln_op_record op = {
            .op = KILN_OP_EQUAL, .n_inputs = 2, .n_outputs = 1, .inputs = both, .outputs = &shape};
        call->status = kiln_ir_infer(&op, &shape, call->err);
    }
    a = kilni_onnx_expand(call, a, shape.dims, shape.rank);
    b = kilni_onnx_expand(call, b, shape.dims, shape.rank);
    const int32_t *left = kilni_onnx_text_numbers(call, a);
    const int32_t *right = kilni_onnx_text_numbers(call, b);
    kilni_onnx_ref y = kilni_onnx_text_made(call, shape.rank, shape.dims);
    int64_t count = y == NULL ? 0 : kiln_desc_count(&y->desc);
    kiln_string joined;
    kiln_string_init(&joined, &call->session->env);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        const char *parts[] = {text_of(call, left[i]), text_of(call, right[i])};
        joined.length = 0;
        kiln_string_append(&joined, parts[0], strlen(parts[0]));
        kiln_string_append(&joined, parts[1], strlen(parts[1]));
        if (joined.failed) {
            KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for a text");
        }
        ((int32_t *)y->owned)[i] =
            kilni_onnx_text_number(call, joined.length > 0 ? joined.text : "", joined.length);
    }
    kiln_string_fini(&joined);
    kilni_onnx_out(call, 0, y);
}

// ---- StringSplit ----

typedef struct splitter {
    const char *delimiter; ///< empty: runs of blanks
    int64_t most; ///< splits; below 0: as many as there are
} splitter;

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/// The next part of a text after `done` parts: its length, and where the next begins, NULL: none.
static size_t next_part(const splitter *s, const char **text, int64_t done, const char **out_next)
{
    bool all = s->most >= 0 && done >= s->most;
    if (s->delimiter[0] != '\0') {
        const char *at = all ? NULL : strstr(*text, s->delimiter);
        *out_next = at == NULL ? NULL : at + strlen(s->delimiter);
        return at == NULL ? strlen(*text) : (size_t)(at - *text);
    }
    const char *end = *text;
    while (*end != '\0' && (all || !is_blank(*end))) {
        end++;
    }
    size_t length = (size_t)(end - *text);
    while (all && length > 0 && is_blank((*text)[length - 1])) {
        length--; // as Python's split leaves blanks at the end away
    }
    while (is_blank(*end)) {
        end++;
    }
    *out_next = *end == '\0' ? NULL : end;
    return length;
}

/// Splits one text; the parts' numbers go to `out` where it is not NULL.
static int64_t split_text(kilni_onnx_call *call, const splitter *s, int32_t number, int32_t *out)
{
    const char *text = text_of(call, number);
    int64_t parts = 0;
    while (s->delimiter[0] == '\0' && is_blank(*text)) {
        text++;
    }
    if (s->delimiter[0] == '\0' && *text == '\0') {
        return 0;
    }
    for (const char *next = text; next != NULL && kilni_onnx_ok(call); text = next) {
        size_t length = next_part(s, &text, parts, &next);
        if (out != NULL) {
            out[parts] = kilni_onnx_text_number(call, text, length);
        }
        parts++;
    }
    return parts;
}

void kilni_onnx_op_string_split(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in_text(call, 0);
    const int32_t *numbers = kilni_onnx_text_numbers(call, x);
    const splitter s = {.delimiter = kilni_onnx_attr_text(call, "delimiter", ""),
                        .most = kilni_onnx_attr_int(call, "maxsplit", -1)};
    if (!kilni_onnx_ok(call) || x->desc.rank == KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "strings of rank %d have no room for parts",
                        KILN_MAX_RANK);
        return;
    }
    int64_t count = kiln_desc_count(&x->desc), longest = 0;
    kilni_onnx_ref counts = kilni_onnx_host_made(call, KILN_DTYPE_I64, x->desc.rank, x->desc.dims);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        int64_t parts = split_text(call, &s, numbers[i], NULL);
        ((int64_t *)counts->owned)[i] = parts;
        longest = parts > longest ? parts : longest;
    }
    int64_t dims[KILN_MAX_RANK];
    memcpy(dims, x->desc.dims, sizeof(dims));
    dims[x->desc.rank] = longest;
    if (longest > 0 && count > KILNI_ONNX_MAX_LIST / longest) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "%lld strings of up to %lld parts",
                        (long long)count, (long long)longest);
    }
    kilni_onnx_ref y = kilni_onnx_text_made(call, x->desc.rank + 1u, dims);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        (void)split_text(call, &s, numbers[i], (int32_t *)y->owned + i * longest);
    }
    kilni_onnx_out(call, 0, y);
    kilni_onnx_out(call, 1, counts);
}

// ---- RegexFullMatch ----

void kilni_onnx_op_regex_full_match(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in_text(call, 0);
    const int32_t *numbers = kilni_onnx_text_numbers(call, x);
    const char *pattern = kilni_onnx_attr_text(call, "pattern", NULL);
    kilni_onnx_regex *regex = NULL;
    if (kilni_onnx_ok(call) && pattern == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'pattern' is missing");
    }
    if (kilni_onnx_ok(call)) {
        call->status = kilni_onnx_regex_create(&call->session->env, pattern, &regex, call->err);
    }
    kilni_onnx_ref y = kilni_onnx_ok(call)
                           ? kilni_onnx_host_made(call, KILN_DTYPE_BOOL, x->desc.rank, x->desc.dims)
                           : NULL;
    int64_t count = y == NULL ? 0 : kiln_desc_count(&y->desc);
    for (int64_t i = 0; i < count; i++) {
        ((uint8_t *)y->owned)[i] = kilni_onnx_regex_matches(regex, text_of(call, numbers[i]));
    }
    kilni_onnx_regex_destroy(regex);
    kilni_onnx_out(call, 0, y);
}
