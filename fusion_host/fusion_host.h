// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_H
#define KILN_FUSION_HOST_H

/// fusion_host: loads fusers, records streams of operations, finds or searches the plan of each
/// segment, lets fusers compete for its blocks, remembers plans and explains them. It executes
/// nothing and sees no device: what to run leaves as a kiln_plan.
///
/// Unless a function says otherwise: any thread may call it, those of an engine and its streams one
/// at a time (the device's lock); its arguments are borrowed for the call; what it returns is
/// borrowed and lives as long as what it came from; it can fail with RESOURCE_EXHAUSTED. No pointer
/// is NULL unless a function takes it.

#include "base.h"
#include "ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- plugins ----

typedef struct kiln_fuse_registry kiln_fuse_registry;

typedef struct kiln_fuse_registry_options {
    uint32_t struct_size;
    uint32_t
        developer; ///< 1: no ownership and allow-list checks for any path (plugin check, bench)
    const char *shipped_folder; ///< trusted folder beside the library, or NULL
    const char
        *state_folder; ///< where it is kept what plugins did to other processes; NULL: nowhere
    const char *scan_helper; ///< program that looks at a new plugin first; NULL: none
    uint32_t scan_limit_ms; ///< how long it may take; 0: 10000
    uint32_t reserved;
} kiln_fuse_registry_options;

#define KILN_FUSE_REGISTRY_OPTIONS_INIT                                                            \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_fuse_registry_options)                                \
    }

typedef enum kiln_fuse_plugin_state {
    KILN_FUSE_TAKEN = 1,
    KILN_FUSE_REFUSED = 2, ///< it may not or cannot be loaded: `reason`
    KILN_FUSE_SWITCHED_OFF = 3 ///< the user's configuration says no
} kiln_fuse_plugin_state;

/// One candidate file and what became of it.
typedef struct kiln_fuse_plugin_info {
    const char *path;
    const char *id; ///< "" when the file was refused before its manifest was read
    const char *version;
    const char *vendor;
    kiln_fuse_plugin_state state;
    const char *reason; ///< one line: why it was taken or refused
    uint32_t n_fusers;
    uint32_t n_operators;
    uint64_t load_ns;
    char hash[33]; ///< XXH3-128 of the file
} kiln_fuse_plugin_info;

/// Looks at every file `*.so` of the shipped folder and of the option `plugin-path`, in a fixed
/// order, and loads what may be loaded. A bad plugin never makes this fail. `*out_registry` is the
/// caller's (kiln_fuse_registry_destroy). It lives longer than its engines, and `env` longer still.
/// Libraries stay loaded for the process.
KILN_NODISCARD KILN_API kiln_status
kiln_fuse_registry_create(const kiln_env *env, const kiln_fuse_registry_options *options,
                          kiln_fuse_registry **out_registry, kiln_error *err);

/// Frees a registry whose engines are gone. Takes NULL.
KILN_API void kiln_fuse_registry_destroy(kiln_fuse_registry *registry);

/// The user ends the process: later ones do not hold it against the plugin that is in a call. Safe
/// in a signal handler.
KILN_API void kiln_fuse_registry_interrupted(kiln_fuse_registry *registry);

/// Loads one more file by its path, before any engine is made. The reason for a refusal is the
/// error. The path is copied. One thread at a time. Errors: NOT_FOUND, PERMISSION_DENIED,
/// FAILED_PRECONDITION (another ABI, sanitizer kind, missing note or symbol), INVALID_ARGUMENT,
/// ALREADY_EXISTS.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_registry_add(kiln_fuse_registry *registry,
                                                           const char *path, kiln_error *err);

/// Adds the SHA-256 of a plugin's file to the list of the option `plugin-allow`, which is made when
/// there is none. One process at a time. Errors: NOT_FOUND, ALREADY_EXISTS when it is listed,
/// PERMISSION_DENIED for a list that others can write.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_plugin_allow(const kiln_env *env, const char *path,
                                                           kiln_error *err);

// Ed25519 signatures of plugins, by OpenSSL's libcrypto; UNIMPLEMENTED where it is not installed.

/// Makes a secret key (PKCS #8 in PEM) in a new file that only this user can read. Errors: also
/// ALREADY_EXISTS.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_key_create(const kiln_env *env, const char *key_path,
                                                         kiln_error *err);

/// Gives the line that stands for a key in the file of `plugin-keys`. Errors: also NOT_FOUND,
/// PERMISSION_DENIED for a secret that others can read, INVALID_ARGUMENT for what is no such key.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_key_public(const kiln_env *env, const char *key_path,
                                                         char out_hex[65], kiln_error *err);

