// SPDX-License-Identifier: MIT OR Apache-2.0
// Several programs as one, for devices that are programmed with one bitstream. Each text stays as
// it is, with its conditions on the compiler's macros; what it and its options define is a macro
// only there, and what it declares gets a name of its own by a macro. Decides which names a text
// declares by looking at its tokens, not by parsing: whoever makes a bundle runs it afterwards.

#include "bundle_maker.h"
#include "bundle_tokens.h"

#include <stdio.h>
#include <string.h>

enum { WORD_ROOM = 128 };

typedef struct word_list { ///< a set
    const char **words;
    uint32_t count;
    uint32_t capacity;
} word_list;

typedef struct merge_text { ///< a program on its way into a merged one
    kiln_bundle_maker *maker;
    bundle_tokens tokens; ///< of its text
    word_list macros; ///< that the text and its options define
    word_list names; ///< that the text declares
    bool failed; ///< no memory
} merge_text;

// ---- sets of words ----

static bool has_word(const word_list *list, const char *word, size_t length)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (strlen(list->words[i]) == length && memcmp(list->words[i], word, length) == 0) {
            return true;
        }
    }
    return false;
}

static void add_word(merge_text *merge, word_list *list, const char *word, size_t length)
{
    if (length == 0 || has_word(list, word, length)) {
        return;
    }
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity * 2 + 32;
        const char **grown =
            kiln_arena_alloc(&merge->maker->arena, capacity * sizeof(*list->words));
        if (grown == NULL) {
            merge->failed = true;
            return;
        }
        for (uint32_t i = 0; i < list->count; i++) {
            grown[i] = list->words[i];
        }
        list->words = grown;
        list->capacity = capacity;
    }
    char *copy = kiln_arena_alloc(&merge->maker->arena, length + 1);
    if (copy == NULL) {
        merge->failed = true;
        return;
    }
    memcpy(copy, word, length);
    list->words[list->count++] = copy;
}

static void note_macro(const bundle_token *name, void *user)
{
    merge_text *merge = user;
    add_word(merge, &merge->macros, name->text, name->length);
}

// ---- names ----

/// Words of the language, which a macro's argument may be.
static bool is_reserved(const bundle_token *token)
{
    static const char *const words[] = {"void",   "char",   "short", "int",    "long",  "uchar",
                                        "ushort", "uint",   "ulong", "float",  "half",  "double",
                                        "bool",   "size_t", "const", "global", "local", "private"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t length = strlen(words[i]);
        if (token->length >= length && memcmp(token->text, words[i], length) == 0) {
            const char *rest = token->text + length; // float16
            size_t digits = strspn(rest, "0123456789");
            if (length + digits == token->length) {
                return true;
            }
        }
    }
    return token->length > 2 && memcmp(token->text, "__", 2) == 0;
}

static void declare(merge_text *merge, const bundle_token *token)
{
    if (kilni_bundle_is_word(token) && !is_reserved(token)) {
        add_word(merge, &merge->names, token->text, token->length);
    }
}

typedef struct name_finder { ///< where in the text
    bundle_token before; ///< the last token
    uint32_t braces;
    uint32_t parens;
    bool in_value; ///< behind the = of a declaration
    bool in_enum; ///< in its braces
    bool begins_enum;
    bool in_macro; ///< in the arguments of a macro outside of functions
} name_finder;

/// What a declaration outside of functions names: it stands behind a type, an attribute of it, or
/// another name, and ends there or goes on with a value, a length or an attribute.
static bool is_declared(const name_finder *finder, const bundle_token *after)
{
    const bundle_token *before = &finder->before;
    bool begins = kilni_bundle_is_word(before) ||
                  (before->length == 1 && strchr("*}),", before->text[0]) != NULL);
    bool ends = kilni_bundle_is_text(after, "__attribute__") ||
                (after->length == 1 && strchr(";=[,", after->text[0]) != NULL);
    return begins && ends && !finder->in_value;
}

/// A word, once it is known what comes behind it.
static void see_word(merge_text *merge, name_finder *finder, const bundle_token *word,
                     const bundle_token *after)
{
    bool outside = finder->braces == 0 && finder->parens == 0;
    bool tagged = kilni_bundle_is_text(&finder->before, "struct") ||
                  kilni_bundle_is_text(&finder->before, "union") ||
                  kilni_bundle_is_text(&finder->before, "enum");
    finder->begins_enum = finder->begins_enum || kilni_bundle_is_text(word, "enum");
    if (finder->in_macro || tagged ||
        (finder->in_enum && (kilni_bundle_is_char(&finder->before, '{') ||
                             kilni_bundle_is_char(&finder->before, ',')))) {
        declare(merge, word);
    } else if (outside && !finder->in_value && kilni_bundle_is_char(after, '(')) {
        // A macro behind `void` is a function's name (bundle_single.c); its list is no macro's.
        finder->in_macro = has_word(&merge->macros, word->text, word->length) &&
                           !kilni_bundle_is_text(&finder->before, "void");
        declare(merge, word);
    } else if (outside && is_declared(finder, after)) {
        declare(merge, word);
    }
}

