// SPDX-License-Identifier: MIT OR Apache-2.0
// manifest.json, read. Decides which numbers are possible: after it no index leaves its list, and
// no copy its buffer. What is in the files that it names is for others.

#include "bundle_manifest.h"

#include <stdio.h>
#include <string.h>

#include "bundle_json.h"
#include "ir_program.h"

typedef struct manifest_reader {
    bundle_json_reader json;
    kiln_arena *arena;
    bundle_manifest *manifest;
    bool no_memory;
} manifest_reader;

static void *take_memory(manifest_reader *reader, size_t count, size_t each)
{
    void *memory = kiln_arena_alloc(reader->arena, (count + 1) * each);
    if (memory == NULL) {
        reader->no_memory = true;
        kilni_bundle_json_wrong(&reader->json, "no memory");
    }
    return memory;
}

/// The items of a list; none when something is wrong. The count has a limit, so that no sum of
/// counts overflows.
static const bundle_json *list_of(manifest_reader *reader, const bundle_json *object,
                                  const char *name, uint32_t *out_count)
{
    const bundle_json *list = kilni_bundle_json_get(&reader->json, object, name, BUNDLE_JSON_LIST);
    *out_count = list != NULL ? list->count : 0;
    if (*out_count > BUNDLE_MOST) {
        kilni_bundle_json_wrong(&reader->json, "a list is too long");
        *out_count = 0;
    }
    return *out_count > 0 ? list->first : NULL;
}

static uint64_t number_of(manifest_reader *reader, const bundle_json *object, const char *name,
                          uint64_t most)
{
    return kilni_bundle_json_number(&reader->json, object, name, most);
}

/// An index below `count`.
static uint32_t index_of(manifest_reader *reader, const bundle_json *object, const char *name,
                         uint32_t count)
{
    if (count == 0) {
        kilni_bundle_json_wrong(&reader->json, "an index into an empty list");
        return 0;
    }
    return (uint32_t)number_of(reader, object, name, count - 1);
}

static uint32_t numbers_of(manifest_reader *reader, const bundle_json *object, const char *name,
                           uint64_t *out, uint32_t most)
{
    uint32_t count = 0;
    const bundle_json *item = list_of(reader, object, name, &count);
    for (uint32_t i = 0; i < count && i < most; i++, item = item->next) {
        out[i] = item->number;
        if (item->kind != BUNDLE_JSON_NUMBER) {
            kilni_bundle_json_wrong(&reader->json, "something else in a list of numbers");
        }
    }
    if (count > most) {
        kilni_bundle_json_wrong(&reader->json, "a list of numbers is too long");
    }
    return count < most ? count : most;
}

// ---- programs ----

static void read_kernels(manifest_reader *reader, const bundle_json *object,
                         bundle_program *program)
{
    const bundle_json *item = list_of(reader, object, "kernels", &program->n_kernels);
    program->kernels = take_memory(reader, program->n_kernels, sizeof(*program->kernels));
    for (uint32_t i = 0; program->kernels != NULL && i < program->n_kernels;
         i++, item = item->next) {
        program->kernels[i] = (bundle_kernel){
            .name = kilni_bundle_json_text(&reader->json, item, "name"),
            .n_args = (uint32_t)number_of(reader, item, "args", KILN_LAUNCH_ARGS_MAX)};
    }
}

static void read_programs(manifest_reader *reader, const bundle_json *root)
{
    bundle_manifest *manifest = reader->manifest;
    const bundle_json *item = list_of(reader, root, "programs", &manifest->n_programs);
    manifest->programs = take_memory(reader, manifest->n_programs, sizeof(*manifest->programs));
    for (uint32_t i = 0; manifest->programs != NULL && i < manifest->n_programs;
         i++, item = item->next) {
        bundle_program *program = &manifest->programs[i];
        program->file = kilni_bundle_json_text(&reader->json, item, "source");
        program->options = kilni_bundle_json_text(&reader->json, item, "options");
        program->key = kilni_bundle_json_text(&reader->json, item, "key");
        const bundle_json *exact =
            kilni_bundle_json_get(&reader->json, item, "exact", BUNDLE_JSON_BOOL);
        program->exact = exact != NULL && exact->number != 0;
        read_kernels(reader, item, program);
    }
}

// ---- buffers and values ----

