// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_STREAM_H
#define KILN_PLUGIN_STREAM_H

/// Streams of operations drawn from the table, for `kiln plugin check`: made from a seed, steered
/// by what a fuser takes, shown to it as the ABI's structs, and run through the public API.

#include "kiln.h"
#include "kiln_fuser.h"

enum { STREAM_TENSORS = 64, STREAM_OPS = 64, STREAM_LIST = 8, STREAM_SCALARS = 64 };

typedef enum stream_layout { ///< how an external tensor lies in memory
    STREAM_DENSE = 0,
    STREAM_SWAPPED = 1, ///< a transposed view: the last two axes lie the other way round
    STREAM_SHIFTED = 2, ///< dense, behind the beginning of its buffer
    STREAM_PADDED = 3, ///< rows with gaps between them
    STREAM_FLIPPED = 4 ///< the last axis backwards
} stream_layout;

typedef struct stream_tensor {
    kiln_dtype dtype;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t top; ///< of an index tensor: its values are below; 0: any value
    stream_layout layout;
    bool external;
    bool constant; ///< external, and never changes
    bool dropped;
} stream_tensor;

typedef struct stream_op {
    kiln_op op; ///< KILN_OP_DROP: inputs[0] is dead
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t inputs[KILN_MAX_NAMED_INPUTS];
    uint32_t outputs[KILN_MAX_OUTPUTS];
    kiln_attr attrs[KILN_MAX_ATTRS];
    int64_t lists[KILN_MAX_ATTRS][STREAM_LIST];
} stream_op;

typedef struct stream {
    uint64_t state; ///< of the random numbers
    int64_t most; ///< elements of a tensor
    int64_t base[4]; ///< extents that shapes are made of
    stream_tensor tensors[STREAM_TENSORS];
    uint32_t n_tensors;
    stream_op ops[STREAM_OPS];
    uint32_t n_ops;
} stream;

uint64_t stream_draw(stream *s);
uint32_t stream_below(stream *s, uint32_t limit);
bool stream_chance(stream *s, uint32_t percent);

void stream_init(stream *s, uint64_t seed);
void stream_init_small(stream *s, uint64_t seed); ///< tensors of up to 3000 elements
void stream_init_large(stream *s, uint64_t seed); ///< tensors of up to 4 Mi elements
bool stream_is_large(const stream *s); ///< has one of at least 512 Ki elements
/// Appends a random operation that the table allows; tensors that it needs are made. `only`: this
/// operator, KILN_OP_COUNT: any. False: nothing was appended.
bool stream_grow(stream *s, kiln_op only);
/// Begins an empty stream with a convolution as networks have them: a large image of many channels,
/// a small window, constant filters. False: the table does not allow it.
bool stream_begin_conv(stream *s);
/// Is the operator one that streams are made of?
bool stream_usable(kiln_op op);
/// The same operations on other extents, and sometimes on another dtype, drawn from `s`, which
/// holds none yet. False: the table does not allow it, and `s` holds nothing of use.
bool stream_adapt(stream *s, const stream *from);
/// A recorded stream from operation `first` on, without its data; what the operations before it
/// made is external. `out` holds what came before the first operation that the checks do not try.
/// Errors: UNIMPLEMENTED, with that operation; INVALID_ARGUMENT.
kiln_status stream_of_replay(const struct kiln_replay *replay, size_t first, stream *out,
                             kiln_error *err);
/// The same up to its first `n_ops` operations.
void stream_shorten(stream *s, uint32_t n_ops);
/// Takes the last operation back, with the tensors that came with it.
void stream_cut(stream *s, uint32_t n_ops, uint32_t n_tensors);
bool stream_drop(stream *s, uint32_t tensor);
/// Is the tensor made by an operation, and alive?
bool stream_is_result(const stream *s, uint32_t tensor);
/// "add relu drop": for messages.
void stream_print(const stream *s, char *out, size_t capacity);

// ---- as a fuser sees it ----

typedef struct stream_view stream_view;

typedef struct stream_view_options {
    bool unmap; ///< the previous operation's memory is gone when the next is shown
    uint32_t tail; ///< bytes of zeros behind op and tensors, as of a newer host
} stream_view_options;

stream_view *stream_view_create(const stream *s, const stream_view_options *options);
void stream_view_destroy(stream_view *view);
/// The operation at `index`; all before must have been asked for. Writable, for spoiling it. Valid
/// until the next.
kf_op *stream_view_op(stream_view *view, uint32_t index);
/// To hand to builder_fuse; counts the questions.
const kf_block *stream_view_block(const stream_view *view);
uint32_t stream_view_symbols(const stream_view *view, const int64_t **out_values);
bool stream_view_is_tensor(const stream_view *view, uint32_t id);
/// A formula of the fuser's at the view's extents; false: absent or malformed.
bool stream_view_formula(const stream_view *view, const kf_device *device, kf_expr expr,
                         int64_t *out);

// ---- run ----

typedef struct stream_values {
    unsigned char *bytes[STREAM_TENSORS]; ///< of every tensor that is alive in the end, or NULL
    bool in_pieces[STREAM_OPS]; ///< a composite that the device recorded as several operations
} stream_values;

/// Fills externals from `data_seed`; `nudge` moves every float of them by some units in the last
/// place.
kiln_status stream_run(const stream *s, kiln_device *device, uint64_t data_seed, bool nudge,
                       stream_values *out, kiln_error *err);
typedef struct stream_times { ///< the shortest of several
    uint64_t wall_ns;
    uint64_t cpu_ns; ///< of all threads of this process
} stream_times;

/// From the first operation to the end of the last, data in place.
kiln_status stream_time(const stream *s, kiln_device *device, uint64_t data_seed, uint32_t repeats,
                        stream_times *out, kiln_error *err);
void stream_values_free(stream_values *values);
size_t stream_bytes(const stream_tensor *t);
double stream_element(const stream_tensor *t, const unsigned char *bytes, int64_t index);

#endif