/// Writes the 64 bytes of the signature of a file's bytes beside it, as FILE.sig. Errors: as
/// kiln_fuse_key_public.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_sign(const kiln_env *env, const char *key_path,
                                                   const char *path, kiln_error *err);

/// Forgets what is kept in `state_folder` of the plugin with this id, or of all when it is NULL:
/// refusals for a failed scan or an ended process, failures of fusers. Gives how many files of
/// plugins that was.
KILN_API uint32_t kiln_fuse_registry_reset(const char *state_folder, const char *id);

/// Says that no more files come: ids in the option `plugins` that no plugin has are warned of,
/// once. Engines say it when they are made.
KILN_API void kiln_fuse_registry_complete(kiln_fuse_registry *registry);

/// How many candidates there are.
KILN_API size_t kiln_fuse_registry_count(const kiln_fuse_registry *registry);

/// A candidate; they are sorted by path. NULL past the last.
KILN_API const kiln_fuse_plugin_info *kiln_fuse_registry_plugin(const kiln_fuse_registry *registry,
                                                                size_t index);

/// The operator with this name: of exactly this version, or else the newest that is not newer (0:
/// the newest of all). Not while a plugin is added. Errors: NOT_FOUND, naming what there is and how
/// to bring one.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_registry_operator(const kiln_fuse_registry *registry,
                                                                const char *name, uint32_t version,
                                                                bool exact,
                                                                const kiln_custom_op **out_op,
                                                                kiln_error *err);

/// One of the operators that plugins bring, counted from 0 over all of them; NULL past the last.
/// Not while a plugin is added.
KILN_API const kiln_custom_op *kiln_fuse_registry_operator_at(const kiln_fuse_registry *registry,
                                                              size_t index);

// ---- engine: the fusers of one device, its cost table and its plans ----

typedef struct kiln_fuse_engine kiln_fuse_engine;

typedef struct kiln_fuse_engine_options {
    uint32_t struct_size;
    uint32_t fusion_off; ///< 1: no fuser takes part; every plan runs operations one by one, those
                         ///< of plugins by their own kernels
    uint32_t max_segment; ///< operations before a segment is cut; 0: 320
    uint32_t max_plans; ///< kept plans; 0: option `plan-limit`; the least recently used go first
    uint32_t search_ms; ///< that fusers may take for a segment, or for each max_segment operations
                        ///< of one that is not cut; 0: 10000. With `deterministic` only what they
                        ///< are shown is limited
    kiln_store *store; ///< plans on disk, as long as the engine; NULL: none
    /// Whether a program can be built on this device; else its fuser declines with the error's
    /// text. NULL: always.
    kiln_status (*admit)(void *user, const kiln_program *program, kiln_error *err);
    void *admit_user;
} kiln_fuse_engine_options;

#define KILN_FUSE_ENGINE_OPTIONS_INIT                                                              \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_fuse_engine_options)                                  \
    }

typedef struct kiln_fuse_stats {
    uint64_t ops_recorded; ///< drops not counted
    uint64_t segments;
    uint64_t plans_found;
    uint64_t plans_searched;
    uint64_t plans_kept;
    uint64_t blocks_fused; ///< blocks with a program in the segments handed out
    uint64_t ops_fused;
    uint64_t strikes;
    uint64_t plans_loaded; ///< found on disk: neither searched nor found in memory
    uint64_t tournaments_measured; ///< blocks whose candidates were measured
    uint64_t tournaments_surprising; ///< of them: all took ten times or a tenth of the prediction
    uint64_t winners_recalled; ///< blocks whose winner was known
} kiln_fuse_stats;

/// Makes a fuser of each loaded kind for the device; those that decline it are left out.
/// `*out_engine` is the caller's (kiln_fuse_engine_destroy). It lives longer than its streams.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_engine_create(kiln_fuse_registry *registry,
                                                            const kiln_device_info *device,
                                                            const kiln_fuse_engine_options *options,
                                                            kiln_fuse_engine **out_engine,
                                                            kiln_error *err);

/// Makes one more with the same options, for a device that is not what it said when `engine` was
/// made. Streams go over (kiln_fuse_stream_move). `*out_engine` is the caller's.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_engine_again(const kiln_fuse_engine *engine,
                                                           const kiln_device_info *device,
                                                           kiln_fuse_engine **out_engine,
                                                           kiln_error *err);

/// Frees an engine whose streams are gone. Takes NULL.
KILN_API void kiln_fuse_engine_destroy(kiln_fuse_engine *engine);

/// Counts since the engine was made.
KILN_API void kiln_fuse_engine_stats(const kiln_fuse_engine *engine, kiln_fuse_stats *out_stats);

