// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of the Open Inference Protocol as bytes: what is read of them, and that damaged ones are
// refused or read inside their bytes.

#include "harness.h"
#include "kserve.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_MESSAGES = 20000 };

/// x: two floats, typed and raw; with a parameter and a wanted output.
static void put_request(kiln_string *out, bool typed)
{
    static const float numbers[] = {1.5f, -2};
    kiln_string input, inner, entry;
    kiln_string_init(&input, out->env);
    kiln_string_init(&inner, out->env);
    kiln_string_init(&entry, out->env);
    kilni_wire_put_text(out, 1, "model");
    kilni_wire_put_text(out, 3, "id");
    kilni_wire_put_text(&entry, 1, "timeout");
    kilni_wire_put_number(&inner, 2, 1000);
    kilni_wire_put_message(&entry, 2, &inner);
    kilni_wire_put_message(out, 4, &entry);
    kilni_wire_put_text(&input, 1, "x");
    kilni_wire_put_text(&input, 2, "FP32");
    kilni_wire_put(&input, 3, "\1\2", 2);
    if (typed) {
        kiln_string_init(&inner, out->env);
        kilni_wire_put(&inner, 6, numbers, sizeof(numbers));
        kilni_wire_put_message(&input, 5, &inner);
    }
    kilni_wire_put_message(out, 5, &input);
    kiln_string_init(&entry, out->env);
    kilni_wire_put_text(&entry, 1, "y");
    kilni_wire_put_message(out, 6, &entry);
    if (!typed) {
        kilni_wire_put(out, 7, numbers, sizeof(numbers));
    }
}

/// So that the next request finds nothing of this one.
static void clear(kilni_kserve_infer *infer)
{
    static const kilni_kserve_infer zeros;
    kilni_kserve_infer_clear(infer);
    KILN_CHECK(memcmp(infer, &zeros, sizeof(zeros)) == 0);
}

static void test_typed_and_raw(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kilni_kserve_infer *infer = calloc(1, sizeof(*infer));
    for (int typed = 0; typed < 2; typed++) {
        kiln_error err = KILN_ERROR_INIT;
        kiln_string message;
        float got[2] = {0, 0};
        kiln_string_init(&message, &env);
        put_request(&message, typed != 0);
        const kilni_wire_piece piece = {(const unsigned char *)message.text, message.length};
        KILN_CHECK_INT(kilni_kserve_infer_read(&env, piece, infer, &err), KILN_STATUS_OK);
        const kiln_model_tensor *x = &infer->request.inputs[0];
        KILN_CHECK_STR(infer->request.model, "model");
        KILN_CHECK_INT(infer->request.timeout_us, 1000);
        KILN_CHECK_STR(infer->request.wanted[0].name, "y");
        KILN_CHECK(x->rank == 2 && x->dims[0] == 1 && x->dims[1] == 2 && x->bytes == 8);
        memcpy(got, x->data, sizeof(got));
        KILN_CHECK(got[0] == 1.5f && got[1] == -2);
        clear(infer);
        kiln_string_fini(&message);
    }
    free(infer);
}

/// Tensors of a damaged request lie in it, or in its arena.
static void check_inside(const kilni_kserve_infer *infer, const unsigned char *bytes, size_t length)
{
    for (uint32_t i = 0; i < infer->request.n_inputs; i++) {
        const kiln_model_tensor *tensor = &infer->request.inputs[i];
        const unsigned char *data = tensor->data;
        if (data >= bytes && data <= bytes + length && tensor->region[0] == '\0') {
            KILN_CHECK(tensor->bytes <= (size_t)(bytes + length - data));
        }
        KILN_CHECK(tensor->rank <= KILN_MAX_RANK);
    }
}

static void test_damaged(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kilni_kserve_infer *infer = calloc(1, sizeof(*infer));
    uint64_t state = 88172645463325252u;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < USUAL_MESSAGES; i++) {
        kiln_error err = KILN_ERROR_INIT;
        kiln_string message;
        kiln_string_init(&message, &env);
        put_request(&message, i % 2 != 0);
        for (uint32_t k = 0; k < 1 + i % 3; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            message.text[state % message.length] = (char)(state >> 32);
        }
        size_t length = i % 5 == 0 ? state % message.length : message.length;
        unsigned char *exact = malloc(length + 1); // so that a sanitizer sees its end
        memcpy(exact, message.text, length);
        kiln_status status =
            kilni_kserve_infer_read(&env, (kilni_wire_piece){exact, length}, infer, &err);
        refused += status != KILN_STATUS_OK;
        KILN_CHECK(status == KILN_STATUS_OK || err.message[0] != '\0');
        check_inside(infer, exact, length);
        clear(infer);
        free(exact);
        kiln_string_fini(&message);
    }
    KILN_CHECK(refused > USUAL_MESSAGES / 10 && refused < USUAL_MESSAGES);
    free(infer);
}

KILN_TEST_MAIN("unit/remote_grpc/kserve", KILN_TEST(test_typed_and_raw), KILN_TEST(test_damaged))
