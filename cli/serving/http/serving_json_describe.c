// SPDX-License-Identifier: MIT OR Apache-2.0
// What a model takes, how it is run and what it has done, as JSON. Decides which of it is shown;
// names are those of the protocol's configuration.

#include "serving_json.h"

#include <inttypes.h>

/// How a part of the protocol tells the form of a tensor.
typedef struct form_words {
    const char *dtype;
    const char *prefix; ///< of the element type's name
    const char *dims;
} form_words;

static const form_words of_metadata = {"datatype", "", "shape"};
static const form_words of_config = {"data_type", "TYPE_", "dims"};

/// Ends a tensor's object. The first `skipped` dimensions are not shown.
static void put_form(kiln_string *out, const form_words *words, const kiln_model_tensor *tensor,
                     uint32_t skipped)
{
    kiln_string_printf(out, ",\"%s\":\"%s%s\",\"%s\":", words->dtype, words->prefix,
                       kiln_model_dtype_name(tensor->dtype), words->dims);
    kilni_json_dims_put(out, tensor, skipped);
    kiln_string_append(out, "}", 1);
}

static void put_tensors(kiln_string *out, const char *key, const form_words *words,
                        const kiln_model_tensor *tensors, uint32_t count, uint32_t skipped)
{
    kiln_string_printf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < count; i++) {
        kiln_string_printf(out, "%s{\"name\":", i > 0 ? "," : "");
        kilni_json_text_put(out, tensors[i].name);
        put_form(out, words, &tensors[i], skipped);
    }
    kiln_string_append(out, "]", 1);
}

/// Dimensions that a configuration leaves out: the batch.
static uint32_t batch_dims(const kiln_model_info *info)
{
    return info->max_batch > 0 ? 1 : 0;
}

void kilni_json_metadata_put(kiln_string *out, const kiln_model_info *info)
{
    kiln_string_printf(out, "{\"name\":");
    kilni_json_text_put(out, info->name);
    kiln_string_printf(out, ",\"versions\":[");
    for (uint32_t i = 0; i < info->n_versions; i++) {
        kiln_string_printf(out, "%s\"%" PRIu64 "\"", i > 0 ? "," : "", info->versions[i]);
    }
    kiln_string_printf(out, "],\"platform\":\"kiln_onnx\"");
    put_tensors(out, "inputs", &of_metadata, info->inputs, info->n_inputs, 0);
    put_tensors(out, "outputs", &of_metadata, info->outputs, info->n_outputs, 0);
    kiln_string_append(out, "}", 1);
}

/// A word for each kind, at its number.
static const char *const control_words[] = {"START", "READY", "END", "CORRID"};

static void put_preferred(kiln_string *out, const kiln_model_info *info)
{
    kiln_string_printf(out, "\"preferred_batch_size\":[");
    for (uint32_t i = 0; i < info->n_preferred; i++) {
        kiln_string_printf(out, "%s%u", i > 0 ? "," : "", info->preferred[i]);
    }
    kiln_string_printf(out, "],\"max_queue_delay_microseconds\":%" PRIu64, info->queue_delay_us);
}

static void put_sequences(kiln_string *out, const kiln_model_info *info)
{
    kiln_string_printf(out,
                       ",\"sequence_batching\":{\"max_sequence_idle_microseconds\":%" PRIu64
                       ",\"oldest\":{\"max_candidate_sequences\":%u,",
                       info->sequence_idle_us, info->max_sequences);
    put_preferred(out, info);
    kiln_string_printf(out, "},\"control_input\":[");
    for (uint32_t i = 0; i < info->n_controls; i++) {
        kiln_string_printf(out, "%s{\"name\":", i > 0 ? "," : "");
        kilni_json_text_put(out, info->controls[i].input.name);
        kiln_string_printf(out, ",\"control\":[{\"kind\":\"CONTROL_SEQUENCE_%s\"}]}",
                           control_words[info->controls[i].kind]);
    }
    kiln_string_printf(out, "],\"state\":[");
    for (uint32_t i = 0; i < info->n_states; i++) {
        const kiln_model_state *state = &info->states[i];
        kiln_string_printf(out, "%s{\"input_name\":", i > 0 ? "," : "");
        kilni_json_text_put(out, state->input.name);
        kiln_string_printf(out, ",\"output_name\":");
        kilni_json_text_put(out, state->output);
        put_form(out, &of_config, &state->input, batch_dims(info));
    }
    kiln_string_printf(out, "]}");
}

