// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_H
#define KILN_BASE_H

/// base: what every other folder stands on. Nothing here knows a tensor operation.

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kiln_api.h"
#include "kiln_dtype.h"
#include "kiln_env.h"
#include "kiln_status.h"

// Services for Kiln's own modules.
#include "base_hash.h"
#include "base_log.h"
#include "base_memory.h"
#include "base_npy.h"
#include "base_statistics.h"
#include "base_store.h"
#include "base_system.h"

#endif
