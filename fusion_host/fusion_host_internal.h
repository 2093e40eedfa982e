// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_INTERNAL_H
#define KILN_FUSION_HOST_INTERNAL_H

/// What the files of fusion_host share: the tape (a segment in relative form), plans and their
/// store, plugins and their host services, positions of the search, scores. Reading order:
/// relative.c, plan_store.c, stream.c, then elf_note.c, loader.c, registry.c, then engine.c,
/// op_view.c, hazards.c, position.c, search.c, translate.c, score.c, order.c, plan_build.c,
/// explain.c.

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "fusion_host.h"
#include "kf_operators.h"
#include "kiln_fuser.h"

#define KILNI_FUSE_NONE UINT32_MAX
#define KILNI_FUSE_MODULE "fusion_host"

// ---- map from 64-bit keys to small numbers, cleared in one step ----

typedef struct kilni_fuse_map_slot {
    uint64_t key;
    uint32_t generation; ///< the slot is free unless equal to the map's
    uint32_t value;
} kilni_fuse_map_slot;

typedef struct kilni_fuse_map {
    kilni_fuse_map_slot *slots;
    uint32_t capacity; ///< 0 or a power of two
    uint32_t count;
    uint32_t generation;
} kilni_fuse_map;

static inline bool kilni_fuse_map_has_room(const kilni_fuse_map *map, uint32_t more)
{
    return ((uint64_t)map->count + more) * 2 <= map->capacity;
}
/// Room for `more` keys without failing. `put` needs room and a key that is not there.
bool kilni_fuse_map_reserve(kilni_fuse_map *map, const kiln_env *env, uint32_t more);
uint32_t kilni_fuse_map_find(const kilni_fuse_map *map, uint64_t key);
void kilni_fuse_map_put(kilni_fuse_map *map, uint64_t key, uint32_t value);
void kilni_fuse_map_clear(kilni_fuse_map *map);
void kilni_fuse_map_fini(kilni_fuse_map *map, const kiln_env *env);

/// Makes the array whose pointer is at `array_address` hold at least `need` elements; the contents
/// stay. False when there is no memory.
bool kilni_fuse_grow(const kiln_env *env, void *array_address, uint32_t *capacity, uint64_t need,
                     size_t bytes_each);

// ---- tape: recorded operations in relative form ----

enum { ///< kilni_fuse_tensor_info.facts: the first three have the ABI's numbers
    KILNI_FUSE_FACT_CONTIGUOUS = 1u,
    KILNI_FUSE_FACT_ZERO_OFFSET = 2u,
    KILNI_FUSE_FACT_FITS_I32 = 4u,
    KILNI_FUSE_FACT_CONST = 8u,
    KILNI_FUSE_FACT_PRODUCED = 16u ///< defined on this tape
};

typedef struct kilni_fuse_tensor_info {
    uint32_t symbols[KILN_MAX_RANK];
    uint8_t facts;
    uint8_t align_log2;
    bool has_dims; ///< false while only a drop has mentioned it
} kilni_fuse_tensor_info;

/// Where an operation's relative form ends, and how many numbers were given out up to and including
/// it.
typedef struct kilni_fuse_mark {
    const uint32_t *refs; ///< tape tensors: inputs, then outputs
    uint32_t words_end;
    uint32_t n_tensors;
    uint32_t n_symbols;
    uint32_t n_scalars;
    bool empty_extent; ///< a tensor without elements: no fuser sees this operation
} kilni_fuse_mark;

typedef struct kilni_fuse_tape {
    const kiln_env *env;
    uint8_t device_align_log2; ///< of every buffer's base
    kiln_arena arena;
    kiln_op_record *ops;
    void *const **operands;
    kilni_fuse_mark *marks;
    uint32_t n_ops;
    uint32_t ops_capacity;
    uint32_t operands_capacity;
    uint32_t marks_capacity;
    kiln_tensor_desc *tensors;
    void **tokens;
    kilni_fuse_tensor_info *infos;
    uint32_t n_tensors;
    uint32_t tensors_capacity;
    uint32_t tokens_capacity;
    uint32_t infos_capacity;
    int64_t *symbols;
    uint32_t n_symbols;
    uint32_t symbols_capacity;
    kiln_attr *scalars;
    uint32_t n_scalars;
    uint32_t scalars_capacity;
    uint32_t *words;
    uint32_t n_words;
    uint32_t words_capacity;
    kilni_fuse_map tensor_map;
    kilni_fuse_map symbol_map;
} kilni_fuse_tape;

void kilni_fuse_tape_init(kilni_fuse_tape *tape, const kiln_env *env, uint32_t device_align);
void kilni_fuse_tape_fini(kilni_fuse_tape *tape);
void kilni_fuse_tape_clear(kilni_fuse_tape *tape);

/// Appends a copy of the operation. Facts of tensors that `before` (or NULL) defined are taken from
/// there: by the time this tape runs they have been computed. On failure nothing was appended.
void kilni_fuse_tape_set_scalar(kilni_fuse_tape *tape, uint32_t op, uint32_t attr,
                                const kiln_attr *value);
kiln_status kilni_fuse_tape_push(kilni_fuse_tape *tape, const kiln_op_record *record,
                                 void *const *tokens, const kilni_fuse_tape *before,
                                 kiln_error *err);

static inline const uint32_t *kilni_fuse_tape_words(const kilni_fuse_tape *tape, uint32_t op,
                                                    uint32_t *out_count)
{
    uint32_t begin = op == 0 ? 0 : tape->marks[op - 1].words_end;
    *out_count = tape->marks[op].words_end - begin;
    return tape->words + begin;
}

