// SPDX-License-Identifier: MIT OR Apache-2.0
// A library to preload (LD_PRELOAD) that ends a program whose threads take locks in an order by
// which they could wait for each other for ever, whether they do or not. KILN_TEST_LOCK_ORDER is a
// folder: the mutexes count that the objects below it make, not those of the C library, a driver or
// gRPC.
//
// Mutexes that one place of the code makes are of one kind. Whoever takes a lock of kind B while it
// holds one of kind A puts A before B for good; the other way round is then an error, over any
// number of kinds. Two locks of one kind are compared by themselves. A wait for a condition takes
// its mutex again, under whatever else is held.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KINDS = 512, MOST_HELD = 32, MOST_OBJECTS = 64, BUCKETS = 4096 };

typedef struct lock { ///< a mutex that counts, from its making to its end
    pthread_mutex_t *mutex;
    uint32_t kind;
    uint64_t number; ///< never used again
    struct lock *next;
} lock;

typedef struct pair { ///< of one kind: `first` was held when `second` was taken
    uint64_t first, second;
    struct pair *next;
} pair;

typedef struct held {
    const lock *locks[MOST_HELD];
    uint32_t count;
} held;

typedef struct range {
    uintptr_t begin, end;
} range;

static struct {
    int (*init)(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
    int (*destroy)(pthread_mutex_t *mutex);
    int (*lock)(pthread_mutex_t *mutex);
    int (*try_lock)(pthread_mutex_t *mutex);
    int (*unlock)(pthread_mutex_t *mutex);
    int (*wait)(pthread_cond_t *cond, pthread_mutex_t *mutex);
    int (*wait_until)(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
    int (*wait_by)(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                   const struct timespec *until);
} real;

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; ///< of all that follows
static lock *locks[BUCKETS];
static pair *pairs[BUCKETS];
static const void *made_at[MOST_KINDS]; ///< by kind
static uint32_t n_kinds;
static uint64_t last_number;
static const void *seen_at[MOST_KINDS][MOST_KINDS]; ///< where [b] was taken under [a]; NULL: never
static range objects[MOST_OBJECTS];
static uint32_t n_objects;
static _Thread_local held mine;

// ---- whose mutexes count ----

static int note_object(struct dl_phdr_info *info, size_t bytes, void *folder)
{
    char path[4096];
    (void)bytes;
    const char *name = realpath(info->dlpi_name[0] != 0 ? info->dlpi_name : "/proc/self/exe", path);
    if (name == NULL || strncmp(name, folder, strlen(folder)) != 0 ||
        strstr(name, "/lock_order.so") != NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum && n_objects < MOST_OBJECTS; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0) {
            uintptr_t begin = info->dlpi_addr + part->p_vaddr;
            objects[n_objects++] = (range){begin, begin + part->p_memsz};
        }
    }
    return 0;
}

static bool counts(const void *caller)
{
    for (uint32_t i = 0; i < n_objects; i++) {
        if ((uintptr_t)caller >= objects[i].begin && (uintptr_t)caller < objects[i].end) {
            return true;
        }
    }
    return false;
}

/// The functions below this library; a pointer to a function is no pointer to an object in C.
static void *find(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        fprintf(stderr, "lock order: no %s\n", name);
        abort();
    }
    return function;
}

#define REAL(member, name)                                                                         \
    if (real.member == NULL) {                                                                     \
        void *found = find(name);                                                                  \
        memcpy(&real.member, &found, sizeof(found));                                               \
    }

static void enter(void)
{
    REAL(lock, "pthread_mutex_lock")
    real.lock(&guard);
}

static void leave(void)
{
    REAL(unlock, "pthread_mutex_unlock")
    real.unlock(&guard);
}

/// Objects that are loaded later hold no locks: plugins have none.
__attribute__((constructor)) static void begin(void)
{
    char *folder = getenv("KILN_TEST_LOCK_ORDER");
    if (folder != NULL) {
        dl_iterate_phdr(note_object, folder);
    }
    pthread_atfork(enter, leave, leave);
}

// ---- mutexes and their kinds ----

static void *make(size_t bytes)
{
    void *made = calloc(1, bytes);
    if (made == NULL) {
        fprintf(stderr, "lock order: no memory\n");
        abort();
    }
    return made;
}

static lock **place_of(const pthread_mutex_t *mutex)
{
    lock **at = &locks[((uintptr_t)mutex >> 3) * 0x9E3779B97F4A7C15u >> 52];
    while (*at != NULL && (*at)->mutex != mutex) {
        at = &(*at)->next;
    }
    return at;
}

static void forget(const pthread_mutex_t *mutex)
{
    lock **at = place_of(mutex), *old = *at;
    if (old != NULL) {
        *at = old->next;
        free(old);
    }
}

static uint32_t kind_of(const void *maker)
{
    uint32_t kind = 0;
    while (kind < n_kinds && made_at[kind] != maker) {
        kind++;
    }
    if (kind == MOST_KINDS) {
        fprintf(stderr, "lock order: more than %d kinds of locks\n", MOST_KINDS);
        abort();
    }
    made_at[kind] = maker;
    n_kinds += kind == n_kinds;
    return kind;
}

static void remember(pthread_mutex_t *mutex, const void *maker)
{
    forget(mutex);
    lock *fresh = make(sizeof(*fresh)), **at = place_of(mutex);
    *fresh = (lock){.mutex = mutex, .kind = kind_of(maker), .number = ++last_number};
    *at = fresh;
}

/// NULL for a mutex that does not count. One that nobody made was made by its first user: it is a
/// static one.
static const lock *lock_of(pthread_mutex_t *mutex, const void *caller)
{
    lock *known = *place_of(mutex);
    if (known == NULL && counts(caller)) {
        remember(mutex, mutex);
        known = *place_of(mutex);
    }
    return known;
}

