// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_CONVOLUTION_INTERNAL_H
#define KILN_PLUGINS_CONVOLUTION_INTERNAL_H

/// What the files of the convolution fuser share: which operations join a region (region/), which
/// of them one kernel computes and where results lie (convolution_steps.c, _plan.c, _bytes.c,
/// _tile.c), and the program (convolution_program.c). A region has one of two forms
/// (convolution_form.h); the kernels' text is convolution_emit.h's.

#include "kf_util.h"

#include "kf_chain.h"

enum {
    CV_LANES = 16, ///< channels of a block
    CV_ITEM_LANES = 8, ///< channels of a place that a work-item of groups has, 16 bytes
    CV_MAX_OPS = 1000,
    CV_MAX_VALUES = 1600,
    CV_MAX_BEHIND = 40, ///< operations behind the first of a step
    CV_MAX_IMAGES = 6, ///< images that those read
    CV_MAX_VECTORS = 14, ///< of a pack: of 32 constants at most, as many as a host keeps track of
    CV_MAX_STEPS = 1000, ///< launches that fill packs among them
    CV_NONE = 0xFFFF
};

// ---- the region ----

/// What a transposed convolution is recorded as, before its last operation.
typedef enum cv_passage {
    CV_NO_PASSAGE,
    CV_VECTOR_AS_IMAGE,
    CV_WEIGHTS_AS_MATRIX, ///< [1, channels, width]
    CV_IMAGE_AS_MATRIX,
    CV_COLUMNS_OF_GROUP,
    CV_COLUMNS
} cv_passage;

/// A tensor: an image [n, channels, height, width], a line [n, channels, width], which is an image
/// of one row, or, of constants, anything.
typedef struct cv_value {
    uint32_t id;
    uint16_t of; ///< of a passage: the constant or the image; of columns the image
    uint16_t with; ///< of columns: the weights as a matrix
    uint32_t batch; ///< symbol of an image's n
    int32_t channels;
    int32_t height;
    int32_t width;
    uint16_t op; ///< that computes it; CV_NONE: it comes from outside
    uint8_t dtype; ///< KF_DTYPE_*
    uint8_t rank; ///< of an image: 4, or 3 of a line
    uint8_t is_image;
    uint8_t dropped;
    uint8_t passage; ///< cv_passage
} cv_value;

typedef struct cv_number {
    uint32_t is_scalar; ///< `index` of the block's; otherwise `value`
    uint32_t index;
    double value;
} cv_number;

typedef struct cv_window {
    uint8_t lengths[2];
    uint8_t strides[2];
    uint8_t dilations[2];
    uint8_t begin[2]; ///< padding
    uint8_t end[2];
} cv_window;

typedef enum cv_kind {
    CV_CONV = 1,
    CV_DEPTHWISE = 2,
    CV_POOL = 3,
    CV_MEAN = 4, ///< of each channel over the image
    CV_MAP = 5, ///< elementwise
    CV_NORM = 6, ///< a batch norm
    CV_IMPORT = 7, ///< as a step only: a tensor becomes blocks of channels
    CV_EXPORT = 8,
    CV_GROUPED = 10, ///< a convolution whose groups do not fill blocks
    CV_CONCAT = 11, ///< along channels
    CV_TURNED = 12, ///< a transposed convolution
    CV_DERIVE = 9 ///< of constants: a part of what makes numbers of weights of 8 bits
} cv_kind;

typedef struct cv_op {
    cv_kind kind;
    const kf_ew_row *row; ///< MAP, DERIVE
    uint16_t inputs[5]; ///< values
    uint16_t result;
    uint32_t position; ///< in the block
    uint8_t n_inputs;
    uint8_t is_max; ///< POOL
    uint8_t is_part; ///< CONCAT: one of several with one result
    uint16_t onto; ///< CONCAT: the value that has the channels before it, or CV_NONE
    int32_t from; ///< CONCAT: the first channel
    int32_t groups; ///< of a convolution
    uint8_t include_pad;
    cv_window window;
    cv_number numbers[2];
} cv_op;

