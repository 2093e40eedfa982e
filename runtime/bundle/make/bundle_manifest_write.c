// SPDX-License-Identifier: MIT OR Apache-2.0
// manifest.json, written: one line for each buffer, value and step, so that people and diff can
// read it. What is in it is decided by who made the manifest.

#include "bundle_json.h"
#include "bundle_manifest.h"

static void write_member(kiln_string *out, const char *name, const char *text)
{
    kiln_string_printf(out, "\"%s\": ", name);
    kilni_bundle_json_quote(out, text);
}

static void write_numbers(kiln_string *out, const char *name, const uint64_t *numbers,
                          uint32_t count)
{
    kiln_string_printf(out, "\"%s\": [", name);
    for (uint32_t i = 0; i < count; i++) {
        kiln_string_printf(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)numbers[i]);
    }
    kiln_string_append(out, "]", 1);
}

static const char *comma(uint32_t index, uint32_t count)
{
    return index + 1 < count ? ",\n" : "\n";
}

static void write_program(kiln_string *out, const bundle_program *program)
{
    kiln_string_printf(out, "    {");
    write_member(out, "source", program->file);
    kiln_string_printf(out, ", ");
    write_member(out, "options", program->options);
    kiln_string_printf(out, ", \"exact\": %s,\n     ", program->exact ? "true" : "false");
    write_member(out, "key", program->key);
    kiln_string_printf(out, ", \"kernels\": [");
    for (uint32_t i = 0; i < program->n_kernels; i++) {
        kiln_string_printf(out, "%s{", i > 0 ? ", " : "");
        write_member(out, "name", program->kernels[i].name);
        kiln_string_printf(out, ", \"args\": %u}", program->kernels[i].n_args);
    }
    kiln_string_printf(out, "]}");
}

static void write_values(kiln_string *out, const char *name, const bundle_value *values,
                         uint32_t count)
{
    kiln_string_printf(out, "      \"%s\": [\n", name);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t dims[KILN_MAX_RANK];
        for (uint32_t k = 0; k < values[i].shown.rank; k++) {
            dims[k] = (uint64_t)values[i].shown.dims[k];
        }
        kiln_string_printf(out, "        {");
        write_member(out, "name", values[i].shown.name);
        kiln_string_printf(out, ", \"dtype\": \"%s\", ", kiln_dtype_name(values[i].shown.dtype));
        write_numbers(out, "dims", dims, values[i].shown.rank);
        kiln_string_printf(out, ", \"buffer\": %u, \"offset\": %llu}%s", values[i].buffer,
                           (unsigned long long)values[i].offset, comma(i, count));
    }
    kiln_string_printf(out, "      ],\n");
}

static void write_buffer(kiln_string *out, const bundle_buffer *buffer, bool banks)
{
    static const char *const kinds[] = {"", "input", "constant", "scratch"};
    kiln_string_printf(out, "        {\"kind\": \"%s\", \"bytes\": %llu", kinds[buffer->kind],
                       (unsigned long long)buffer->bytes);
    if (buffer->kind == BUNDLE_BUFFER_CONSTANT) {
        kiln_string_printf(out, ", \"offset\": %llu", (unsigned long long)buffer->offset);
    }
    if (banks) {
        kiln_string_printf(out, ", \"bank\": %u", buffer->bank);
    }
    if (buffer->first != UINT32_MAX) {
        kiln_string_printf(out, ", \"first_step\": %u, \"last_step\": %u", buffer->first,
                           buffer->last);
    }
    kiln_string_append(out, "}", 1);
}

static void write_arg(kiln_string *out, const bundle_arg *arg)
{
    switch (arg->kind) {
    case BUNDLE_ARG_BUFFER:
        if (arg->buffer == UINT32_MAX) {
            kiln_string_printf(out, "{\"buffer\": null}");
        } else {
            kiln_string_printf(out, "{\"buffer\": %u}", arg->buffer);
        }
        return;
    case BUNDLE_ARG_LOCAL:
        kiln_string_printf(out, "{\"local\": %llu}", (unsigned long long)arg->length);
        return;
    case BUNDLE_ARG_BYTES:
        kiln_string_printf(out, "{\"bytes\": \"");
        for (uint64_t i = 0; i < arg->length; i++) {
            kiln_string_printf(out, "%02x", arg->bytes[i]);
        }
        kiln_string_printf(out, "\"}");
        return;
    }
}

