// SPDX-License-Identifier: MIT OR Apache-2.0
// Patterns of RegexFullMatch, whose syntax ONNX takes from RE2. A pattern becomes a tree, the tree
// a program, and a text goes through all ways of the program at once (Thompson's construction as in
// https://swtch.com/~rsc/regexp/regexp2.html), so that no pattern of a file takes more than its
// length times the text's. Decides what is refused: flags, \p, \C and what looks aside.
#include "onnx_strings.h"

#include <string.h>

enum {
    RE_MAX_LENGTH = 4096, ///< of a pattern: bounds the depth of the tree, and so of calls
    RE_MAX_NODES = 65536,
    RE_MAX_PROGRAM = 65536,
    RE_MAX_REPEAT = 1000,
    RE_MAX_DEPTH = 200
};

typedef enum re_kind {
    RE_EMPTY,
    RE_SET, ///< a letter of ranges [a, b) of the list, or of none of them
    RE_CAT,
    RE_ALT,
    RE_REPEAT, ///< of a, from `least` to `most`; most < 0: any number
    RE_BEGIN,
    RE_END,
    RE_WORD, ///< between a letter of a word and another
    RE_NOT_WORD
} re_kind;

typedef struct re_node {
    re_kind kind;
    int32_t a, b;
    int32_t least, most;
    bool negated;
} re_node;

typedef struct re_range {
    uint32_t first, last;
} re_range;

typedef enum re_code { RE_MATCH, RE_LETTER, RE_SPLIT, RE_JUMP, RE_ASSERT } re_code;

typedef struct re_step {
    re_code code;
    int32_t a, b; ///< SPLIT, JUMP: steps; LETTER: the node; ASSERT: its kind
} re_step;

/// Steps that are being tried, each once.
typedef struct re_ways {
    int32_t *steps;
    uint32_t count;
} re_ways;

struct kilni_onnx_regex {
    kiln_env env;
    re_node *nodes;
    re_range *ranges;
    re_step *program;
    uint32_t n_nodes, n_ranges, n_steps;
    uint32_t room_nodes, room_ranges, room_steps;
    re_ways now, next;
    int32_t *stack;
    uint32_t *seen; ///< by step: the place in the text, + 1, for which it is listed
};

typedef struct re_parser {
    kilni_onnx_regex *regex;
    const char *at;
    const char *pattern;
    uint32_t depth;
    kiln_status status;
    kiln_error *err;
} re_parser;

#define RE_REFUSE(p, CODE, ...)                                                                    \
    do {                                                                                           \
        if ((p)->status == KILN_STATUS_OK) {                                                       \
            (p)->status = kiln_fail((p)->err, CODE, __VA_ARGS__);                                  \
        }                                                                                          \
    } while (0)

uint32_t kilni_onnx_letter(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    uint32_t many = *at < 0xc0 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : 3;
    uint32_t letter = many == 0 ? *at : *at & (0x3fu >> many);
    for (uint32_t i = 1; i <= many; i++) {
        if ((at[i] & 0xc0) != 0x80) { // no UTF-8: the byte by itself
            many = 0;
            letter = *at;
            break;
        }
        letter = letter << 6 | (at[i] & 0x3fu);
    }
    *text += many + 1;
    return letter;
}

/// Room for one more of `size` bytes; the list moves.
static bool re_grow(re_parser *p, void *list, uint32_t count, uint32_t *room, size_t size)
{
    void **items = list;
    if (p->status != KILN_STATUS_OK || count < *room) {
        return p->status == KILN_STATUS_OK;
    }
    uint32_t more = *room == 0 ? 32 : *room * 2;
    void *fresh = more <= 2 * RE_MAX_NODES ? kiln_alloc_array(&p->regex->env, more, size) : NULL;
    if (fresh == NULL) {
        RE_REFUSE(p, RESOURCE_EXHAUSTED, "pattern '%.60s' is too large", p->pattern);
        return false;
    }
    if (count > 0) {
        memcpy(fresh, *items, count * size);
    }
    kiln_free(&p->regex->env, *items);
    *items = fresh;
    *room = more;
    return true;
}

