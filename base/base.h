// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_H
#define KILN_BASE_H

/// base: what every other folder stands on. Status and error record, element types, the
/// environment (allocator, log, configuration), and below the banner the services for Kiln's own
/// modules: arena, hash, thread identity, dynamic libraries, the store on disk.
/// Nothing here knows a tensor operation.

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILN_API __attribute__((visibility("default")))
#define KILN_NODISCARD __attribute__((warn_unused_result))
/// Rarely called: compilers move the way to the call out of the hot code.
#define KILN_COLD __attribute__((cold))
#define KILN_PRINTF(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))
#else
#define KILN_API
#define KILN_NODISCARD
#define KILN_COLD
#define KILN_PRINTF(format_index, first_index)
#endif

// ---- status and error ----

typedef enum kiln_status {
#define KILN_STATUS(id, code, name, help) KILN_STATUS_##id = code,
#include "status.def"
#undef KILN_STATUS
} kiln_status;

/// What went wrong, owned by the caller: zero-initialised or KILN_ERROR_INIT, copyable, no
/// heap. `message` is one line of UTF-8 and always terminated.
typedef struct kiln_error {
    uint32_t struct_size;
    int32_t code; ///< kiln_status
    int32_t line;
    uint32_t reserved;
    const char *file; ///< basename in static storage, or NULL
    char message[232];
} kiln_error;

#define KILN_ERROR_INIT                                                                            \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_error)                                                \
    }

/// Name of a status in lower case, "ok" for 0; "unknown" for a number that is none.
/// Ownership: static storage. Lifetime: the process. Thread: any. Errors: none.
KILN_API const char *kiln_status_name(kiln_status status);

/// Writes code, place and message into `err` (which may be NULL) and returns `code`. Call it
/// through kiln_fail. Ownership: `err` is the caller's. Lifetime: n/a. Thread: any. Errors: returns
/// `code`.
KILN_API kiln_status kiln_error_set(kiln_error *err, kiln_status code, const char *file, int line,
                                    const char *format, ...) KILN_COLD
    KILN_PRINTF(5, 6);

/// Puts "text: " before the message that is in `err`; the cause stays. Returns err's code.
/// Ownership: `err` is the caller's, may be NULL. Lifetime: n/a. Thread: any. Errors: none of its
/// own.
KILN_API kiln_status kiln_error_context(kiln_error *err, const char *format, ...) KILN_COLD
    KILN_PRINTF(2, 3);