// ---- orders ----

static void tell_place(const char *what, const void *place)
{
    Dl_info info = {0};
    const char *object = dladdr(place, &info) != 0 ? info.dli_fname : "?";
    fprintf(stderr, "%s %s+0x%lx", what, object,
            (unsigned long)((uintptr_t)place - (uintptr_t)info.dli_fbase));
}

static void tell_order(uint32_t before, uint32_t behind, const void *place)
{
    tell_place("lock order:   made at", made_at[before]);
    tell_place(" held, made at", made_at[behind]);
    tell_place(" taken, at", place);
    fputc('\n', stderr);
}

/// Whether `to` was ever taken under `from`, or under what was taken under it; tells of each step
/// on the way.
static bool follows(uint32_t from, uint32_t to, bool *been)
{
    been[from] = true;
    for (uint32_t next = 0; next < n_kinds; next++) {
        if (seen_at[from][next] != NULL && !been[next] && (next == to || follows(next, to, been))) {
            tell_order(from, next, seen_at[from][next]);
            return true;
        }
    }
    return false;
}

static void end_with(const char *what)
{
    fprintf(stderr, "lock order: %s; `addr2line -ife OBJECT OFFSET` names a place\n", what);
    abort();
}

/// Two locks of one kind, by what was done with these two.
static void order_pair(uint64_t first, uint64_t second)
{
    pair **at = &pairs[(first + second) * 0x9E3779B97F4A7C15u >> 52];
    for (; *at != NULL; at = &(*at)->next) {
        if ((*at)->first == second && (*at)->second == first) {
            end_with("two locks of this kind were taken in both orders");
        }
        if ((*at)->first == first && (*at)->second == second) {
            return;
        }
    }
    *at = make(sizeof(**at));
    (*at)->first = first;
    (*at)->second = second;
}

static void order(const lock *before, const lock *behind, const void *place)
{
    bool been[MOST_KINDS] = {false};
    if (before == behind) {
        tell_order(before->kind, behind->kind, place);
        end_with("one thread takes a lock that it holds");
    }
    if (before->kind == behind->kind) {
        order_pair(before->number, behind->number);
        return;
    }
    if (seen_at[before->kind][behind->kind] != NULL) {
        return;
    }
    if (follows(behind->kind, before->kind, been)) {
        tell_order(before->kind, behind->kind, place);
        end_with("these orders make a circle");
    }
    seen_at[before->kind][behind->kind] = place;
}

// ---- what threads do ----

/// Before the thread waits for the lock, so that it is told instead of hanging.
static const lock *note_taking(pthread_mutex_t *mutex, const void *caller)
{
    enter();
    const lock *taken = lock_of(mutex, caller);
    for (uint32_t i = 0; taken != NULL && i < mine.count; i++) {
        order(mine.locks[i], taken, caller);
    }
    leave();
    return taken;
}

static void note_taken(const lock *taken)
{
    if (taken == NULL) {
        return;
    }
    if (mine.count == MOST_HELD) {
        end_with("one thread holds too many locks");
    }
    mine.locks[mine.count++] = taken;
}

static void note_given_back(const pthread_mutex_t *mutex)
{
    for (uint32_t i = mine.count; i-- > 0;) {
        if (mine.locks[i]->mutex == mutex) {
            memmove(&mine.locks[i], &mine.locks[i + 1],
                    (mine.count - i - 1) * sizeof(mine.locks[0]));
            mine.count--;
            return;
        }
    }
}

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    const void *caller = __builtin_return_address(0);
    REAL(init, "pthread_mutex_init")
    if (counts(caller)) {
        enter();
        remember(mutex, caller);
        leave();
    }
    return real.init(mutex, attr);
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    REAL(destroy, "pthread_mutex_destroy")
    enter();
    forget(mutex);
    leave();
    return real.destroy(mutex);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    const void *caller = __builtin_return_address(0);
    REAL(lock, "pthread_mutex_lock")
    const lock *taken = n_objects > 0 ? note_taking(mutex, caller) : NULL;
    int code = real.lock(mutex);
    note_taken(code == 0 ? taken : NULL);
    return code;
}

/// Who does not wait may take any lock; what it takes under it is another matter.
int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    const void *caller = __builtin_return_address(0);
    REAL(try_lock, "pthread_mutex_trylock")
    int code = real.try_lock(mutex);
    if (code == 0 && n_objects > 0) {
        enter();
        const lock *taken = lock_of(mutex, caller);
        leave();
        note_taken(taken);
    }
    return code;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    REAL(unlock, "pthread_mutex_unlock")
    note_given_back(mutex);
    return real.unlock(mutex);
}

/// The mutex is taken again behind all that the thread holds beside it.
static const lock *note_waiting(pthread_mutex_t *mutex, const void *caller)
{
    note_given_back(mutex);
    return n_objects > 0 ? note_taking(mutex, caller) : NULL;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    const lock *taken = note_waiting(mutex, __builtin_return_address(0));
    REAL(wait, "pthread_cond_wait")
    int code = real.wait(cond, mutex);
    note_taken(taken);
    return code;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    const lock *taken = note_waiting(mutex, __builtin_return_address(0));
    REAL(wait_until, "pthread_cond_timedwait")
    int code = real.wait_until(cond, mutex, until);
    note_taken(taken);
    return code;
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until)
{
    const lock *taken = note_waiting(mutex, __builtin_return_address(0));
    REAL(wait_by, "pthread_cond_clockwait")
    int code = real.wait_by(cond, mutex, clock, until);
    note_taken(taken);
    return code;
}