// ---- plans and their store ----

typedef struct kilni_fuse_node kilni_fuse_node;

typedef struct kilni_fuse_scalar_guard { ///< the plan serves only this value
    uint32_t scalar;
    kiln_attr value;
} kilni_fuse_scalar_guard;

enum { KILNI_FUSE_MAX_CONTENDERS = 8, KILNI_FUSE_MAX_EXTENTS = 64 };

/// A program that can take a block's place: its operations are the same.
typedef struct kilni_fuse_rival {
    uint32_t fuser;
    kiln_program *program;
    double claimed_ns;
    double predicted_ns;
    double measured_ns; ///< 0: not measured, or it failed
} kilni_fuse_rival;

typedef struct kilni_fuse_contest { ///< of a plan's block
    kilni_fuse_rival *rivals; ///< the chosen one among them
    uint32_t n_rivals;
    bool settled; ///< measured, now or in another process
    double alone_ns; ///< of its operations; 0: not measured
} kilni_fuse_contest;

/// What a tournament said, as it lies on disk.
typedef struct kilni_fuse_winner {
    kiln_hash128 key;
    kiln_hash128 programs[KILNI_FUSE_MAX_CONTENDERS];
    double measured_ns[KILNI_FUSE_MAX_CONTENDERS];
    double alone_ns; ///< of the operations one by one; 0: not measured
    uint32_t count;
    uint32_t chosen; ///< `count`: none, the operations run alone
} kilni_fuse_winner;

typedef struct kilni_fuse_plan {
    kiln_plan plan; ///< first, so that a segment's plan leads back here
    kiln_arena arena;
    kilni_fuse_node *node; ///< NULL: in no store
    struct kilni_fuse_plan *next_variant;
    struct kilni_fuse_plan *newer;
    struct kilni_fuse_plan *older;
    const uint32_t *block_fusers; ///< engine's fuser of each block
    struct kilni_fuse_contest *contests; ///< of each block
    const kilni_fuse_scalar_guard *guards;
    uint32_t n_guards;
    uint64_t size_class; ///< of the extents that it was chosen for
    bool guarded; ///< a block has a guard formula, or there are scalar guards
    bool full; ///< made for a drain: covers all that was there
    uint32_t users; ///< segments of it that are handed out: a graph keeps its own for long
    bool stale;
    bool outdone; ///< a tournament found something faster than what it runs
    const struct kilni_fuse_verdict *verdicts; ///< by position, then fuser
    uint32_t n_verdicts;
    uint32_t n_ops_fused;
} kilni_fuse_plan;

enum { KILNI_FUSE_WAIT_UNKNOWN = 0, KILNI_FUSE_WAIT_YES = 1 };

/// A prefix of relative forms: the parent's and one operation more.
struct kilni_fuse_node {
    kilni_fuse_node *parent;
    kilni_fuse_node *bucket_next;
    kilni_fuse_node *last_child; ///< the child found last: most programs repeat
    kilni_fuse_plan *now; ///< what to run when more may come
    kilni_fuse_plan *full; ///< what to run when this is all
    uint64_t hash;
    uint32_t uses; ///< children, plans, streams that stand here
    uint32_t wait_epoch; ///< the epoch in which `wait` was found
    uint8_t wait;
    uint32_t n_words;
    uint32_t words[];
};

typedef struct kilni_fuse_plan_store {
    const kiln_env *env;
    kilni_fuse_node *root;
    kilni_fuse_node **buckets;
    uint32_t n_buckets;
    uint32_t n_nodes;
    uint32_t n_plans;
    uint32_t max_plans;
    kilni_fuse_plan *newest;
    kilni_fuse_plan *oldest;
    const int64_t *facts; ///< device facts for guards
    uint64_t hash_mask; ///< all ones; tests narrow it to force collisions
} kilni_fuse_plan_store;

kiln_status kilni_fuse_plan_store_init(kilni_fuse_plan_store *store, const kiln_env *env,
                                       const int64_t *facts, uint32_t max_plans, kiln_error *err);
void kilni_fuse_plan_store_fini(kilni_fuse_plan_store *store);

/// From `*node` to its child for one operation, made when it is new. The caller's use moves along.
kiln_status kilni_fuse_plan_store_step(kilni_fuse_plan_store *store, kilni_fuse_node **node,
                                       const uint32_t *words, uint32_t n_words, kiln_error *err);
void kilni_fuse_plan_store_leave(kilni_fuse_plan_store *store, kilni_fuse_node *node);

/// The class of sizes that a choice is made for: the extents' powers of two, so that two sizes of a
/// class differ by less than a factor of 2 along each axis. `exact`: the extents themselves.
uint64_t kilni_fuse_size_class(const int64_t *extents, uint32_t count, bool exact);

/// The plan at a node that was chosen for this class of sizes and whose guards hold for the tape,
/// or NULL. `insert` owns the plan from then on and evicts; `discard` frees it now or when it is no
/// longer in use.
kilni_fuse_plan *kilni_fuse_plan_store_find(kilni_fuse_plan_store *store, kilni_fuse_node *node,
                                            bool full, const kilni_fuse_tape *tape,
                                            uint64_t size_class);
void kilni_fuse_plan_store_insert(kilni_fuse_plan_store *store, kilni_fuse_node *node,
                                  kilni_fuse_plan *plan);
void kilni_fuse_plan_store_discard(kilni_fuse_plan_store *store, kilni_fuse_plan *plan);
void kilni_fuse_plan_store_release(kilni_fuse_plan_store *store, kilni_fuse_plan *plan);
void kilni_fuse_plan_destroy(kilni_fuse_plan *plan);