// ---- streams: record, plan, hand out ----

typedef struct kiln_fuse_stream kiln_fuse_stream;

/// What to run now: the first plan->n_ops operations of the stream. Numbers in the plan index these
/// arrays.
typedef struct kiln_fuse_segment {
    kiln_plan *plan; ///< of the engine; only blocks[].state is the executor's
    const kiln_op_record *ops;
    void *const *const *operands; ///< per operation: tokens of inputs, then of outputs
    void *const *tokens; ///< per segment tensor
    const kiln_tensor_desc *tensors; ///< per segment tensor, as first seen
    const int64_t *symbols; ///< values of dimension symbols; symbol 0 is 1
    const kiln_attr *scalars; ///< values of scalar placeholders, I64 or F64
} kiln_fuse_segment;

/// Bytes of a temporary of the block's program, with the segment's extents; 0 when that cannot be
/// said. `facts` are the device's, KILN_FACT_COUNT of them.
KILN_API uint64_t kiln_fuse_temp_bytes(const kiln_env *env, const int64_t *facts,
                                       const kiln_fuse_segment *segment,
                                       const kiln_plan_block *block, uint32_t temp);

/// Makes a queue of operations in relative form. With `whole` nothing is handed out before a drain,
/// and then all of it as one segment (graph capture). `*out_stream` is the caller's
/// (kiln_fuse_stream_destroy); it lives within its engine.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_stream_create(kiln_fuse_engine *engine, bool whole,
                                                            kiln_fuse_stream **out_stream,
                                                            kiln_error *err);

/// Frees a stream and what is queued in it. Takes NULL.
KILN_API void kiln_fuse_stream_destroy(kiln_fuse_stream *stream);

/// Records one verified operation; `tokens` are opaque, one for each input, then for each output,
/// and the same tensor always has the same token. A tensor's first sight takes its facts (placed,
/// contiguous, alignment) from the record. KILN_OP_DROP says that the caller let go of a tensor.
/// Everything is copied; tokens stay the caller's. After an error nothing was recorded.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_stream_push(kiln_fuse_stream *stream,
                                                          const kiln_op_record *record,
                                                          void *const *tokens, kiln_error *err);

/// The next segment to run, or NULL when it is better to wait for more operations. With `drain`
/// everything queued comes out, segment by segment, until NULL. A segment is run as soon as every
/// fuser is closed and an operation other than a drop follows it, so that the drops behind it are
/// known. Call kiln_fuse_stream_done before the next. A fuser's failure is a strike, not an error.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_stream_next(kiln_fuse_stream *stream, bool drain,
                                                          const kiln_fuse_segment **out_segment,
                                                          kiln_error *err);

/// Says that lengths differ from run to run in what is queued and comes: nothing is handed out
/// before a drain, and a plan that was made for other lengths serves, up to sixteen times as long
/// or short. A length of 1, 0, or that such a plan needs divisible, stays so. Gives what held until
/// now.
KILN_API bool kiln_fuse_stream_vary(kiln_fuse_stream *stream, bool on);

/// Says that the segment has run: the stream goes on behind it.
KILN_API void kiln_fuse_stream_done(kiln_fuse_stream *stream, const kiln_fuse_segment *segment);

/// Instead of done, when nothing of the segment has run: its operations are queued again, and the
/// next one may have another plan. Nothing may have been pushed meanwhile.
KILN_API void kiln_fuse_stream_return(kiln_fuse_stream *stream, const kiln_fuse_segment *segment);

/// Has another engine of the same device plan what is queued, and what comes. Nothing may be handed
/// out. The stream lives within that engine from now on.
KILN_API void kiln_fuse_stream_move(kiln_fuse_stream *stream, kiln_fuse_engine *engine);

/// How many operations are queued.
KILN_API size_t kiln_fuse_stream_pending(const kiln_fuse_stream *stream);

/// Forgets what is queued without planning it; `each` gets every token of every operation, as often
/// as it was recorded. Nothing may be handed out.
KILN_API void kiln_fuse_stream_discard(kiln_fuse_stream *stream,
                                       void (*each)(void *token, void *user), void *user);

/// Replaces a scalar attribute of an operation of the segment that the stream has handed out, for
/// segments that are run again and again with other numbers. NONE: its fallback. It is copied.
KILN_API void kiln_fuse_stream_set_scalar(kiln_fuse_stream *stream, uint32_t op, uint32_t attr,
                                          const kiln_attr *value);