static void read_buffers(manifest_reader *reader, const bundle_json *object, bundle_shapes *shapes)
{
    static const char *const kinds[] = {"", "input", "constant", "scratch"};
    const bundle_json *item = list_of(reader, object, "buffers", &shapes->n_buffers);
    shapes->buffers = take_memory(reader, shapes->n_buffers, sizeof(*shapes->buffers));
    for (uint32_t i = 0; shapes->buffers != NULL && i < shapes->n_buffers; i++, item = item->next) {
        bundle_buffer *buffer = &shapes->buffers[i];
        const char *kind = kilni_bundle_json_text(&reader->json, item, "kind");
        for (uint32_t k = BUNDLE_BUFFER_INPUT; k <= BUNDLE_BUFFER_SCRATCH; k++) {
            buffer->kind = strcmp(kind, kinds[k]) == 0 ? (bundle_buffer_kind)k : buffer->kind;
        }
        if (buffer->kind == 0) {
            kilni_bundle_json_wrong(&reader->json, "a buffer of no known kind");
        }
        buffer->bytes = number_of(reader, item, "bytes", INT64_MAX / 4);
        if (buffer->kind == BUNDLE_BUFFER_CONSTANT) {
            buffer->offset = number_of(reader, item, "offset", INT64_MAX / 4);
        }
        if (reader->manifest->n_banks > 0) {
            buffer->bank = index_of(reader, item, "bank", reader->manifest->n_banks);
        }
    }
}

uint64_t kilni_bundle_value_bytes(const kiln_bundle_value *value)
{
    uint64_t bytes = kiln_dtype_size(value->dtype);
    for (uint32_t i = 0; i < value->rank; i++) {
        uint64_t length = (uint64_t)value->dims[i];
        if (length != 0 && bytes > (uint64_t)INT64_MAX / 4 / length) {
            return UINT64_MAX;
        }
        bytes *= length;
    }
    return bytes;
}

static bundle_value *read_values(manifest_reader *reader, const bundle_json *object,
                                 const char *name, const bundle_shapes *shapes, uint32_t *out_count)
{
    const bundle_json *item = list_of(reader, object, name, out_count);
    bundle_value *values = take_memory(reader, *out_count, sizeof(*values));
    for (uint32_t i = 0; values != NULL && i < *out_count; i++, item = item->next) {
        bundle_value *value = &values[i];
        uint64_t dims[KILN_MAX_RANK] = {0};
        value->shown.name = kilni_bundle_json_text(&reader->json, item, "name");
        value->shown.dtype =
            kiln_dtype_from_name(kilni_bundle_json_text(&reader->json, item, "dtype"));
        value->shown.rank = numbers_of(reader, item, "dims", dims, KILN_MAX_RANK);
        memcpy(value->shown.dims, dims, sizeof(dims));
        value->buffer = index_of(reader, item, "buffer", shapes->n_buffers);
        value->offset = number_of(reader, item, "offset", INT64_MAX / 4);
        uint64_t bytes = kilni_bundle_value_bytes(&value->shown);
        uint64_t room = shapes->n_buffers > 0 ? shapes->buffers[value->buffer].bytes : 0;
        if (kiln_dtype_size(value->shown.dtype) == 0 || value->offset > room ||
            bytes > room - value->offset) {
            kilni_bundle_json_wrong(&reader->json, "an input or output does not fit its buffer");
        }
    }
    return values;
}

// ---- steps ----

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void read_hex(manifest_reader *reader, const char *text, bundle_arg *arg)
{
    size_t length = strlen(text) / 2;
    unsigned char *bytes = take_memory(reader, length, 1);
    for (size_t i = 0; bytes != NULL && i < length; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            kilni_bundle_json_wrong(&reader->json, "an argument is no hexadecimal number");
            break;
        }
        bytes[i] = (unsigned char)(high * 16 + low);
    }
    if (length == 0 || strlen(text) % 2 != 0 || length > UINT16_MAX) {
        kilni_bundle_json_wrong(&reader->json, "an argument is no value of whole bytes");
    }
    *arg = (bundle_arg){.kind = BUNDLE_ARG_BYTES, .length = length, .bytes = bytes};
}

static void read_arg(manifest_reader *reader, const bundle_json *item, const bundle_shapes *shapes,
                     bundle_arg *arg)
{
    const bundle_json *buffer = kilni_bundle_json_find(item, "buffer");
    if (kilni_bundle_json_find(item, "bytes") != NULL) {
        read_hex(reader, kilni_bundle_json_text(&reader->json, item, "bytes"), arg);
    } else if (kilni_bundle_json_find(item, "local") != NULL) {
        *arg = (bundle_arg){.kind = BUNDLE_ARG_LOCAL,
                            .length = number_of(reader, item, "local", UINT32_MAX)};
    } else {
        *arg = (bundle_arg){.kind = BUNDLE_ARG_BUFFER, .buffer = UINT32_MAX};
        if (buffer == NULL || buffer->kind != BUNDLE_JSON_NULL) {
            arg->buffer = index_of(reader, item, "buffer", shapes->n_buffers);
        }
    }
}