// ---- plugins ----

enum { KILNI_FUSE_STRIKES_MAX = 3 };

typedef struct kilni_fuse_manifest { ///< the note, verified and terminated
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t min_host_minor;
    uint32_t opset_max;
    uint32_t sanitizer;
    uint64_t cpu_features;
    uint64_t flags;
    char id[64];
    char version[32];
    char build[32];
} kilni_fuse_manifest;

/// Reads the manifest and the symbol table from the bytes of a shared object, trusting none of
/// them.
kiln_status kilni_fuse_elf_manifest(const void *bytes, size_t length,
                                    kilni_fuse_manifest *out_manifest, kiln_error *err);
/// One exported function, no import that a plugin with these manifest flags must not have, no
/// executable stack, no text relocation.
kiln_status kilni_fuse_elf_check(const void *bytes, size_t length, uint64_t flags, kiln_error *err);

typedef enum kilni_fuse_trust { ///< where a candidate came from
    KILNI_FUSE_TRUST_SHIPPED = 1,
    KILNI_FUSE_TRUST_PATH = 2, ///< of the plugin path: owners and permissions are checked
    KILNI_FUSE_TRUST_ADDED = 3 ///< named by the user
} kilni_fuse_trust;

/// A note that a plugin made during a call: the last one wins.
typedef struct kilni_fuse_diag {
    uint32_t severity;
    uint32_t code;
    uint32_t op_index;
    char text[160];
} kilni_fuse_diag;

typedef struct kilni_fuse_host { ///< what one plugin gets from one engine
    kf_host abi;
    const kiln_env *env;
    const char *plugin_id;
    const struct kilni_fuse_plugin *plugin; ///< NULL outside of an engine
    pthread_mutex_t lock;
    kilni_fuse_diag *sink; ///< of the call in progress, or NULL
    uint64_t bytes_live;
    uint64_t blocks_live;
} kilni_fuse_host;

void kilni_fuse_host_init(kilni_fuse_host *host, const kiln_env *env, const char *plugin_id);
void kilni_fuse_host_fini(kilni_fuse_host *host);
/// Diagnostics reported from now on go to `sink`; NULL ends that.
void kilni_fuse_host_listen(kilni_fuse_host *host, kilni_fuse_diag *sink);

// ---- what is remembered of plugins between processes ----

enum {
    KILNI_FUSE_MAX_FUSERS = 64,
    KILNI_FUSE_MAX_BANS = 32, ///< the latest
    KILNI_FUSE_ENDS_MAX = 2,
    KILNI_FUSE_CRUMB_SLOTS = 16
};

typedef struct kilni_fuse_ban { ///< a program that failed
    char key[33];
    char reason[96];
} kilni_fuse_ban;

typedef struct kilni_fuse_strikes {
    uint32_t count;
    char reason[128]; ///< the last
} kilni_fuse_strikes;

typedef struct kilni_fuse_record {
    char id[64];
    bool scanned;
    char scan_fault[160]; ///< "": it was well
    uint32_t ended; ///< processes, counted so that KILNI_FUSE_ENDS_MAX are too many
    char ended_in[48];
    kilni_fuse_strikes strikes[KILNI_FUSE_MAX_FUSERS];
    kilni_fuse_ban bans[KILNI_FUSE_MAX_BANS];
    uint32_t n_bans;
} kilni_fuse_record;

/// The record of a file's hash in a folder (or NULL); false and an empty one when there is none.
bool kilni_fuse_record_read(const char *folder, const char *hash, kilni_fuse_record *out_record);
bool kilni_fuse_record_write(const char *folder, const char *hash, const kilni_fuse_record *record);
/// Likewise, to change the record: until `end` writes it and takes the lock back nobody else does,
/// in no process.
int kilni_fuse_record_begin(const char *folder, const char *hash, kilni_fuse_record *out_record);
bool kilni_fuse_record_end(int lock, const char *folder, const char *hash,
                           const kilni_fuse_record *record);
uint32_t kilni_fuse_record_reset(const char *folder, const char *id);
void kilni_fuse_record_ban(kilni_fuse_record *record, const char *key, const char *reason);

typedef struct kilni_fuse_plugin kilni_fuse_plugin;
typedef struct kilni_fuse_crumbs kilni_fuse_crumbs;

typedef enum kilni_fuse_call { ///< numbers in the file
    KILNI_FUSE_CALL_NONE = 0,
    KILNI_FUSE_CALL_LOAD = 1,
    KILNI_FUSE_CALL_CREATE = 2,
    KILNI_FUSE_CALL_FUSE = 3,
    KILNI_FUSE_CALL_FINISH = 4,
    KILNI_FUSE_CALL_BUILD = 5,
    KILNI_FUSE_CALL_RUN = 6,
    KILNI_FUSE_CALL_INFER = 7,
    KILNI_FUSE_CALL_REFERENCE = 8,
    KILNI_FUSE_CALL_COUNT
} kilni_fuse_call;

/// Notes what dead processes left in the folder, and makes this one's file. NULL: there is none.
kilni_fuse_crumbs *kilni_fuse_crumbs_create(const kiln_env *env, const char *folder);
void kilni_fuse_crumbs_destroy(kilni_fuse_crumbs *crumbs);
/// A plugin's number, or 0: its calls are not noted. A slot: one for what runs one at a time.
uint32_t kilni_fuse_crumbs_add(kilni_fuse_crumbs *crumbs, const char *hash, const char *id,
                               bool shipped);
