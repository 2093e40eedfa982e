// SPDX-License-Identifier: MIT OR Apache-2.0
// Which input and output of a language model is what. Decides by the names that optimum, torch.onnx
// and onnxruntime-genai write: what is kept is an output `present..` for each input `past..`.

#include "generate.h"

#include <stdio.h>
#include <string.h>

static int find(const kiln_onnx_value_info *infos, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(infos[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/// The output that is the next value of an input, -1: there is none.
static int find_present(const kiln_onnx_value_info *outputs, size_t count, const char *input)
{
    static const struct {
        const char *past;
        const char *present;
    } forms[] = {{"past_key_values", "present"},
                 {"past_key_values", "present_key_values"},
                 {"past", "present"},
                 {"past", "new"}};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char name[256];
        size_t length = strlen(forms[i].past);
        if (strncmp(input, forms[i].past, length) != 0) {
            continue;
        }
        snprintf(name, sizeof(name), "%s%s", forms[i].present, input + length);
        int found = find(outputs, count, name);
        if (found >= 0) {
            return found;
        }
    }
    return -1;
}

static kiln_status place_input(const kiln_onnx_model *model, uint32_t index, generate_names *names,
                               kiln_error *err)
{
    size_t n_inputs = 0;
    size_t n_outputs = 0;
    const kiln_onnx_value_info *info = &kiln_onnx_model_inputs(model, &n_inputs)[index];
    const kiln_onnx_value_info *outputs = kiln_onnx_model_outputs(model, &n_outputs);
    const struct {
        const char *name;
        int *place;
    } known[] = {{"input_ids", &names->ids},
                 {"attention_mask", &names->mask},
                 {"position_ids", &names->places}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(info->name, known[i].name) == 0) {
            *known[i].place = (int)index;
            return KILN_STATUS_OK;
        }
    }
    int present = find_present(outputs, n_outputs, info->name);
    if (present < 0 || names->n_pairs == GENERATE_MAX_LAYERS) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "input \"%.64s\" is none that is known: input_ids, attention_mask, "
                         "position_ids, or past.. with an output present..",
                         info->name);
    }
    names->pairs[names->n_pairs++] = (generate_pair){index, (uint32_t)present};
    return KILN_STATUS_OK;
}

static kiln_status check_integers(const kiln_onnx_value_info *info, kiln_error *err)
{
    bool fits = info->dtype == KILN_DTYPE_I64 || info->dtype == KILN_DTYPE_I32;
    if (fits && info->has_shape && info->rank == 2) {
        return KILN_STATUS_OK;
    }
    char text[96];
    kiln_onnx_value_info_text(info, text, sizeof(text));
    return kiln_fail(err, UNIMPLEMENTED, "input \"%.64s\" is %s, not integers [batch,length]",
                     info->name, text);
}

static kiln_status find_logits(const kiln_onnx_model *model, generate_names *names, kiln_error *err)
{
    size_t count = 0;
    const kiln_onnx_value_info *outputs = kiln_onnx_model_outputs(model, &count);
    names->logits = find(outputs, count, "logits");
    if (names->logits < 0 && count == names->n_pairs + 1) { // the one that is not kept
        for (size_t i = 0; names->logits < 0 && i < count; i++) {
            bool kept = false;
            for (size_t k = 0; k < names->n_pairs; k++) {
                kept = kept || names->pairs[k].output == i;
            }
            names->logits = kept ? -1 : (int)i;
        }
    }
    return names->logits >= 0 ? KILN_STATUS_OK
                              : kiln_fail(err, UNIMPLEMENTED, "the model has no output \"logits\"");
}

kiln_status generate_find_names(const kiln_onnx_model *model, generate_names *out_names,
                                kiln_error *err)
{
    size_t count = 0;
    const kiln_onnx_value_info *inputs = kiln_onnx_model_inputs(model, &count);
    out_names->ids = out_names->mask = out_names->places = out_names->logits = -1;
    out_names->n_pairs = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_status status = place_input(model, i, out_names, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    if (out_names->ids < 0) {
        return kiln_fail(err, UNIMPLEMENTED, "the model has no input \"input_ids\"");
    }
    const int integers[] = {out_names->ids, out_names->mask, out_names->places};
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        kiln_status status =
            integers[i] >= 0 ? check_integers(&inputs[integers[i]], err) : KILN_STATUS_OK;
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return find_logits(model, out_names, err);
}
