// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_MPI_NETWORK_H
#define KILN_COLLECTIVE_MPI_NETWORK_H

/// What coll_mpi.c (the network's thread and its table), mpi_heads.c (what is said and heard) and
/// mpi_jobs.c (messages on their way) share. But for what the lock guards, all of a network is its
/// thread's alone. Every message is a head of fixed size; data follows its head.

#include "collective.h"
#include "mpi_process.h"

#include <pthread.h>

/// Added to a network's first tag.
enum { KILNI_MPI_TAG_HELLO, KILNI_MPI_TAG_HEAD, KILNI_MPI_TAG_DATA, KILNI_MPI_TAGS };

typedef enum mpi_head_kind {
    HEAD_ARRIVE,
    HEAD_DATA,
    HEAD_FAIL,
    HEAD_PROPOSE,
    HEAD_LEAVE,
    HEAD_BEAT,
    HEAD_BYE
} mpi_head_kind;

/// Both ends are of one build: memory order and sizes are the same.
typedef struct mpi_head {
    uint32_t kind;
    uint32_t rank; ///< in whose name
    uint32_t peer; ///< DATA: for whom
    int32_t code; ///< FAIL, PROPOSE
    uint64_t sequence; ///< ARRIVE, DATA
    uint64_t bytes; ///< DATA
    kiln_coll_signature signature; ///< ARRIVE
    char text[232]; ///< FAIL, PROPOSE
} mpi_head;

/// Something that MPI works on: a head with or without data to a process, or data from one.
typedef struct mpi_job {
    struct mpi_job *next;
    bool is_receive;
    bool is_delivered; ///< received, and in the hub
    kiln_coll_message message; ///< of a receive
    mpi_head head; ///< of a send
    unsigned char *data;
    size_t n_requests;
    uint64_t *requests; ///< storage for MPI's, behind this
} mpi_job;

/// A process as this one sees it.
typedef struct mpi_peer {
    uint32_t first_rank;
    uint32_t local_ranks; ///< 0: the process is none of a part's
    uint64_t heard_ns;
    bool said_bye; ///< or has nothing to say
    mpi_job *beat; ///< the last one, while it is on its way
} mpi_peer;

/// What is known of a rank here or elsewhere.
typedef struct mpi_rank {
    uint32_t process;
    uint64_t told; ///< the last call that it said it came to, or, here, that the others know of
    bool left; ///< said or heard
    kiln_coll_signature signatures[2]; ///< elsewhere: call n at n % 2; it is at most two ahead
} mpi_rank;

typedef enum mpi_network_phase { PHASE_STARTING, PHASE_READY, PHASE_FAILED } mpi_network_phase;

typedef struct mpi_network {
    kiln_coll_network base;
    const kiln_env *env;
    kilni_mpi mpi;
    int first_tag;
    uint32_t local_ranks;
    uint32_t self; ///< process
    uint32_t judge; ///< the process of rank 0, which decides on failures
    bool is_part; ///< its processes know each other already
    uint32_t n_processes;
    mpi_peer *processes;
    uint32_t n_ranks;
    mpi_rank *ranks;
    mpi_job *jobs;
    bool told_failure;
    uint64_t proposed_ns; ///< when the judge was asked to decide; 0: not
    uint64_t next_beat_ns;
    uint64_t silence_ns; ///< after which a process counts as dead
    uint64_t deadline_ns;
    pthread_t thread;
    pthread_mutex_t lock; ///< guards what follows
    pthread_cond_t changed;
    mpi_network_phase phase;
    kiln_error error; ///< of starting
    kiln_coll_hub *hub; ///< NULL until attached
    bool stops;
} mpi_network;

// ---- messages on their way (mpi_jobs.c) ----

/// A job with room for so many bytes of data; NULL without memory. MPI may write to it after the
/// network has gone.
mpi_job *kilni_mpi_job_create(size_t bytes);
void kilni_mpi_job_free(mpi_job *self);
/// Hands a job with its data to MPI, to or from process `peer`; it goes to the front of the jobs.
void kilni_mpi_job_start(mpi_network *net, mpi_job *self, uint32_t peer, size_t bytes);
/// The job of a head on its way; borrowed. NULL: there was no memory, which is the group's failure.
mpi_job *kilni_mpi_send_head(mpi_network *net, uint32_t peer, const mpi_head *what);
void kilni_mpi_send_to_all(mpi_network *net, const mpi_head *what);
/// Jobs that have ended go; data that came is laid down in the hub, in the order of its heads. Says
/// whether something happened.
bool kilni_mpi_tend_jobs(mpi_network *net);
/// MPI_Test.
int kilni_mpi_test(const mpi_network *net, uint64_t *request, int *out_flag);
/// Proposes a failure in the name of this process.
void kilni_mpi_fail_own(mpi_network *net, kiln_status code, const char *what);

// ---- what is said and heard (mpi_heads.c) ----

/// Takes what came, sends what waits, tends the jobs. Says whether something happened.
bool kilni_mpi_serve_once(mpi_network *net);

#endif