static void read_launch(manifest_reader *reader, const bundle_json *item,
                        const bundle_shapes *shapes, bundle_step *step)
{
    const bundle_manifest *manifest = reader->manifest;
    step->program = index_of(reader, item, "program", manifest->n_programs);
    const bundle_program *program =
        manifest->n_programs > 0 ? &manifest->programs[step->program] : NULL;
    step->kernel = index_of(reader, item, "kernel", program != NULL ? program->n_kernels : 0);
    step->n_dims = numbers_of(reader, item, "global", step->global, 3);
    uint32_t n_local = numbers_of(reader, item, "local", step->local, 3);
    const bundle_json *arg = list_of(reader, item, "args", &step->n_args);
    step->args = take_memory(reader, step->n_args, sizeof(*step->args));
    if (step->args == NULL || reader->json.wrong[0] != '\0' || program == NULL) {
        return;
    }
    if (step->n_dims == 0 || (n_local != 0 && n_local != step->n_dims) ||
        step->n_args != program->kernels[step->kernel].n_args) {
        kilni_bundle_json_wrong(&reader->json, "a launch contradicts itself");
    }
    for (uint32_t i = 0; i < step->n_dims; i++) {
        if (step->global[i] == 0 ||
            (n_local != 0 && (step->local[i] == 0 || step->global[i] % step->local[i] != 0))) {
            kilni_bundle_json_wrong(&reader->json, "a launch has impossible sizes");
        }
    }
    for (uint32_t i = 0; i < step->n_args; i++, arg = arg->next) {
        read_arg(reader, arg, shapes, &step->args[i]);
    }
}

static bool fits(const bundle_shapes *shapes, uint32_t buffer, uint64_t offset, uint64_t bytes)
{
    return buffer < shapes->n_buffers && offset <= shapes->buffers[buffer].bytes &&
           bytes <= shapes->buffers[buffer].bytes - offset;
}

static void read_copy(manifest_reader *reader, const bundle_json *copy, const bundle_shapes *shapes,
                      bundle_step *step)
{
    step->is_copy = true;
    step->source = index_of(reader, copy, "from", shapes->n_buffers);
    step->target = index_of(reader, copy, "to", shapes->n_buffers);
    step->source_offset = number_of(reader, copy, "from_offset", INT64_MAX / 4);
    step->target_offset = number_of(reader, copy, "to_offset", INT64_MAX / 4);
    step->bytes = number_of(reader, copy, "bytes", INT64_MAX / 4);
    if (!fits(shapes, step->source, step->source_offset, step->bytes) ||
        !fits(shapes, step->target, step->target_offset, step->bytes)) {
        kilni_bundle_json_wrong(&reader->json, "a copy leaves its buffers");
    }
}

static void read_steps(manifest_reader *reader, const bundle_json *object, bundle_shapes *shapes)
{
    const bundle_json *item = list_of(reader, object, "steps", &shapes->n_steps);
    shapes->steps = take_memory(reader, shapes->n_steps, sizeof(*shapes->steps));
    for (uint32_t i = 0;
         shapes->steps != NULL && i < shapes->n_steps && reader->json.wrong[0] == '\0';
         i++, item = item->next) {
        const bundle_json *copy = kilni_bundle_json_find(item, "copy");
        if (copy != NULL) {
            read_copy(reader, copy, shapes, &shapes->steps[i]);
        } else {
            read_launch(reader, item, shapes, &shapes->steps[i]);
        }
    }
}

uint32_t kilni_bundle_reprograms(const bundle_shapes *shapes)
{
    uint32_t changes = 0;
    uint32_t now = UINT32_MAX;
    for (uint32_t i = 0; i < shapes->n_steps; i++) {
        const bundle_step *step = &shapes->steps[i];
        if (!step->is_copy && step->program != now) {
            changes += now != UINT32_MAX;
            now = step->program;
        }
    }
    return changes;
}

/// For people and for who plans with the file: it has to be what the steps do.
static void read_reprograms(manifest_reader *reader, const bundle_json *object,
                            const bundle_shapes *shapes)
{
    if (kilni_bundle_json_find(object, "reprograms") != NULL &&
        number_of(reader, object, "reprograms", UINT32_MAX) != kilni_bundle_reprograms(shapes)) {
        kilni_bundle_json_wrong(&reader->json, "reprograms is not what the steps do");
    }
}

// ---- the whole ----

