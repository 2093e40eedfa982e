// SPDX-License-Identifier: MIT OR Apache-2.0
// A model's policy, from its file and its configuration. Refuses what would be served differently
// from what is written.

#include "serving_policy.h"

#include "serving_states.h"
#include "serving_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BATCH = 65536, MOST_QUEUE = 1 << 20 };

// ---- the model as a whole ----

static kiln_status check_text(const kilni_serving_node *config, const char *key,
                              const char *const *allowed, kiln_error *err)
{
    const kilni_serving_node *node = kilni_serving_node_find(config, key);
    if (node == NULL || node->value == NULL || node->value[0] == '\0') {
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; allowed[i] != NULL; i++) {
        if (strcmp(node->value, allowed[i]) == 0) {
            return KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, UNIMPLEMENTED, "line %u: %s is \"%.60s\"; only ONNX models are served",
                     node->line, key, node->value);
}

static kiln_status check_whole(const kilni_serving_node *config, const char *name, kiln_error *err)
{
    static const char *const refused[] = {"ensemble_scheduling", "response_cache", "batch_input",
                                          "batch_output"};
    static const char *const platforms[] = {"onnxruntime_onnx", "kiln_onnx", NULL};
    static const char *const backends[] = {"onnxruntime", "kiln", NULL};
    const kilni_serving_node *own = kilni_serving_node_find(config, "name");
    if (own != NULL && (own->value == NULL || strcmp(own->value, name) != 0)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "line %u: the configuration is that of \"%.60s\", the folder is \"%.60s\"",
                         own->line, own->value != NULL ? own->value : "", name);
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const kilni_serving_node *node = kilni_serving_node_find(config, refused[i]);
        if (node != NULL) {
            return kiln_fail(err, UNIMPLEMENTED, "line %u: %s is not served", node->line,
                             refused[i]);
        }
    }
    kiln_status status = check_text(config, "platform", platforms, err);
    return status == KILN_STATUS_OK ? check_text(config, "backend", backends, err) : status;
}

static kiln_status read_choice(const kilni_serving_node *policy, kilni_serving_choice *out,
                               kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    int64_t number = 1;
    const kilni_serving_node *latest = kilni_serving_node_find(policy, "latest");
    const kilni_serving_node *specific = kilni_serving_node_find(policy, "specific");
    if (kilni_serving_node_find(policy, "all") != NULL) {
        out->which = KILNI_SERVING_ALL;
    } else if (specific != NULL) {
        const kilni_serving_node *each = kilni_serving_node_find(specific->members, "versions");
        out->which = KILNI_SERVING_SPECIFIC;
        out->count = 0;
        for (; each != NULL; each = kilni_serving_node_again(each)) {
            if (out->count == KILN_MODEL_VERSIONS) {
                return kiln_fail(err, INVALID_ARGUMENT, "line %u: more than %d versions",
                                 each->line, KILN_MODEL_VERSIONS);
            }
            KILN_TRY(out, status, kilni_serving_node_number(each, 1, INT64_MAX, &number, err));
            out->versions[out->count++] = (uint64_t)number;
        }
    } else if (latest != NULL) {
        const kilni_serving_node *count = kilni_serving_node_find(latest->members, "num_versions");
        if (count != NULL) {
            KILN_TRY(out, status,
                     kilni_serving_node_number(count, 1, KILN_MODEL_VERSIONS, &number, err));
        }
        out->count = (uint32_t)number;
    }
out:
    return status;
}

kiln_status kilni_serving_policy_choose(const kilni_serving_node *config, const char *name,
                                        char out_file[KILN_MODEL_NAME],
                                        kilni_serving_choice *out_choice, kiln_error *err)
{
    kiln_status status = check_whole(config, name, err);
    const kilni_serving_node *file = kilni_serving_node_find(config, "default_model_filename");
    const kilni_serving_node *policy = kilni_serving_node_find(config, "version_policy");
    *out_choice = (kilni_serving_choice){.which = KILNI_SERVING_LATEST, .count = 1};
    snprintf(out_file, KILN_MODEL_NAME, "model.onnx");
    if (status == KILN_STATUS_OK && file != NULL && file->value != NULL) {
        if (strchr(file->value, '/') != NULL || strlen(file->value) >= KILN_MODEL_NAME ||
            file->value[0] == '\0') {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "line %u: default_model_filename is a file beside the others",
                             file->line);
        }
        snprintf(out_file, KILN_MODEL_NAME, "%s", file->value);
    }
    if (status == KILN_STATUS_OK && policy != NULL) {
        status = read_choice(policy->members, out_choice, err);
    }
    return status;
}

