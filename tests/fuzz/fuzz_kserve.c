// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a request of KServe's protocol: refused in words, or tensors whose bytes are as many
// as their shapes ask for and can all be read; the answer to it can be written.
#include <string.h>

#include "fuzz_target.h"
#include "kserve.h"

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
    static kilni_kserve_infer infer; // too much for a stack
    const kiln_model_answer answer = {.version = "1"};
    kilni_wire_piece message = {data, size};
    memset(&infer, 0, sizeof(infer));
    if (kilni_kserve_infer_read(&env, message, &infer, &err) == KILN_STATUS_OK) {
        kiln_string out;
        must(infer.request.n_inputs <= KILN_MODEL_TENSORS &&
             infer.request.n_wanted <= KILN_MODEL_TENSORS);
        for (uint32_t i = 0; i < infer.request.n_inputs; i++) {
            check_tensor(&infer.request.inputs[i]);
        }
        kiln_string_init(&out, &env);
        kilni_kserve_answer_put(&out, &infer, &answer, /*contents=*/NULL);
        kiln_string_fini(&out);
    } else {
        must(err.message[0] != '\0');
    }
    kilni_kserve_infer_clear(&infer);
    return 0;
}