/// The operations taken so far. Copies are many: only what is in use is copied.
typedef struct cv_region {
    uint32_t len; ///< drops counted
    uint32_t closed;
    uint32_t n_products; ///< convolutions among them
    uint32_t n_images; ///< values that are images
    uint32_t n_aside; ///< operations that are no launches, of constants or before another
    uint32_t n_passes; ///< operations that no other takes along
    uint32_t n_packs; ///< operations with constants
    uint32_t n_outside; ///< images from outside
    uint32_t n_ops;
    uint32_t n_values;
    uint32_t n_shown;
    uint64_t ps; ///< that operations and images from outside take, for n = 1
    uint32_t batch; ///< symbol
    uint32_t rank; ///< of all images
    uint32_t element; ///< dtype of the images that are no integers
    int32_t count; ///< NHWC: images
    const char *shown[8];
    cv_op ops[CV_MAX_OPS];
    cv_value values[CV_MAX_VALUES];
} cv_region;

typedef struct cv_device {
    const struct cv_form *form; ///< of the regions that suit it
    kf_cost cost;
    uint32_t registers; ///< for vectors of 16 sums
    uint32_t is_wide; ///< a register has 16 numbers; otherwise a sum takes two or more
    uint32_t units;
    uint32_t chains; ///< short launches that follow one another are one
    uint32_t param_bytes; ///< of a launch's arguments
    uint64_t features;
} cv_device;

/// Reads one operation.
typedef struct cv_reader {
    cv_region *region;
    const cv_device *device;
    const kf_host *host;
    const kf_block *block;
    const kf_op *op;
    cv_op made;
    cv_value result;
} cv_reader;

/// What the operation is to the region, as `made`; 0: nothing that it takes, which is reported.
uint32_t cv_read_op(cv_reader *r);
/// Is the operation one on constants of 8 bits alone? Then it is read by cv_read_derived.
uint32_t cv_derives(const cv_reader *r);
uint32_t cv_read_derived(cv_reader *r);
/// An image, of the same batch and rank as the region's or the first; 0: it is none.
uint32_t cv_read_image(const cv_reader *r, const kf_tensor *t, cv_value *out);
/// An image that this region knows or can read; otherwise CV_NONE.
uint32_t cv_read_input(cv_reader *r, uint32_t index);
/// A concatenation along channels: of many images it becomes several operations, of which all but
/// the last are added here.
uint32_t cv_read_concat(cv_reader *r);
/// Is the operation one that a transposed convolution is recorded as? Then it is read by
/// cv_read_passage, its last one by cv_read_turned.
uint32_t cv_passes(const cv_reader *r);
uint32_t cv_read_passage(cv_reader *r);
uint32_t cv_read_turned(cv_reader *r);
/// Is nothing of a transposed convolution wanted outside but its result?
uint32_t cv_region_is_passed(const cv_region *region);
/// May images have floats of the dtype?
uint32_t cv_takes_float(const cv_reader *r, uint32_t dtype);
/// A constant with a number for each channel of an image, or one for all; otherwise CV_NONE.
uint32_t cv_read_vector(cv_reader *r, uint32_t index, uint32_t axis_from_end, int32_t channels,
                        uint32_t dtype);
/// A constant from outside that lies dense, or CV_NONE.
uint32_t cv_read_constant(cv_reader *r, uint32_t index, uint32_t dtype);
/// The window of the operation, with the lengths of each axis of the image.
uint32_t cv_read_window(cv_reader *r, const int32_t lengths[2]);
/// Element `i` of a list; what is absent is `otherwise`, one number stands for all. -1: too large.
int32_t cv_list_at(const kf_op *op, uint32_t key, uint32_t i, int32_t otherwise);
/// Is the attribute there and true?
uint32_t cv_is_set(const kf_op *op, uint32_t key);
/// Value of an extent; 0: unknown or too large.
int32_t cv_extent(const cv_reader *r, const kf_dim *dim);
/// The value with the id, or CV_NONE.
uint32_t cv_find(const cv_region *region, uint32_t id);
uint32_t cv_add_value(cv_region *region, const cv_value *value);
/// Puts the operation at hand and its result into the region.
void cv_add_op(cv_reader *r);
/// Reports; gives 0.
uint32_t cv_decline(const cv_reader *r, uint32_t code, const char *why);

