// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_EXEC_INTERNAL_H
#define KILNI_EXEC_INTERNAL_H

/// What the files that launch Kiln's own kernels (exec*.c) share: one operation on its way to the
/// device, axes brought into the fewest loops, and compiler options. Every launcher takes any
/// strides; where its kernel does not, it makes a dense copy first.

#include "cl_launch.h"
#include "cl_state.h"
#include "exec.h"
#include "kernel_args.h"

enum { KILNI_EXEC_OPERANDS = 4, KILNI_EXEC_SCRATCH = 32 };

/// One operation. Views of the inputs may be replaced on the way; scratch memory is freed when it
/// is queued.
typedef struct kilni_exec {
    kilni_cl_backend *backend;
    const kiln_op_record *record;
    const kiln_view *inputs;
    const kiln_view *outputs;
    kiln_buffer *scratch[KILNI_EXEC_SCRATCH];
    uint32_t n_scratch;
    kiln_error *err;
} kilni_exec;

typedef kiln_status (*kilni_exec_fn)(kilni_exec *exec);

/// The launcher of an operator, by kernels.def; NULL when there is none.
kilni_exec_fn kilni_exec_launcher(kiln_op op);

#define KILN_KERNEL(id, launcher) kiln_status launcher(kilni_exec *exec);
#include "kernels.def"
#undef KILN_KERNEL

// ---- devices and numbers ----

/// Whether kernels take the block form: one work-item for a block of work, explicit vectors, no
/// barriers.
bool kilni_exec_is_block(const kilni_exec *exec);

/// Elements of an explicit vector for computing with `dtype`.
uint32_t kilni_exec_vector(const kilni_exec *exec, kiln_dtype dtype);

/// The unsigned dtype of the same size, for moving elements without looking at them.
kiln_dtype kilni_exec_raw(kiln_dtype dtype);

/// The dtype that a kernel computes in: i8, i16, bool in i32, u8, u16 in u32, f16 and bf16 in f32.
kiln_dtype kilni_exec_compute(kiln_dtype dtype);

int64_t kilni_exec_count(const kiln_view *view);
int64_t
kilni_exec_start(const kiln_view *view); ///< first element, in elements from the buffer's start
int64_t kilni_exec_ceil_div(int64_t a, int64_t b);

/// Attribute as axis 0..rank-1; set of bits from attribute `axes` (empty: all); element `i` of a
/// list, or `fallback` when the list is absent or empty.
uint32_t kilni_exec_axis(const kilni_exec *exec, uint32_t rank);
uint32_t kilni_exec_axes(const kilni_exec *exec, uint32_t rank);
int64_t kilni_exec_list(const kilni_exec *exec, kiln_attr_key key, uint32_t i, int64_t fallback);

/// Scalar attribute as the kernel's argument for operands of `dtype`: `*out_bytes` bytes in memory
/// order.
kiln_status kilni_exec_number(const kilni_exec *exec, kiln_attr_key key, kiln_dtype dtype, bool raw,
                              uint64_t *out_value, uint32_t *out_bytes);

// ---- memory ----

/// Memory that is freed after the operation is queued.
kiln_status kilni_exec_alloc(kilni_exec *exec, int64_t bytes, kiln_buffer **out_buffer);

/// When all of the operation is queued.
void kilni_exec_free_scratch(kilni_exec *exec);

/// `*out_view` is `view` itself when dense, else a dense copy of it in scratch memory.
kiln_status kilni_exec_dense(kilni_exec *exec, const kiln_view *view, kiln_view *out_view);
/// The same for each input of the record.
kiln_status kilni_exec_dense_inputs(kilni_exec *exec, kiln_view *out_views);

/// The view with `axis` last, so that lines along it are rows.
kiln_view kilni_exec_axis_last(const kiln_view *view, uint32_t axis);

/// Where a dense result is written: `target` itself when dense, else scratch memory, to be copied.
kiln_status kilni_exec_result(kilni_exec *exec, const kiln_view *target, kiln_view *out_view);

/// Copies elements between views of equal shape and element size; strides on both sides.
kiln_status kilni_exec_copy(kilni_exec *exec, const kiln_view *source, const kiln_view *target);

/// Copies elements of one dtype to another between views of equal shape, as the operator cast.
kiln_status kilni_exec_cast(kilni_exec *exec, const kiln_view *source, const kiln_view *target);

/// Writes `value` (bytes of one element) to every element of `target`.
kiln_status kilni_exec_fill(kilni_exec *exec, uint64_t value, const kiln_view *target);

// ---- products (exec_matmul.c, exec_integer.c) ----

/// The product of two operands that the record's were made into, transposed as it says: by the BLAS
/// library where that takes it.
kiln_status kilni_exec_matmul_of(kilni_exec *exec, const kiln_tensor_desc descs[2],
                                 const kiln_view views[2]);

/// Input `index`, i8 or u8, less its zero point, which is input `index` + 2, dense and as i32. A
/// zero point of rank 1 has one for each place on the input's `axis`.
kiln_status kilni_exec_shift(kilni_exec *exec, unsigned index, uint32_t axis, kiln_view *out_view);

