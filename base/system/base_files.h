// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_BASE_FILES_H
#define KILN_BASE_BASE_FILES_H

/// Files that others change: the lock beside them, putting a new one in the place of an old one,
/// and reading parts. For Kiln's own modules; not installed. Any thread may call any function.

#include <stdio.h>

#include "base.h"

/// Opens the file `path`, making it, and takes its exclusive lock (flock), for `wait_ms` at most. A
/// process that is stopped or hangs may hold it for ever, so the lock is for what can do without:
/// the log, in the name of `module`, says why there is none. Without `env` nothing is said. The
/// descriptor is the caller's; its close gives the lock back. Errors: -1, no lock.
KILN_NODISCARD int kilni_base_lock_open(const kiln_env *env, const char *module, const char *path,
                                        uint32_t wait_ms);

/// Begins a file that is to take the place of `path`. Its name, which nobody else uses, is written
/// to `out_beside`; "" where `path` itself is written, because it is a device, a pipe or a link, or
/// its folder takes no new files. Errors: NULL, with errno.
KILN_NODISCARD FILE *kilni_base_replace_begin(const char *path, char *out_beside, size_t capacity);

/// Flushes and closes the file and puts it in the place of `path` if all was written and `keep` is
/// true; else removes it. What was at `path` is then still there, unless `beside` is "". Errors:
/// false, with errno: that of the last write that failed, if no other call came between.
KILN_NODISCARD bool kilni_base_replace_end(FILE *take_file, const char *beside, const char *path,
                                           bool keep);

/// Reads the `bytes` of an open file that begin at `at`. Errors: false, with errno; ENODATA where
/// the file ends before.
KILN_NODISCARD bool kilni_base_read_at(int file, size_t at, void *out_bytes, size_t bytes);

#endif