static int32_t re_new(re_parser *p, re_node node)
{
    kilni_onnx_regex *r = p->regex;
    if (!re_grow(p, &r->nodes, r->n_nodes, &r->room_nodes, sizeof(*r->nodes))) {
        return 0;
    }
    r->nodes[r->n_nodes] = node;
    return (int32_t)r->n_nodes++;
}

static void re_add(re_parser *p, uint32_t first, uint32_t last)
{
    kilni_onnx_regex *r = p->regex;
    if (first > last) {
        RE_REFUSE(p, INVALID_ARGUMENT, "pattern '%.60s' has a range whose end is before its start",
                  p->pattern);
    }
    if (re_grow(p, &r->ranges, r->n_ranges, &r->room_ranges, sizeof(*r->ranges))) {
        r->ranges[r->n_ranges++] = (re_range){first, last};
    }
}

// ---- sets of letters ----

enum { RE_LAST_LETTER = 0x10ffff };

/// Sorted pairs, so that what is between them can be added as well.
static const struct {
    const char *name;
    const char *ranges;
} re_classes[] = {
    {"d", "09"},           {"s", "\t\n\f\r  "},
    {"w", "09AZ__az"},     {"alpha", "AZaz"},
    {"digit", "09"},       {"alnum", "09AZaz"},
    {"upper", "AZ"},       {"lower", "az"},
    {"space", "\t\r  "},   {"blank", "\t\t  "},
    {"punct", "!/:@[`{~"}, {"xdigit", "09AFaf"},
    {"word", "09AZ__az"},  {"cntrl", "\001\037\177\177"},
    {"print", " ~"},       {"graph", "!~"},
    {"ascii", "\001\177"},
};

static bool re_add_class(re_parser *p, const char *name, size_t length, bool negated)
{
    for (size_t i = 0; i < sizeof(re_classes) / sizeof(re_classes[0]); i++) {
        const char *ranges = re_classes[i].ranges;
        if (strlen(re_classes[i].name) != length ||
            strncmp(re_classes[i].name, name, length) != 0) {
            continue;
        }
        uint32_t from = 1;
        for (; ranges[0] != '\0'; ranges += 2) {
            uint32_t first = (uint32_t)ranges[0], last = (uint32_t)ranges[1];
            if (!negated) {
                re_add(p, first, last);
            } else if (from < first) {
                re_add(p, from, first - 1);
            }
            from = last + 1;
        }
        if (negated) {
            re_add(p, from, RE_LAST_LETTER);
        }
        return true;
    }
    return false;
}

static uint32_t re_hex(re_parser *p)
{
    uint32_t value = 0, digits = 0;
    bool braces = *p->at == '{';
    p->at += braces ? 1 : 0;
    for (; digits < (braces ? 8u : 2u); digits++, p->at++) {
        char c = *p->at;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            break;
        }
        value = value * 16 + (uint32_t)digit;
    }
    if (digits == 0 || value > RE_LAST_LETTER || (braces && *p->at != '}') ||
        (!braces && digits != 2)) {
        RE_REFUSE(p, INVALID_ARGUMENT, "pattern '%.60s': \\x is no letter", p->pattern);
        return 0;
    }
    p->at += braces ? 1 : 0;
    return value;
}

/// The letter that an escape stands for, behind the backslash; 0 after adding a class.
static uint32_t re_escape(re_parser *p)
{
    static const char from[] = "tnrfva", to[] = "\t\n\r\f\v\a";
    char c = *p->at;
    const char *known = c == '\0' ? NULL : strchr(from, c);
    if (c == 'x') {
        p->at++;
        return re_hex(p);
    }
    if (known != NULL) {
        p->at++;
        return (uint32_t)to[known - from];
    }
    const char lower[] = {(char)(c | 0x20), '\0'};
    if (c != '\0' && strchr("dDsSwW", c) != NULL) {
        p->at++;
        (void)re_add_class(p, lower, 1, c != lower[0]);
        return 0;
    }
    if (c == '\0' || (c >= '0' && c <= '9') || (lower[0] >= 'a' && lower[0] <= 'z')) {
        RE_REFUSE(p, UNIMPLEMENTED, "pattern '%.60s': \\%c is not supported", p->pattern,
                  c == '\0' ? ' ' : c);
        return 0;
    }
    return kilni_onnx_letter(&p->at);
}

