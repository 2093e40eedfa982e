// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_AUTODIFF_SAFETENSORS_H
#define KILN_AUTODIFF_SAFETENSORS_H

/// .safetensors files: eight bytes that say how long a header of JSON is, the header, and the bytes
/// of the tensors. https://huggingface.co/docs/safetensors
/// A file is hostile until read: its tensors then have known dtypes, as many bytes as their shapes
/// ask for, and fill what follows the header without gaps and overlaps.

#include "ir.h"

typedef struct kilni_safetensors kilni_safetensors;

/// One tensor of a file, or to be written to one.
typedef struct kilni_saved {
    const char *name;
    kiln_dtype dtype;
    size_t rank;
    int64_t dims[KILN_MAX_RANK];
    const void *data; ///< row-major; NULL: in `file`
    size_t bytes;
    const kilni_safetensors *file; ///< where `data` is NULL
    size_t at; ///< of a file: behind its header
} kilni_saved;

/// Text that a file carries beside its tensors.
typedef struct kilni_saved_note {
    const char *key;
    const char *text;
} kilni_saved_note;

/// Reads what is in memory, which stays the caller's and outlives `*out_file`. Errors: DATA_LOSS,
/// UNIMPLEMENTED (a dtype that Kiln has not, a rank above its limit), RESOURCE_EXHAUSTED.
kiln_status kilni_safetensors_parse(const kiln_env *env, const void *data, size_t bytes,
                                    kilni_safetensors **out_file, kiln_error *err);

/// Opens a file and reads its header. A file that becomes shorter later is damaged for who reads a
/// tensor of it, and no more: it is not mapped. Errors: also NOT_FOUND, UNAVAILABLE.
kiln_status kilni_safetensors_open(const kiln_env *env, const char *path,
                                   kilni_safetensors **out_file, kiln_error *err);

/// Reads a tensor whose bytes are in its file. Errors: UNAVAILABLE, DATA_LOSS.
kiln_status kilni_saved_read(const kilni_saved *saved, void *out_bytes, kiln_error *err);

/// Closes the file and frees what was read. Takes NULL.
void kilni_safetensors_close(kilni_safetensors *file);

/// The tensors in the order in which they lie in the file.
const kilni_saved *kilni_safetensors_all(const kilni_safetensors *file, size_t *out_count);

/// The tensor of a name, or NULL; the text of a key, or NULL. They live as long as the file.
const kilni_saved *kilni_safetensors_find(const kilni_safetensors *file, const char *name);
const char *kilni_safetensors_note(const kilni_safetensors *file, const char *key);

/// Writes a file in the place of `path` when all of it is on the disk: who is ended on the way
/// leaves the old one. Errors: UNAVAILABLE with the reason, UNIMPLEMENTED for a dtype that the
/// format has not, INVALID_ARGUMENT for a name that is given twice or is no UTF-8.
kiln_status kilni_safetensors_write(const kiln_env *env, const char *path,
                                    const kilni_saved *tensors, size_t count,
                                    const kilni_saved_note *notes, size_t n_notes, kiln_error *err);

#endif
