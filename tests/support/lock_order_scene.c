// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes locks in the order that its argument names, in one thread, so that nothing ever hangs: for
// the test of lock_order.c. It ends with 0 if nobody stops it.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t a, b, c, one[2];
static pthread_mutex_t fixed = PTHREAD_MUTEX_INITIALIZER;

/// One place makes both: they are of one kind.
__attribute__((noinline)) static void make_one(int index)
{
    pthread_mutex_init(&one[index], NULL);
}

static void both(pthread_mutex_t *first, pthread_mutex_t *second)
{
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(first); // in any order
    pthread_mutex_unlock(second);
}

static void same(void)
{
    for (int i = 0; i < 2; i++) {
        both(&a, &b);
        both(&b, &c);
        both(&a, &fixed);
        both(&one[0], &one[1]);
    }
}

static void turned(void)
{
    both(&a, &b);
    both(&b, &a);
}

static void circle(void)
{
    both(&a, &b);
    both(&b, &fixed);
    both(&fixed, &a);
}

static void siblings(void)
{
    both(&one[0], &one[1]);
    both(&one[1], &one[0]);
}

/// The mutex of the condition is given back and taken again, under b.
static void waiting(void)
{
    pthread_cond_t never;
    const struct timespec past = {0, 0};
    pthread_cond_init(&never, NULL);
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    (void)pthread_cond_timedwait(&never, &a, &past);
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    pthread_cond_destroy(&never);
}

/// Who tries does not wait.
static void trying(void)
{
    both(&a, &b);
    pthread_mutex_lock(&b);
    if (pthread_mutex_trylock(&a) == 0) {
        pthread_mutex_unlock(&a);
    }
    pthread_mutex_unlock(&b);
}

/// Another mutex at the place of one that is gone has no past.
static void again(void)
{
    both(&one[0], &one[1]);
    pthread_mutex_destroy(&one[0]);
    make_one(0);
    both(&one[1], &one[0]);
}

static void twice(void)
{
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&a);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = {{"same", same},         {"turned", turned},   {"circle", circle},
                  {"siblings", siblings}, {"waiting", waiting}, {"trying", trying},
                  {"again", again},       {"twice", twice}};
    pthread_mutex_init(&a, NULL);
    pthread_mutex_init(&b, NULL);
    pthread_mutex_init(&c, NULL);
    make_one(0);
    make_one(1);
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        if (argc == 2 && strcmp(argv[1], scenes[i].name) == 0) {
            scenes[i].run();
            return 0;
        }
    }
    fprintf(stderr, "no such scene\n");
    return 2;
}