void cv_region_init(cv_region *region);
void cv_region_copy(cv_region *to, const cv_region *from);
/// Shows one operation. It joins, or closes the region and the reason is reported.
void cv_region_push(cv_region *region, const cv_device *device, const kf_host *host,
                    const kf_block *block, const kf_op *op);
/// May the region end here?
uint32_t cv_region_is_ready(const cv_region *region);
/// Estimate in picoseconds, for n = 1, launches not counted.
uint64_t cv_region_ps(const cv_region *region, const cv_device *device);
/// How many values are wanted outside the region.
uint32_t cv_region_results(const cv_region *region);
/// Is the value wanted outside the region?
uint32_t cv_region_gives(const cv_region *region, uint32_t value);
/// GROUPED: do groups lie within blocks, so that each channel finds the inputs of its group in one?
uint32_t cv_op_spreads(const cv_region *region, const cv_op *op);
/// May the convolution of f32 be computed in Winograd's form?
uint32_t cv_op_suits_winograd(const cv_region *region, const cv_op *op, const cv_device *device);
/// Is it a product with weights?
uint32_t cv_is_product(cv_kind kind);
/// Does the operation read the value?
uint32_t cv_op_reads(const cv_op *op, uint32_t value);

// ---- dtypes ----

/// f16 and bf16 are f32 inside a region, rounded behind each operation.
uint32_t cv_is_narrow(uint32_t dtype);
uint32_t cv_is_float(uint32_t dtype);
uint32_t cv_is_byte(uint32_t dtype);

// ---- 8 bits ----

/// (x - zero) * scale: what numbers of 8 bits stand for.
typedef struct cv_scaled {
    uint16_t value; ///< of 8 bits
    uint16_t zeros; ///< constant, one number or one for each channel; CV_NONE: `zero`
    uint16_t scales; ///< likewise
    uint8_t has_zero;
    cv_number zero;
    cv_number scale;
} cv_scaled;

/// Is the value of this kind?
uint32_t cv_scaled_of(const cv_region *region, uint32_t value, cv_scaled *out);
/// Is the operation a part of what makes such numbers of an image?
uint32_t cv_op_scales(const cv_region *region, uint32_t op);

// ---- how it is done ----

/// Where an image lies: in a buffer, among zeros.
typedef struct cv_place {
    uint16_t slot; ///< temporary
    uint16_t lanes; ///< channels of a block: CV_LANES, or all of an image that has less, or in NHWC
    int64_t matrix; ///< NHWC, not 0: numbers of an image that lies as what a product reads
    uint8_t top;
    uint8_t left;
    uint8_t bottom;
    uint8_t right;
    uint8_t has_pad; ///< of 8 bits: `pad` stands around it, not 0
    cv_number pad;
} cv_place;

/// One launch: an operation and the elementwise ones behind it.
typedef struct cv_step {
    cv_kind kind;
    uint16_t op; ///< CV_NONE: IMPORT, EXPORT
    uint16_t input;
    uint16_t output;
    uint16_t norm; ///< batch norm that its weights take in, or CV_NONE
    uint16_t n_behind;
    uint16_t behind[CV_MAX_BEHIND]; ///< operations, the norm not among them
    uint16_t n_images;
    uint16_t images[CV_MAX_IMAGES]; ///< values that those read at the place at hand
    uint16_t pack; ///< number among the packs, or CV_NONE
    uint16_t n_vectors;
    int32_t tile_rows;
    int32_t tile_columns;
    int32_t tile_blocks;
    int32_t held; ///< CONV: tiles whose sums a work-item keeps at once
    int32_t rows; ///< of a work-item
    int32_t chunks; ///< work-items of an image's block
    int32_t splits; ///< in Winograd's form: shares of the blocks
    uint8_t is_winograd; ///< a convolution in Winograd's form, which reads whole tiles
} cv_step;

