// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BLAS_PARAMETERS_H
#define KILNI_CL_BLAS_PARAMETERS_H

/// The parameters of CLBlast's products: what the library is told for a device, from where it is
/// known, and its form as text. The library has two classes of products, small and large ones, each
/// with a kernel of its own; a third set has the border between them.

#include "cl_opencl.h"

typedef enum kilni_cl_blas_class {
    KILNI_CL_BLAS_LARGE = 0, ///< Xgemm: operands are copied into padded ones
    KILNI_CL_BLAS_SMALL = 1, ///< XgemmDirect
    KILNI_CL_BLAS_BORDER = 2, ///< GemmRoutine: m * n * k from its cube on are large
    KILNI_CL_BLAS_CLASSES = 3
} kilni_cl_blas_class;

enum {
    KILNI_CL_BLAS_MOST = 16,
    KILNI_CL_BLAS_FORMAT = 1,
    KILNI_CL_BLAS_LEAST_TILE = 4 ///< rows and columns of the large kernel's tiles, a divisor
};

typedef struct kilni_cl_blas_kernel {
    const char *name;
    uint32_t count;
    const char *names[KILNI_CL_BLAS_MOST];
} kilni_cl_blas_kernel;

extern const kilni_cl_blas_kernel kilni_cl_blas_kernels[KILNI_CL_BLAS_CLASSES];

/// What is known for a device and a dtype; as the store keeps it.
typedef struct kilni_cl_blas_choice {
    uint32_t format;
    uint32_t given; ///< bit of a class: its values are there
    uint64_t measured_s; ///< since 1970
    uint32_t values[KILNI_CL_BLAS_CLASSES][KILNI_CL_BLAS_MOST];
} kilni_cl_blas_choice;

/// The value of a parameter, which must be one of the class.
uint32_t kilni_cl_blas_value(kilni_cl_blas_class cls, const uint32_t *values, const char *name);

/// Whether the library's kernel is right with these values on the device: its loops and vectors
/// divide the tiles, and work-groups and local memory are as the device allows.
bool kilni_cl_blas_is_sound(const kilni_cl_backend *backend, kiln_dtype dtype,
                            kilni_cl_blas_class cls, const uint32_t *values);

/// Hands a class's values to the library, which compiles again at its next product.
KILN_NODISCARD kiln_status kilni_cl_blas_set(const kilni_cl_backend *backend, kiln_dtype dtype,
                                             kilni_cl_blas_class cls, const uint32_t *values,
                                             kiln_error *err);

/// Hands over what is known, once for a device and a dtype of the process: what was searched here,
/// else the row of the shipped table, else what suits processors.
void kilni_cl_blas_parameters_ready(kilni_cl_backend *backend, kiln_dtype dtype);

/// What was searched for or brought to this device; `given` is 0 when nothing was.
kilni_cl_blas_choice kilni_cl_blas_recall(const kilni_cl_backend *backend, kiln_dtype dtype);
KILN_NODISCARD kiln_status kilni_cl_blas_remember(const kilni_cl_backend *backend, kiln_dtype dtype,
                                                  const kilni_cl_blas_choice *choice,
                                                  kiln_error *err);

/// What holds for the device without a search.
kilni_cl_blas_choice kilni_cl_blas_shipped(const kilni_cl_backend *backend, kiln_dtype dtype);

/// One line for each class: the device, the dtype, the kernel, NAME=VALUE; between bars.
void kilni_cl_blas_print(const kilni_cl_backend *backend, kiln_dtype dtype,
                         const kilni_cl_blas_choice *choice, kiln_string *out);

/// Takes those of the lines that are of this device and dtype; a line that begins with # says
/// nothing. Adds to `*choice`. Errors: INVALID_ARGUMENT for a line that is no such, or whose values
/// the kernel cannot have, with its number.
KILN_NODISCARD kiln_status kilni_cl_blas_parse(const kilni_cl_backend *backend, kiln_dtype dtype,
                                               const char *text, size_t length,
                                               kilni_cl_blas_choice *choice, kiln_error *err);

#endif
