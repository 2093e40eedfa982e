// SPDX-License-Identifier: MIT OR Apache-2.0
// What is under way, told by a thread of its own, for the one that works cannot while it compiles.
// Decides when a line is worth writing, and takes it away again; what it says is the command's.

#include "cli_progress.h"
#include "base_wait.h"
#include "kiln.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const uint64_t patience_ns = 1000000000;
enum { STEP_NS = 250000000 };

struct cli_progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *what; ///< NULL: nothing is shown
    uint64_t since_ns;
    bool shown;
    bool over;
};

// Of the process: what compiles knows of no line.
static atomic_uint expected, compiled;

bool cli_progress_is_seen(void)
{
    return isatty(STDERR_FILENO) != 0;
}

void cli_progress_expect(unsigned kernels)
{
    atomic_store(&expected, kernels);
    atomic_store(&compiled, 0);
}

void cli_progress_compiling(void)
{
    (void)atomic_fetch_add(&compiled, 1);
}

static const char *compiling_text(char out_text[64])
{
    unsigned count = atomic_load(&compiled), most = atomic_load(&expected);
    if (count == 0) {
        return "";
    }
    snprintf(out_text, 64,
             count <= most ? ", compiling %u of at most %u kernels" : ", compiling kernel %u",
             count, most);
    return out_text;
}

static void clear_locked(cli_progress *progress)
{
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->shown = false;
    }
}

static void show_locked(cli_progress *progress)
{
    uint64_t taken_ns = kiln_time_ns() - progress->since_ns;
    if (progress->what != NULL && taken_ns > patience_ns) {
        char compiling[64];
        fprintf(stderr, "\r%s%s: %.0f s\033[K", progress->what, compiling_text(compiling),
                (double)taken_ns / 1e9);
        fflush(stderr);
        progress->shown = true;
    }
}

static void *run(void *user)
{
    cli_progress *progress = user;
    pthread_mutex_lock(&progress->lock);
    while (!progress->over) {
        (void)kiln_cond_wait_until(&progress->changed, &progress->lock, kiln_time_ns() + STEP_NS);
        if (!progress->over) {
            show_locked(progress);
        }
    }
    pthread_mutex_unlock(&progress->lock);
    return NULL;
}

/// Signals are for the thread that works.
static bool start(cli_progress *progress)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&progress->thread, NULL, run, progress) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

cli_progress *cli_progress_begin(const char *what)
{
    cli_progress *progress = cli_progress_is_seen() ? calloc(1, sizeof(*progress)) : NULL;
    if (progress == NULL) {
        return NULL;
    }
    progress->what = what;
    progress->since_ns = kiln_time_ns();
    pthread_mutex_init(&progress->lock, NULL);
    kiln_cond_init(&progress->changed);
    if (!start(progress)) {
        pthread_cond_destroy(&progress->changed);
        pthread_mutex_destroy(&progress->lock);
        free(progress);
        return NULL;
    }
    return progress;
}

void cli_progress_say(cli_progress *progress, const char *what)
{
    if (progress != NULL) {
        pthread_mutex_lock(&progress->lock);
        clear_locked(progress);
        progress->what = what;
        progress->since_ns = kiln_time_ns();
        atomic_store(&compiled, 0);
        pthread_mutex_unlock(&progress->lock);
    }
}

void cli_progress_clear(cli_progress *progress)
{
    cli_progress_say(progress, NULL);
}

void cli_progress_end(cli_progress *progress)
{
    if (progress == NULL) {
        return;
    }
    pthread_mutex_lock(&progress->lock);
    clear_locked(progress);
    progress->over = true;
    pthread_cond_signal(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    pthread_cond_destroy(&progress->changed);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}
