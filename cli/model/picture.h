// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PICTURE_H
#define KILN_PICTURE_H

/// PNG and JPEG files as inputs of a model. Files are hostile until checked.

#include "base_npy.h"

#include <stdbool.h>

/// A picture of other proportions than the input: stretched, its middle, or all of it with black
/// beside.
typedef enum picture_resize { PICTURE_STRETCH, PICTURE_CROP, PICTURE_PAD } picture_resize;

/// How a picture becomes an input; zero is the default. Names as OpenVINO's benchmark_app has them.
typedef struct picture_options {
    bool nhwc; ///< channels last; else [N,C,H,W]
    bool bgr; ///< else red, green, blue
    picture_resize resize;
    float mean[4]; ///< taken from 0..255
    float scale[4]; ///< and divided by; 0: 1 for integers, 255 for floats
} picture_options;

bool picture_is_one(const char *path); ///< by the end of its name

/// Reads a picture into an array whose dtype and extents `wanted` has, a length of -1 being that of
/// the picture, or 1 picture. Rank 4, or 3 without an axis for pictures, or 2 for grey. Channels: 1
/// grey, 3 colours, 4 with opacity. `out_array->data` is the caller's (kiln_npy_free). Errors:
/// NOT_FOUND, DATA_LOSS, INVALID_ARGUMENT for an input that holds no picture, UNIMPLEMENTED in a
/// build without the library.
kiln_status picture_read(const char *path, const picture_options *options, const kiln_npy *wanted,
                         kiln_npy *out_array, kiln_error *err);

/// Rows of 8-bit pixels: grey, RGB or RGBA.
typedef struct picture_pixels {
    unsigned char *data; ///< malloc
    size_t width, height, channels;
} picture_pixels;

/// Decodes a file to so many channels. Errors: as picture_read.
kiln_status picture_decode(const char *path, size_t channels, picture_pixels *out_pixels,
                           kiln_error *err);

#endif