uint32_t kilni_fuse_crumbs_slot(kilni_fuse_crumbs *crumbs);
void kilni_fuse_crumb_set(const kilni_fuse_plugin *plugin, uint32_t slot, kilni_fuse_call call);

/// Runs the helper on a file. False: it could not be run. `out_fault` is empty when all is well.
bool kilni_fuse_scan(const kiln_env *env, const char *helper, const char *path, uint32_t limit_ms,
                     char *out_fault, size_t capacity);

/// Why the list of the knob `plugins` leaves a plugin out, or one of its fusers, or NULL; and
/// whether it leaves out a program.
const char *kilni_fuse_switched_off(const char *list, const kilni_fuse_plugin *plugin,
                                    const char *fuser);
bool kilni_fuse_program_off(const char *list, kiln_hash128 key);

/// Nobody but root and this user may write the file, or put another into a folder above it; a
/// sticky folder of root's protects its entries.
kiln_status kilni_fuse_check_owner(const struct stat *info, const char *what, kiln_error *err);
kiln_status kilni_fuse_check_folders(const kiln_env *env, const char *path, kiln_error *err);
/// Errors: INVALID_ARGUMENT when the knob `plugin-mode` says none of its words.
kiln_status kilni_fuse_check_mode(const kiln_env *env, kiln_error *err);
/// Whether the knob `plugin-mode` lets in a file with these bytes. Errors: PERMISSION_DENIED with
/// the reason.
kiln_status kilni_fuse_check_trust(const kiln_env *env, kilni_fuse_trust trust, const char *path,
                                   const void *bytes, size_t length, kiln_error *err);
/// Whether the file's bytes were judged, and somebody else could change it now.
bool kilni_fuse_may_change(const kiln_env *env, kilni_fuse_trust trust, const char *path,
                           const struct stat *info);
/// Bytes under a path for as long as the copy is there; nobody can change them.
typedef struct kilni_fuse_copy {
    int fd;
    char path[256]; ///< "": there is none
} kilni_fuse_copy;
kiln_status kilni_fuse_copy_create(const char *path, const void *bytes, size_t length,
                                   kilni_fuse_copy *out_copy, kiln_error *err);
void kilni_fuse_copy_destroy(kilni_fuse_copy *copy);
/// At most `most` bytes, terminated; the caller frees them.
kiln_status kilni_fuse_read_bytes(const kiln_env *env, int fd, size_t most, char **out_bytes,
                                  size_t *out_length, kiln_error *err);
/// The bytes of a file that the user named. The caller frees them, also on failure.
kiln_status kilni_fuse_read_plugin(const kiln_env *env, const char *path, char **out_bytes,
                                   size_t *out_length, kiln_error *err);
/// Whether one of `count` keys, 32 bytes each, made the signature that lies beside the file.
kiln_status kilni_fuse_check_signature(const kiln_env *env, const char *path, const void *bytes,
                                       size_t length, const unsigned char *keys, size_t count,
                                       kiln_error *err);
void kilni_fuse_sha256(const void *bytes, size_t length, unsigned char out_digest[32]);

typedef struct kilni_fuse_operator { ///< one that a plugin brings
    kiln_custom_op def; ///< first: what records point to
    kf_operator abi;
    const kilni_fuse_plugin *plugin;
} kilni_fuse_operator;

struct kilni_fuse_plugin {
    kiln_fuse_plugin_info info;
    const char *state_folder; ///< of the registry, or NULL
    kilni_fuse_crumbs *crumbs;
    uint32_t crumb; ///< number there; 0: none
    kiln_dynlib *library;
    kf_plugin table; ///< normalised: full size, absent entries NULL
    char **fuser_ids;
    atomic_uint *strikes; ///< per fuser; KILNI_FUSE_STRIKES_MAX and more: disabled
    bool initialised;
    kilni_fuse_trust trust; ///< how it came here
    kilni_fuse_operator *operators;
    uint32_t n_operators;
    uint32_t operator_slot; ///< of crumbs, for their rules and references
    kiln_arena operator_memory; ///< of their names and parameters
    struct kilni_fuse_plugin *kernels; ///< the fuser of their kernels; NULL: it brings none
};

/// Whether a plugin that was just loaded does what it says, on a small sample.
typedef kiln_status (*kilni_fuse_smoke_test_fn)(const kiln_env *env, kilni_fuse_plugin *plugin,
                                                kiln_error *err);

struct kiln_fuse_registry {
    const kiln_env *env;
    kilni_fuse_smoke_test_fn smoke_test;
    bool developer;
    char *state_folder; ///< or NULL
    char *scan_helper; ///< or NULL
    uint32_t scan_limit_ms;
    kilni_fuse_crumbs *crumbs; ///< or NULL
    atomic_uint epoch; ///< raised when a fuser is disabled, for all engines
    kilni_fuse_plugin **plugins; ///< sorted by path
    uint32_t n_plugins;
    uint32_t plugins_capacity;
    atomic_bool complete; ///< no more files come
};

/// Does the order of work of one candidate, up to the smoke test; what became of it is in
/// plugin->info, and the reason for a refusal also in `err`. The plugins of the registry were
/// before it, for duplicate ids.
kiln_status kilni_fuse_plugin_load(kiln_fuse_registry *registry, kilni_fuse_plugin *plugin,
                                   const char *path, kilni_fuse_trust trust, kiln_error *err);
