// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_SYSTEM_H
#define KILN_BASE_SYSTEM_H

/// For Kiln's own modules: threads, clocks, folders, shared objects.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it cannot fail. No pointer is NULL unless a function takes it.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kiln_env.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Number of the calling thread, from 1, never used again in this process.
KILN_API uint64_t kiln_thread_id(void);

/// Monotonic clock in nanoseconds.
KILN_API uint64_t kiln_time_ns(void);

/// A monotonic clock that costs a fifth of that one, is milliseconds behind, and is compared with
/// itself only.
KILN_API uint64_t kiln_time_rough_ns(void);

/// Nanoseconds that this process, all its threads together, has computed; without what keeps
/// processors awake (kiln_awake_begin).
KILN_API uint64_t kiln_processor_ns(void);

/// As memcpy; pieces of many MiB are copied by several threads, which end with the call.
KILN_API void kiln_copy_wide(void *target, const void *source, size_t bytes);

/// As memcpy, without a place in the processor's caches: a part of so much that its beginning would
/// have left them anyway when somebody reads it.
KILN_API void kiln_copy_past(void *target, const void *source, size_t bytes);

/// Whether the processor has AVX-512 VNNI, products of 8-bit integers, and the system lets programs
/// use it.
KILN_API bool kiln_processor_has_vnni(void);

// ---- processors that do not sleep ----

/// For who has work done by this machine's processors through threads that are not his own: between
/// open and close there are threads for what follows. Opens are counted. Where nothing is gained
/// (one processor, a quota of processor time, Valgrind) there are none, and the answer is no.
KILN_API bool kiln_awake_open(void);

/// Ends what kiln_awake_open began; the last one waits until those threads have ended.
KILN_API void kiln_awake_close(void);

/// Between begin and end, and 0.1 ms longer, no processor sleeps: a thread that is woken runs at
/// once. Other threads of the machine lose nothing. Begins are counted.
KILN_API void kiln_awake_begin(void);

/// Ends what kiln_awake_begin began.
KILN_API void kiln_awake_end(void);

/// No processor sleeps for the next 0.1 ms.
KILN_API void kiln_awake_while(void);

/// So many nanoseconds of a thread's processor time only kept a processor awake, too:
/// kiln_processor_ns leaves them out.
KILN_API void kiln_awake_spent(uint64_t ns);

/// A step, some tens of nanoseconds long, of a loop that looks at memory until it changes.
KILN_API void kiln_processor_pause(void);

/// Writes the folder of the cache, as configured, into `out_path`. Errors: FAILED_PRECONDITION when
/// the cache is off or there is no home.
KILN_NODISCARD KILN_API kiln_status kiln_cache_dir(const kiln_env *env, char *out_path,
                                                   size_t capacity, kiln_error *err);

/// Writes the folder of what a user lists for Kiln, `kiln` in XDG_CONFIG_HOME, into `out_path`; it
/// need not be there. Errors: FAILED_PRECONDITION without a home, and in a process with elevated
/// privileges.
KILN_NODISCARD KILN_API kiln_status kiln_config_dir(char *out_path, size_t capacity,
                                                    kiln_error *err);

// ---- shared objects ----

/// An open shared object.
typedef struct kiln_dynlib kiln_dynlib;

/// Opens a shared object, RTLD_NOW | RTLD_LOCAL; with `keep` (RTLD_NODELETE) its code stays for the
/// process. `*out_library` is the caller's (kiln_dynlib_close). Errors: NOT_FOUND with the loader's
/// text.
KILN_NODISCARD KILN_API kiln_status kiln_dynlib_open(const kiln_env *env, const char *path,
                                                     bool keep, kiln_dynlib **out_library,
                                                     kiln_error *err);

/// The address of a symbol, or NULL.
KILN_API void *kiln_dynlib_symbol(kiln_dynlib *library, const char *name);

/// Gives the shared object back to the loader. Takes NULL.
KILN_API void kiln_dynlib_close(kiln_dynlib *library);

#ifdef __cplusplus
}
#endif
#endif