// ---- how it is run ----

static kiln_status read_u64(const kilni_serving_node *members, const char *key, int64_t most,
                            uint64_t *value, kiln_error *err)
{
    const kilni_serving_node *node = kilni_serving_node_find(members, key);
    int64_t number = 0;
    if (node == NULL) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kilni_serving_node_number(node, 0, most, &number, err);
    *value = (uint64_t)number;
    return status;
}

static kiln_status read_u32(const kilni_serving_node *members, const char *key, int64_t most,
                            uint32_t *value, kiln_error *err)
{
    uint64_t wide = *value;
    kiln_status status = read_u64(members, key, most, &wide, err);
    *value = (uint32_t)wide;
    return status;
}

static kiln_status fill_batching(const kilni_serving_node *members, kiln_model_info *info,
                                 kiln_error *err)
{
    const kilni_serving_node *each = kilni_serving_node_find(members, "preferred_batch_size");
    const kilni_serving_node *queue = kilni_serving_node_find(members, "default_queue_policy");
    kiln_status status = KILN_STATUS_OK;
    for (; each != NULL; each = kilni_serving_node_again(each)) {
        int64_t size = 0;
        KILN_TRY(out, status, kilni_serving_node_number(each, 1, info->max_batch, &size, err));
        if (info->n_preferred == KILN_MODEL_PREFERRED) {
            return kiln_fail(err, INVALID_ARGUMENT, "line %u: more than %d preferred sizes",
                             each->line, KILN_MODEL_PREFERRED);
        }
        info->preferred[info->n_preferred++] = (uint32_t)size;
    }
    KILN_TRY(
        out, status,
        read_u64(members, "max_queue_delay_microseconds", INT32_MAX, &info->queue_delay_us, err));
    KILN_TRY(out, status, read_u32(members, "priority_levels", 1000, &info->priority_levels, err));
    KILN_TRY(out, status,
             read_u32(members, "default_priority_level", 1000, &info->default_priority, err));
    if (info->default_priority > info->priority_levels) {
        return kiln_fail(err, INVALID_ARGUMENT, "default_priority_level is above priority_levels");
    }
    if (queue != NULL) {
        KILN_TRY(out, status,
                 read_u64(queue->members, "default_timeout_microseconds", INT64_MAX,
                          &info->queue_timeout_us, err));
        KILN_TRY(out, status,
                 read_u32(queue->members, "max_queue_size", MOST_QUEUE, &info->max_queue, err));
    }
out:
    return status;
}

