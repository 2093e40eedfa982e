// SPDX-License-Identifier: MIT OR Apache-2.0
// Copying on the host. One core copies at some 9 GB/s where memory, and the link to a GPU, take
// several times as much: large pieces are copied by several threads. What goes past the caches need
// not be read from memory before it is written.
#include "base.h"

#include <pthread.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { COPY_THREADS = 4, COPY_PIECE = 1 << 20, COPY_LINE = 64 };

typedef struct copy_piece {
    unsigned char *target;
    const unsigned char *source;
    size_t bytes;
} copy_piece;

static void *copy_one(void *user)
{
    const copy_piece *piece = user;
    memcpy(piece->target, piece->source, piece->bytes);
    return NULL;
}

void kiln_copy_wide(void *target, const void *source, size_t bytes)
{
    copy_piece pieces[COPY_THREADS];
    pthread_t threads[COPY_THREADS];
    bool started[COPY_THREADS] = {false};
    size_t count = bytes / COPY_PIECE < COPY_THREADS ? bytes / COPY_PIECE : COPY_THREADS;
    count = count > 0 ? count : 1;
    size_t each = (bytes / count + COPY_LINE - 1) / COPY_LINE * COPY_LINE;
    for (size_t i = 0; i < count; i++) {
        size_t from = i * each < bytes ? i * each : bytes;
        size_t length = bytes - from < each ? bytes - from : each;
        pieces[i] = (copy_piece){.target = (unsigned char *)target + from,
                                 .source = (const unsigned char *)source + from,
                                 .bytes = i + 1 == count ? bytes - from : length};
        // The last piece is this thread's own, as is any for which there is no thread.
        started[i] = i + 1 < count && pthread_create(&threads[i], NULL, copy_one, &pieces[i]) == 0;
        if (!started[i]) {
            copy_one(&pieces[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (started[i]) {
            pthread_join(threads[i], NULL);
        }
    }
}

void kiln_copy_past(void *target, const void *source, size_t bytes)
{
    unsigned char *to = target;
    const unsigned char *from = source;
#ifdef __SSE2__
    size_t before = (size_t)(-(uintptr_t)to % COPY_LINE);
    before = before < bytes ? before : bytes;
    memcpy(to, from, before);
    to += before;
    from += before;
    bytes -= before;
    for (; bytes >= COPY_LINE; bytes -= COPY_LINE, to += COPY_LINE, from += COPY_LINE) {
        for (size_t i = 0; i < COPY_LINE; i += sizeof(__m128i)) {
            _mm_stream_si128((__m128i *)(void *)(to + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
        }
    }
    _mm_sfence();
#endif
    memcpy(to, from, bytes);
}