static void read_shapes(manifest_reader *reader, const bundle_json *root)
{
    bundle_manifest *manifest = reader->manifest;
    const bundle_json *item = list_of(reader, root, "shapes", &manifest->n_shapes);
    manifest->shapes = take_memory(reader, manifest->n_shapes, sizeof(*manifest->shapes));
    for (uint32_t i = 0; manifest->shapes != NULL && i < manifest->n_shapes;
         i++, item = item->next) {
        bundle_shapes *shapes = &manifest->shapes[i];
        uint32_t n_inputs = 0;
        uint32_t n_outputs = 0;
        read_buffers(reader, item, shapes);
        if (reader->json.wrong[0] != '\0') {
            return;
        }
        shapes->inputs = read_values(reader, item, "inputs", shapes, &n_inputs);
        shapes->outputs = read_values(reader, item, "outputs", shapes, &n_outputs);
        read_steps(reader, item, shapes);
        if (reader->json.wrong[0] == '\0') {
            read_reprograms(reader, item, shapes);
        }
        if (i > 0 && (n_inputs != manifest->n_inputs || n_outputs != manifest->n_outputs)) {
            kilni_bundle_json_wrong(&reader->json, "sets of shapes have different inputs");
        }
        manifest->n_inputs = n_inputs;
        manifest->n_outputs = n_outputs;
    }
}

/// Older manifests name none.
static void read_features(manifest_reader *reader, const bundle_json *wants)
{
    uint32_t count = 0;
    size_t known = 0;
    const bundle_feature *features = kilni_bundle_features(&known);
    if (wants == NULL || kilni_bundle_json_find(wants, "features") == NULL) {
        return;
    }
    const bundle_json *item = list_of(reader, wants, "features", &count);
    for (uint32_t i = 0; i < count; i++, item = item->next) {
        size_t k = 0;
        while (k < known &&
               (item->kind != BUNDLE_JSON_TEXT || strcmp(item->text, features[k].name) != 0)) {
            k++;
        }
        if (k == known) {
            kilni_bundle_json_wrong(&reader->json, "it wants a feature of no known name");
        } else {
            reader->manifest->wants.features |= features[k].feature;
        }
    }
}

static void read_device(manifest_reader *reader, const bundle_json *root)
{
    bundle_manifest *manifest = reader->manifest;
    bundle_wants *wants = &manifest->wants;
    const bundle_json *made =
        kilni_bundle_json_get(&reader->json, root, "made_on", BUNDLE_JSON_OBJECT);
    const bundle_json *list =
        kilni_bundle_json_get(&reader->json, root, "wants", BUNDLE_JSON_OBJECT);
    manifest->device = kilni_bundle_json_text(&reader->json, made, "device");
    manifest->driver = kilni_bundle_json_text(&reader->json, made, "driver");
    wants->work_group = number_of(reader, list, "work_group", INT64_MAX);
    wants->buffer_bytes = number_of(reader, list, "buffer_bytes", INT64_MAX);
    wants->memory_bytes = number_of(reader, list, "memory_bytes", INT64_MAX);
    wants->local_bytes = number_of(reader, list, "local_bytes", INT64_MAX);
    wants->parameter_bytes = number_of(reader, list, "parameter_bytes", INT64_MAX);
    read_features(reader, list);
}

kiln_status kilni_bundle_manifest_read(kiln_arena *arena, const char *text, size_t length,
                                       bundle_manifest *out_manifest, kiln_error *err)
{
    const bundle_json *root = NULL;
    manifest_reader reader = {.arena = arena, .manifest = out_manifest};
    memset(out_manifest, 0, sizeof(*out_manifest));
    kiln_status status = kilni_bundle_json_read(arena, text, length, &root, err);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, BUNDLE_MANIFEST);
        return status;
    }
    uint64_t version = number_of(&reader, root, "kiln_bundle", INT64_MAX);
    if (reader.json.wrong[0] == '\0' && version != BUNDLE_VERSION) {
        return kiln_fail(err, UNIMPLEMENTED,
                         BUNDLE_MANIFEST " is of version %llu, this library reads version %d",
                         (unsigned long long)version, BUNDLE_VERSION);
    }
    read_device(&reader, root);
    out_manifest->constants_start = number_of(&reader, root, "constants_start", INT64_MAX / 4);
    if (kilni_bundle_json_find(root, "banks") != NULL) {
        out_manifest->n_banks = (uint32_t)number_of(&reader, root, "banks", BUNDLE_BANKS);
    }
    read_programs(&reader, root);
    if (reader.json.wrong[0] == '\0') {
        read_shapes(&reader, root);
    }
    if (reader.no_memory) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for " BUNDLE_MANIFEST);
    }
    return kilni_bundle_json_done(&reader.json, BUNDLE_MANIFEST, err);
}
