// SPDX-License-Identifier: MIT OR Apache-2.0
// Fuzz target: manifests of bundles, from any bytes. What passes keeps to its lists and buffers.
#include "bundle_manifest.h"
#include "fuzz_target.h"

static void check_value(const bundle_shapes *shapes, const bundle_value *value)
{
    const bundle_buffer *buffer = &shapes->buffers[value->buffer];
    must(value->buffer < shapes->n_buffers);
    must(value->offset + kilni_bundle_value_bytes(&value->shown) <= buffer->bytes);
}

static void check_step(const bundle_manifest *manifest, const bundle_shapes *shapes,
                       const bundle_step *step)
{
    if (step->is_copy) {
        must(step->source < shapes->n_buffers && step->target < shapes->n_buffers);
        must(step->source_offset + step->bytes <= shapes->buffers[step->source].bytes);
        must(step->target_offset + step->bytes <= shapes->buffers[step->target].bytes);
        return;
    }
    must(step->program < manifest->n_programs);
    must(step->kernel < manifest->programs[step->program].n_kernels);
    must(step->n_args == manifest->programs[step->program].kernels[step->kernel].n_args);
    for (uint32_t i = 0; i < step->n_args; i++) {
        const bundle_arg *arg = &step->args[i];
        must(arg->kind != BUNDLE_ARG_BUFFER || arg->buffer == UINT32_MAX ||
             arg->buffer < shapes->n_buffers);
        must(arg->kind != BUNDLE_ARG_BYTES || (arg->length > 0 && arg->bytes != NULL));
    }
}

static void check_features(uint32_t wanted)
{
    size_t count = 0;
    const bundle_feature *features = kilni_bundle_features(&count);
    for (size_t i = 0; i < count; i++) {
        wanted &= ~features[i].feature;
    }
    must(wanted == 0);
}

static void check_manifest(const bundle_manifest *manifest)
{
    check_features(manifest->wants.features);
    for (uint32_t s = 0; s < manifest->n_shapes; s++) {
        const bundle_shapes *shapes = &manifest->shapes[s];
        for (uint32_t i = 0; i < shapes->n_buffers; i++) {
            must(shapes->buffers[i].bank < manifest->n_banks + (manifest->n_banks == 0));
        }
        for (uint32_t i = 0; i < manifest->n_inputs; i++) {
            check_value(shapes, &shapes->inputs[i]);
        }
        for (uint32_t i = 0; i < manifest->n_outputs; i++) {
            check_value(shapes, &shapes->outputs[i]);
        }
        for (uint32_t i = 0; i < shapes->n_steps; i++) {
            check_step(manifest, shapes, &shapes->steps[i]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_arena arena;
    bundle_manifest manifest;
    kiln_error err = KILN_ERROR_INIT;
    kiln_arena_init(&arena, &env);
    if (kilni_bundle_manifest_read(&arena, (const char *)data, size, &manifest, &err) ==
        KILN_STATUS_OK) {
        check_manifest(&manifest);
    } else {
        must(err.message[0] != '\0');
    }
    kiln_arena_fini(&arena);
    return 0;
}