static void write_step(kiln_string *out, const bundle_step *step)
{
    if (step->is_copy) {
        kiln_string_printf(out,
                           "        {\"copy\": {\"from\": %u, \"from_offset\": %llu, \"to\": %u, "
                           "\"to_offset\": %llu, \"bytes\": %llu}}",
                           step->source, (unsigned long long)step->source_offset, step->target,
                           (unsigned long long)step->target_offset,
                           (unsigned long long)step->bytes);
        return;
    }
    kiln_string_printf(out, "        {\"program\": %u, \"kernel\": %u, ", step->program,
                       step->kernel);
    write_numbers(out, "global", step->global, step->n_dims);
    kiln_string_printf(out, ", ");
    write_numbers(out, "local", step->local, step->local[0] != 0 ? step->n_dims : 0);
    kiln_string_printf(out, ",\n         \"args\": [");
    for (uint32_t i = 0; i < step->n_args; i++) {
        kiln_string_printf(out, "%s", i > 0 ? ", " : "");
        write_arg(out, &step->args[i]);
    }
    kiln_string_printf(out, "]}");
}

static void write_shapes(kiln_string *out, const bundle_manifest *manifest,
                         const bundle_shapes *shapes)
{
    kiln_string_printf(out, "    {\n      \"reprograms\": %u,\n", kilni_bundle_reprograms(shapes));
    write_values(out, "inputs", shapes->inputs, manifest->n_inputs);
    write_values(out, "outputs", shapes->outputs, manifest->n_outputs);
    kiln_string_printf(out, "      \"buffers\": [\n");
    for (uint32_t i = 0; i < shapes->n_buffers; i++) {
        write_buffer(out, &shapes->buffers[i], manifest->n_banks > 0);
        kiln_string_printf(out, "%s", comma(i, shapes->n_buffers));
    }
    kiln_string_printf(out, "      ],\n      \"steps\": [\n");
    for (uint32_t i = 0; i < shapes->n_steps; i++) {
        write_step(out, &shapes->steps[i]);
        kiln_string_printf(out, "%s", comma(i, shapes->n_steps));
    }
    kiln_string_printf(out, "      ]\n    }");
}

static void write_features(kiln_string *out, uint32_t wanted)
{
    size_t count = 0;
    const bundle_feature *features = kilni_bundle_features(&count);
    const char *between = "";
    kiln_string_printf(out, "\"features\": [");
    for (size_t i = 0; i < count; i++) {
        if ((wanted & features[i].feature) != 0) {
            kiln_string_printf(out, "%s\"%s\"", between, features[i].name);
            between = ", ";
        }
    }
    kiln_string_append(out, "]", 1);
}

static void write_head(kiln_string *out, const bundle_manifest *manifest)
{
    const bundle_wants *wants = &manifest->wants;
    kiln_string_printf(out, "{\n  \"kiln_bundle\": %d,\n  \"made_by\": \"%s\",\n  \"made_on\": {",
                       BUNDLE_VERSION, kiln_version());
    write_member(out, "device", manifest->device);
    kiln_string_printf(out, ", ");
    write_member(out, "driver", manifest->driver);
    kiln_string_printf(
        out,
        "},\n  \"wants\": {\"work_group\": %llu, \"buffer_bytes\": %llu, \"memory_bytes\": %llu, "
        "\"local_bytes\": %llu, \"parameter_bytes\": %llu, ",
        (unsigned long long)wants->work_group, (unsigned long long)wants->buffer_bytes,
        (unsigned long long)wants->memory_bytes, (unsigned long long)wants->local_bytes,
        (unsigned long long)wants->parameter_bytes);
    write_features(out, wants->features);
    kiln_string_printf(out, "},\n  \"constants_start\": %llu,\n",
                       (unsigned long long)manifest->constants_start);
}

void kilni_bundle_manifest_write(const bundle_manifest *manifest, kiln_string *out)
{
    write_head(out, manifest);
    if (manifest->n_banks > 0) {
        kiln_string_printf(out, "  \"banks\": %u,\n", manifest->n_banks);
    }
    kiln_string_printf(out, "  \"programs\": [\n");
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        write_program(out, &manifest->programs[i]);
        kiln_string_printf(out, "%s", comma(i, manifest->n_programs));
    }
    kiln_string_printf(out, "  ],\n  \"shapes\": [\n");
    for (uint32_t i = 0; i < manifest->n_shapes; i++) {
        write_shapes(out, manifest, &manifest->shapes[i]);
        kiln_string_printf(out, "%s", comma(i, manifest->n_shapes));
    }
    kiln_string_printf(out, "  ]\n}\n");
}
