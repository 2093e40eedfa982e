// SPDX-License-Identifier: MIT OR Apache-2.0
// A picture as an input of a model: its size, its layout, its numbers. Shrinking takes the mean of
// the pixels that fall together, by a triangle filter as wide as a step (as Pillow's BILINEAR).

#include "picture.h"

#include "ir_attr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool picture_is_one(const char *path)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t end = strlen(ends[i]);
        if (length > end && strcmp(path + length - end, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

// ---- resizing ----

/// A part of the picture, and where it goes in the target.
typedef struct frame {
    double left, top, width, height; ///< of the picture
    size_t x, y, columns, rows; ///< of the target
} frame;

/// One axis: sums of `from` values, `stride` apart, for `count` results of `lines` lines.
typedef struct axis {
    double start, extent;
    size_t length; ///< of the source
    size_t count;
} axis;

/// The weights of one result: the triangle around its middle, over the values that there are.
static void weigh(const axis *a, size_t result, size_t *out_first, size_t *out_count,
                  float *weights)
{
    double step = a->extent / (double)a->count;
    double reach = step > 1 ? step : 1;
    double middle = a->start + ((double)result + 0.5) * step;
    double first = floor(middle - reach + 0.5), last = ceil(middle + reach - 0.5), sum = 0;
    first = first < 0 ? 0 : first > (double)a->length - 1 ? (double)a->length - 1 : first;
    last = last > (double)a->length ? (double)a->length : last < first + 1 ? first + 1 : last;
    size_t count = (size_t)(last - first);
    for (size_t i = 0; i < count; i++) {
        double apart = fabs((first + (double)i + 0.5 - middle) / reach);
        weights[i] = apart < 1 ? (float)(1 - apart) : 0;
        sum += (double)weights[i];
    }
    for (size_t i = 0; i < count; i++) {
        weights[i] = sum > 0 ? (float)((double)weights[i] / sum) : 1.0F / (float)count;
    }
    *out_first = (size_t)first;
    *out_count = count;
}

/// Columns of `rows` rows: [rows][length][channels] to [rows][count][channels].
static void shrink_rows(const float *from, size_t rows, size_t channels, const axis *a,
                        float *weights, float *to)
{
    for (size_t x = 0; x < a->count; x++) {
        size_t first, count;
        weigh(a, x, &first, &count, weights);
        for (size_t y = 0; y < rows; y++) {
            for (size_t c = 0; c < channels; c++) {
                float sum = 0;
                for (size_t i = 0; i < count; i++) {
                    sum += weights[i] * from[(y * a->length + first + i) * channels + c];
                }
                to[(y * a->count + x) * channels + c] = sum;
            }
        }
    }
}

/// Rows: [length][columns] to [count][columns], where a column is one channel of one pixel.
static void shrink_columns(const float *from, size_t columns, const axis *a, float *weights,
                           float *to)
{
    for (size_t y = 0; y < a->count; y++) {
        size_t first, count;
        weigh(a, y, &first, &count, weights);
        for (size_t x = 0; x < columns; x++) {
            float sum = 0;
            for (size_t i = 0; i < count; i++) {
                sum += weights[i] * from[(first + i) * columns + x];
            }
            to[y * columns + x] = sum;
        }
    }
}

/// Which part of the picture fills which part of the target.
static frame fit(const picture_pixels *p, size_t width, size_t height, const picture_options *o)
{
    frame f = {0, 0, (double)p->width, (double)p->height, 0, 0, width, height};
    double wide = (double)width / (double)p->width, high = (double)height / (double)p->height;
    if (o->resize == PICTURE_CROP) { // the middle, in the target's proportions
        double by = wide > high ? wide : high;
        f.width = (double)width / by;
        f.height = (double)height / by;
        f.left = ((double)p->width - f.width) / 2;
        f.top = ((double)p->height - f.height) / 2;
    } else if (o->resize == PICTURE_PAD) { // all of it, with black beside
        double by = wide < high ? wide : high;
        f.columns = (size_t)fmax(1, floor((double)p->width * by + 0.5));
        f.rows = (size_t)fmax(1, floor((double)p->height * by + 0.5));
        f.x = (width - f.columns) / 2;
        f.y = (height - f.rows) / 2;
    }
    return f;
}

/// A picture of height by width by channels, 0 to 255. The caller frees it.
static float *resize(const picture_pixels *p, size_t width, size_t height,
                     const picture_options *options)
{
    frame f = fit(p, width, height, options);
    const axis across = {f.left, f.width, p->width, f.columns};
    const axis down = {f.top, f.height, p->height, f.rows};
    size_t longest = p->width > p->height ? p->width : p->height;
    size_t channels = p->channels, pixels = p->width * p->height * channels;
    float *source = malloc(pixels * sizeof(*source));
    float *narrow = malloc(p->height * f.columns * channels * sizeof(*narrow));
    float *small = malloc(f.rows * f.columns * channels * sizeof(*small));
    float *weights = malloc((longest + 4) * sizeof(*weights));
    float *made = calloc(width * height * channels, sizeof(*made));
    bool good =
        source != NULL && narrow != NULL && small != NULL && weights != NULL && made != NULL;
    for (size_t i = 0; good && i < pixels; i++) {
        source[i] = (float)p->data[i];
    }
    if (good) {
        shrink_rows(source, p->height, channels, &across, weights, narrow);
        shrink_columns(narrow, f.columns * channels, &down, weights, small);
    }
    for (size_t y = 0; good && y < f.rows; y++) {
        memcpy(made + ((f.y + y) * width + f.x) * channels, small + y * f.columns * channels,
               f.columns * channels * sizeof(*made));
    }
    free(source);
    free(narrow);
    free(small);
    free(weights);
    if (!good) {
        free(made);
        made = NULL;
    }
    return made;
}

// ---- an input ----

/// The axes of an input that holds pictures; -1: it has none.
typedef struct axes {
    int picture, channel, row, column;
} axes;

static kiln_status find_axes(const kiln_npy *wanted, const picture_options *options, axes *out,
                             kiln_error *err)
{
    int rank = (int)wanted->rank, first = rank == 4;
    if (rank < 2 || rank > 4) {
        return kiln_fail(err, INVALID_ARGUMENT, "an input of rank %d holds no picture", rank);
    }
    *out = (axes){first ? 0 : -1, -1, rank - 2, rank - 1};
    if (rank > 2) {
        *out = options->nhwc ? (axes){first ? 0 : -1, rank - 1, rank - 3, rank - 2}
                             : (axes){first ? 0 : -1, first, rank - 2, rank - 1};
    }
    int64_t channels = out->channel >= 0 ? wanted->dims[out->channel] : 1;
    if (channels != -1 && channels != 1 && channels != 3 && channels != 4) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "axis %d has %lld channels, a picture has 1, 3 or 4; is it --layout=%s?",
                         out->channel, (long long)channels, options->nhwc ? "nchw" : "nhwc");
    }
    return KILN_STATUS_OK;
}

