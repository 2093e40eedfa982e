// SPDX-License-Identifier: MIT OR Apache-2.0
// What a model takes, how it is run and what it has done, as messages of the protocol. The numbers
// of fields come from kserve/inference.proto.

#include "kserve.h"

#include <kserve/inference.pb.h>

#include <inttypes.h>
#include <stdio.h>

#define TAG(message, field) inference_##message##_##field##_tag

static uint64_t dtype_number(kiln_dtype dtype)
{
    switch (dtype) {
#define KILN_MODEL_DTYPE(id, name, number, contents)                                               \
    case KILN_DTYPE_##id:                                                                          \
        return number;
#include "remote_models_dtypes.def"
#undef KILN_MODEL_DTYPE
    default:
        return 0;
    }
}

/// A packed list of extents, from `first` on.
static void put_dims(kiln_string *out, uint32_t number, const kiln_model_tensor *tensor,
                     uint32_t first)
{
    kiln_string list;
    kiln_string_init(&list, out->env);
    for (uint32_t i = first; i < tensor->rank; i++) {
        kilni_wire_put_varint(&list, (uint64_t)tensor->dims[i]);
    }
    if (tensor->rank > first) {
        kilni_wire_put(out, number, list.text, list.length);
    }
    out->failed = out->failed || list.failed;
    kiln_string_fini(&list);
}

static void put_tensor_metadata(kiln_string *out, uint32_t number, const kiln_model_tensor *tensor)
{
    kiln_string row;
    kiln_string_init(&row, out->env);
    kilni_wire_put_text(&row, TAG(ModelMetadataResponse_TensorMetadata, name), tensor->name);
    kilni_wire_put_text(&row, TAG(ModelMetadataResponse_TensorMetadata, datatype),
                        kiln_model_dtype_name(tensor->dtype));
    put_dims(&row, TAG(ModelMetadataResponse_TensorMetadata, shape), tensor, 0);
    kilni_wire_put_message(out, number, &row);
}

void kilni_kserve_metadata_put(kiln_string *out, const kiln_model_info *info)
{
    kilni_wire_put_text(out, TAG(ModelMetadataResponse, name), info->name);
    for (uint32_t i = 0; i < info->n_versions; i++) {
        char version[KILN_MODEL_VERSION];
        snprintf(version, sizeof(version), "%" PRIu64, info->versions[i]);
        kilni_wire_put_text(out, TAG(ModelMetadataResponse, versions), version);
    }
    kilni_wire_put_text(out, TAG(ModelMetadataResponse, platform), "kiln_onnx");
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        put_tensor_metadata(out, TAG(ModelMetadataResponse, inputs), &info->inputs[i]);
    }
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        put_tensor_metadata(out, TAG(ModelMetadataResponse, outputs), &info->outputs[i]);
    }
}

// ---- the configuration ----

static void put_config_tensor(kiln_string *out, uint32_t number, uint32_t dims_number,
                              const kiln_model_info *info, const kiln_model_tensor *tensor)
{
    kiln_string row;
    kiln_string_init(&row, out->env);
    kilni_wire_put_text(&row, TAG(ModelInput, name), tensor->name);
    kilni_wire_put_number(&row, TAG(ModelInput, data_type), dtype_number(tensor->dtype));
    put_dims(&row, dims_number, tensor, info->max_batch > 0 ? 1 : 0);
    kilni_wire_put_message(out, number, &row);
}

static void put_batching(kiln_string *out, const kiln_model_info *info)
{
    kiln_string row;
    kiln_string queue;
    kiln_string_init(&row, out->env);
    kiln_string_init(&queue, out->env);
    for (uint32_t i = 0; i < info->n_preferred; i++) {
        kilni_wire_put_number(&row, TAG(ModelDynamicBatching, preferred_batch_size),
                              info->preferred[i]);
    }
    kilni_wire_put_number(&row, TAG(ModelDynamicBatching, max_queue_delay_microseconds),
                          info->queue_delay_us);
    kilni_wire_put_number(&row, TAG(ModelDynamicBatching, priority_levels), info->priority_levels);
    kilni_wire_put_number(&row, TAG(ModelDynamicBatching, default_priority_level),
                          info->default_priority);
    kilni_wire_put_number(&queue, TAG(ModelQueuePolicy, default_timeout_microseconds),
                          info->queue_timeout_us);
    kilni_wire_put_number(&queue, TAG(ModelQueuePolicy, max_queue_size), info->max_queue);
    kilni_wire_put_message(&row, TAG(ModelDynamicBatching, default_queue_policy), &queue);
    kilni_wire_put_message(out, TAG(ModelConfig, dynamic_batching), &row);
}

static void put_state(kiln_string *out, const kiln_model_info *info, const kiln_model_state *state)
{
    kiln_string row;
    kiln_string_init(&row, out->env);
    kilni_wire_put_text(&row, TAG(ModelSequenceBatching_State, input_name), state->input.name);
    kilni_wire_put_text(&row, TAG(ModelSequenceBatching_State, output_name), state->output);
    kilni_wire_put_number(&row, TAG(ModelSequenceBatching_State, data_type),
                          dtype_number(state->input.dtype));
    put_dims(&row, TAG(ModelSequenceBatching_State, dims), &state->input,
             info->max_batch > 0 ? 1 : 0);
    kilni_wire_put_message(out, TAG(ModelSequenceBatching, state), &row);
}

static void put_control(kiln_string *out, const kiln_model_control *control)
{
    kiln_string row;
    kiln_string kind;
    kiln_string_init(&row, out->env);
    kiln_string_init(&kind, out->env);
    kilni_wire_put_text(&row, TAG(ModelSequenceBatching_ControlInput, name), control->input.name);
    kilni_wire_put_number(&kind, TAG(ModelSequenceBatching_Control, kind), control->kind);
    kilni_wire_put_message(&row, TAG(ModelSequenceBatching_ControlInput, control), &kind);
    kilni_wire_put_message(out, TAG(ModelSequenceBatching, control_input), &row);
}