typedef struct cv_plan {
    const cv_region *region;
    const cv_device *device;
    uint32_t failed;
    uint32_t n_steps;
    uint32_t n_packs;
    uint32_t n_slots;
    uint32_t scratch; ///< slot of what work-items keep for themselves
    int64_t slot_bytes[CV_MAX_STEPS + 1]; ///< for n = 1
    cv_step steps[CV_MAX_STEPS];
    cv_place places[CV_MAX_VALUES];
    uint16_t step_of[CV_MAX_OPS];
    uint8_t before[CV_MAX_OPS]; ///< each step that reads its result computes it again
    uint8_t of_bytes[CV_MAX_OPS]; ///< products that read 8 bits
    uint16_t sources[CV_MAX_VALUES]; ///< the image in memory that the value is made of, or itself
    uint16_t
        gates[CV_MAX_OPS]; ///< of a convolution: what its weights are multiplied by, or CV_NONE
} cv_plan;

/// What the operation's input is read from: an image in memory or of the same step, or a constant.
uint32_t cv_plan_input(const cv_plan *plan, uint32_t op, uint32_t input);
/// 8 bits: the bytes in memory of a number are so much more than it.
int32_t cv_value_flip(const cv_value *value);
/// Bytes of an element in the region's own memory.
int32_t cv_value_bytes(const cv_device *device, const cv_value *value);

/// Fills in before, of_bytes, sources and what stands around images of 8 bits.
void cv_plan_bytes(cv_plan *plan);
/// Finds the gates that convolutions take in, of a plan that knows its bytes.
void cv_plan_gates(cv_plan *plan);
/// Makes the steps, of a plan that knows its bytes and gates.
void cv_plan_steps(cv_plan *plan);

/// Groups of tiles and work-items of a step in Winograd's form.
void cv_winograd_cut(const cv_plan *plan, cv_step *step);
/// Numbers that a work-item keeps for itself.
int64_t cv_winograd_floats(const cv_plan *plan, const cv_step *step);

static inline int32_t cv_share(int64_t count, int64_t parts)
{
    return (int32_t)((count + parts - 1) / parts);
}
static inline int32_t cv_most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}
static inline int32_t cv_least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

void cv_plan_make(cv_plan *plan, const cv_region *region, const cv_device *device);
/// Vectors of one number for each channel that a product wants in its pack.
uint32_t cv_plan_vectors(const cv_plan *plan, uint32_t op);
/// Weights of 8 bits: has what is packed of them a zero point?
uint32_t cv_weights_shift(const cv_region *region, const cv_scaled *weights);
/// Of a convolution: blocks of its image that one of its results is computed from.
int32_t cv_plan_depth(const cv_plan *plan, const cv_step *step);
/// Blocks of channels of a value.
int32_t cv_plan_blocks(const cv_plan *plan, uint32_t value);
/// Numbers from a row, a block and an image of a value to the next.
int64_t cv_plan_row(const cv_plan *plan, uint32_t value);
int64_t cv_plan_plane(const cv_plan *plan, uint32_t value);
int64_t cv_plan_batch(const cv_plan *plan, uint32_t value);
/// Does the step read the image in blocks?
uint32_t cv_step_reads(const cv_plan *plan, const cv_step *step, uint32_t value);
/// Is the value computed by the step, its last one or one before?
uint32_t cv_step_makes(const cv_region *region, const cv_step *step, uint32_t value);

// ---- program ----

typedef struct cv_program cv_program;
cv_program *cv_program_create(const cv_region *region, const cv_device *device);
void cv_program_destroy(cv_program *program);
void cv_program_describe(const cv_program *program, kf_program *out);
void cv_program_info(const cv_program *program, kf_opt_info *out);

#endif