static void see_char(name_finder *finder, const bundle_token *token)
{
    if (kilni_bundle_is_char(token, '{')) {
        finder->in_enum = finder->braces == 0 && finder->begins_enum;
        finder->braces++;
    } else if (kilni_bundle_is_char(token, '}')) {
        finder->braces -= finder->braces > 0;
        finder->in_enum = false;
    } else if (kilni_bundle_is_char(token, '(')) {
        finder->parens++;
    } else if (kilni_bundle_is_char(token, ')')) {
        finder->parens -= finder->parens > 0;
        finder->in_macro = finder->in_macro && finder->parens > 0;
    }
    if (finder->braces == 0 && finder->parens == 0 && token->length == 1) {
        finder->in_value =
            token->text[0] == '=' || (finder->in_value && strchr(";,", token->text[0]) == NULL);
    }
    if (kilni_bundle_is_char(token, ';') || kilni_bundle_is_char(token, '{')) {
        finder->begins_enum = false;
    }
}

static void find_names(merge_text *merge)
{
    name_finder finder = {.before = {0}};
    bundle_token token = kilni_bundle_token(&merge->tokens);
    while (token.length > 0) {
        bundle_token after = kilni_bundle_token(&merge->tokens);
        if (kilni_bundle_is_word(&token)) {
            see_word(merge, &finder, &token, &after);
        } else {
            see_char(&finder, &token);
        }
        finder.before = token;
        token = after;
    }
}

// ---- options ----

/// Definitions go into the text, the rest is what the compiler gets.
static void split_options(merge_text *merge, const char *options, kiln_string *defines,
                          kiln_string *rest)
{
    for (const char *at = options + strspn(options, " "); *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (strncmp(at, "-D", 2) == 0) {
            size_t name = strcspn(at + 2, "= ");
            bool valued = at[2 + name] == '=';
            size_t value = valued ? 3 + name : length;
            kiln_string_printf(defines, "#define %.*s %.*s\n", (int)name, at + 2,
                               valued ? (int)(length - value) : 1, valued ? at + value : "1");
            add_word(merge, &merge->macros, at + 2, name);
        } else {
            kiln_string_printf(rest, "%s%.*s", rest->length > 0 ? " " : "", (int)length, at);
        }
        at += length;
    }
}

// ---- merged programs ----

static void write_merged(merge_text *merge, uint32_t number, const bundle_program *from,
                         const kiln_string *defines, kiln_string *out)
{
    kiln_string_printf(out, "// ---- %s ----\n#pragma OPENCL FP_CONTRACT ON\n", from->file);
    kiln_string_append(out, defines->text != NULL ? defines->text : "", defines->length);
    for (uint32_t i = 0; i < merge->names.count; i++) {
        const char *name = merge->names.words[i];
        if (!has_word(&merge->macros, name, strlen(name))) {
            kiln_string_printf(out, "#define %s %s__p%u\n", name, name, number);
        }
    }
    kiln_string_append(out, merge->tokens.text, merge->tokens.length);
    kiln_string_printf(out, "\n");
    for (uint32_t i = 0; i < merge->macros.count; i++) {
        kiln_string_printf(out, "#undef %s\n", merge->macros.words[i]);
    }
    for (uint32_t i = 0; i < merge->names.count; i++) {
        kiln_string_printf(out, "#undef %s\n", merge->names.words[i]);
    }
}

typedef struct merged_program {
    kiln_string text;
    kiln_string options;
    bool exact;
    bundle_kernel *kernels;
    uint32_t n_kernels;
} merged_program;

typedef struct merged_list {
    merged_program *programs;
    uint32_t count;
    uint32_t *into; ///< of each program: its merged one
    uint32_t *first_kernel; ///< and where its kernels begin there
} merged_list;

static merged_program *find_merged(merged_list *list, const kiln_env *env, const char *options,
                                   bool exact)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->programs[i].exact == exact &&
            strcmp(list->programs[i].options.text, options) == 0) {
            return &list->programs[i];
        }
    }
    merged_program *made = &list->programs[list->count++];
    kiln_string_init(&made->text, env);
    kiln_string_init(&made->options, env);
    kiln_string_append(&made->options, options, strlen(options));
    made->exact = exact;
    return made;
}