/// One letter of a set, or a class, of which 0 is given.
static uint32_t re_set_item(re_parser *p)
{
    if (p->at[0] == '[' && p->at[1] == ':') {
        const char *name = p->at + 2;
        bool negated = *name == '^';
        const char *end = strstr(name, ":]");
        name += negated ? 1 : 0;
        if (end == NULL || !re_add_class(p, name, (size_t)(end - name), negated)) {
            RE_REFUSE(p, INVALID_ARGUMENT, "pattern '%.60s': no such class of letters", p->pattern);
        }
        p->at = end == NULL ? p->at + 1 : end + 2;
        return 0;
    }
    if (*p->at == '\\') {
        p->at++;
        return re_escape(p);
    }
    return kilni_onnx_letter(&p->at);
}

/// Behind the bracket.
static int32_t re_set(re_parser *p)
{
    re_node node = {.kind = RE_SET, .a = (int32_t)p->regex->n_ranges, .negated = *p->at == '^'};
    p->at += node.negated ? 1 : 0;
    for (bool first = true; p->status == KILN_STATUS_OK && (first || *p->at != ']');
         first = false) {
        if (*p->at == '\0') {
            RE_REFUSE(p, INVALID_ARGUMENT, "pattern '%.60s': ] is missing", p->pattern);
            return 0;
        }
        uint32_t low = re_set_item(p), high = low;
        if (low != 0 && p->at[0] == '-' && p->at[1] != ']' && p->at[1] != '\0') {
            p->at++;
            high = re_set_item(p);
        }
        if (low != 0) {
            re_add(p, low, high);
        }
    }
    p->at += p->status == KILN_STATUS_OK ? 1 : 0;
    node.b = (int32_t)p->regex->n_ranges;
    return re_new(p, node);
}

static int32_t re_one(re_parser *p, uint32_t letter, bool negated)
{
    re_node node = {.kind = RE_SET, .a = (int32_t)p->regex->n_ranges, .negated = negated};
    re_add(p, letter, letter);
    node.b = node.a + 1;
    return re_new(p, node);
}

// ---- the tree ----

static int32_t re_alternatives(re_parser *p);

static int32_t re_group(re_parser *p)
{
    if (p->at[0] == '?') {
        const char *name = p->at[1] == 'P' ? p->at + 2 : p->at + 1;
        if (p->at[1] == ':') {
            p->at += 2;
        } else if (*name == '<' && name[1] != '=' && name[1] != '!' && strchr(name, '>') != NULL) {
            p->at = strchr(name, '>') + 1; // a name: nothing is captured
        } else {
            RE_REFUSE(p, UNIMPLEMENTED, "pattern '%.60s': (?%c is not supported", p->pattern,
                      p->at[1] == '\0' ? ' ' : p->at[1]);
            return 0;
        }
    }
    if (++p->depth > RE_MAX_DEPTH) {
        RE_REFUSE(p, RESOURCE_EXHAUSTED, "pattern '%.60s' has more than %d groups in one another",
                  p->pattern, RE_MAX_DEPTH);
        return 0;
    }
    int32_t inner = re_alternatives(p);
    p->depth--;
    if (*p->at != ')') {
        RE_REFUSE(p, INVALID_ARGUMENT, "pattern '%.60s': ) is missing", p->pattern);
        return 0;
    }
    p->at++;
    return inner;
}

