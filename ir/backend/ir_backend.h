// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_BACKEND_H
#define KILN_IR_BACKEND_H

/// The backend interface: for those who implement or decorate a backend. Users of Kiln do not need
/// it.
///
/// A backend is tables of functions, each in a header of its own. A table is whole: no entry of it
/// is NULL, and where a backend has nothing better it takes the defaults of `backend_defaults.c`.
/// Some tables may be absent, which means one thing for the whole table. The runtime opens devices
/// by `kiln_backend_open`, which refuses a backend with a hole.
///
/// Any thread may call the functions of a table, one at a time for each device (the caller's lock).
/// All work is in order, as on one queue. Any thread may call the functions below; providers are
/// static. No pointer is NULL unless a function takes it.

#include "ir_arena.h"
#include "ir_device_ops.h"
#include "ir_launch.h"
#include "ir_memory.h"
#include "ir_peer.h"
#include "ir_queue.h"
#include "ir_trace.h"
#include "ir_transfer.h"
#include "ir_view_apply.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The version of the tables. It grows with every entry and table that is appended; a provider of
/// an older one is refused.
enum { KILN_BACKEND_INTERFACE = 4 };

struct kiln_backend { ///< first member of every backend; the tables are static
    uint32_t struct_size;
    const char *scheme;
    const kiln_env *env; ///< the defaults allocate from it
    const kiln_backend_device_ops *device;
    const kiln_backend_memory_ops *memory;
    const kiln_backend_transfer_ops *transfer;
    const kiln_backend_program_ops *program; ///< NULL: takes no programs
    const kiln_backend_arena_ops *arena; ///< NULL: no memory is planned for it
    const kiln_backend_queue_ops *queue; ///< NULL: nothing is queued in this process
    const kiln_backend_peer_ops *peer; ///< NULL: its bytes pass through this host
    const kiln_backend_trace_ops *trace;
    const kiln_backend_prepared_ops *prepared; ///< NULL: launches are not prepared
    uint64_t gone; ///< grows when memory of a buffer that a prepared launch had goes or moves
};

/// Whether this composite is recorded as simpler operations on this backend: always for class
/// ELEMENTWISE, so that fusers see them, and where the backend does not run it itself.
KILN_API bool kiln_ir_is_expanded(kiln_backend *backend, const kiln_op_record *record);

/// A record of matmul as products of `rows` x `terms` by `terms` x `columns`.
typedef struct kiln_product {
    double batch; ///< how many products
    double rights; ///< right operands: fewer than products where some share theirs
    double rows;
    double columns;
    double terms;
} kiln_product;

/// What `record` of matmul computes, which has been inferred. A vector is a row on the left, a
/// column on the right.
KILN_API kiln_product kiln_ir_product_of(const kiln_op_record *record);

/// Whether `record` is a batch of products on a processor that do not all share their right operand
/// and are so small that Kiln's own kernel is quicker than a BLAS library, which copies each of
/// them into whole tiles (decision 104).
KILN_API bool kiln_ir_is_small_batch(const kiln_device_info *info, const kiln_op_record *record);

/// Opens backends whose address starts with `scheme` and a colon, such as "opencl:0".
typedef struct kiln_backend_provider {
    uint32_t struct_size;
    const char *scheme;
    kiln_status (*open)(const kiln_env *env, const char *address, kiln_backend **out_backend,
                        kiln_error *err, void *user);
    /// Describes the n-th device for `kiln devices`: its address and a line; NOT_FOUND past the
    /// last. May be NULL.
    kiln_status (*describe)(const kiln_env *env, size_t index, char out_address[64],
                            char out_line[192], kiln_error *err, void *user);
    void *user;
    /// Type of the n-th device, without opening it; NOT_FOUND past the last. May be NULL.
    kiln_status (*type_of)(const kiln_env *env, size_t index, kiln_device_type *out_type,
                           kiln_error *err, void *user);
    uint32_t interface; ///< KILN_BACKEND_INTERFACE, as the provider was built with
} kiln_backend_provider;

/// Checks that a provider was built for these tables; FAILED_PRECONDITION: for older ones.
KILN_API kiln_status kiln_backend_provider_check(const kiln_backend_provider *provider,
                                                 kiln_error *err);

/// Checks that the tables of a backend are there and whole. INVALID_ARGUMENT names the first that
/// is not.
KILN_API kiln_status kiln_backend_check(const kiln_backend *backend, kiln_error *err);

/// Opens a backend of a provider and checks it. The caller closes it by `close` of its device
/// table, before the environment ends.
KILN_API kiln_status kiln_backend_open(const kiln_backend_provider *provider, const kiln_env *env,
                                       const char *address, kiln_backend **out_backend,
                                       kiln_error *err);

/// The backend "reference", which runs every operator's reference function on the host.
KILN_API const kiln_backend_provider *kiln_ir_reference_provider(void);

/// The backend "null", which keeps memory and runs nothing, programs included, for measuring what a
/// host pays.
KILN_API const kiln_backend_provider *kiln_ir_null_provider(void);

/// Makes a backend of the null provider plan for the device of these facts, whose texts it copies:
/// nothing runs, so all of it counts, whatever this machine has. UNIMPLEMENTED for another backend;
/// INVALID_ARGUMENT without texts, units or vectors of 16 bytes and more.
KILN_NODISCARD KILN_API kiln_status kiln_ir_null_plan_for(kiln_backend *backend,
                                                          const kiln_device_info *there,
                                                          kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
