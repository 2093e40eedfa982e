// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators of plugins over the wire: the client records with its own plugin's rule, the server
// runs its own plugin's operator and believes nothing that the client states; without a plugin on
// either side the error says so.

#include "remote_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 6 };

static const float contents[N] = {-3, -1, 0, 1, 2, 9};

/// The pair's members with a context for each side.
typedef struct sides {
    pair server; ///< and its address
    kiln_context *context;
    kiln_device *remote;
} sides;

static bool load(kiln_context *context, bool with, kiln_error *err)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/lib/kiln/test_plugins/acme_operators.so", KILN_TEST_BUILD_DIR);
    return !with || KILN_CHECK_INT(kiln_plugin_load(context, path, err), KILN_STATUS_OK);
}

static bool open_sides(sides *s, bool server_has, bool client_has)
{
    pair *p = &s->server;
    memset(s, 0, sizeof(*s));
    return PAIR_OK(p, kiln_context_create(NULL, &p->context, &p->err)) &&
           load(p->context, server_has, &p->err) &&
           PAIR_OK(p, kiln_device_open(p->context, "reference", &p->local, &p->err)) &&
           PAIR_OK(p, kiln_rpc_server_create(&p->local, 1, NULL, &p->server, &p->err)) &&
           PAIR_OK(p, kiln_context_create(NULL, &s->context, &p->err)) &&
           load(s->context, client_has, &p->err) &&
           PAIR_OK(p, kiln_context_add_provider(s->context, kiln_rpc_provider(), &p->err)) &&
           PAIR_OK(p, kiln_device_open(s->context, kiln_rpc_server_address(p->server, 0),
                                       &s->remote, &p->err));
}

static void close_sides(sides *s)
{
    kiln_device_release(s->remote);
    kiln_context_destroy(s->context);
    pair_close(&s->server);
}

static kiln_status record(sides *s, const char *name, kiln_tensor *x, kiln_tensor **out,
                          size_t n_outputs)
{
    kiln_custom_call call = KILN_CUSTOM_CALL_INIT;
    call.name = name;
    call.inputs = &x;
    call.n_inputs = 1;
    return kiln_custom(s->remote, &call, out, n_outputs, &s->server.err);
}

static kiln_tensor *upload(sides *s)
{
    const int64_t dims[] = {2, 3};
    kiln_tensor *x = NULL;
    PAIR_OK(&s->server,
            kiln_tensor_create(s->remote, KILN_DTYPE_F32, 2, dims, contents, &x, &s->server.err));
    return x;
}

static void test_both_have_it(void)
{
    sides s;
    float y[N] = {0}, top[2] = {0};
    int64_t at[2] = {0};
    kiln_tensor *out = NULL, *two[2] = {NULL};
    if (!open_sides(&s, true, true)) {
        return;
    }
    kiln_tensor *x = upload(&s);
    PAIR_OK(&s.server, record(&s, "acme::mish_clip", x, &out, 1));
    PAIR_OK(&s.server, record(&s, "acme::row_top", x, two, 2));
    PAIR_OK(&s.server, kiln_read(out, y, sizeof(y), &s.server.err));
    PAIR_OK(&s.server, kiln_read(two[0], top, sizeof(top), &s.server.err));
    PAIR_OK(&s.server, kiln_read(two[1], at, sizeof(at), &s.server.err));
    for (int i = 0; i < N; i++) {
        double v = (double)contents[i];
        KILN_CHECK_NEAR((double)y[i], fmin(v * tanh(log1p(exp(v))), 6), 1e-6);
    }
    KILN_CHECK(top[0] == 0 && top[1] == 9 && at[0] == 2 && at[1] == 2);
    kiln_release(x);
    kiln_release(out);
    kiln_release(two[0]);
    kiln_release(two[1]);
    close_sides(&s);
}