static int32_t re_escaped_atom(re_parser *p)
{
    static const struct {
        char letter;
        re_kind kind;
    } places[] = {{'A', RE_BEGIN}, {'z', RE_END}, {'b', RE_WORD}, {'B', RE_NOT_WORD}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (*p->at == places[i].letter) {
            p->at++;
            return re_new(p, (re_node){.kind = places[i].kind});
        }
    }
    re_node node = {.kind = RE_SET, .a = (int32_t)p->regex->n_ranges};
    uint32_t letter = re_escape(p);
    if (letter != 0) {
        return re_one(p, letter, false);
    }
    node.b = (int32_t)p->regex->n_ranges;
    return re_new(p, node);
}

static int32_t re_atom(re_parser *p)
{
    char c = *p->at;
    if (strchr("*+?", c) != NULL) {
        RE_REFUSE(p, INVALID_ARGUMENT, "pattern '%.60s': nothing before %c to repeat", p->pattern,
                  c);
        return 0;
    }
    if (strchr("([.^$\\", c) == NULL) {
        return re_one(p, kilni_onnx_letter(&p->at), false);
    }
    p->at++;
    switch (c) {
    case '(':
        return re_group(p);
    case '[':
        return re_set(p);
    case '.':
        return re_one(p, '\n', true);
    case '^':
        return re_new(p, (re_node){.kind = RE_BEGIN});
    case '$':
        return re_new(p, (re_node){.kind = RE_END});
    default:
        return re_escaped_atom(p);
    }
}

static int32_t re_number(const char **text)
{
    int32_t value = -1;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        value = (value < 0 ? 0 : value) * 10 + (**text - '0');
        value = value > RE_MAX_REPEAT ? RE_MAX_REPEAT + 1 : value;
    }
    return value;
}

/// {2}, {2,} or {2,3}; what is none of them is letters, as in RE2.
static bool re_counts(re_parser *p, re_node *node)
{
    const char *at = p->at + 1;
    node->least = re_number(&at);
    node->most = node->least;
    if (node->least >= 0 && *at == ',') {
        at++;
        node->most = re_number(&at);
    }
    if (node->least < 0 || *at != '}') {
        return false;
    }
    if (node->least > RE_MAX_REPEAT || node->most > RE_MAX_REPEAT ||
        (node->most >= 0 && node->most < node->least)) {
        RE_REFUSE(p, INVALID_ARGUMENT, "pattern '%.60s': repeated %d to %d times", p->pattern,
                  node->least, node->most);
    }
    p->at = at + 1;
    return true;
}

static int32_t re_repeated(re_parser *p)
{
    re_node node = {.kind = RE_REPEAT, .a = re_atom(p), .most = -1};
    char c = p->status == KILN_STATUS_OK ? *p->at : '\0';
    if (c == '{') {
        if (!re_counts(p, &node)) {
            return node.a;
        }
    } else if (c == '*' || c == '+' || c == '?') {
        node.least = c == '+' ? 1 : 0;
        node.most = c == '?' ? 1 : -1;
        p->at++;
    } else {
        return node.a;
    }
    p->at += *p->at == '?' ? 1 : 0; // few or many: the whole text matches or does not
    return re_new(p, node);
}

static int32_t re_sequence(re_parser *p)
{
    int32_t all = re_new(p, (re_node){.kind = RE_EMPTY});
    while (p->status == KILN_STATUS_OK && *p->at != '\0' && *p->at != '|' && *p->at != ')') {
        int32_t next = re_repeated(p);
        all = re_new(p, (re_node){.kind = RE_CAT, .a = all, .b = next});
    }
    return all;
}

static int32_t re_alternatives(re_parser *p)
{
    int32_t all = re_sequence(p);
    while (p->status == KILN_STATUS_OK && *p->at == '|') {
        p->at++;
        int32_t next = re_sequence(p);
        all = re_new(p, (re_node){.kind = RE_ALT, .a = all, .b = next});
    }
    return all;
}

// ---- the program ----

static int32_t re_put(re_parser *p, re_code code, int32_t a, int32_t b)
{
    kilni_onnx_regex *r = p->regex;
    if (r->n_steps >= RE_MAX_PROGRAM) {
        RE_REFUSE(p, RESOURCE_EXHAUSTED, "pattern '%.60s' is too large", p->pattern);
    }
    if (!re_grow(p, &r->program, r->n_steps, &r->room_steps, sizeof(*r->program))) {
        return 0;
    }
    r->program[r->n_steps] = (re_step){code, a, b};
    return (int32_t)r->n_steps++;
}

