// SPDX-License-Identifier: MIT OR Apache-2.0
// What is seen of a training: a bar at a terminal, a log of JSON lines, and a picture of the log.
#include "gpt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gpt_show(uint64_t step, uint64_t steps, double loss, double seconds_left)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    size_t done = (size_t)(step * WIDTH / steps);
    long left = lround(seconds_left);
    if (!isatty(STDERR_FILENO)) {
        if (step == steps || step % (steps / 10 + 1) == 0) {
            fprintf(stderr, "step %llu of %llu, loss %.4f\n", (unsigned long long)step,
                    (unsigned long long)steps, loss);
        }
        return;
    }
    memset(bar, '.', WIDTH);
    memset(bar, '#', done);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\rstep %llu of %llu [%s] loss %.4f, %ld:%02ld left \b",
            (unsigned long long)step, (unsigned long long)steps, bar, loss, left / 60, left % 60);
}

void gpt_show_end(void)
{
    if (isatty(STDERR_FILENO)) {
        fputc('\n', stderr);
    }
}

// ---- the log ----

/// The step and loss of a line; false: it is none. JSON has no infinities: null is one.
static bool read_line(FILE *log, unsigned long long *out_step, double *out_loss)
{
    char line[256];
    *out_loss = NAN;
    return fgets(line, sizeof(line), log) != NULL &&
           sscanf(line, "{\"step\": %llu, \"loss\": %lf", out_step, out_loss) >= 1;
}

/// Where the line of the first step behind `steps` begins: a training that was killed may have
/// logged more steps than it saved.
static long find_end(FILE *log, uint64_t steps)
{
    long end = 0;
    unsigned long long step = 0;
    double loss = 0;
    while (read_line(log, &step, &loss) && step <= steps) {
        end = ftell(log);
    }
    return end;
}

FILE *gpt_log_open(const char *path, uint64_t steps, kiln_error *err)
{
    FILE *log = fopen(path, "r+");
    log = log != NULL ? log : fopen(path, "w+");
    long end = log != NULL ? find_end(log, steps) : 0;
    if (log == NULL || ftruncate(fileno(log), end) != 0 || fseek(log, end, SEEK_SET) != 0) {
        (void)kiln_fail(err, UNAVAILABLE, "%s cannot be written: %s", path, strerror(errno));
        if (log != NULL) {
            fclose(log);
        }
        return NULL;
    }
    return log;
}

void gpt_log_step(FILE *log, uint64_t step, double loss, double rate, double seconds)
{
    char text[32] = "null";
    if (isfinite(loss)) {
        snprintf(text, sizeof(text), "%.9g", loss);
    }
    fprintf(log, "{\"step\": %llu, \"loss\": %s, \"rate\": %.6g, \"seconds\": %.4f}\n",
            (unsigned long long)step, text, rate, seconds);
    fflush(log);
}

// ---- the picture ----

typedef struct curve {
    double *losses;
    size_t count;
    double least;
    double most;
} curve;

static kiln_status read_curve(const char *path, curve *out_curve, kiln_error *err)
{
    unsigned long long step = 0;
    double loss = 0;
    FILE *log = fopen(path, "r");
    *out_curve = (curve){.least = INFINITY, .most = 0};
    if (log == NULL) {
        return kiln_fail(err, NOT_FOUND, "%s cannot be read", path);
    }
    while (read_line(log, &step, &loss)) {
        double *more = realloc(out_curve->losses, (out_curve->count + 1) * sizeof(*more));
        if (more == NULL) {
            break;
        }
        more[out_curve->count++] = loss;
        out_curve->losses = more;
        out_curve->least = loss < out_curve->least ? loss : out_curve->least;
        out_curve->most = loss > out_curve->most ? loss : out_curve->most;
    }
    fclose(log);
    out_curve->least = isfinite(out_curve->least) ? out_curve->least : 0;
    return KILN_STATUS_OK;
}

static void draw_curve(FILE *file, const curve *c)
{
    enum { WIDTH = 640, HEIGHT = 400, EDGE = 50 };
    double range = c->most > c->least ? c->most - c->least : 1;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"20\">loss of each step</text>\n",
            WIDTH, HEIGHT, EDGE);
    for (int i = 0; i <= 4; i++) {
        double value = c->least + range * i / 4;
        double y = HEIGHT - EDGE - i * (HEIGHT - 2 * EDGE) / 4.0;
        fprintf(file,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                "<text x=\"8\" y=\"%.1f\">%.3f</text>\n",
                EDGE, WIDTH - EDGE, y, y, y + 4, value);
    }
    fprintf(file, "<polyline fill=\"none\" stroke=\"#c33\" points=\"");
    for (size_t i = 0; i < c->count; i++) {
        if (!isfinite(c->losses[i])) {
            continue;
        }
        double x =
            EDGE + (double)i * (WIDTH - 2 * EDGE) / (c->count > 1 ? (double)c->count - 1 : 1);
        double y = HEIGHT - EDGE - (c->losses[i] - c->least) / range * (HEIGHT - 2 * EDGE);
        fprintf(file, "%.1f,%.1f ", x, y);
    }
    fprintf(file,
            "\"/>\n<text x=\"%d\" y=\"%d\">1</text><text x=\"%d\" y=\"%d\">%zu steps</text>\n"
            "</svg>\n",
            EDGE, HEIGHT - EDGE + 20, WIDTH - EDGE - 40, HEIGHT - EDGE + 20, c->count);
}

kiln_status gpt_draw(const char *log_path, const char *picture_path, kiln_error *err)
{
    curve c;
    kiln_status status = read_curve(log_path, &c, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    FILE *file = fopen(picture_path, "w");
    if (file != NULL) {
        draw_curve(file, &c);
    }
    free(c.losses);
    bool ok = file != NULL && fclose(file) == 0;
    return ok ? KILN_STATUS_OK
              : kiln_fail(err, UNAVAILABLE, "%s cannot be written: %s", picture_path,
                          strerror(errno));
}
