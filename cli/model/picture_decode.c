// SPDX-License-Identifier: MIT OR Apache-2.0
// PNG and JPEG files to pixels, by libpng and libturbojpeg. Decides how large a picture may be;
// what becomes of the pixels is picture.c's.

#include "picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef KILN_WITH_PNG
#include <png.h>
#endif
#ifdef KILN_WITH_JPEG
#include <sys/stat.h>
#include <turbojpeg.h>
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
static kiln_status read_all(FILE *file, unsigned char **out_bytes, size_t *out_length,
                            kiln_error *err)
{
    struct stat info;
    bool regular = fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode);
    *out_length = regular ? (size_t)info.st_size : 0;
    *out_bytes = malloc(*out_length + 1);
    if (*out_bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", *out_length);
    }
    return fread(*out_bytes, 1, *out_length, file) == *out_length
               ? KILN_STATUS_OK
               : kiln_fail(err, DATA_LOSS, "the file cannot be read to its end");
}

static kiln_status decode_jpeg_bytes(tjhandle jpeg, const unsigned char *bytes, size_t length,
                                     size_t channels, picture_pixels *out_pixels, kiln_error *err)
{
    int width = 0, height = 0, sampling = 0, colours = 0;
    if (tjDecompressHeader3(jpeg, bytes, length, &width, &height, &sampling, &colours) != 0) {
        return kiln_fail(err, DATA_LOSS, "no JPEG: %s", tjGetErrorStr2(jpeg));
    }
    kiln_status status = make_pixels((size_t)width, (size_t)height, channels, out_pixels, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int format = channels == 1 ? TJPF_GRAY : channels == 3 ? TJPF_RGB : TJPF_RGBA;
    return tjDecompress2(jpeg, bytes, length, out_pixels->data, width, 0, height, format, 0) == 0
               ? KILN_STATUS_OK
               : kiln_fail(err, DATA_LOSS, "damaged JPEG: %s", tjGetErrorStr2(jpeg));
}

static kiln_status decode_jpeg(FILE *file, size_t channels, picture_pixels *out_pixels,
                               kiln_error *err)
{
    unsigned char *bytes = NULL;
    size_t length = 0;
    tjhandle jpeg = tjInitDecompress();
    kiln_status status = jpeg != NULL ? read_all(file, &bytes, &length, err)
                                      : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for JPEG");
    if (status == KILN_STATUS_OK) {
        status = decode_jpeg_bytes(jpeg, bytes, length, channels, out_pixels, err);
    }
    if (jpeg != NULL) {
        (void)tjDestroy(jpeg);
    }
    free(bytes);
    return status;
}
#else
static kiln_status decode_jpeg(FILE *file, size_t channels, picture_pixels *out_pixels,
                               kiln_error *err)
{
    (void)file;
    (void)channels;
    (void)out_pixels;
    return kiln_fail(err, UNIMPLEMENTED, "this build reads no JPEG: libturbojpeg was missing");
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