static void re_write(re_parser *p, int32_t place);

/// The two ways of a split are what is written behind it and what comes now.
static void re_aim(re_parser *p, int32_t split)
{
    if (p->status == KILN_STATUS_OK) {
        p->regex->program[split].a = split + 1;
        p->regex->program[split].b = (int32_t)p->regex->n_steps;
    }
}

/// a, then again from the split at its end; or a split around it that may be left out.
static void re_write_repeat(re_parser *p, const re_node *node)
{
    for (int32_t i = 0; i < node->least && p->status == KILN_STATUS_OK; i++) {
        re_write(p, node->a);
    }
    if (node->most < 0) {
        int32_t split = re_put(p, RE_SPLIT, 0, 0);
        re_write(p, node->a);
        (void)re_put(p, RE_JUMP, split, 0);
        re_aim(p, split);
    }
    for (int32_t i = node->least; i < node->most && p->status == KILN_STATUS_OK; i++) {
        int32_t split = re_put(p, RE_SPLIT, 0, 0);
        re_write(p, node->a);
        re_aim(p, split);
    }
}

static void re_write_alternatives(re_parser *p, const re_node *node)
{
    int32_t split = re_put(p, RE_SPLIT, 0, 0);
    re_write(p, node->a);
    int32_t jump = re_put(p, RE_JUMP, 0, 0);
    re_aim(p, split);
    re_write(p, node->b);
    if (p->status == KILN_STATUS_OK) {
        p->regex->program[jump].a = (int32_t)p->regex->n_steps;
    }
}

static void re_write(re_parser *p, int32_t place)
{
    const re_node node = p->regex->nodes[place];
    if (p->status != KILN_STATUS_OK) {
        return;
    }
    switch (node.kind) {
    case RE_EMPTY:
        break;
    case RE_SET:
        (void)re_put(p, RE_LETTER, place, 0);
        break;
    case RE_CAT:
        re_write(p, node.a);
        re_write(p, node.b);
        break;
    case RE_ALT:
        re_write_alternatives(p, &node);
        break;
    case RE_REPEAT:
        re_write_repeat(p, &node);
        break;
    default:
        (void)re_put(p, RE_ASSERT, (int32_t)node.kind, 0);
    }
}

kiln_status kilni_onnx_regex_create(const kiln_env *env, const char *pattern,
                                    kilni_onnx_regex **out_regex, kiln_error *err)
{
    kilni_onnx_regex *regex = kiln_alloc(env, sizeof(*regex));
    *out_regex = NULL;
    if (regex == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a pattern");
    }
    regex->env = *env;
    re_parser p = {.regex = regex, .at = pattern, .pattern = pattern, .err = err};
    if (strlen(pattern) > RE_MAX_LENGTH) {
        RE_REFUSE(&p, RESOURCE_EXHAUSTED, "a pattern of more than %d bytes", RE_MAX_LENGTH);
    }
    int32_t whole = p.status == KILN_STATUS_OK ? re_alternatives(&p) : 0;
    if (p.status == KILN_STATUS_OK && *p.at != '\0') {
        RE_REFUSE(&p, INVALID_ARGUMENT, "pattern '%.60s': ( is missing", pattern);
    }
    if (p.status == KILN_STATUS_OK) {
        re_write(&p, whole);
    }
    (void)re_put(&p, RE_MATCH, 0, 0);
    if (p.status == KILN_STATUS_OK) {
        regex->now.steps = kiln_alloc_array(env, regex->n_steps, sizeof(int32_t));
        regex->next.steps = kiln_alloc_array(env, regex->n_steps, sizeof(int32_t));
        regex->stack = kiln_alloc_array(env, 2 * (size_t)regex->n_steps + 2, sizeof(int32_t));
        regex->seen = kiln_alloc_array(env, regex->n_steps, sizeof(uint32_t));
        if (regex->now.steps == NULL || regex->next.steps == NULL || regex->stack == NULL ||
            regex->seen == NULL) {
            RE_REFUSE(&p, RESOURCE_EXHAUSTED, "no memory for a pattern");
        }
    }
    if (p.status != KILN_STATUS_OK) {
        kilni_onnx_regex_destroy(regex);
        return p.status;
    }
    *out_regex = regex;
    return KILN_STATUS_OK;
}