/// The parameter `model-dtype`; others are for other programs.
static kiln_status fill_kept_in(const kilni_serving_node *config, kiln_model_info *info,
                                kiln_error *err)
{
    const kilni_serving_node *parameter = kilni_serving_node_find(config, "parameters");
    info->kept_in = KILN_DTYPE_NONE;
    for (; parameter != NULL; parameter = kilni_serving_node_again(parameter)) {
        const kilni_serving_node *key = kilni_serving_node_find(parameter->members, "key");
        const kilni_serving_node *value = kilni_serving_node_find(parameter->members, "value");
        if (key == NULL || key->value == NULL || strcmp(key->value, "model-dtype") != 0) {
            continue;
        }
        const kilni_serving_node *word =
            value != NULL ? kilni_serving_node_find(value->members, "string_value") : NULL;
        info->kept_in = word != NULL && word->value != NULL ? kiln_dtype_from_name(word->value)
                                                            : KILN_DTYPE_NONE;
        if (info->kept_in != KILN_DTYPE_F32 && info->kept_in != KILN_DTYPE_F16 &&
            info->kept_in != KILN_DTYPE_BF16) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "line %u: model-dtype has a string_value: f32, f16 or bf16",
                             parameter->line);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_serving_policy_fill(const kilni_serving_node *config,
                                      const kiln_onnx_model *model,
                                      const kilni_serving_defaults *defaults, kiln_model_info *info,
                                      kiln_error *err)
{
    size_t n_in = 0, n_out = 0;
    const kiln_onnx_value_info *in = kiln_onnx_model_inputs(model, &n_in);
    const kiln_onnx_value_info *out_infos = kiln_onnx_model_outputs(model, &n_out);
    const kilni_serving_node *batching = kilni_serving_node_find(config, "dynamic_batching");
    const char *symbol = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             kilni_serving_tensors_fill(in, n_in, "input", info->inputs, &info->n_inputs, err));
    KILN_TRY(out, status,
             kilni_serving_tensors_fill(out_infos, n_out, "output", info->outputs, &info->n_outputs,
                                        err));
    bool open = n_in > 0 && kilni_serving_tensors_batched(in, n_in, &symbol) &&
                kilni_serving_tensors_batched(out_infos, n_out, &symbol);
    info->max_batch = open ? defaults->max_batch : 0;
    info->max_queue = defaults->max_queue;
    KILN_TRY(out, status, read_u32(config, "max_batch_size", MOST_BATCH, &info->max_batch, err));
    if (info->max_batch > 0) {
        KILN_TRY(out, status,
                 kilni_serving_tensors_check_batch(info->inputs, info->n_inputs, "input",
                                                   info->max_batch, err));
        KILN_TRY(out, status,
                 kilni_serving_tensors_check_batch(info->outputs, info->n_outputs, "output",
                                                   info->max_batch, err));
    }
    uint32_t first = info->max_batch > 0 ? 1 : 0;
    KILN_TRY(
        out, status,
        kilni_serving_tensors_check(config, "input", first, info->inputs, info->n_inputs, err));
    KILN_TRY(
        out, status,
        kilni_serving_tensors_check(config, "output", first, info->outputs, info->n_outputs, err));
    KILN_TRY(out, status, kilni_serving_states_fill(config, info, err));
    KILN_TRY(out, status, fill_kept_in(config, info, err));
    if (info->max_batch > 0 && info->n_inputs == 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "max_batch_size is %u, and no input says how many rows a request has: set "
                         "it to 0",
                         info->max_batch);
    }
    info->batching = info->max_batch > 1 && (batching != NULL || config == NULL);
    if (batching != NULL && info->max_batch > 0) {
        KILN_TRY(out, status, fill_batching(batching->members, info, err));
    }
    if (info->joins) {
        const kilni_serving_node *strategy = kilni_serving_states_strategy(config);
        info->batching = true;
        if (strategy != NULL) {
            KILN_TRY(out, status, fill_batching(strategy->members, info, err));
        }
    }
out:
    return status;
}

kiln_status kilni_serving_policy_place(const kilni_serving_node *config, uint32_t n_devices,
                                       uint32_t out_devices[KILNI_SERVING_INSTANCES],
                                       uint32_t *out_count, kiln_error *err)
{
    const kilni_serving_node *group = kilni_serving_node_find(config, "instance_group");
    kiln_status status = KILN_STATUS_OK;
    uint32_t made = 0;
    for (; group != NULL; group = kilni_serving_node_again(group)) {
        const kilni_serving_node *gpu = kilni_serving_node_find(group->members, "gpus");
        uint32_t count = 1;
        bool named = gpu != NULL;
        KILN_TRY(out, status,
                 read_u32(group->members, "count", KILNI_SERVING_INSTANCES, &count, err));
        do {
            int64_t device = 0;
            if (named) {
                KILN_TRY(out, status,
                         kilni_serving_node_number(gpu, 0, n_devices - 1, &device, err));
                gpu = kilni_serving_node_again(gpu);
            }
            for (uint32_t i = 0; i < count; i++) {
                if (made == KILNI_SERVING_INSTANCES) {
                    return kiln_fail(err, INVALID_ARGUMENT, "line %u: more than %d instances",
                                     group->line, KILNI_SERVING_INSTANCES);
                }
                out_devices[made] = named ? (uint32_t)device : made % n_devices;
                made++;
            }
        } while (gpu != NULL);
    }
    if (made == 0) { // one on each device
        for (; made < n_devices && made < KILNI_SERVING_INSTANCES; made++) {
            out_devices[made] = made;
        }
    }
    *out_count = made;
out:
    return status;
}