/// The client knows shapes, the server does not know the operator: the first wait says so, and the
/// session goes on.
static void test_server_lacks_it(void)
{
    sides s;
    float y[N] = {0};
    kiln_tensor *out = NULL, *sum = NULL;
    if (!open_sides(&s, false, true)) {
        return;
    }
    kiln_tensor *x = upload(&s);
    PAIR_OK(&s.server, record(&s, "acme::mish_clip", x, &out, 1));
    KILN_CHECK_INT(kiln_read(out, y, sizeof(y), &s.server.err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(s.server.err.message, "no plugin brings operator acme::mish_clip");
    PAIR_OK(&s.server, kiln_add(x, x, &sum, &s.server.err));
    PAIR_OK(&s.server, kiln_read(sum, y, sizeof(y), &s.server.err));
    KILN_CHECK(y[5] == 18);
    kiln_release(x);
    kiln_release(out);
    kiln_release(sum);
    close_sides(&s);
}

/// The client has to know what shapes come out: it says at the call that it does not.
static void test_client_lacks_it(void)
{
    sides s;
    kiln_tensor *out = NULL;
    if (!open_sides(&s, true, false)) {
        return;
    }
    kiln_tensor *x = upload(&s);
    KILN_CHECK_INT(record(&s, "acme::mish_clip", x, &out, 1), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(s.server.err.message, "no plugin brings operator acme::mish_clip");
    KILN_CHECK(out == NULL);
    kiln_release(x);
    close_sides(&s);
}

/// A client by hand, as one in another language, states shapes itself.
static uint32_t by_hand(hand *h, const char *name, const char *attributes, kiln_tensor_desc y)
{
    static uint64_t target = 10;
    const kiln_tensor_desc x = hand_floats(1, N);
    const kiln_attr attrs[] = {
        {KILN_ATTR_STRING, (uint32_t)strlen(name), {.text = name}},
        {KILN_ATTR_I64, 1, {.i = 1}},
        {KILN_ATTR_STRING, (uint32_t)strlen(attributes), {.text = attributes}}};
    const kiln_op_record call = {.op = KILN_OP_CUSTOM,
                                 .n_inputs = 1,
                                 .n_outputs = 1,
                                 .n_attrs = 3,
                                 .inputs = &x,
                                 .outputs = &y,
                                 .attrs = attrs};
    hand_write(h, 1, 0, sizeof(contents), contents, sizeof(contents));
    hand_run(h, &call, 1, 1, ++target, 0);
    return hand_fence(h);
}

static void test_stated_shapes(void)
{
    sides s;
    hand h;
    kiln_tensor_desc y = hand_floats(2, N);
    if (!open_sides(&s, true, true) || !hand_open(&h, &s.server)) {
        return;
    }
    KILN_CHECK_INT(by_hand(&h, "acme::mish_clip", "clip=2.0", y), 0);
    KILN_CHECK_INT(hand_read(&h, 11, 0, sizeof(contents)), 0);
    KILN_CHECK_NEAR((double)hand_float(h.frame->data, 5), 2, 1e-6);
    KILN_CHECK_INT(by_hand(&h, "acme::mish_clip", "clip=2", y), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(by_hand(&h, "acme::mish_clip", "", y), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(by_hand(&h, "acme::mish_clip", "clip=nan", y), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(by_hand(&h, "acme::nothing", "clip=2.0", y), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(by_hand(&h, "nothing", "clip=2.0", y), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(by_hand(&h, "acme::row_top", "axis=0", y), KILN_STATUS_INVALID_ARGUMENT);
    y.dims[0] = N - 1; // less than it is
    KILN_CHECK_INT(by_hand(&h, "acme::mish_clip", "clip=2.0", y), KILN_STATUS_INVALID_ARGUMENT);
    y.dims[0] = (int64_t)1 << 40; // more than there may be
    KILN_CHECK_INT(by_hand(&h, "acme::mish_clip", "clip=2.0", y), KILN_STATUS_INVALID_ARGUMENT);
    y = hand_floats(2, N);
    y.dtype = KILN_DTYPE_I32;
    KILN_CHECK_INT(by_hand(&h, "acme::mish_clip", "clip=2.0", y), KILN_STATUS_INVALID_ARGUMENT);
    hand_close(&h);
    close_sides(&s);
}

KILN_TEST_MAIN("unit/remote_grpc/custom", KILN_TEST(test_both_have_it),
               KILN_TEST(test_server_lacks_it), KILN_TEST(test_client_lacks_it),
               KILN_TEST(test_stated_shapes))