void kilni_json_config_put(kiln_string *out, const kiln_model_info *info)
{
    kiln_string_printf(out, "{\"name\":");
    kilni_json_text_put(out, info->name);
    kiln_string_printf(out,
                       ",\"platform\":\"kiln_onnx\",\"backend\":\"kiln\",\"max_batch_size\":%u",
                       info->max_batch);
    put_tensors(out, "input", &of_config, info->inputs, info->n_inputs, batch_dims(info));
    put_tensors(out, "output", &of_config, info->outputs, info->n_outputs, batch_dims(info));
    kiln_string_printf(out, ",\"instance_group\":[{\"name\":");
    kilni_json_text_put(out, info->name);
    kiln_string_printf(out, ",\"count\":%u}],\"default_model_filename\":", info->instances);
    kilni_json_text_put(out, info->file);
    if (info->batching && !info->sequences) {
        kiln_string_printf(out, ",\"dynamic_batching\":{");
        put_preferred(out, info);
        kiln_string_printf(out,
                           ",\"priority_levels\":%u,\"default_priority_level\":%u,"
                           "\"default_queue_policy\":{\"default_timeout_microseconds\":%" PRIu64
                           ",\"max_queue_size\":%u}}",
                           info->priority_levels, info->default_priority, info->queue_timeout_us,
                           info->max_queue);
    }
    if (info->sequences) {
        put_sequences(out, info);
    }
    kiln_string_append(out, "}", 1);
}

static void put_duration(kiln_string *out, const char *key, const kiln_model_duration *duration)
{
    kiln_string_printf(out, "\"%s\":{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}", key,
                       duration->count, duration->ns);
}

void kilni_json_stats_put(kiln_string *out, const kiln_model_stats *stats)
{
    const struct {
        const char *key;
        const kiln_model_duration *duration;
    } rows[] = {{"success", &stats->success},     {"fail", &stats->fail},
                {"queue", &stats->queue},         {"compute_input", &stats->input},
                {"compute_infer", &stats->infer}, {"compute_output", &stats->output}};
    kiln_string_printf(out, "{\"name\":");
    kilni_json_text_put(out, stats->name);
    kiln_string_printf(out,
                       ",\"version\":\"%s\",\"last_inference\":%" PRIu64
                       ",\"inference_count\":%" PRIu64 ",\"execution_count\":%" PRIu64
                       ",\"inference_stats\":{",
                       stats->version, stats->last_ms, stats->inferences, stats->executions);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kiln_string_printf(out, "%s", i > 0 ? "," : "");
        put_duration(out, rows[i].key, rows[i].duration);
    }
    kiln_string_printf(out, "},\"batch_stats\":[");
    for (uint32_t i = 0; i < stats->n_batches; i++) {
        const kiln_model_batch *batch = &stats->batches[i];
        kiln_string_printf(out, "%s{\"batch_size\":%" PRIu64 ",", i > 0 ? "," : "", batch->size);
        put_duration(out, "compute_input", &batch->input);
        kiln_string_append(out, ",", 1);
        put_duration(out, "compute_infer", &batch->infer);
        kiln_string_append(out, ",", 1);
        put_duration(out, "compute_output", &batch->output);
        kiln_string_append(out, "}", 1);
    }
    kiln_string_printf(out, "]}");
}
