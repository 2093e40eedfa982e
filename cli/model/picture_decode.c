// SPDX-License-Identifier: MIT OR Apache-2.0
// PNG and JPEG files to pixels, by libpng and libjpeg. Decides how large a picture may be.

#include "picture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#ifdef KILN_WITH_PNG
#include <png.h>
#endif
#ifdef KILN_WITH_JPEG
#include <jpeglib.h>
#endif

enum { MOST_PIXELS = 1 << 28 };

static kiln_status make_pixels(size_t width, size_t height, size_t channels,
                               picture_pixels *out_pixels, kiln_error *err)
{
    if (width == 0 || height == 0 || width > MOST_PIXELS / height) {
        return kiln_fail(err, DATA_LOSS, "a picture of %zu by %zu", width, height);
    }
    *out_pixels = (picture_pixels){malloc(width * height * channels), width, height, channels};
    return out_pixels->data != NULL ? KILN_STATUS_OK
                                    : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a picture");
}

#ifdef KILN_WITH_PNG
static kiln_status decode_png(FILE *file, size_t channels, picture_pixels *out_pixels,
                              kiln_error *err)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (png_image_begin_read_from_stdio(&image, file) == 0) {
        return kiln_fail(err, DATA_LOSS, "no PNG: %s", image.message);
    }
    image.format = channels == 1   ? PNG_FORMAT_GRAY
                   : channels == 3 ? PNG_FORMAT_RGB
                                   : PNG_FORMAT_RGBA;
    const png_color black = {0, 0, 0};
    kiln_status status = make_pixels(image.width, image.height, channels, out_pixels, err);
    if (status == KILN_STATUS_OK &&
        png_image_finish_read(&image, &black, out_pixels->data, 0, NULL) == 0) {
        status = kiln_fail(err, DATA_LOSS, "damaged PNG: %s", image.message);
    }
    png_image_free(&image);
    return status;
}
#else
static kiln_status decode_png(FILE *file, size_t channels, picture_pixels *out_pixels,
                              kiln_error *err)
{
    (void)file;
    (void)channels;
    (void)out_pixels;
    return kiln_fail(err, UNIMPLEMENTED, "this build reads no PNG: libpng was missing");
}
#endif

#ifdef KILN_WITH_JPEG
typedef struct jpeg_failure {
    struct jpeg_error_mgr manager; // first: libjpeg knows this part alone
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
} jpeg_failure;

static void leave_jpeg(j_common_ptr info)
{
    jpeg_failure *failure = (jpeg_failure *)info->err;
    info->err->format_message(info, failure->text);
    longjmp(failure->back, 1);
}

static void ignore_jpeg(j_common_ptr info)
{
    (void)info; // warnings; the library would print them
}

static void put_row(const unsigned char *rgb, size_t width, size_t channels, unsigned char *target)
{
    for (size_t x = 0; x < width; x++) {
        memcpy(target + x * channels, rgb + x * 3, 3);
        target[x * channels + 3] = 255;
    }
}

/// Everything that may jump back. `line` is for pictures with opacity, which JPEG has not.
static kiln_status read_jpeg(struct jpeg_decompress_struct *info, FILE *file, size_t channels,
                             picture_pixels *out_pixels, unsigned char *volatile *line,
                             kiln_error *err)
{
    jpeg_stdio_src(info, file);
    (void)jpeg_read_header(info, TRUE);
    info->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    (void)jpeg_start_decompress(info);
    kiln_status status =
        make_pixels(info->output_width, info->output_height, channels, out_pixels, err);
    *line = malloc((size_t)info->output_width * 3 + 1);
    if (status != KILN_STATUS_OK || *line == NULL) {
        return status != KILN_STATUS_OK
                   ? status
                   : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a line");
    }
    while (info->output_scanline < info->output_height) {
        unsigned char *target =
            out_pixels->data + (size_t)info->output_scanline * out_pixels->width * channels;
        JSAMPROW rows[1] = {channels == 4 ? *line : target};
        (void)jpeg_read_scanlines(info, rows, 1);
        if (channels == 4) {
            put_row(*line, out_pixels->width, channels, target);
        }
    }
    (void)jpeg_finish_decompress(info);
    return KILN_STATUS_OK;
}

static kiln_status decode_jpeg(FILE *file, size_t channels, picture_pixels *out_pixels,
                               kiln_error *err)
{
    struct jpeg_decompress_struct info;
    jpeg_failure failure;
    unsigned char *volatile line = NULL; // as the jump back finds it
    volatile kiln_status status = KILN_STATUS_OK;
    info.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = leave_jpeg;
    failure.manager.output_message = ignore_jpeg;
    if (setjmp(failure.back) == 0) {
        jpeg_create_decompress(&info);
        status = read_jpeg(&info, file, channels, out_pixels, &line, err);
    } else {
        status = kiln_fail(err, DATA_LOSS, "no JPEG, or a damaged one: %s", failure.text);
    }
    jpeg_destroy_decompress(&info);
    free(line);
    return status;
}
#else
static kiln_status decode_jpeg(FILE *file, size_t channels, picture_pixels *out_pixels,
                               kiln_error *err)
{
    (void)file;
    (void)channels;
    (void)out_pixels;
    return kiln_fail(err, UNIMPLEMENTED, "this build reads no JPEG: libjpeg was missing");
}
#endif

kiln_status picture_decode(const char *path, size_t channels, picture_pixels *out_pixels,
                           kiln_error *err)
{
    unsigned char magic[2] = {0};
    *out_pixels = (picture_pixels){0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    bool jpeg = fread(magic, 1, 2, file) == 2 && magic[0] == 0xff && magic[1] == 0xd8;
    rewind(file);
    kiln_status status = jpeg ? decode_jpeg(file, channels, out_pixels, err)
                              : decode_png(file, channels, out_pixels, err);
    fclose(file);
    if (status != KILN_STATUS_OK) {
        free(out_pixels->data);
        out_pixels->data = NULL;
        return kiln_error_context(err, "%s", path);
    }
    return KILN_STATUS_OK;
}
