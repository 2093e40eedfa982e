// SPDX-License-Identifier: MIT OR Apache-2.0
// A table of sequences, by caller and id. Decides which instance takes a new one, how many there
// may be, and which have rested too long. A sequence that is no longer listed goes with its last
// request; its values are freed outside of the lock, for that waits for the device.

#include "serving_sequences.h"

#include "base_wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void kilni_serving_sequences_init(kilni_serving_sequences *sequences, const kiln_env *env,
                                  const kiln_model_info *info)
{
    *sequences = (kilni_serving_sequences){.env = env, .info = info};
    pthread_mutex_init(&sequences->lock, NULL);
    kiln_cond_init(&sequences->changed);
}

void kilni_serving_sequence_forget(kilni_serving_sequence *sequence)
{
    kiln_onnx_state_destroy(sequence->state);
    sequence->state = NULL;
    for (size_t i = 0; i < KILN_MODEL_TENSORS; i++) {
        kiln_release(sequence->values[i]);
        sequence->values[i] = NULL;
    }
}

static void free_sequences(const kiln_env *env, kilni_serving_sequence *gone)
{
    while (gone != NULL) {
        kilni_serving_sequence *next = gone->next;
        kilni_serving_sequence_forget(gone);
        kiln_free(env, gone);
        gone = next;
    }
}

void kilni_serving_sequences_fini(kilni_serving_sequences *sequences)
{
    pthread_mutex_lock(&sequences->lock);
    sequences->stopping = true;
    pthread_cond_signal(&sequences->changed);
    pthread_mutex_unlock(&sequences->lock);
    if (sequences->started) {
        (void)pthread_join(sequences->thread, NULL);
    }
    free_sequences(sequences->env, sequences->first);
    pthread_cond_destroy(&sequences->changed);
    pthread_mutex_destroy(&sequences->lock);
}

// ---- under the lock ----

static kilni_serving_sequence **find_sequence(kilni_serving_sequences *sequences, const char *id,
                                              const char *caller)
{
    kilni_serving_sequence **link = &sequences->first;
    while (*link != NULL &&
           (strcmp((*link)->id, id) != 0 || strcmp((*link)->caller, caller) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

/// Takes a sequence off the list, and into `gone` when no request is on its way.
static void unlist(kilni_serving_sequences *sequences, kilni_serving_sequence **link,
                   kilni_serving_sequence **gone)
{
    kilni_serving_sequence *sequence = *link;
    *link = sequence->next;
    sequence->listed = false;
    sequences->count--;
    if (sequence->waiting == 0) {
        sequence->next = *gone;
        *gone = sequence;
    }
}

/// Gives when the next one will have rested for its whole time; UINT64_MAX: none rests.
static uint64_t unlist_idle(kilni_serving_sequences *sequences, kilni_serving_sequence **gone)
{
    uint64_t now = kiln_time_ns();
    uint64_t idle_ns = sequences->info->sequence_idle_us * 1000;
    uint64_t next = UINT64_MAX;
    for (kilni_serving_sequence **link = &sequences->first; *link != NULL;) {
        kilni_serving_sequence *each = *link;
        if (each->waiting == 0 && now - each->used_ns >= idle_ns) {
            unlist(sequences, link, gone);
            continue;
        }
        if (each->waiting == 0 && each->used_ns + idle_ns < next) {
            next = each->used_ns + idle_ns;
        }
        link = &each->next;
    }
    return next;
}

/// The instance with the fewest sequences.
static uint32_t choose_instance(const kilni_serving_sequences *sequences)
{
    uint32_t best = 0;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < sequences->info->instances; i++) {
        uint32_t count = 0;
        for (const kilni_serving_sequence *each = sequences->first; each != NULL;
             each = each->next) {
            count += each->instance == i;
        }
        best = count < least ? i : best;
        least = count < least ? count : least;
    }
    return best;
}

static kiln_status begin_sequence(kilni_serving_sequences *sequences,
                                  const kiln_model_request *request, const char *caller,
                                  kilni_serving_sequence **out_sequence, kiln_error *err)
{
    const kiln_model_info *info = sequences->info;
    if (sequences->count >= info->max_sequences) {
        return kiln_fail(err, UNAVAILABLE, "%u sequences of model %.60s are held, the most allowed",
                         sequences->count, info->name);
    }
    kilni_serving_sequence *made = kiln_alloc(sequences->env, sizeof(*made));
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a sequence");
    }
    snprintf(made->id, sizeof(made->id), "%s", request->sequence);
    snprintf(made->caller, sizeof(made->caller), "%s", caller);
    made->instance = choose_instance(sequences);
    made->listed = true;
    made->next = sequences->first;
    sequences->first = made;
    sequences->count++;
    *out_sequence = made;
    return KILN_STATUS_OK;
}

// ---- requests ----

kiln_status kilni_serving_sequences_enter(kilni_serving_sequences *sequences,
                                          const kiln_model_request *request,
                                          kilni_serving_sequence **out_sequence, kiln_error *err)
{
    const kiln_model_info *info = sequences->info;
    const char *caller = request->caller != NULL ? request->caller : "";
    kilni_serving_sequence *gone = NULL;
    kiln_status status = KILN_STATUS_OK;
    *out_sequence = NULL;
    if (!info->sequences) {
        return KILN_STATUS_OK;
    }
    if (request->sequence[0] == '\0') {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "model %.60s keeps states: its requests have a sequence_id", info->name);
    }
    pthread_mutex_lock(&sequences->lock);
    (void)unlist_idle(sequences, &gone);
    kilni_serving_sequence **found = find_sequence(sequences, request->sequence, caller);
    if (request->sequence_start) {
        if (*found != NULL) {
            unlist(sequences, found, &gone);
        }
        status = begin_sequence(sequences, request, caller, out_sequence, err);
    } else if (*found != NULL) {
        *out_sequence = *found;
    } else {
        status = kiln_fail(err, INVALID_ARGUMENT,
                           "model %.60s has no sequence \"%.60s\" of yours: the first request has "
                           "sequence_start, and one that rests for %" PRIu64 " us has ended",
                           info->name, request->sequence, info->sequence_idle_us);
    }
    if (status == KILN_STATUS_OK) {
        (*out_sequence)->waiting++;
    }
    pthread_mutex_unlock(&sequences->lock);
    free_sequences(sequences->env, gone);
    return status;
}

