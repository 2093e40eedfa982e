// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_EXAMPLES_GPT_H
#define KILN_EXAMPLES_GPT_H

/// A small language model of characters: what train_gpt.c and its parts share.

#include <kiln/kiln_grad.h>
#include <kiln/kiln_train.h>

#include <stdio.h>

typedef struct gpt_shape {
    int64_t vocabulary; ///< characters
    int64_t context; ///< characters that it sees
    int64_t width;
    int64_t heads;
    int64_t layers;
} gpt_shape;

/// The text that is learnt from, as numbers of its characters.
typedef struct gpt_text {
    int32_t *tokens;
    size_t count;
    unsigned char characters[256]; ///< of each number
    int64_t vocabulary;
} gpt_text;

/// Reads a file, or all .md files of a folder. The caller frees the tokens.
kiln_status gpt_text_read(const char *path, gpt_text *out_text, kiln_error *err);

/// Adds the model's parameters to a set.
kiln_status gpt_add_params(const gpt_shape *shape, kiln_params *params, kiln_error *err);

/// Scores of the next character after each one of `tokens` [rows, context]: [rows * context,
/// vocabulary].
kiln_status gpt_forward(const gpt_shape *shape, const kiln_params *params, kiln_tensor *tokens,
                        kiln_tensor **out_scores, kiln_error *err);

/// The mean over all characters of -log p of the one that follows, by `targets` [rows * context,
/// 1].
kiln_status gpt_loss(kiln_tensor *scores, kiln_tensor *targets, kiln_tensor **out_loss,
                     kiln_error *err);

enum { GPT_MOST = 8 };

/// The devices of this process that train, with the parameters and the optimiser of each.
typedef struct gpt_team {
    kiln_context *context;
    size_t count;
    uint32_t first; ///< number of the first among those of all processes
    uint32_t total;
    kiln_device *devices[GPT_MOST];
    kiln_params *params[GPT_MOST];
    kiln_optimiser *optimisers[GPT_MOST];
    kiln_gradsync *job; ///< of gradients
    kiln_gradsync *news; ///< of losses
} gpt_team;

/// Opens the devices, under mpirun in all processes. `*team` is zeroed, and the caller closes it
/// also on failure.
kiln_status gpt_team_open(const char *const *addresses, size_t count, const gpt_shape *shape,
                          const kiln_optimiser_options *options, gpt_team *team, kiln_error *err);
/// Does not come back after a failure under mpirun.
void gpt_team_close(gpt_team *team, bool failed);
/// Gives all members what kiln_optimiser_save wrote.
kiln_status gpt_team_load(gpt_team *team, const char *path, kiln_error *err);

/// Says what the loss of each member is, and that this process wants to stop; and hears the mean of
/// all losses, and whether a process wants to stop.
kiln_status gpt_team_tell(gpt_team *team, kiln_tensor *const *losses, bool stop, kiln_error *err);
kiln_status gpt_team_hear(gpt_team *team, float *out_loss, bool *out_stop, kiln_error *err);

/// The bar of a terminal; elsewhere a line now and then.
void gpt_show(uint64_t step, uint64_t steps, double loss, double seconds_left);
/// Ends the bar's line.
void gpt_show_end(void);

/// Lines of JSON, one for each step. Opening keeps those of the first `steps` steps.
FILE *gpt_log_open(const char *path, uint64_t steps, kiln_error *err);
void gpt_log_step(FILE *log, uint64_t step, double loss, double rate, double seconds);
/// Draws the losses of a log as SVG.
kiln_status gpt_draw(const char *log_path, const char *picture_path, kiln_error *err);

#endif