static void put_sequences(kiln_string *out, const kiln_model_info *info)
{
    kiln_string row;
    kiln_string oldest;
    kiln_string_init(&row, out->env);
    kiln_string_init(&oldest, out->env);
    kilni_wire_put_number(&row, TAG(ModelSequenceBatching, max_sequence_idle_microseconds),
                          info->sequence_idle_us);
    for (uint32_t i = 0; i < info->n_controls; i++) {
        put_control(&row, &info->controls[i]);
    }
    kilni_wire_put_number(&oldest,
                          TAG(ModelSequenceBatching_StrategyOldest, max_candidate_sequences),
                          info->max_sequences);
    for (uint32_t i = 0; i < info->n_preferred; i++) {
        kilni_wire_put_number(&oldest,
                              TAG(ModelSequenceBatching_StrategyOldest, preferred_batch_size),
                              info->preferred[i]);
    }
    kilni_wire_put_number(&oldest,
                          TAG(ModelSequenceBatching_StrategyOldest, max_queue_delay_microseconds),
                          info->queue_delay_us);
    kilni_wire_put_message(&row, TAG(ModelSequenceBatching, oldest), &oldest);
    for (uint32_t i = 0; i < info->n_states; i++) {
        put_state(&row, info, &info->states[i]);
    }
    kilni_wire_put_message(out, TAG(ModelConfig, sequence_batching), &row);
}

void kilni_kserve_config_put(kiln_string *out, const kiln_model_info *info)
{
    kiln_string config;
    kiln_string group;
    kiln_string_init(&config, out->env);
    kiln_string_init(&group, out->env);
    kilni_wire_put_text(&config, TAG(ModelConfig, name), info->name);
    kilni_wire_put_text(&config, TAG(ModelConfig, platform), "kiln_onnx");
    kilni_wire_put_text(&config, TAG(ModelConfig, backend), "kiln");
    kilni_wire_put_number(&config, TAG(ModelConfig, max_batch_size), info->max_batch);
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        put_config_tensor(&config, TAG(ModelConfig, input), TAG(ModelInput, dims), info,
                          &info->inputs[i]);
    }
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        put_config_tensor(&config, TAG(ModelConfig, output), TAG(ModelOutput, dims), info,
                          &info->outputs[i]);
    }
    kilni_wire_put_text(&group, TAG(ModelInstanceGroup, name), info->name);
    kilni_wire_put_number(&group, TAG(ModelInstanceGroup, count), info->instances);
    kilni_wire_put_message(&config, TAG(ModelConfig, instance_group), &group);
    kilni_wire_put_text(&config, TAG(ModelConfig, default_model_filename), info->file);
    if (info->batching && !info->sequences) {
        put_batching(&config, info);
    }
    if (info->sequences) {
        put_sequences(&config, info);
    }
    kilni_wire_put_message(out, TAG(ModelConfigResponse, config), &config);
}

// ---- statistics ----

static void put_duration(kiln_string *out, uint32_t number, const kiln_model_duration *duration)
{
    kiln_string row;
    kiln_string_init(&row, out->env);
    kilni_wire_put_number(&row, TAG(StatisticDuration, count), duration->count);
    kilni_wire_put_number(&row, TAG(StatisticDuration, ns), duration->ns);
    kilni_wire_put_message(out, number, &row);
}

static void put_batch(kiln_string *out, const kiln_model_batch *batch)
{
    kiln_string row;
    kiln_string_init(&row, out->env);
    kilni_wire_put_number(&row, TAG(InferBatchStatistics, batch_size), batch->size);
    put_duration(&row, TAG(InferBatchStatistics, compute_input), &batch->input);
    put_duration(&row, TAG(InferBatchStatistics, compute_infer), &batch->infer);
    put_duration(&row, TAG(InferBatchStatistics, compute_output), &batch->output);
    kilni_wire_put_message(out, TAG(ModelStatistics, batch_stats), &row);
}

void kilni_kserve_stats_put(kiln_string *out, const kiln_model_stats *stats)
{
    kiln_string row;
    kiln_string sums;
    kiln_string_init(&row, out->env);
    kiln_string_init(&sums, out->env);
    kilni_wire_put_text(&row, TAG(ModelStatistics, name), stats->name);
    kilni_wire_put_text(&row, TAG(ModelStatistics, version), stats->version);
    kilni_wire_put_number(&row, TAG(ModelStatistics, last_inference), stats->last_ms);
    kilni_wire_put_number(&row, TAG(ModelStatistics, inference_count), stats->inferences);
    kilni_wire_put_number(&row, TAG(ModelStatistics, execution_count), stats->executions);
    put_duration(&sums, TAG(InferStatistics, success), &stats->success);
    put_duration(&sums, TAG(InferStatistics, fail), &stats->fail);
    put_duration(&sums, TAG(InferStatistics, queue), &stats->queue);
    put_duration(&sums, TAG(InferStatistics, compute_input), &stats->input);
    put_duration(&sums, TAG(InferStatistics, compute_infer), &stats->infer);
    put_duration(&sums, TAG(InferStatistics, compute_output), &stats->output);
    kilni_wire_put_message(&row, TAG(ModelStatistics, inference_stats), &sums);
    for (uint32_t i = 0; i < stats->n_batches; i++) {
        put_batch(&row, &stats->batches[i]);
    }
    kilni_wire_put_message(out, TAG(ModelStatisticsResponse, model_stats), &row);
}

#undef TAG