void kilni_fuse_plugin_destroy(const kiln_env *env, kilni_fuse_plugin *plugin);
/// What the extension kiln.operators/1 gives; none is well. The fuser of their kernels is the
/// host's own and beside the plugin: it has its strikes and its place in the order of candidates.
kiln_status kilni_fuse_operators_take(const kiln_fuse_registry *registry, kilni_fuse_plugin *plugin,
                                      kiln_error *err);
void kilni_fuse_operators_drop(const kiln_env *env, kilni_fuse_plugin *plugin);
kiln_status kilni_fuse_operator_fuser(const kiln_env *env, kilni_fuse_plugin *plugin,
                                      kiln_error *err);
void kilni_fuse_operator_fuser_drop(const kiln_env *env, kilni_fuse_plugin *plugin);
/// The values of an operator's parameters in the ABI's structs; texts need a place each.
void kilni_fuse_operator_attrs(const kiln_custom_op *op, const kiln_attr *values, kf_attr *out,
                               kf_blob *texts);
/// A registry that gives each plugin to `smoke_test` before it is taken.
kiln_status kilni_fuse_registry_open(const kiln_env *env, const kiln_fuse_registry_options *options,
                                     kilni_fuse_smoke_test_fn smoke_test,
                                     kiln_fuse_registry **out_registry, kiln_error *err);

/// Valid UTF-8 without control characters, of at most `limit` bytes.
bool kilni_fuse_text_ok(kf_str text, uint64_t limit);
bool kilni_fuse_utf8_ok(const void *bytes, uint64_t length);

// ---- engine ----

enum { KILNI_FUSE_MAX_ASKS = 32 };

typedef struct kilni_fuse_ask { ///< a value that a fuser wanted to see
    bool is_scalar;
    uint32_t ref; ///< block-relative
    int64_t value;
} kilni_fuse_ask;

typedef struct kilni_fuse_asks {
    kilni_fuse_ask items[KILNI_FUSE_MAX_ASKS];
    uint32_t count;
} kilni_fuse_asks;

/// Notes that the plan holds only for this value. False when there are too many.
bool kilni_fuse_asks_add(kilni_fuse_asks *asks, kilni_fuse_ask ask);

typedef struct kilni_fuse_block_mark { ///< numbers given out up to and including an operation
    uint32_t n_tensors;
    uint32_t n_symbols;
    uint32_t n_scalars;
} kilni_fuse_block_mark;

/// Operations of a tape under block-relative numbers, extended one operation at a time.
typedef struct kilni_fuse_block_view {
    const kilni_fuse_tape *tape;
    uint32_t *ops; ///< of the tape, ascending
    uint32_t n_ops;
    uint32_t ops_capacity;
    kilni_fuse_map tensor_map;
    kilni_fuse_map symbol_map;
    uint32_t *tensors; ///< block -> tape
    uint32_t n_tensors;
    uint32_t tensors_capacity;
    uint32_t *defined; ///< operation of the block that defines the tensor, or KILNI_FUSE_NONE
    uint32_t defined_capacity;
    uint32_t *dropped; ///< operation of the block that drops it, or KILNI_FUSE_NONE
    uint32_t dropped_capacity;
    uint32_t *symbols;
    uint32_t n_symbols;
    uint32_t symbols_capacity;
    uint32_t *scalars; ///< block -> tape
    uint32_t n_scalars;
    uint32_t scalars_capacity;
    kilni_fuse_block_mark *marks;
    uint32_t marks_capacity;
} kilni_fuse_block_view;

void kilni_fuse_block_view_reset(kilni_fuse_block_view *view, const kilni_fuse_tape *tape);
void kilni_fuse_block_view_fini(kilni_fuse_block_view *view, const kiln_env *env);
/// Takes in one more operation of the tape, behind those before. False when there is no memory.
bool kilni_fuse_block_view_extend(kilni_fuse_block_view *view, uint32_t tape_op);
/// Back to the first `n_ops` operations.
void kilni_fuse_block_view_cut(kilni_fuse_block_view *view, uint32_t n_ops);
uint32_t kilni_fuse_block_tensor(const kilni_fuse_block_view *view, uint32_t tape_tensor);
uint32_t kilni_fuse_block_symbol(const kilni_fuse_block_view *view, uint32_t tape_symbol);
int64_t kilni_fuse_block_symbol_value(const kilni_fuse_block_view *view, uint32_t symbol);

/// An operation as the ABI shows it, valid until the next call on the same storage.
typedef struct kilni_fuse_op_view kilni_fuse_op_view;
kilni_fuse_op_view *kilni_fuse_op_view_create(const kiln_env *env);
void kilni_fuse_op_view_destroy(const kiln_env *env, kilni_fuse_op_view *storage);
const kf_op *kilni_fuse_op_view_fill(kilni_fuse_op_view *storage, const kilni_fuse_block_view *view,
                                     uint32_t op, const kilni_fuse_asks *asks);

/// How far a fuser's claims were from what was measured, as it lies on disk.
typedef struct kilni_fuse_trust_record {
    double log_ratio; ///< mean
    uint64_t samples;
} kilni_fuse_trust_record;

typedef struct kilni_fuse_fuser {
    kilni_fuse_plugin *plugin;
    uint32_t index; ///< in the plugin
    const char *id;
    char *name; ///< "plugin/fuser", or the id alone when both are equal
    kf_fuser *handle;
    kilni_fuse_host *host;
    kilni_fuse_trust_record trust;
} kilni_fuse_fuser;