/// Fills `err` with code, place and text, and is the code: `return kiln_fail(err, NOT_FOUND, "…")`.
#ifdef __clang_analyzer__ // which cannot know that the call returns its code
#define kiln_fail(err, CODE, ...)                                                                  \
    ((void)kiln_error_set((err), KILN_STATUS_##CODE, KILN_FILE_NAME, __LINE__, __VA_ARGS__),       \
     KILN_STATUS_##CODE)
#else
#define kiln_fail(err, CODE, ...)                                                                  \
    kiln_error_set((err), KILN_STATUS_##CODE, KILN_FILE_NAME, __LINE__, __VA_ARGS__)
#endif

/// Evaluates `expr` into `st` and jumps to `label` unless it is OK.
#define KILN_TRY(label, st, expr)                                                                  \
    do {                                                                                           \
        (st) = (expr);                                                                             \
        if ((st) != KILN_STATUS_OK) {                                                              \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

#ifdef __FILE_NAME__
#define KILN_FILE_NAME __FILE_NAME__
#else
#define KILN_FILE_NAME __FILE__
#endif

// ---- element types ----

typedef enum kiln_dtype {
    KILN_DTYPE_NONE = 0,
#define KILN_DTYPE(id, name, number, bits, kind, doc) KILN_DTYPE_##id = number,
#include "dtype.def"
#undef KILN_DTYPE
    KILN_DTYPE_LIMIT ///< one above the largest number
} kiln_dtype;

typedef enum kiln_dtype_kind {
    KILN_KIND_NONE = 0,
    KILN_KIND_BOOL = 1,
    KILN_KIND_UINT = 2,
    KILN_KIND_INT = 4,
    KILN_KIND_FLOAT = 8,
    KILN_KIND_QUANT = 16 ///< of no whole number of bytes
} kiln_dtype_kind;

/// Name ("f32"), bytes of one element, and kind; NULL, 0 and KILN_KIND_NONE for a number that is
/// no dtype. `kiln_dtype_from_name` gives KILN_DTYPE_NONE for an unknown name.
/// Ownership: static storage. Lifetime: the process. Thread: any. Errors: none.
KILN_API const char *kiln_dtype_name(kiln_dtype dtype);
KILN_API size_t kiln_dtype_size(kiln_dtype dtype);
KILN_API kiln_dtype_kind kiln_dtype_kind_of(kiln_dtype dtype);
KILN_API kiln_dtype kiln_dtype_from_name(const char *name);

/// Conversion of one 16-bit float, round to nearest even, NaN kept a NaN.
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: none.
KILN_API float kiln_f16_to_f32(uint16_t bits);
KILN_API uint16_t kiln_f32_to_f16(float value);
KILN_API float kiln_bf16_to_f32(uint16_t bits);
KILN_API uint16_t kiln_f32_to_bf16(float value);

// ---- environment: allocator, log, configuration ----

/// Memory for everything that Kiln allocates on the host. `alloc` returns NULL when there is none;
/// alignment is a power of two up to 4096. `free` takes NULL. Both may be called from any thread.
typedef struct kiln_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *pointer);
    void *user;
} kiln_allocator;

typedef enum kiln_log_level {
    KILN_LOG_ERROR = 0,
    KILN_LOG_WARN = 1,
    KILN_LOG_INFO = 2,
    KILN_LOG_DEBUG = 3,
    KILN_LOG_TRACE = 4
} kiln_log_level;

typedef struct kiln_log_record {
    uint32_t struct_size;
    kiln_log_level level;
    const char *module; ///< folder name, such as "cl_backend"
    const char *message; ///< one line, valid during the call
} kiln_log_record;

/// Receives what the library has to say, on any thread, possibly from several at once.
typedef void (*kiln_log_fn)(const kiln_log_record *record, void *user);

typedef enum kiln_knob {
#define KILN_KNOB(id, name, type, default_value, env, help) KILN_KNOB_##id,
#include "config.def"
#undef KILN_KNOB
    KILN_KNOB_COUNT
} kiln_knob;

typedef enum kiln_origin { ///< where an option's value came from; a larger one wins
    KILN_ORIGIN_DEFAULT = 0,
    KILN_ORIGIN_FILE = 1,
    KILN_ORIGIN_ENVIRONMENT = 2,
    KILN_ORIGIN_FLAG = 3
} kiln_origin;

typedef struct kiln_config kiln_config;

/// What a context hands to every module: borrowed by all of them, alive longer than all of them.
typedef struct kiln_env {
    kiln_allocator allocator;
    kiln_log_fn log; ///< NULL: silence
    void *log_user;
    kiln_config *config;
} kiln_env;

/// The C library's allocator.
/// Ownership: a value. Lifetime: the process. Thread: any. Errors: none.
KILN_API kiln_allocator kiln_allocator_default(void);

/// A configuration with defaults, then the file `path` when not NULL (lines `name = value`, #
/// comments), then the environment when `use_environment` (ignored under elevated privilege).
/// Ownership: `*out_config` is the caller's (kiln_config_destroy). Lifetime: until destroyed.
/// Thread: any. Errors: NOT_FOUND, INVALID_ARGUMENT with the line, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_config_create(const kiln_allocator *allocator,
                                                       const char *path, bool use_environment,
                                                       kiln_config **out_config, kiln_error *err);
KILN_API void kiln_config_destroy(kiln_config *config);

/// Sets an option by name, as a flag does. An origin below the present one is ignored.
/// Ownership: the text is copied. Lifetime: n/a. Thread: not while others read. Errors: NOT_FOUND,
/// INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_config_set(kiln_config *config, const char *name,
                                                    const char *value, kiln_origin origin,
                                                    kiln_error *err);

/// The value of an option as text, integer or truth, and where it came from. A NULL config has the
/// defaults. Ownership: borrowed. Lifetime: the config's; what was read stays as it was. Thread:
/// any. Errors: none.
KILN_API const char *kiln_config_string(const kiln_config *config, kiln_knob option);
KILN_API int64_t kiln_config_int(const kiln_config *config, kiln_knob option);
KILN_API bool kiln_config_bool(const kiln_config *config, kiln_knob option);
KILN_API kiln_origin kiln_config_origin(const kiln_config *config, kiln_knob option);
KILN_API const char *kiln_knob_name(kiln_knob option);
KILN_API const char *kiln_knob_help(kiln_knob option);
KILN_API const char *kiln_knob_environment(kiln_knob option);

// =================================================================================================
// Services for Kiln's own modules. Users can stop reading here.
// =================================================================================================

/// Zeroed memory from the environment's allocator, aligned for any type; NULL when there is none.
/// `kiln_realloc` keeps the first min(old, new) bytes, zeroes the rest, and leaves `pointer` valid
/// on failure. `kiln_strdup` copies a text. Ownership: the caller's, back through kiln_free with
/// the same environment. Lifetime: until freed. Thread: any. Errors: NULL.
KILN_API void *kiln_alloc(const kiln_env *env, size_t bytes);
KILN_API void *kiln_alloc_array(const kiln_env *env, size_t count, size_t bytes_each);
KILN_API void *kiln_realloc(const kiln_env *env, void *pointer, size_t old_bytes, size_t new_bytes);
KILN_API char *kiln_strdup(const kiln_env *env, const char *text);
KILN_API void kiln_free(const kiln_env *env, void *pointer);

/// Says something to the log when the level of `module` lets it through.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_log_write(const kiln_env *env, kiln_log_level level, const char *module,
                             const char *format, ...) KILN_COLD KILN_PRINTF(4, 5);