// ---- sorting (exec_sort.c) ----

/// Keys in dense lines: unsigned numbers of 4 or 8 bytes, or pairs of 8 bytes each. All ones is not
/// a key.
typedef struct kilni_exec_sorting {
    kiln_buffer *keys; ///< replaced by another when they are sorted
    int64_t lines;
    int64_t length;
    uint32_t bytes; ///< of a key
} kilni_exec_sorting;

/// Sorts every line in ascending order.
kiln_status kilni_exec_sort_keys(kilni_exec *exec, kilni_exec_sorting *sorting);

// ---- loops ----

/// Axes that several operands share, merged where all of them allow it. Axes of length 1 are gone;
/// a broadcast operand has stride 0. Strides are in elements.
typedef struct kilni_exec_loops {
    uint32_t rank;
    uint32_t n_operands;
    int64_t dims[KILN_MAX_RANK];
    int64_t strides[KILNI_EXEC_OPERANDS][KILN_MAX_RANK];
    int64_t start[KILNI_EXEC_OPERANDS]; ///< first element, from the buffer's start
} kilni_exec_loops;

/// Begins with a shape; adds a view aligned to its last axes; merges. Axes of which a bit is set in
/// `apart` merge only with each other.
void kilni_exec_loops_init(kilni_exec_loops *loops, const int64_t *dims, uint32_t rank);
void kilni_exec_loops_add(kilni_exec_loops *loops, const kiln_view *view);
void kilni_exec_loops_merge(kilni_exec_loops *loops, uint32_t apart, uint32_t *out_apart);

/// Loops as most kernels take them: kiln_shape of kernel_args.h. `inner` elements along one axis
/// are cut into chunks, the other axes form rows; a work-item takes one chunk of `rows_each` rows.
/// Operand 0 is the result.
enum { KILNI_EXEC_INNER = 7 }; ///< of `stride`: along the inner axis
typedef kiln_shape kilni_exec_shape;
_Static_assert(sizeof(((kiln_shape *)0)->dims) == KILN_MAX_RANK * sizeof(kiln_long), "all axes");
_Static_assert(sizeof(((kiln_shape *)0)->start) == KILNI_EXEC_OPERANDS * sizeof(kiln_long),
               "operands");

/// Merges the loops, chooses the inner axis and cuts the work for vectors of `vector` elements.
void kilni_exec_shape_init(const kilni_exec *exec, kilni_exec_shape *shape, kilni_exec_loops *loops,
                           uint32_t vector);

// ---- windows ----

/// kiln_window of kernel_args.h: lengths and attributes over three spatial axes, those in front of
/// a smaller problem of length 1.
enum { KILNI_EXEC_SPATIAL = 3 };
typedef kiln_window kilni_exec_window;

/// Number of elements over all spatial axes.
int64_t kilni_exec_product(const int64_t lengths[KILNI_EXEC_SPATIAL]);

/// Of tensors [n, c, ..]; `out` NULL: lengths 1; `kernel` NULL: the attribute.
void kilni_exec_window_init(const kilni_exec *exec, kilni_exec_window *w, const kiln_view *in,
                            const kiln_view *out, const kiln_view *kernel);

/// Whether a copy with these merged loops (operand 0 the target, 1 the source) turns tiles, and the
/// copy that does (exec_transpose.c). `dtype` is unsigned, of the elements' size.
bool kilni_exec_transposes(const kilni_exec_loops *loops);
kiln_status kilni_exec_transpose(kilni_exec *exec, const kilni_exec_loops *loops, kiln_dtype dtype,
                                 kiln_buffer *source, kiln_buffer *target);

// ---- kernels ----

/// Compiler options, built piece by piece. Too long a text is an INTERNAL error at the launch.
typedef struct kilni_exec_options {
    char text[480];
    size_t length;
} kilni_exec_options;

void kilni_exec_define(kilni_exec_options *options, const char *name, int64_t value);
void kilni_exec_define_text(kilni_exec_options *options, const char *name, const char *value);
/// KILN_OP as `prefix` and name in one word.
void kilni_exec_define_operator(kilni_exec_options *options, const char *prefix, const char *name);
void kilni_exec_define_dtype(kilni_exec_options *options, const char *name, kiln_dtype dtype);

/// What kernels with a kiln_shape need to know before compiling: KILN_IDX, KILN_MODE, and on GPUs
/// KILN_RANK and KILN_ALIGNED. CPUs get one instance for all strides.
void kilni_exec_define_shape(const kilni_exec *exec, kilni_exec_options *options,
                             const kilni_exec_shape *shape, uint32_t vector);

/// Finds the kernel and begins its arguments.
kiln_status kilni_exec_kernel(kilni_exec *exec, const char *file, const char *kernel,
                              const kilni_exec_options *options, kilni_cl_args *out_args);

/// Queues `items` work-items in one dimension, on GPUs in groups of `group`, rounded up.
kiln_status kilni_exec_launch(kilni_exec *exec, kilni_cl_args *args, int64_t items, size_t group);

#endif