/// One builder and the operations that it has taken, from a seed on. An operation that it does not
/// take is left out, and the builder goes on with those that do not depend on it.
typedef struct kilni_fuse_trial {
    kf_builder *builder;
    kilni_fuse_block_view view;
    uint32_t scanned; ///< operations of the tape that were looked at
    uint32_t idle; ///< since one was taken, drops not counted
    uint32_t len;
    uint32_t launches;
    bool finished; ///< takes no more, whatever comes
    bool ready;
    bool broken; ///< broke the contract: no candidate
    uint8_t *marks; ///< per operation of the tape: KILNI_FUSE_INSIDE, KILNI_FUSE_BEHIND
    uint32_t marks_capacity;
    kilni_fuse_diag diag; ///< why it left the first operation out after the last that it took
    uint32_t diag_op; ///< that operation, or KILNI_FUSE_NONE
    kilni_fuse_asks asks;
} kilni_fuse_trial;

enum { ///< kilni_fuse_trial.marks
    KILNI_FUSE_INSIDE = 1, ///< taken
    KILNI_FUSE_BEHIND = 2 ///< depends on what was taken, and must run after it
};

enum {
    KILNI_FUSE_PATIENCE = 6, ///< operations that a builder may leave out in a row
    KILNI_FUSE_MAX_FEEDS = 100000, ///< of one search; what is left then runs alone
    KILNI_FUSE_MORE_FEEDS = 16 ///< beside these for each fuser and operation
};

typedef struct kilni_fuse_unit { ///< a block that was chosen before
    uint32_t first; ///< operation of the tape
    uint32_t last;
    bool reached; ///< scratch
} kilni_fuse_unit;

/// Blocks that were chosen before, and who defines what: the hazards of a search.
typedef struct kilni_fuse_hazards {
    const kilni_fuse_tape *tape;
    uint32_t n_ops; ///< of the tape, known here
    uint32_t *definer; ///< per tape tensor: operation, or KILNI_FUSE_NONE
    uint32_t definer_capacity;
    uint32_t n_tensors;
    uint32_t *unit; ///< per operation: block that took it, or KILNI_FUSE_NONE
    uint32_t unit_capacity;
    kilni_fuse_unit *units;
    uint32_t units_capacity;
    uint32_t n_units;
    uint8_t *reached; ///< scratch: per operation as kilni_fuse_trial.marks
    uint32_t reached_capacity;
    uint64_t feeds; ///< operations shown so far
    bool spent; ///< no more may be shown
} kilni_fuse_hazards;

/// Learns the operations up to `end`, none of them in a block yet.
bool kilni_fuse_hazards_learn(kilni_fuse_hazards *hazards, const kilni_fuse_tape *tape,
                              uint32_t end);
void kilni_fuse_hazards_forget(kilni_fuse_hazards *hazards);
void kilni_fuse_hazards_fini(kilni_fuse_hazards *hazards, const kiln_env *env);
/// Adds the block of these operations, ascending, of the tape.
void kilni_fuse_hazards_add(kilni_fuse_hazards *hazards, const uint32_t *ops, uint32_t n_ops);
/// False when taking `op` in would make the block depend on itself.
bool kilni_fuse_hazards_allow(const kilni_fuse_hazards *hazards, const kilni_fuse_trial *trial,
                              uint32_t op);
/// Notes that `op` is not taken: it may lie behind the block now.
void kilni_fuse_hazards_leave_out(const kilni_fuse_hazards *hazards, kilni_fuse_trial *trial,
                                  uint32_t op);
/// Once an operation was taken: do blocks chosen before still not depend on what they give? False:
/// it must be given back.
bool kilni_fuse_hazards_hold(kilni_fuse_hazards *hazards, kilni_fuse_trial *trial);
/// Is everything that reads the dropped tensor inside the block?
bool kilni_fuse_hazards_drop(const kilni_fuse_hazards *hazards, const kilni_fuse_trial *trial,
                             uint32_t op);

/// The trials of all fusers from one seed on.
typedef struct kilni_fuse_position {
    kilni_fuse_trial *trials; ///< one per fuser of the engine
    kilni_fuse_hazards hazards; ///< of the search that starts here
    uint32_t seed;
    bool started;
    bool finished; ///< every trial is
} kilni_fuse_position;

typedef struct kilni_fuse_failure { ///< a program that must not come back, and why
    kiln_hash128 key;
    char text[160];
} kilni_fuse_failure;

struct kiln_fuse_engine {
    kiln_fuse_registry *registry;
    const kiln_env *env;
    kiln_device_info device;
    int64_t facts[KILN_FACT_COUNT];
    uint32_t max_segment;
    kilni_fuse_fuser *fusers;
    uint32_t n_fusers;
    kilni_fuse_host **hosts;
    uint32_t n_hosts;
    kilni_fuse_plan_store plans;
    kiln_store *store; ///< NULL: plans are not kept on disk
    kiln_fuse_engine_options options; ///< that it was made with
    kiln_hash128 disk_key; ///< of all that plans depend on beside the operations
    uint32_t disk_opset; ///< of the operators, part of the key
    struct kilni_fuse_position *scratch; ///< for positions after the first
    kilni_fuse_op_view *op_view;
    kilni_fuse_failure *banned; ///< programs that failed
    uint32_t n_banned;
    uint32_t banned_capacity;
    struct kilni_fuse_winner *winners; ///< measured, or found on disk
    uint32_t n_winners;
    uint32_t winners_capacity;
    bool deterministic; ///< nothing measured decides
    bool fuse_slower; ///< the operations alone never win
    const char *list; ///< the knob `plugins`, as it was when the engine was made
    uint32_t crumb_slot;
    kiln_fuse_stats stats;
};