void kilni_onnx_regex_destroy(kilni_onnx_regex *regex)
{
    if (regex == NULL) {
        return;
    }
    const kiln_env env = regex->env;
    kiln_free(&env, regex->nodes);
    kiln_free(&env, regex->ranges);
    kiln_free(&env, regex->program);
    kiln_free(&env, regex->now.steps);
    kiln_free(&env, regex->next.steps);
    kiln_free(&env, regex->stack);
    kiln_free(&env, regex->seen);
    kiln_free(&env, regex);
}

// ---- going through ----

static bool re_is_word(uint32_t letter)
{
    return (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') || letter == '_' ||
           (letter >= 'a' && letter <= 'z');
}

static bool re_holds(int32_t kind, uint32_t before, uint32_t after)
{
    bool edge = re_is_word(before) != re_is_word(after);
    return kind == RE_BEGIN  ? before == 0
           : kind == RE_END  ? after == 0
           : kind == RE_WORD ? edge
                             : !edge;
}

/// Lists a step and those that follow it without a letter. `mark` is the place in the text.
static void re_follow(kilni_onnx_regex *r, re_ways *ways, int32_t step, uint32_t mark,
                      const uint32_t around[2])
{
    uint32_t depth = 0;
    r->stack[depth++] = step;
    while (depth > 0) {
        step = r->stack[--depth];
        const re_step *s = &r->program[step];
        if (r->seen[step] == mark) {
            continue;
        }
        r->seen[step] = mark;
        if (s->code == RE_JUMP || s->code == RE_SPLIT) {
            r->stack[depth++] = s->a;
        }
        if (s->code == RE_SPLIT) {
            r->stack[depth++] = s->b;
        }
        if (s->code == RE_ASSERT && re_holds(s->a, around[0], around[1])) {
            r->stack[depth++] = step + 1;
        }
        if (s->code == RE_LETTER || s->code == RE_MATCH) {
            ways->steps[ways->count++] = step;
        }
    }
}

static bool re_takes(const kilni_onnx_regex *r, int32_t place, uint32_t letter)
{
    const re_node *node = &r->nodes[place];
    bool found = false;
    for (int32_t i = node->a; i < node->b && !found; i++) {
        found = letter >= r->ranges[i].first && letter <= r->ranges[i].last;
    }
    return found != node->negated;
}

bool kilni_onnx_regex_matches(kilni_onnx_regex *r, const char *text)
{
    const char *at = text;
    uint32_t mark = 1, around[2] = {0, 0};
    memset(r->seen, 0, r->n_steps * sizeof(*r->seen));
    around[1] = *at != '\0' ? kilni_onnx_letter(&at) : 0;
    r->now.count = 0;
    re_follow(r, &r->now, 0, mark, around);
    while (around[1] != 0 && r->now.count > 0) {
        uint32_t letter = around[1];
        around[0] = letter;
        around[1] = *at != '\0' ? kilni_onnx_letter(&at) : 0;
        mark++;
        r->next.count = 0;
        for (uint32_t i = 0; i < r->now.count; i++) {
            const re_step *s = &r->program[r->now.steps[i]];
            if (s->code == RE_LETTER && re_takes(r, s->a, letter)) {
                re_follow(r, &r->next, r->now.steps[i] + 1, mark, around);
            }
        }
        const re_ways spare = r->now;
        r->now = r->next;
        r->next = spare;
    }
    bool matched = false;
    for (uint32_t i = 0; around[1] == 0 && i < r->now.count; i++) {
        matched = matched || r->program[r->now.steps[i]].code == RE_MATCH;
    }
    return matched;
}
