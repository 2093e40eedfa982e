// SPDX-License-Identifier: MIT OR Apache-2.0
// A session's life: it is greeted, serves frames, and ends. When the connection ends the session
// stays as it is: what was received has been done.

#include "rpc_pace.h"

#include <stdio.h>
#include <string.h>

// ---- greeting ----

const char *kilni_rpc_session_feature(const kilni_rpc_session_options *options, size_t index)
{
    const struct {
        const char *name;
        bool offered;
    } rows[] = {
        {"resume", true},
        {"graphs", true},
        {"transfer", true},
        {"weights", options->vault != NULL},
        {"memory", options->takes_memory},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].offered && index-- == 0) {
            return rows[i].name;
        }
    }
    return NULL;
}

/// Asks the device nothing: who holds it may compile for long.
static void describe_device(const kilni_rpc_session *session, kiln_v1_Welcome *welcome)
{
    const kiln_device_info *info = kiln_device_info_of(session->device);
    welcome->device_type = (uint32_t)info->type;
    welcome->memory_bytes = info->memory_bytes;
    welcome->storage_dtypes = session->dtypes->storage;
    welcome->arithmetic_dtypes = session->dtypes->arithmetic;
    welcome->accelerated_dtypes = session->dtypes->accelerated;
    snprintf(welcome->device_name, sizeof(welcome->device_name), "%s", info->name);
    snprintf(welcome->driver, sizeof(welcome->driver), "%s", info->driver);
}

static kiln_status welcome_client(kilni_rpc_session *session, kilni_rpc_stream *stream,
                                  uint64_t request, kiln_error *err)
{
    const kilni_rpc_session_options *options = session->options;
    kilni_rpc_frame reply = {0};
    reply.body.request = request;
    reply.body.which_body = kiln_v1_Frame_welcome_tag;
    kiln_v1_Welcome *welcome = &reply.body.body.welcome;
    welcome->version = KILNI_RPC_VERSION;
    welcome->instance = options->instance;
    welcome->session = session->id;
    welcome->token.size = KILNI_RPC_TOKEN;
    memcpy(welcome->token.bytes, session->token, KILNI_RPC_TOKEN);
    welcome->received = session->link.received;
    welcome->max_data_bytes = options->limits.max_data_bytes;
    welcome->max_shared_bytes = options->takes_memory ? KILNI_RPC_TOLD : 0;
    welcome->max_buffers = options->limits.max_buffers;
    welcome->max_bytes = options->limits.max_bytes;
    welcome->max_graphs = options->limits.max_graphs;
    welcome->window_bytes = KILNI_RPC_WINDOW_BYTES;
    welcome->window_frames = KILNI_RPC_WINDOW_FRAMES;
    welcome->resume_seconds = options->resume_seconds;
    welcome->fetch_key.size = KILNI_RPC_PUBLIC_KEY;
    memcpy(welcome->fetch_key.bytes, kilni_rpc_public_key(options->peers->signer),
           KILNI_RPC_PUBLIC_KEY);
    snprintf(welcome->address, sizeof(welcome->address), "%s", options->advertise);
    snprintf(welcome->server, sizeof(welcome->server), "kiln %s", kiln_version());
    const char *feature = NULL;
    while ((feature = kilni_rpc_session_feature(options, welcome->features_count)) != NULL) {
        snprintf(welcome->features[welcome->features_count++], sizeof(welcome->features[0]), "%s",
                 feature);
    }
    describe_device(session, welcome);
    return kilni_rpc_greet(session->env, stream, &reply, err);
}

// ---- life ----

static void free_session(kilni_rpc_session *session)
{
    kilni_rpc_session_unshare(session);
    pthread_mutex_destroy(&session->memory_lock);
    kilni_rpc_lane_leave(session->lane);
    kilni_rpc_party_put(session->options->parties, session->party);
    kiln_free(session->env, session);
}