static void put_number(kiln_npy *array, size_t at, double value)
{
    bool whole = kiln_dtype_kind_of(array->dtype) != KILN_KIND_FLOAT;
    kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = value};
    if (whole) {
        number = (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = (int64_t)llround(value)};
    }
    (void)kiln_number_store(&number, array->dtype,
                            (char *)array->data + at * kiln_dtype_size(array->dtype));
}

/// All pictures of the array are this one.
static void fill(kiln_npy *array, const axes *a, const float *pixels, size_t channels,
                 const picture_options *o)
{
    bool floats = kiln_dtype_kind_of(array->dtype) == KILN_KIND_FLOAT;
    size_t strides[KILN_NPY_MAX_RANK];
    size_t stride = 1;
    for (size_t i = array->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= (size_t)array->dims[i];
    }
    size_t count = a->picture >= 0 ? (size_t)array->dims[a->picture] : 1;
    size_t height = (size_t)array->dims[a->row], width = (size_t)array->dims[a->column];
    for (size_t i = 0; i < count * height * width * channels; i++) {
        size_t c = i % channels, x = i / channels % width, y = i / channels / width % height;
        size_t at = y * strides[a->row] + x * strides[a->column];
        size_t to = o->bgr && channels >= 3 && c < 3 ? 2 - c : c;
        at += a->channel >= 0 ? to * strides[a->channel] : 0;
        at += a->picture >= 0 ? i / channels / width / height * strides[a->picture] : 0;
        double scale = o->scale[to] != 0 ? (double)o->scale[to] : floats ? 255 : 1;
        double value = (double)pixels[(y * width + x) * channels + c];
        put_number(array, at, (value - (double)o->mean[to]) / scale);
    }
}

/// The extents of the input, those that are open taken from the picture.
static kiln_status make_room(const kiln_npy *wanted, const axes *a, const picture_pixels *p,
                             kiln_npy *out_array, kiln_error *err)
{
    *out_array = *wanted;
    out_array->bytes = kiln_dtype_size(wanted->dtype);
    for (size_t i = 0; i < wanted->rank; i++) {
        int64_t own = (int)i == a->row       ? (int64_t)p->height
                      : (int)i == a->column  ? (int64_t)p->width
                      : (int)i == a->channel ? (int64_t)p->channels
                                             : 1;
        out_array->dims[i] = wanted->dims[i] >= 0 ? wanted->dims[i] : own;
        if (__builtin_mul_overflow(out_array->bytes, (size_t)out_array->dims[i],
                                   &out_array->bytes)) {
            return kiln_fail(err, OUT_OF_RANGE, "the input is too large");
        }
    }
    if (out_array->bytes == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "the input has no elements for a picture");
    }
    out_array->data = malloc(out_array->bytes);
    return out_array->data != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", out_array->bytes);
}

kiln_status picture_read(const char *path, const picture_options *options, const kiln_npy *wanted,
                         kiln_npy *out_array, kiln_error *err)
{
    axes a = {-1, -1, -1, -1};
    picture_pixels pixels = {0};
    kiln_status status = find_axes(wanted, options, &a, err);
    if (status != KILN_STATUS_OK) {
        return kiln_error_context(err, "%s", path);
    }
    int64_t channels = a.channel >= 0 ? wanted->dims[a.channel] : 1;
    KILN_TRY(out, status, picture_decode(path, channels > 0 ? (size_t)channels : 3, &pixels, err));
    KILN_TRY(out, status, make_room(wanted, &a, &pixels, out_array, err));
    float *made =
        resize(&pixels, (size_t)out_array->dims[a.column], (size_t)out_array->dims[a.row], options);
    if (made == NULL) {
        kiln_npy_free(out_array);
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a picture");
    } else {
        fill(out_array, &a, made, pixels.channels, options);
        free(made);
    }
out:
    free(pixels.data);
    return status;
}