KILN_API bool kiln_log_enabled(const kiln_env *env, kiln_log_level level, const char *module);

/// Warns of variables of the environment that are named KILN_* and are no option; of modules that
/// the LOG option names and that say nothing. Ownership: borrowed. Lifetime: n/a. Thread: while
/// none sets the environment. Errors: none.
KILN_API void kiln_config_warn_environment(const kiln_env *env);
KILN_API void kiln_config_warn_log(const kiln_env *env);

/// Memory that is freed as a whole. `kiln_arena_alloc` gives zeroed bytes aligned to 16, NULL when
/// there is no memory. `reset` keeps the blocks for reuse. A plain struct: zero it with init.
/// Ownership: blocks belong to the arena. Lifetime: until reset or fini. Thread: one at a time.
/// Errors: NULL.
typedef struct kiln_arena {
    const kiln_env *env;
    void *blocks;
    size_t used_bytes;
} kiln_arena;
KILN_API void kiln_arena_init(kiln_arena *arena, const kiln_env *env);
KILN_API void *kiln_arena_alloc(kiln_arena *arena, size_t bytes);
KILN_API void *kiln_arena_copy(kiln_arena *arena, const void *source, size_t bytes);
KILN_API void kiln_arena_reset(kiln_arena *arena);
KILN_API void kiln_arena_fini(kiln_arena *arena);

/// A growing text, always terminated after the first append. On no memory `failed` is set and stays
/// set. Ownership: `text` belongs to the builder. Lifetime: until fini. Thread: one at a time.
/// Errors: `failed`.
typedef struct kiln_string {
    const kiln_env *env;
    char *text;
    size_t length;
    size_t capacity;
    bool failed;
} kiln_string;
KILN_API void kiln_string_init(kiln_string *string, const kiln_env *env);
KILN_API void kiln_string_append(kiln_string *string, const char *text, size_t length);
KILN_API void kiln_string_printf(kiln_string *string, const char *format, ...) KILN_PRINTF(2, 3);
KILN_API void kiln_string_fini(kiln_string *string);

/// XXH3 (xxhash.com) of bytes: 64 bits for tables in memory, 128 for keys on disk.
/// `kiln_hash_hex` writes 32 digits and a terminator. Ownership: values. Lifetime: n/a. Thread:
/// any. Errors: none.
typedef struct kiln_hash128 {
    uint64_t low;
    uint64_t high;
} kiln_hash128;
KILN_API uint64_t kiln_hash64(const void *bytes, size_t length, uint64_t seed);
KILN_API kiln_hash128 kiln_hash_bytes(const void *bytes, size_t length);
KILN_API void kiln_hash_hex(kiln_hash128 hash, char out_hex[33]);
static inline bool kiln_hash_same(kiln_hash128 a, kiln_hash128 b)
{
    return a.low == b.low && a.high == b.high;
}

/// The sample that a share of `quantile` lies below (0.5: the median); 0 without samples, which are
/// sorted. Ownership: a value. Lifetime: n/a. Thread: any. Errors: none.
KILN_API double kiln_quantile(double *samples, size_t count, double quantile);

/// How many times as long one took as another, in pairs measured side by side: the median, and the
/// interval that holds the true one with 95 % certainty; fewer than six pairs give 0 to infinity.
/// Sorts. Ownership: a value. Lifetime: n/a. Thread: any. Errors: none.
typedef struct kiln_ratio {
    size_t count;
    double median; ///< 0: no pairs
    double low;
    double high;
} kiln_ratio;
KILN_API kiln_ratio kiln_ratio_of(double *ratios, size_t count);

