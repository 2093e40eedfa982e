// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a request over HTTP: the first byte says how much of the rest is JSON, what follows
// is binary. Refused in words, or tensors that can all be read; the answer to it can be written.
#include <string.h>

#include "fuzz_target.h"
#include "serving_json.h"

static unsigned seen; ///< so that reading the tensors is not optimised away

static void check_tensor(const kiln_model_tensor *tensor)
{
    const unsigned char *bytes = tensor->data;
    must(tensor->rank <= KILN_MAX_RANK);
    for (size_t i = 0; bytes != NULL && i < tensor->bytes; i++) {
        seen += bytes[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    static kilni_json_infer infer; // too much for a stack
    const kiln_model_answer answer = {.version = "1"};
    size_t length = size > 0 ? size - 1 : 0;
    memset(&infer, 0, sizeof(infer));
    const char *body = size > 0 ? (const char *)data + 1 : "";
    size_t json = size > 0 && data[0] < length ? length - data[0] : length;
    if (kilni_json_infer_read(&env, body, length, json, &infer, &err) == KILN_STATUS_OK) {
        kiln_string out;
        size_t json_length = 0;
        must(infer.request.n_inputs <= KILN_MODEL_TENSORS &&
             infer.request.n_wanted <= KILN_MODEL_TENSORS);
        for (uint32_t i = 0; i < infer.request.n_inputs; i++) {
            check_tensor(&infer.request.inputs[i]);
        }
        kiln_string_init(&out, &env);
        must(kilni_json_answer_put(&out, &infer, &answer, &json_length, &err) == KILN_STATUS_OK);
        kiln_string_fini(&out);
    } else {
        must(err.message[0] != '\0');
    }
    kilni_json_infer_fini(&infer);
    return 0;
}