kiln_status kilni_rpc_session_create(const kiln_env *env, const kilni_rpc_session_options *options,
                                     kilni_rpc_party *party, const kiln_v1_Hello *hello,
                                     kilni_rpc_session **out_session, kiln_error *err)
{
    *out_session = NULL;
    if (hello->device >= options->n_devices) {
        return kiln_fail(err, NOT_FOUND, "there are %u devices; number %u does not exist",
                         options->n_devices, hello->device);
    }
    char number[16];
    snprintf(number, sizeof(number), "%u", hello->device);
    kiln_status status =
        kilni_rpc_party_may(options->parties, party, KILNI_RPC_THING_DEVICE, number, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_rpc_session *session = kiln_alloc(env, sizeof(*session));
    if (session == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a session");
    }
    session->env = env;
    session->options = options;
    session->device = options->devices[hello->device];
    session->dtypes = &options->dtypes[hello->device];
    atomic_init(&session->exposed_bytes, 0);
    pthread_mutex_init(&session->memory_lock, NULL);
    kilni_rpc_link_init(&session->link, env);
    session->link.resumable = hello->resumable;
    session->party = kilni_rpc_party_ref(options->parties, party);
    session->begun_ns = kiln_time_ns();
    snprintf(session->client, sizeof(session->client), "%s", hello->client);
    status =
        kilni_rpc_lane_join(options->turns[hello->device], party,
                            kilni_rpc_party_weight(options->parties, party), &session->lane, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_digest_of(party->name, strlen(party->name), &session->caller, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_random(&session->id, sizeof(session->id), err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_random(session->token, sizeof(session->token), err);
    }
    session->id += session->id == 0;
    if (status != KILN_STATUS_OK) {
        free_session(session);
        return status;
    }
    *out_session = session;
    return KILN_STATUS_OK;
}

void kilni_rpc_session_destroy(kilni_rpc_session *session, const kiln_error *status)
{
    kiln_error ignored = KILN_ERROR_INIT;
    kilni_rpc_withdraw(session->options->exposures, session, 0);
    kilni_rpc_entry_remove_all(session);
    kilni_rpc_graph_forget_all(session);
    // What this thread has recorded and nobody read lets go of its tensors.
    (void)!kiln_flush(session->device, &ignored);
    kilni_rpc_link_fini(&session->link, status);
    while (session->lent != NULL) {
        kilni_rpc_staging *each = session->lent;
        session->lent = each->next;
        kilni_rpc_hold_drain(&each->hold);
        kilni_rpc_staging_free(session->env, each);
    }
    kilni_rpc_staging_free(session->env, session->spare);
    free_session(session);
}

static kiln_status serve_frames(kilni_rpc_session *session, kilni_rpc_inbox *inbox, bool *out_end,
                                kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    while (status == KILN_STATUS_OK && !*out_end && !atomic_load(session->options->stopping)) {
        status = kilni_rpc_link_receive(&session->link, -1, inbox, out_end, err);
        if (status == KILN_STATUS_OK && !*out_end) {
            *out_end = inbox->frame.body.which_body == kiln_v1_Frame_close_tag;
        }
        if (status == KILN_STATUS_OK && !*out_end) {
            status = kilni_rpc_session_handle(session, &inbox->frame, err);
        }
        kilni_rpc_inbox_clear(session->env, inbox);
    }
    return status;
}

bool kilni_rpc_session_serve(kilni_rpc_session *session, kilni_rpc_stream *stream,
                             const kilni_rpc_frame *hello, kiln_error *out_error)
{
    kiln_error ignored = KILN_ERROR_INIT;
    bool end = false;
    kilni_rpc_inbox *inbox = kiln_alloc(session->env, sizeof(*inbox));
    uint64_t arrived =
        hello->body.body.hello.session == session->id ? hello->body.body.hello.received : 0;
    kiln_status greeted = welcome_client(session, stream, hello->body.request, out_error);
    kiln_status status = kilni_rpc_link_attach(&session->link, stream, arrived, out_error);
    if (greeted != KILN_STATUS_OK) {
        session->link.cut = true;
    } else if (inbox == NULL) {
        (void)kiln_fail(out_error, RESOURCE_EXHAUSTED, "no memory for a session");
    } else if (status == KILN_STATUS_OK) {
        (void)serve_frames(session, inbox, &end, out_error);
    }
    kiln_free(session->env, inbox);
    if (atomic_load(session->options->stopping)) {
        return false; // nobody comes back, and what was not launched is dropped
    }
    // Another thread may go on with the session: what this one has recorded must not wait for it.
    (void)!kiln_flush(session->device, &ignored);
    return session->link.resumable && session->link.cut && !end && !session->dropped;
}