void kilni_serving_sequences_leave(kilni_serving_sequences *sequences,
                                   kilni_serving_sequence *sequence, bool ended)
{
    kilni_serving_sequence *gone = NULL;
    if (sequence == NULL) {
        return;
    }
    pthread_mutex_lock(&sequences->lock);
    sequence->waiting--;
    sequence->used_ns = kiln_time_ns();
    bool useless = sequence->waiting == 0 && (sequence->lost || sequence->rows == 0);
    if (sequence->listed && (ended || useless)) {
        kilni_serving_sequence **link = &sequences->first;
        while (*link != sequence) {
            link = &(*link)->next;
        }
        unlist(sequences, link, &gone);
    } else if (!sequence->listed && sequence->waiting == 0) {
        sequence->next = NULL;
        gone = sequence;
    }
    if (sequences->asleep) {
        pthread_cond_signal(&sequences->changed);
    }
    pthread_mutex_unlock(&sequences->lock);
    free_sequences(sequences->env, gone);
}

uint32_t kilni_serving_sequences_count(kilni_serving_sequences *sequences)
{
    pthread_mutex_lock(&sequences->lock);
    uint32_t count = sequences->count;
    pthread_mutex_unlock(&sequences->lock);
    return count;
}

// ---- those that rest ----

/// All rest equally long, so what comes to rest while this waits for a time goes after that time.
static void *let_go(void *pointer)
{
    kilni_serving_sequences *sequences = pointer;
    pthread_mutex_lock(&sequences->lock);
    while (!sequences->stopping) {
        kilni_serving_sequence *gone = NULL;
        uint64_t next_ns = unlist_idle(sequences, &gone);
        if (gone != NULL) {
            pthread_mutex_unlock(&sequences->lock);
            free_sequences(sequences->env, gone);
            pthread_mutex_lock(&sequences->lock);
        } else if (next_ns == UINT64_MAX) {
            sequences->asleep = true;
            (void)pthread_cond_wait(&sequences->changed, &sequences->lock);
            sequences->asleep = false;
        } else {
            (void)kiln_cond_wait_until(&sequences->changed, &sequences->lock, next_ns);
        }
    }
    pthread_mutex_unlock(&sequences->lock);
    return NULL;
}

kiln_status kilni_serving_sequences_start(kilni_serving_sequences *sequences, kiln_error *err)
{
    sequences->started = pthread_create(&sequences->thread, NULL, let_go, sequences) == 0;
    return sequences->started
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a model's sequences");
}