/// Puts another token in the place of one that stands for a tensor of the segment that the stream
/// has handed out. Gives how many operands were that tensor.
KILN_API uint32_t kiln_fuse_stream_rename(kiln_fuse_stream *stream, uint32_t tensor, void *token);

/// A block could not be built, launched or verified: it is never chosen again, its fuser gets a
/// strike, and the next search of this segment goes without it. The executor runs the block's
/// operations unfused. Nothing of that, and false, when the cause says nothing about the program:
/// memory was short, or it was cancelled.
KILN_API bool kiln_fuse_block_failed(kiln_fuse_engine *engine, const kiln_plan_block *block,
                                     const kiln_error *cause);

/// As above for a program that did not come back: its fuser is put away at once, in later processes
/// too.
KILN_API void kiln_fuse_block_hung(kiln_fuse_engine *engine, const kiln_plan_block *block,
                                   const kiln_error *cause);

/// Whether the block's fuser ships with Kiln, and is trusted as Kiln is.
KILN_API bool kiln_fuse_block_ships(const kiln_fuse_engine *engine, const kiln_plan_block *block);

/// The file of the block's fuser when the user named it, else NULL.
KILN_API const char *kiln_fuse_block_named_file(const kiln_fuse_engine *engine,
                                                const kiln_plan_block *block);

/// What the executor does with a program.
typedef enum kiln_fuse_doing {
    KILN_FUSE_DOES_NOTHING = 0,
    KILN_FUSE_BUILDS = 1,
    KILN_FUSE_RUNS = 2
} kiln_fuse_doing;

/// Says that the executor now builds or runs a program of the block, or has done so: if the process
/// ends meanwhile, the next one knows whose program it was.
KILN_API void kiln_fuse_block_doing(kiln_fuse_engine *engine, const kiln_plan_block *block,
                                    kiln_fuse_doing doing);

// ---- tournaments ----

/// A program that can run a block, with the same operations as the others.
typedef struct kiln_fuse_contender {
    const kiln_program *program;
    const char *fuser;
    uint64_t predicted_ns;
    bool chosen; ///< the block has it
    bool failed; ///< it could not be built or launched
} kiln_fuse_contender;

enum { KILN_FUSE_MAX_CONTENDERS = 8 };

/// The programs that may be measured for a block, the chosen one among them; none when that was
/// done, in this process or another, or when there are more than `capacity`. They live as long as
/// the plan.
KILN_API uint32_t kiln_fuse_contenders(const kiln_fuse_engine *engine, const kiln_plan *plan,
                                       uint32_t block, kiln_fuse_contender *out, uint32_t capacity);

/// Tells what they took, in their order, and the operations one by one; 0: failed. The fastest is
/// remembered for extents like these (`symbols` as in the segment; each less than twice another),
/// here and on disk, and the next plan of the segment has it. What a fuser claimed is held against
/// it from now on.
KILN_API void kiln_fuse_settle(kiln_fuse_engine *engine, const kiln_plan *plan, uint32_t block,
                               const int64_t *symbols, const uint64_t *measured_ns,
                               uint64_t unfused_ns);

/// Whether a tournament found something faster than what one of the plan's blocks runs: who keeps
/// the plan's segment does better to record it again.
KILN_API bool kiln_fuse_plan_outdone(const kiln_plan *plan);

// ---- explanation ----

enum { ///< flags of an explanation as text
    KILN_FUSE_EXPLAIN_SOURCE = 1u, ///< with the kernels' source
    KILN_FUSE_EXPLAIN_MEMORY = 2u ///< with the memory that the steps need
};

/// Collects what was decided for the segment. Steps have no times yet, tensors no places among
/// inputs and outputs. `*out` is the caller's (kiln_explanation_fini). Its programs live as long as
/// the segment; texts are copied.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_explain_collect(kiln_fuse_engine *engine,
                                                              const kiln_fuse_segment *segment,
                                                              kiln_explanation *out,
                                                              kiln_error *err);

/// Frees what an explanation has collected.
KILN_API void kiln_explanation_fini(kiln_explanation *explanation);

/// Writes an explanation as text of at most 100 columns. Without memory `out->failed` is set.
KILN_API void kiln_explanation_print(const kiln_explanation *explanation, uint32_t flags,
                                     kiln_string *out);

/// Both in one: writes for each block of the plan its operations, the candidates with length, score
/// and reason, and the winner; for each operation left unfused the reason of each fuser. Text of at
/// most 100 columns.
KILN_NODISCARD KILN_API kiln_status kiln_fuse_explain(kiln_fuse_engine *engine,
                                                      const kiln_fuse_segment *segment,
                                                      uint32_t flags, kiln_string *out,
                                                      kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