/// Number of the calling thread, from 1, never used again in this process.
/// Ownership: a value. Lifetime: the process. Thread: any. Errors: none.
KILN_API uint64_t kiln_thread_id(void);

/// Monotonic clock in nanoseconds. Ownership: a value. Lifetime: n/a. Thread: any. Errors: none.
KILN_API uint64_t kiln_time_ns(void);

/// Nanoseconds that this process, all its threads together, has computed. Ownership: a value.
/// Lifetime: n/a. Thread: any. Errors: none.
KILN_API uint64_t kiln_processor_ns(void);

/// A shared object opened RTLD_NOW | RTLD_LOCAL. `close` only drops our handle: with `keep` set at
/// open (RTLD_NODELETE) the code stays for the process. Ownership: the caller's. Lifetime: until
/// closed. Thread: any. Errors: NOT_FOUND with the loader's text.
typedef struct kiln_dynlib kiln_dynlib;
KILN_NODISCARD KILN_API kiln_status kiln_dynlib_open(const kiln_env *env, const char *path,
                                                     bool keep, kiln_dynlib **out_library,
                                                     kiln_error *err);
KILN_API void *kiln_dynlib_symbol(kiln_dynlib *library, const char *name);
KILN_API void kiln_dynlib_close(kiln_dynlib *library);

/// The folder of the cache as configured, or NULL when it is off. Written into `out_path`.
/// Ownership: the caller's. Lifetime: n/a. Thread: any. Errors: FAILED_PRECONDITION when off or no
/// home.
KILN_NODISCARD KILN_API kiln_status kiln_cache_dir(const kiln_env *env, char *out_path,
                                                   size_t capacity, kiln_error *err);

/// The folder of what a user lists for Kiln, `kiln` in XDG_CONFIG_HOME; it need not be there.
/// Ownership: the caller's. Lifetime: n/a. Thread: any. Errors: FAILED_PRECONDITION without a home,
/// and in a process with elevated privileges.
KILN_NODISCARD KILN_API kiln_status kiln_config_dir(char *out_path, size_t capacity,
                                                    kiln_error *err);

/// A database on disk: tables of key -> value with a checksum, shared by processes, safe against
/// crashes, least recently used entries removed above the limit. SQLite below; absent in the
/// minimal build, where open gives UNIMPLEMENTED. A damaged entry is a miss and is removed; a
/// damaged file is set aside and begun anew.
typedef struct kiln_store kiln_store;
typedef struct kiln_blob {
    void *data;
    size_t length;
} kiln_blob;
typedef enum kiln_store_table {
    KILN_STORE_PROGRAMS = 0,
    KILN_STORE_PLANS = 1,
    KILN_STORE_WINNERS = 2,
    KILN_STORE_DEVICES = 3,
    KILN_STORE_STARTS = 4, ///< what a process asked for first
    KILN_STORE_TABLE_COUNT
} kiln_store_table;
typedef struct kiln_store_stat {
    uint64_t entries[KILN_STORE_TABLE_COUNT];
    uint64_t bytes[KILN_STORE_TABLE_COUNT];
    uint64_t file_bytes;
} kiln_store_stat;

/// Opens `folder`/kiln.db, making both. Ownership: `*out_store` is the caller's (kiln_store_close).
/// Lifetime: until closed; `env` must outlive it. Thread: all calls from any thread.
/// Errors: UNAVAILABLE when the file cannot be opened or is locked for long, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_store_open(const kiln_env *env, const char *folder,
                                                    kiln_store **out_store, kiln_error *err);
KILN_API void kiln_store_close(kiln_store *store);

/// `get` gives NOT_FOUND on a miss; the blob goes back through kiln_free(env, blob.data). `put`
/// replaces. `clear` empties all tables. Ownership: key and value are copied. Lifetime: n/a.
/// Thread: any. Errors: NOT_FOUND, UNAVAILABLE, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_store_get(kiln_store *store, kiln_store_table table,
                                                   kiln_hash128 key, kiln_blob *out_value,
                                                   kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_store_put(kiln_store *store, kiln_store_table table,
                                                   kiln_hash128 key, const void *value,
                                                   size_t length, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_store_stat_get(kiln_store *store,
                                                        kiln_store_stat *out_stat, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_store_clear(kiln_store *store, kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