struct kiln_fuse_stream {
    kiln_fuse_engine *engine;
    bool whole;
    kilni_fuse_tape tapes[2];
    uint32_t active; ///< tape that records
    kilni_fuse_node *node; ///< after `walked` operations
    uint32_t walked;
    kilni_fuse_position first;
    kiln_fuse_segment segment;
    kilni_fuse_plan *handed; ///< plan that is being run
};

/// What a kernel's arguments may take together; what OpenCL promises where the device does not say.
static inline uint64_t kilni_fuse_param_bytes(const kiln_device_info *device)
{
    return device->max_parameter_bytes != 0 ? device->max_parameter_bytes : 1024;
}
void kilni_fuse_device_facts(const kiln_device_info *device, kf_device *out_facts);
bool kilni_fuse_fuser_enabled(const kilni_fuse_fuser *fuser);
/// One strike; at the third the fuser is out for the process.
void kilni_fuse_fuser_strike(kiln_fuse_engine *engine, uint32_t fuser, const char *reason);
/// Programs that failed in earlier processes.
void kilni_fuse_recall_bans(kiln_fuse_engine *engine, const kilni_fuse_plugin *plugin);
/// Whether the device can build the program, by the options' `admit`.
bool kilni_fuse_admits(const kiln_fuse_engine *engine, const kiln_program *program,
                       kiln_error *out_why);
/// Why the program failed before; NULL when it did not.
const char *kilni_fuse_program_failure(const kiln_fuse_engine *engine, kiln_hash128 key);

// ---- search: a segment in, blocks out ----

void kilni_fuse_position_init(kilni_fuse_position *position);
void kilni_fuse_position_fini(kilni_fuse_position *position, const kiln_fuse_engine *engine);
/// Stops the trials: the tape under them changes.
void kilni_fuse_position_reset(kilni_fuse_position *position, const kiln_fuse_engine *engine);
/// Lets the fusers take from operations [seed, end) until all are finished.
kiln_status kilni_fuse_position_feed(kilni_fuse_position *position, kiln_fuse_engine *engine,
                                     kilni_fuse_hazards *hazards, uint32_t seed, uint32_t end,
                                     kiln_error *err);

/// What is wrong with a builder's answer, or NULL; and the end of such a trial, with a strike.
const char *kilni_fuse_state_fault(const kf_state *state, const kilni_fuse_trial *trial);
void kilni_fuse_trial_break(kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_trial *trial,
                            const char *reason);

typedef struct kilni_fuse_score { ///< nanoseconds, for the extents at hand
    double baseline_ns;
    double claimed_ns; ///< by the fuser, or the host's roofline when it does not say
    double trust; ///< by what claims of this fuser are multiplied; 0: 1
    double floor_ns; ///< roofline: launches, and bytes that must move
    double adjusted_ns; ///< the claim as it is believed, not below the floor
    double benefit_ns;
    uint32_t launches;
    uint32_t len;
} kilni_fuse_score;

typedef struct kilni_fuse_candidate {
    uint32_t fuser;
    const char *plugin_id;
    const char *fuser_id;
    bool ships;
    kilni_fuse_score score;
    kiln_program *program;
    const char *name; ///< of the optimisation, for people
} kilni_fuse_candidate;

/// What one fuser said at one position.
typedef struct kilni_fuse_verdict {
    uint32_t first_op;
    uint32_t fuser;
    bool ready;
    bool won;
    double measured_ns; ///< 0: not measured
    kilni_fuse_score score;
    const char *name;
    const char *reason; ///< why it is no candidate, or why the winner is better
} kilni_fuse_verdict;

typedef struct kilni_fuse_block {
    const uint32_t *ops; ///< of the tape, ascending
    uint32_t len;
    uint32_t fuser;
    kiln_program *program;
    const uint32_t *tensors;
    uint32_t n_tensors;
    const uint32_t *symbols;
    uint32_t n_symbols;
    const uint32_t *scalars;
    uint32_t n_scalars;
    kilni_fuse_rival *rivals; ///< the program among them, unless there are too many
    uint32_t n_rivals;
    bool settled; ///< by what was measured
    double alone_ns;
    kilni_fuse_score score;
} kilni_fuse_block;

/// The blocks that cover the first `n_covered` operations; what is in none runs alone.
typedef struct kilni_fuse_blocks {
    kilni_fuse_block *blocks;
    uint32_t n_blocks;
    uint32_t blocks_capacity;
    uint32_t n_covered;
    kilni_fuse_verdict *verdicts;
    uint32_t n_verdicts;
    uint32_t verdicts_capacity;
    kilni_fuse_scalar_guard *guards;
    uint32_t n_guards;
    uint32_t guards_capacity;
    bool lacking; ///< a candidate was not admitted or had failed: another day may be different
} kilni_fuse_blocks;

typedef enum kilni_fuse_cover {
    KILNI_FUSE_COVER_SETTLED = 0, ///< what cannot change any more
    KILNI_FUSE_COVER_ALL = 1,
    KILNI_FUSE_COVER_FIRST = 2 ///< as SETTLED, the block of the first operation decided in any case
} kilni_fuse_cover;

/// Chooses blocks for the first `n_ops` operations of the tape. What is covered but for ALL is
/// followed by an operation other than a drop; n_covered == 0 says that it is better to wait.
/// `first` holds the trials from the first operation on. Programs and texts live in `arena`.
kiln_status kilni_fuse_search(kiln_fuse_engine *engine, const kilni_fuse_tape *tape, uint32_t n_ops,
                              kilni_fuse_cover cover, kilni_fuse_position *first, kiln_arena *arena,
                              kilni_fuse_blocks *out_blocks, kiln_error *err);
