// SPDX-License-Identifier: MIT OR Apache-2.0
// Replayable files: the text of a graph (print.c, parse.c), lines that say how inputs lie in memory
// and which have data, and behind a last line the data. docs/replay.md has the form. Everything is
// hostile when it is read: counts are checked against the file's length before anything is kept.
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_files.h"
#include "graph_internal.h"
#include "ir_quant.h"
#include "ir_replay.h"

enum { MAX_TEXT = 64 << 20, MAX_PATH = 4400 };
static const long long most_bytes = 1ll << 36;

static const char first_line[] = "kiln replay 1\n";
static const char last_line[] = "end\n";

// ---- writing ----

static void write_note(const char *note, kiln_string *out)
{
    bool more = note != NULL && *note != '\0';
    while (more) { // a line may be empty, the last one too
        size_t length = strcspn(note, "\n");
        kiln_string_printf(out, "# %.*s\n", (int)length, note);
        more = note[length] == '\n';
        note += length + 1;
    }
}

static void write_input(const kiln_tensor_desc *desc, const kiln_replay_input *input,
                        kiln_string *out)
{
    if (input->strided) {
        kiln_string_printf(out, "memory %%%" PRIu64 " offset %" PRId64 " strides ", desc->id,
                           input->offset);
        for (unsigned i = 0; i < desc->rank; i++) {
            kiln_string_printf(out, "%s%" PRId64, i > 0 ? "," : "", input->strides[i]);
        }
        kiln_string_append(out, "\n", 1);
    }
    if (input->data != NULL) {
        kiln_string_printf(out, "data %%%" PRIu64 " %zu %016" PRIx64 "\n", desc->id, input->bytes,
                           kiln_hash64(input->data, input->bytes, 0));
    }
}

kiln_status kiln_replay_encode(const kiln_replay *replay, kiln_string *out, kiln_error *err)
{
    if (replay == NULL || out == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "replay and out must not be NULL");
    }
    const kiln_tensor_desc *descs = replay->graph->inputs;
    kiln_string_init(out, replay->env);
    kiln_string_append(out, first_line, strlen(first_line));
    write_note(replay->note, out);
    kiln_status status = kiln_ir_print(replay->graph, out, err);
    for (size_t i = 0; i < replay->n_inputs; i++) {
        write_input(&descs[i], &replay->inputs[i], out);
    }
    kiln_string_append(out, last_line, strlen(last_line));
    for (size_t i = 0; i < replay->n_inputs; i++) {
        if (replay->inputs[i].data != NULL) {
            kiln_string_append(out, replay->inputs[i].data, replay->inputs[i].bytes);
        }
    }
    return status == KILN_STATUS_OK && out->failed
               ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a replay's bytes")
               : status;
}

