// SPDX-License-Identifier: MIT OR Apache-2.0
// A step by its dependencies: layers that compute for equal times, a third of it forward, and calls
// of equal length, one after the other on a link of their own. A call of a gradient begins when its
// layer has gone backward. Members that share the state send half of all bytes then; when the last
// gradient has come all values are new, and come in the order of the next step's layers.
#include "bench_overlap.h"

typedef struct timeline {
    double computed; ///< what computes is done
    double sent; ///< the link is free
} timeline;

static double later(double a, double b)
{
    return a > b ? a : b;
}

/// Computing takes 1. Returns when the last gradient has come.
static double hide_backward(timeline *self, size_t layers, double sending)
{
    for (size_t l = 0; l < layers; l++) {
        self->computed += 2.0 / 3 / (double)layers;
        self->sent = later(self->sent, self->computed) + sending;
    }
    return self->sent;
}

static void hide_forward(timeline *self, size_t layers, double sending)
{
    for (size_t l = 0; l < layers; l++) {
        self->sent += sending;
        self->computed = later(self->computed, self->sent) + 1.0 / 3 / (double)layers;
    }
}

double bench_overlap_limit(bench_overlap_form form, size_t layers, double sends)
{
    double parts = form == BENCH_SHARDED ? 2 : 1;
    double sending = sends / parts / (double)layers;
    timeline now = {0, 0};
    double step = 0;
    for (int i = 0; i < 2; i++) { // the second is like all that follow
        double begun = now.computed;
        double came = hide_backward(&now, layers, sending);
        now.computed = form == BENCH_SHARDED ? now.computed : came;
        hide_forward(&now, layers, form == BENCH_SHARDED ? sending : 0);
        step = now.computed - begun;
    }
    return later(1, sends) / step;
}