static bool merge_kernels(kiln_bundle_maker *maker, uint32_t number, const bundle_program *from,
                          merged_program *into)
{
    if (into->kernels == NULL) {
        into->kernels = kiln_arena_alloc(&maker->arena, BUNDLE_PROGRAMS * sizeof(bundle_kernel));
    }
    for (uint32_t i = 0; into->kernels != NULL && i < from->n_kernels; i++) {
        char name[WORD_ROOM + 16];
        if (into->n_kernels == BUNDLE_PROGRAMS) {
            return false;
        }
        (void)snprintf(name, sizeof(name), "%.*s__p%u", WORD_ROOM, from->kernels[i].name, number);
        into->kernels[into->n_kernels++] =
            (bundle_kernel){.name = kiln_arena_copy(&maker->arena, name, strlen(name) + 1),
                            .n_args = from->kernels[i].n_args};
    }
    return into->kernels != NULL;
}

static kiln_status merge_program(kiln_bundle_maker *maker, uint32_t number, merged_list *list,
                                 kiln_error *err)
{
    const bundle_program *from = &maker->manifest.programs[number];
    merge_text merge = {.maker = maker};
    merge.tokens = (bundle_tokens){
        .text = from->text, .length = strlen(from->text), .defined = note_macro, .user = &merge};
    kiln_string defines;
    kiln_string rest;
    kiln_string_init(&defines, maker->env);
    kiln_string_init(&rest, maker->env);
    kiln_string_append(&rest, "", 0);
    split_options(&merge, from->options, &defines, &rest);
    for (uint32_t i = 0; i < from->n_kernels; i++) { // which a macro may name
        add_word(&merge, &merge.names, from->kernels[i].name, strlen(from->kernels[i].name));
    }
    find_names(&merge);
    merged_program *into =
        rest.failed || defines.failed
            ? NULL
            : find_merged(list, maker->env, rest.text != NULL ? rest.text : "", from->exact);
    bool merged = into != NULL && !merge.failed;
    if (merged) {
        list->into[number] = (uint32_t)(into - list->programs);
        list->first_kernel[number] = into->n_kernels;
        write_merged(&merge, number, from, &defines, &into->text);
        merged = merge_kernels(maker, number, from, into) && !into->text.failed;
    }
    kiln_string_fini(&defines);
    kiln_string_fini(&rest);
    return merged ? KILN_STATUS_OK
                  : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a merged program");
}

// ---- in place of the programs ----

static void move_steps(bundle_manifest *manifest, const merged_list *list)
{
    for (uint32_t s = 0; s < manifest->n_shapes; s++) {
        for (uint32_t i = 0; i < manifest->shapes[s].n_steps; i++) {
            bundle_step *step = &manifest->shapes[s].steps[i];
            if (!step->is_copy) {
                step->kernel += list->first_kernel[step->program];
                step->program = list->into[step->program];
            }
        }
    }
}

static kiln_status replace_programs(kiln_bundle_maker *maker, const merged_list *list,
                                    kiln_error *err)
{
    bundle_manifest *manifest = &maker->manifest;
    kiln_status status = KILN_STATUS_OK;
    move_steps(manifest, list);
    manifest->n_programs = 0;
    for (uint32_t i = 0; i < list->count && status == KILN_STATUS_OK; i++) {
        const merged_program *from = &list->programs[i];
        const bundle_program program = {
            .text = from->text.text, .options = from->options.text, .exact = from->exact};
        uint32_t index = 0;
        status = kilni_bundle_program_add(maker, &program, "merged", &index, err);
        if (status == KILN_STATUS_OK) {
            manifest->programs[index].kernels = from->kernels;
            manifest->programs[index].n_kernels = from->n_kernels;
        }
    }
    return status;
}

kiln_status kiln_bundle_maker_merge(kiln_bundle_maker *maker, kiln_error *err)
{
    if (maker == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "maker must not be NULL");
    }
    uint32_t count = maker->manifest.n_programs;
    merged_list list = {
        .programs = kiln_arena_alloc(&maker->arena, (count + 1) * sizeof(*list.programs)),
        .into = kiln_arena_alloc(&maker->arena, (count + 1) * sizeof(*list.into)),
        .first_kernel = kiln_arena_alloc(&maker->arena, (count + 1) * sizeof(*list.first_kernel))};
    if (list.programs == NULL || list.into == NULL || list.first_kernel == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a merged program");
    }
    kiln_status status = kilni_bundle_stage(maker, BUNDLE_STAGE_MERGE, err);
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = merge_program(maker, i, &list, err);
    }
    if (status == KILN_STATUS_OK) {
        status = replace_programs(maker, &list, err);
    }
    for (uint32_t i = 0; i < list.count; i++) {
        kiln_string_fini(&list.programs[i].text);
        kiln_string_fini(&list.programs[i].options);
    }
    return status;
}