static kiln_status write_whole(const char *path, const char *bytes, size_t length, kiln_error *err)
{
    char beside[MAX_PATH];
    FILE *file = kilni_base_replace_begin(path, beside, sizeof(beside));
    if (file == NULL) {
        return kiln_fail(err, UNAVAILABLE, "%.160s: %s", path, strerror(errno));
    }
    bool whole = fwrite(bytes, 1, length, file) == length;
    if (!kilni_base_replace_end(file, beside, path, whole)) {
        return kiln_fail(err, UNAVAILABLE, "%.160s: %s", path, strerror(errno));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_replay_write(const kiln_replay *replay, const char *path, kiln_error *err)
{
    if (replay == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "replay must not be NULL");
    }
    kiln_string out;
    kiln_status status = kiln_replay_encode(replay, &out, err);
    if (status == KILN_STATUS_OK) {
        status = write_whole(path, out.text, out.length, err);
    }
    kiln_string_fini(&out);
    return status;
}

// ---- reading ----

typedef struct reader {
    const kiln_env *env;
    const char *bytes;
    size_t length;
    char *text; ///< up to the last line, terminated; lines that are not the graph's are blanked
    size_t text_length;
    kiln_string note;
    kiln_ir_graph *graph;
    kiln_replay_input *inputs;
    kiln_error *err;
} reader;

/// Where the text ends: behind a line that is the last line's text.
static const char *find_end(const reader *r)
{
    const char *at = r->bytes;
    const char *stop = r->bytes + (r->length < MAX_TEXT ? r->length : MAX_TEXT);
    while (at < stop) {
        const char *newline = memchr(at, '\n', (size_t)(stop - at));
        if (newline == NULL) {
            return NULL;
        }
        if ((size_t)(newline + 1 - at) == strlen(last_line) &&
            memcmp(at, last_line, strlen(last_line)) == 0) {
            return at;
        }
        at = newline + 1;
    }
    return NULL;
}

static kiln_status take_text(reader *r)
{
    size_t head = strlen(first_line);
    if (r->length < head || memcmp(r->bytes, first_line, head) != 0) {
        return kiln_fail(r->err, INVALID_ARGUMENT, "line 1: a replayable file begins with \"%.*s\"",
                         (int)head - 1, first_line);
    }
    const char *end = find_end(r);
    if (end == NULL) {
        return kiln_fail(r->err, DATA_LOSS, "the text has no line \"end\"");
    }
    r->text_length = (size_t)(end - r->bytes);
    if (memchr(r->bytes, '\0', r->text_length) != NULL) {
        return kiln_fail(r->err, INVALID_ARGUMENT, "the text has a zero byte");
    }
    r->text = kiln_alloc(r->env, r->text_length + 1);
    if (r->text == NULL) {
        return kiln_fail(r->err, RESOURCE_EXHAUSTED, "no memory for a replay's text");
    }
    memcpy(r->text, r->bytes, r->text_length);
    return KILN_STATUS_OK;
}

/// The comment before the first line that is none.
static void take_note(reader *r)
{
    const char *at = r->text + strlen(first_line);
    for (bool first = true; *at == '#'; first = false) {
        size_t length = strcspn(at, "\n");
        size_t skip = at[1] == ' ' ? 2 : 1;
        skip = skip < length ? skip : length;
        kiln_string_printf(&r->note, "%s%.*s", first ? "" : "\n", (int)(length - skip), at + skip);
        at += length + (at[length] == '\n');
    }
}

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

static bool is_ours(const char *line)
{
    return begins(line, "memory ") || begins(line, "data ");
}

/// The graph's lines alone, the others empty, so that an error names the file's line.
static kiln_status parse_graph(reader *r)
{
    char *copy = kiln_alloc(r->env, r->text_length + 1);
    if (copy == NULL) {
        return kiln_fail(r->err, RESOURCE_EXHAUSTED, "no memory for a replay's text");
    }
    memcpy(copy, r->text, r->text_length);
    memset(copy, ' ', strlen(first_line) - 1);
    for (char *line = copy; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (is_ours(line)) {
            memset(line, ' ', length);
        }
        line += length + (line[length] == '\n');
    }
    kiln_status status = kiln_ir_parse(r->env, copy, &r->graph, r->err);
    kiln_free(r->env, copy);
    return status;
}

/// A decimal number behind spaces; false when there is none.
static bool take_number(const char **at, long long low, long long high, long long *out_value)
{
    char *end = NULL;
    while (**at == ' ') {
        (*at)++;
    }
    const char *digit = *at + (**at == '-');
    if (*digit < '0' || *digit > '9') {
        return false;
    }
    errno = 0;
    *out_value = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0 && *out_value >= low && *out_value <= high;
}

static bool take_word(const char **at, const char *word)
{
    while (**at == ' ') {
        (*at)++;
    }
    if (!begins(*at, word)) {
        return false;
    }
    *at += strlen(word);
    return true;
}

static bool at_end(const char *at)
{
    at += strspn(at, " \t\r");
    return *at == '\n' || *at == '\0';
}

static bool read_memory(const char *at, const kiln_tensor_desc *desc, kiln_replay_input *input)
{
    long long value = 0;
    if (input->strided || !take_word(&at, "offset") || !take_number(&at, 0, INT64_MAX, &value) ||
        !take_word(&at, "strides")) {
        return false;
    }
    input->strided = true;
    input->offset = value;
    for (unsigned i = 0; i < desc->rank; i++) {
        if ((i > 0 && !take_word(&at, ",")) || !take_number(&at, INT64_MIN, INT64_MAX, &value)) {
            return false;
        }
        input->strides[i] = value;
    }
    return at_end(at);
}

static bool read_data(const char *at, kiln_replay_input *input, uint64_t *out_sum)
{
    long long value = 0;
    char *end = NULL;
    if (input->bytes != SIZE_MAX || !take_number(&at, 0, most_bytes, &value)) {
        return false;
    }
    while (*at == ' ') {
        at++;
    }
    if (strspn(at, "0123456789abcdef") != 16) {
        return false;
    }
    *out_sum = strtoull(at, &end, 16);
    input->bytes = (size_t)value;
    return at_end(end);
}

static size_t input_of(const reader *r, long long id)
{
    for (size_t i = 0; i < r->graph->n_inputs; i++) {
        if (r->graph->inputs[i].id == (uint64_t)id) {
            return i;
        }
    }
    return SIZE_MAX;
}

/// A `memory` or `data` line; data lie behind the text in the order of the inputs.
static kiln_status read_line(reader *r, const char *line, uint64_t *sums)
{
    bool memory = begins(line, "memory ");
    const char *at = line + (memory ? 7 : 5);
    long long id = 0;
    size_t i =
        take_word(&at, "%") && take_number(&at, 1, INT64_MAX, &id) ? input_of(r, id) : SIZE_MAX;
    if (i == SIZE_MAX) {
        return kiln_fail(r->err, INVALID_ARGUMENT, "\"%.*s\" names no input",
                         (int)strcspn(line, "\n") > 40 ? 40 : (int)strcspn(line, "\n"), line);
    }
    bool ok = memory ? read_memory(at, &r->graph->inputs[i], &r->inputs[i])
                     : read_data(at, &r->inputs[i], &sums[i]);
    return ok ? KILN_STATUS_OK
              : kiln_fail(r->err, INVALID_ARGUMENT, "input %%%lld: its %s line is malformed", id,
                          memory ? "memory" : "data");
}

static kiln_status read_lines(reader *r, uint64_t *sums)
{
    unsigned number = 1;
    for (const char *line = r->text; *line != '\0'; number++) {
        if (is_ours(line)) {
            kiln_status status = read_line(r, line, sums);
            if (status != KILN_STATUS_OK) {
                (void)kiln_error_context(r->err, "line %u", number);
                return status;
            }
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return KILN_STATUS_OK;
}

static kiln_status read_elements(reader *r, const uint64_t *sums)
{
    size_t at = r->text_length + strlen(last_line);
    for (size_t i = 0; i < r->graph->n_inputs; i++) {
        kiln_replay_input *input = &r->inputs[i];
        uint64_t id = r->graph->inputs[i].id;
        if (input->bytes == SIZE_MAX) {
            input->bytes = 0;
            continue;
        }
        if (input->bytes > r->length - at) {
            return kiln_fail(r->err, DATA_LOSS, "input %%%" PRIu64 ": %zu of %zu bytes are there",
                             id, r->length - at, input->bytes);
        }
        input->data = r->bytes + at;
        at += input->bytes;
        if (kiln_hash64(input->data, input->bytes, 0) != sums[i]) {
            return kiln_fail(r->err, DATA_LOSS, "input %%%" PRIu64 ": its data are damaged", id);
        }
    }
    return at == r->length
               ? KILN_STATUS_OK
               : kiln_fail(r->err, DATA_LOSS, "%zu bytes stand behind the data", r->length - at);
}

static kiln_status read_inputs(reader *r)
{
    size_t count = r->graph->n_inputs;
    uint64_t *sums = kiln_alloc_array(r->env, count + 1, sizeof(*sums));
    r->inputs = kiln_alloc_array(r->env, count + 1, sizeof(*r->inputs));
    kiln_status status = sums != NULL && r->inputs != NULL
                             ? KILN_STATUS_OK
                             : kiln_fail(r->err, RESOURCE_EXHAUSTED, "no memory for a replay");
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        r->inputs[i].bytes = SIZE_MAX; // no data line yet
    }
    if (status == KILN_STATUS_OK) {
        status = read_lines(r, sums);
    }
    if (status == KILN_STATUS_OK) {
        status = read_elements(r, sums);
    }
    kiln_free(r->env, sums);
    return status;
}

kiln_status kiln_replay_decode(const kiln_env *env, const void *bytes, size_t length,
                               kiln_replay **out_replay, kiln_error *err)
{
    if (out_replay == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_replay must not be NULL");
    }
    reader r = {.env = env, .bytes = bytes, .length = length, .err = err};
    kiln_status status = KILN_STATUS_OK;
    *out_replay = NULL;
    kiln_string_init(&r.note, env);
    KILN_TRY(out, status, take_text(&r));
    take_note(&r);
    KILN_TRY(out, status, parse_graph(&r));
    KILN_TRY(out, status, read_inputs(&r));
    status = kiln_replay_create(env, r.graph, r.inputs, r.note.text, out_replay, err);
    r.graph = NULL;
out:
    kiln_ir_graph_destroy(r.graph);
    kiln_free(env, r.inputs);
    kiln_free(env, r.text);
    kiln_string_fini(&r.note);
    return status;
}

kiln_status kiln_replay_read(const kiln_env *env, const char *path, kiln_replay **out_replay,
                             kiln_error *err)
{
    if (out_replay == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_replay must not be NULL");
    }
    *out_replay = NULL;
    if (env == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env and path must not be NULL");
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "%.160s: %s", path, strerror(errno));
    }
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    void *bytes = size < 0 || size > most_bytes || fseek(file, 0, SEEK_SET) != 0
                      ? NULL
                      : kiln_alloc(env, (size_t)size + 1);
    kiln_status status = KILN_STATUS_OK;
    if (bytes == NULL) {
        status = size < 0 ? kiln_fail(err, UNAVAILABLE, "%.160s cannot be read", path)
                          : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to read %.160s", path);
    } else {
        size_t got = fread(bytes, 1, (size_t)size, file);
        status = kiln_replay_decode(env, bytes, got, out_replay, err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "%.80s", path);
        }
    }
    kiln_free(env, bytes);
    (void)fclose(file);
    return status;
}