void kilni_fuse_blocks_fini(kilni_fuse_blocks *blocks, const kiln_env *env);

/// The order in which blocks and single operations run: what is needed comes first, otherwise as
/// recorded. Block numbers, or KILNI_FUSE_SINGLE | operation. A block that cannot be ordered is
/// dissolved. `out_order` has room for n_covered entries.
#define KILNI_FUSE_SINGLE (1u << 31)
kiln_status kilni_fuse_order(const kilni_fuse_tape *tape, kilni_fuse_blocks *blocks,
                             uint32_t *out_order, uint32_t *out_count, kiln_error *err);

/// Blocks to steps: launches, operations alone, and after which step each dropped tensor dies.
/// Takes over the arena.
kiln_status kilni_fuse_plan_build(const kiln_fuse_engine *engine, const kilni_fuse_tape *tape,
                                  kilni_fuse_blocks *blocks, kiln_arena *arena,
                                  kilni_fuse_plan **out_plan, kiln_error *err);

/// Plans on disk, for a class of sizes. `init` makes the engine's part of the key; `get` fills
/// blocks as a search does, or gives false: a miss, whatever the reason. `encode` and `decode` are
/// these without the store.
bool kilni_fuse_disk_init(kiln_fuse_engine *engine);
void kilni_fuse_disk_put(kiln_fuse_engine *engine, const kilni_fuse_tape *tape, uint32_t n_ops,
                         bool full, uint64_t size_class, const kilni_fuse_blocks *blocks);
bool kilni_fuse_disk_get(kiln_fuse_engine *engine, const kilni_fuse_tape *tape, uint32_t n_ops,
                         bool full, uint64_t size_class, kiln_arena *arena,
                         kilni_fuse_blocks *out_blocks);
bool kilni_fuse_disk_encode(const kiln_fuse_engine *engine, const kilni_fuse_tape *tape,
                            uint32_t n_ops, const kilni_fuse_blocks *blocks, kiln_string *out);
bool kilni_fuse_disk_decode(kiln_fuse_engine *engine, const kilni_fuse_tape *tape, uint32_t n_ops,
                            const void *bytes, size_t length, kiln_arena *arena,
                            kilni_fuse_blocks *out_blocks);

/// Puts what was measured, in this process or another, in place of what was predicted: blocks get
/// the program that won, and those that were slower than their operations alone go.
void kilni_fuse_recall(kiln_fuse_engine *engine, const kilni_fuse_tape *tape, kiln_arena *arena,
                       kilni_fuse_blocks *blocks);
/// What claims of the fuser are multiplied by; at least 1.
double kilni_fuse_trust_factor(const kiln_fuse_engine *engine, uint32_t fuser);
void kilni_fuse_trust_load(kiln_fuse_engine *engine);

/// A fuser's program, copied into `arena` and verified as hostile input against the block's first
/// `len` operations and the extents at hand. Guards for the values that the fuser asked for are in
/// it.
typedef struct kilni_fuse_translation {
    const kilni_fuse_block_view *view;
    uint32_t len;
    const kiln_device_info *device; ///< limits
    const int64_t *facts;
    const int64_t *values; ///< of the block's symbols
    const kilni_fuse_asks *asks; ///< what it asked for
    kiln_arena *arena;
} kilni_fuse_translation;

/// A struct of the plugin as this host knows it: `known` bytes, of which the plugin has at least
/// `least`; what it lacks is zero, and what lies behind must be.
kiln_status kilni_fuse_read_struct(const void *object, uint32_t least, void *out, uint32_t known,
                                   const char *what, uint32_t index, kiln_error *err);
/// The form of a launch, and of a source, for the device. UNIMPLEMENTED: there is none.
kiln_status kilni_fuse_launch_form(const kiln_device_info *device, const kf_launch *given,
                                   uint32_t index, kf_launch *out, kiln_error *err);
kiln_status kilni_fuse_source_form(const kiln_device_info *device, const kf_source *given,
                                   uint32_t index, kf_source *out, kiln_error *err);

kiln_status kilni_fuse_translate(const kilni_fuse_translation *input, const kf_program *program,
                                 kiln_program **out_program, kiln_error *err);
kiln_status kilni_fuse_formula_translate(const kilni_fuse_translation *input, kf_expr expr,
                                         kiln_formula *out_formula, kiln_error *err);
kiln_status kilni_fuse_formula_now(const kilni_fuse_translation *input, const kiln_formula *formula,
                                   int64_t *out_value, kiln_error *err);
kiln_status kilni_fuse_program_check(const kilni_fuse_translation *input,
                                     const kiln_program *program, kiln_error *err);

/// A program as bytes, as it lies on disk.
void kilni_fuse_write_number(kiln_string *s, uint64_t value);
void kilni_fuse_write_text(kiln_string *s, const char *text);
void kilni_fuse_write_program(kiln_string *s, const kiln_program *program);
/// Names the content of a program; equal key, equal program.
kiln_hash128 kilni_fuse_program_key(const kiln_env *env, const kiln_program *program,
                                    bool *out_failed);

double kilni_fuse_score_baseline(const kiln_device_info *device, const kilni_fuse_tape *tape,
                                 uint32_t op);
double kilni_fuse_score_floor(const kilni_fuse_translation *input, uint32_t launches);
void kilni_fuse_score_close(kilni_fuse_score *score);
/// Is `a` the better candidate? A total order that does not depend on load order.
bool kilni_fuse_candidate_before(const kilni_fuse_candidate *a, const kilni_fuse_candidate *b);

#endif
