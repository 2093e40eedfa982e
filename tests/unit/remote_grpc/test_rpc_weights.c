// SPDX-License-Identifier: MIT OR Apache-2.0
// What a server keeps of its clients for later sessions: offered by digest, found again after a
// restart, by the same caller alone, never damaged, never more than its limit. And the client,
// whose second session sends no constants.

#include "remote_fixture.h"
#include "rpc_digest.h"
#include "tcp_proxy.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 2048, BYTES = ELEMENTS * (int)sizeof(float) };

// ---- a server with a folder of its own ----

static const char *fresh_folder(void)
{
    static int count;
    char name[32];
    snprintf(name, sizeof(name), "cache-%d", count++);
    return kiln_test_path(kiln_test_tmpdir(), name);
}

static bool serve_with(pair *self, const char *folder, const char *limit,
                       const kiln_rpc_server_options *options)
{
    return pair_context(self) &&
           PAIR_OK(self, kiln_context_set(self->context, "cache-dir", folder, &self->err)) &&
           PAIR_OK(self, kiln_context_set(self->context, "weights-limit", limit, &self->err)) &&
           PAIR_OK(self,
                   kiln_rpc_server_create(&self->local, 1, options, &self->server, &self->err));
}

static bool serve(pair *self, const char *folder)
{
    return serve_with(self, folder, "1G", NULL);
}

/// Counts the files that are kept; the last one's path is `out_path`.
static size_t count_files(const char *folder, char *out_path, size_t capacity, uint64_t *out_bytes)
{
    const char *path = kiln_test_path(folder, "weights");
    DIR *listing = opendir(path);
    size_t count = 0;
    *out_bytes = 0;
    for (const struct dirent *each; listing != NULL && (each = readdir(listing)) != NULL;) {
        struct stat facts;
        if (each->d_name[0] != '.' && fstatat(dirfd(listing), each->d_name, &facts, 0) == 0) {
            snprintf(out_path, capacity, "%s/%s", path, each->d_name);
            *out_bytes += (uint64_t)facts.st_size;
            count++;
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
    return count;
}

static size_t kept_files(const char *folder)
{
    char path[600];
    uint64_t bytes = 0;
    return count_files(folder, path, sizeof(path), &bytes);
}

// ---- offers by hand ----

static void fill(float *data, int seed)
{
    for (int i = 0; i < ELEMENTS; i++) {
        data[i] = (float)(i * 7 + seed);
    }
}

static kilni_rpc_digest digest_of(const void *bytes, size_t length)
{
    kilni_rpc_digest digest = {{0}};
    KILN_CHECK_INT(kilni_rpc_digest_of(bytes, length, &digest, NULL), KILN_STATUS_OK);
    return digest;
}

static uint32_t offer(hand *self, uint64_t buffer, uint64_t graph, uint64_t total,
                      const kilni_rpc_digest *digest, size_t digest_bytes)
{
    kilni_rpc_frame frame = {0};
    frame.body.which_body = kiln_v1_Frame_offer_tag;
    kiln_v1_Offer *body = &frame.body.body.offer;
    *body = (kiln_v1_Offer){.buffer = buffer, .graph = graph, .total = total};
    body->digest.size = (pb_size_t)digest_bytes;
    memcpy(body->digest.bytes, digest->bytes, digest_bytes);
    return hand_ask(self, &frame);
}

static uint32_t offer_data(hand *self, uint64_t buffer, const float *data)
{
    const kilni_rpc_digest digest = digest_of(data, BYTES);
    return offer(self, buffer, 0, BYTES, &digest, sizeof(digest));
}

/// In two pieces.
static void write_data(hand *self, uint64_t buffer, const float *data)
{
    hand_write(self, buffer, 0, BYTES, data, BYTES / 4);
    hand_write(self, buffer, BYTES / 4, BYTES, data + ELEMENTS / 4, BYTES - BYTES / 4);
}

static void upload_offered(const pair *peers, const float *data)
{
    hand self;
    if (KILN_CHECK(hand_open(&self, peers))) {
        KILN_CHECK_INT(offer_data(&self, 1, data), KILN_STATUS_NOT_FOUND);
        write_data(&self, 1, data);
        KILN_CHECK_INT(hand_fence(&self), 0);
        hand_close(&self);
    }
}

/// In a session of its own: what an offer is answered, and that a hit gives the bytes.
static uint32_t offered(const pair *peers, const float *data)
{
    hand self;
    uint32_t code = UINT32_MAX;
    if (KILN_CHECK(hand_open(&self, peers))) {
        code = offer_data(&self, 1, data);
        if (code == 0 && KILN_CHECK_INT(hand_read(&self, 1, 0, BYTES), 0) &&
            KILN_CHECK_INT(self.frame->data_length, BYTES)) {
            float back[ELEMENTS];
            kilni_rpc_frame_data(self.frame, back);
            KILN_CHECK_MEM(back, data, BYTES);
        }
        hand_close(&self);
    }
    return code;
}

static void test_kept_across_restarts(void)
{
    pair self;
    float data[ELEMENTS];
    const char *folder = fresh_folder();
    fill(data, 1);
    if (!serve(&self, folder)) {
        return;
    }
    upload_offered(&self, data);
    KILN_CHECK_INT(offered(&self, data), 0);
    KILN_CHECK_INT(kept_files(folder), 1);
    pair_close(&self);
    if (serve(&self, folder)) {
        KILN_CHECK_INT(offered(&self, data), 0);
        hand user; // an operation takes it from where it lies, a write goes to a copy
        if (KILN_CHECK(hand_open(&user, &self))) {
            KILN_CHECK_INT(offer_data(&user, 1, data), 0);
            hand_negate(&user, ELEMENTS, 1, 2);
            KILN_CHECK_INT(hand_read(&user, 2, 0, sizeof(float)), 0);
            KILN_CHECK(hand_float(user.frame->data, 0) == -data[0]);
            KILN_CHECK_INT(offer_data(&user, 3, data), 0);
            hand_write(&user, 3, 0, BYTES, "1234", 4);
            KILN_CHECK_INT(hand_read(&user, 3, 0, 4), 0);
            KILN_CHECK_MEM(user.frame->data, "1234", 4);
            hand_close(&user);
        }
        KILN_CHECK_INT(offered(&self, data), 0);
        pair_close(&self);
    }
}

static void test_wrong_digest(void)
{
    pair self;
    hand user;
    float data[ELEMENTS];
    float other[ELEMENTS];
    const char *folder = fresh_folder();
    fill(data, 1);
    fill(other, 2);
    if (!serve(&self, folder) || !KILN_CHECK(hand_open(&user, &self))) {
        return;
    }
    KILN_CHECK_INT(offer_data(&user, 1, data), KILN_STATUS_NOT_FOUND);
    write_data(&user, 1, other);
    KILN_CHECK_INT(hand_fence(&user), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(user.frame->body.body.answer.message, "digest");
    KILN_CHECK_INT(hand_read(&user, 1, 0, 4), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kept_files(folder), 0);
    KILN_CHECK_INT(offered(&self, data), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(offered(&self, other), KILN_STATUS_NOT_FOUND);
    write_data(&user, 1, other); // not offered: an ordinary buffer again
    KILN_CHECK_INT(hand_fence(&user), 0);
    hand_close(&user);
    pair_close(&self);
}

static void test_malformed_offers(void)
{
    pair self;
    hand user;
    float data[ELEMENTS];
    fill(data, 1);
    const kilni_rpc_digest digest = digest_of(data, BYTES);
    if (!serve(&self, fresh_folder()) || !KILN_CHECK(hand_open(&user, &self))) {
        return;
    }
    upload_offered(&self, data);
    KILN_CHECK_INT(offer(&user, 1, 0, BYTES, &digest, 31), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(offer(&user, 1, 0, BYTES, &digest, 0), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(offer(&user, 0, 0, BYTES, &digest, 32), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(offer(&user, 1, 1, BYTES, &digest, 32), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(offer(&user, 1, 0, 0, &digest, 32), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(offer(&user, 1, 0, UINT64_MAX, &digest, 32), KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_INT(offer(&user, 0, 1, UINT64_MAX, &digest, 32), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(offer(&user, 0, 1, BYTES, &digest, 32),
                   KILN_STATUS_DATA_LOSS); // no graph
    KILN_CHECK_INT(offer(&user, 1, 0, BYTES + 1, &digest, 32), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(offer(&user, 1, 0, BYTES - 1, &digest, 32), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(offered(&self, data), 0); // and nothing of this has removed it
    KILN_CHECK_INT(hand_fence(&user), 0);
    hand_close(&user);
    pair_close(&self);
}

/// What never comes whole is not kept, and its rest is zeros as ever.
static void test_truncated(void)
{
    pair self;
    hand user;
    float data[ELEMENTS];
    const char *folder = fresh_folder();
    fill(data, 1);
    if (!serve(&self, folder) || !KILN_CHECK(hand_open(&user, &self))) {
        return;
    }
    KILN_CHECK_INT(offer_data(&user, 1, data), KILN_STATUS_NOT_FOUND);
    hand_write(&user, 1, 0, BYTES, data, BYTES / 2);
    KILN_CHECK_INT(hand_read(&user, 1, BYTES - 4, 4), 0);
    KILN_CHECK(hand_float(user.frame->data, 0) == 0);
    hand_close(&user);
    KILN_CHECK_INT(kept_files(folder), 0);
    KILN_CHECK_INT(offered(&self, data), KILN_STATUS_NOT_FOUND);
    pair_close(&self);
}

/// An offer's answer does not take the failure that another answer owes.
static void test_failures_wait(void)
{
    pair self;
    hand user;
    float data[ELEMENTS];
    fill(data, 1);
    if (!serve(&self, fresh_folder()) || !KILN_CHECK(hand_open(&user, &self))) {
        return;
    }
    hand_negate(&user, 4, 77, 78); // frame 1: there is no buffer 77
    KILN_CHECK_INT(offer_data(&user, 1, data), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(user.frame->body.body.answer.frame, 2);
    KILN_CHECK_INT(hand_fence(&user), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(user.frame->body.body.answer.frame, 1);
    hand_close(&user);
    pair_close(&self);
}

static uint32_t offered_as(const pair *peers, const char *token, const float *data, bool upload)
{
    hand self;
    uint32_t code = UINT32_MAX;
    if (KILN_CHECK(hand_open_as(&self, peers, token))) {
        code = offer_data(&self, 1, data);
        if (upload) {
            write_data(&self, 1, data);
            KILN_CHECK_INT(hand_fence(&self), 0);
        }
        hand_close(&self);
    }
    return code;
}

static void test_identities_are_apart(void)
{
    pair self;
    float data[ELEMENTS];
    const char *folder = fresh_folder();
    const char *tokens = kiln_test_path(kiln_test_tmpdir(), "tokens");
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    fill(data, 1);
    options.token_file = tokens;
    static const char lines[] = "anna anna-1\nanna anna-2\nbert\n"; // one has two tokens
    if (!kiln_test_write_file(tokens, lines, sizeof(lines) - 1) ||
        !serve_with(&self, folder, "1G", &options)) {
        return;
    }
    KILN_CHECK_INT(offered_as(&self, "anna-1", data, true), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(offered_as(&self, "bert", data, false), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(offered_as(&self, "anna-1", data, false), 0);
    KILN_CHECK_INT(offered_as(&self, "anna-2", data, false), 0);
    KILN_CHECK_INT(offered_as(&self, "bert", data, true), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(offered_as(&self, "bert", data, false), 0);
    KILN_CHECK_INT(kept_files(folder), 2);
    pair_close(&self);
    if (serve(&self, folder)) { // a server that asks for no token knows none of them
        KILN_CHECK_INT(offered(&self, data), KILN_STATUS_NOT_FOUND);
        pair_close(&self);
    }
}

static void test_full(void)
{
    enum { MANY = 20, LIMIT = 65536 };
    pair self;
    float data[ELEMENTS];
    char path[600];
    uint64_t bytes = 0;
    const char *folder = fresh_folder();
    if (!serve_with(&self, folder, "64K", NULL)) {
        return;
    }
    for (int i = 0; i < MANY; i++) {
        fill(data, i);
        upload_offered(&self, data);
        pause_us(5000); // times of files are as coarse as the clock of the kernel
        fill(data, 0);
        KILN_CHECK_INT(offered(&self, data), 0); // used again and again, so it stays
        pause_us(5000);
        KILN_CHECK(count_files(folder, path, sizeof(path), &bytes) > 0 && bytes <= LIMIT);
    }
    fill(data, MANY - 1);
    KILN_CHECK_INT(offered(&self, data), 0);
    fill(data, 1);
    KILN_CHECK_INT(offered(&self, data), KILN_STATUS_NOT_FOUND);
    pair_close(&self);
    if (serve_with(&self, folder, "12K", NULL)) { // a smaller limit, and nothing as large as half
        KILN_CHECK(count_files(folder, path, sizeof(path), &bytes) <= 1 && bytes <= 12 << 10);
        fill(data, MANY);
        upload_offered(&self, data);
        KILN_CHECK_INT(offered(&self, data), KILN_STATUS_NOT_FOUND);
        pair_close(&self);
    }
}

/// Damages the one file that is kept, as `kind` says.
static void damage_file(const char *folder, int kind)
{
    char path[600];
    uint64_t bytes = 0;
    if (!KILN_CHECK_INT(count_files(folder, path, sizeof(path), &bytes), 1)) {
        return;
    }
    int file = open(path, O_RDWR);
    static const off_t changed[] = {100, BYTES + 3, BYTES + 9, BYTES + 20};
    if (kind < 4) { // a byte of the data, the magic, the length, the checksum
        char byte = 0;
        KILN_CHECK(pread(file, &byte, 1, changed[kind]) == 1);
        byte = (char)(byte ^ 64);
        KILN_CHECK(pwrite(file, &byte, 1, changed[kind]) == 1);
    } else { // cut in the data, in the end, to nothing; or longer
        static const off_t lengths[] = {BYTES / 2, BYTES + 31, 0, BYTES + 33};
        KILN_CHECK(ftruncate(file, lengths[kind - 4]) == 0);
    }
    (void)close(file);
}

static void test_damaged_file(void)
{
    pair self;
    float data[ELEMENTS];
    const char *folder = fresh_folder();
    fill(data, 1);
    if (!serve(&self, folder)) {
        return;
    }
    upload_offered(&self, data);
    for (int kind = 0; kind < 8; kind++) {
        damage_file(folder, kind);
        KILN_CHECK_INT(offered(&self, data), KILN_STATUS_NOT_FOUND);
        KILN_CHECK_INT(kept_files(folder), 0);
        upload_offered(&self, data);
        KILN_CHECK_INT(offered(&self, data), 0);
    }
    pair_close(&self);
}

/// The one file that is kept was written `ago` seconds ago, as far as its times tell.
static void date_file(const char *folder, time_t ago)
{
    char path[600];
    uint64_t bytes = 0;
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - ago}};
    KILN_CHECK_INT(count_files(folder, path, sizeof(path), &bytes), 1);
    KILN_CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

/// What was found sound is not read again by the same server, until the file's time is another one;
/// a file that has changed just now is read each time.
static void test_sound_files_are_read_once(void)
{
    pair self;
    float data[ELEMENTS];
    const char *folder = fresh_folder();
    fill(data, 1);
    if (!serve(&self, folder)) {
        return;
    }
    upload_offered(&self, data);
    date_file(folder, 1000);
    KILN_CHECK_INT(offered(&self, data), 0);
    struct stat facts;
    char path[600];
    uint64_t bytes = 0;
    KILN_CHECK_INT(count_files(folder, path, sizeof(path), &bytes), 1);
    KILN_CHECK(stat(path, &facts) == 0);
    damage_file(folder, 3); // the checksum
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, facts.st_mtim};
    KILN_CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
    KILN_CHECK_INT(offered(&self, data), 0);
    date_file(folder, 500);
    KILN_CHECK_INT(offered(&self, data), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(kept_files(folder), 0);
    pair_close(&self);
}

static bool has_feature(const pair *peers)
{
    hand self;
    bool found = false;
    if (KILN_CHECK(hand_open(&self, peers))) {
        const kiln_v1_Welcome *welcome = &self.frame->body.body.welcome;
        for (pb_size_t i = 0; i < welcome->features_count; i++) {
            found = found || strcmp(welcome->features[i], "weights") == 0;
        }
        hand_close(&self);
    }
    return found;
}

static void test_may_be_off(void)
{
    pair self;
    float data[ELEMENTS];
    fill(data, 1);
    if (serve(&self, fresh_folder())) {
        KILN_CHECK(has_feature(&self));
        pair_close(&self);
    }
    if (serve_with(&self, fresh_folder(), "0", NULL)) {
        KILN_CHECK(!has_feature(&self));
        upload_offered(&self, data);
        KILN_CHECK_INT(offered(&self, data), KILN_STATUS_NOT_FOUND);
        pair_close(&self);
    }
    if (serve(&self, "off")) {
        KILN_CHECK(!has_feature(&self));
        pair_close(&self);
    }
}

static void test_unwritable_folder(void)
{
    pair self;
    const char *file = kiln_test_path(kiln_test_tmpdir(), "no-folder");
    if (kiln_test_write_file(file, "x", 1) && serve(&self, file)) {
        KILN_CHECK(!has_feature(&self));
        pair_close(&self);
    }
}

// ---- graphs ----

/// A Run of the negation under a number, which is offered first.
static uint32_t offer_graph(hand *self, uint64_t number, bool good)
{
    const kiln_tensor_desc x = hand_floats(1, 4);
    const kiln_tensor_desc y = hand_floats(2, 4);
    const kiln_op_record record = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &x, .outputs = &y};
    static const float four[] = {1, 2, 3, 4};
    kiln_blob blob = {0};
    hand_encode(self, &record, 1, &blob);
    kilni_rpc_digest digest = digest_of(blob.data, blob.length);
    digest.bytes[0] ^= !good;
    uint32_t code = offer(self, 0, number, blob.length, &digest, sizeof(digest));
    hand_write(self, 1, 0, sizeof(four), four, sizeof(four));
    hand_run(self, &record, code == 0 ? 0 : 1, 1, 2, number);
    kiln_free(&self->env, blob.data);
    return code;
}

static void check_negated(hand *self)
{
    KILN_CHECK_INT(hand_read(self, 2, 0, 16), 0);
    KILN_CHECK(hand_float(self->frame->data, 3) == -4);
}

static void test_graphs(void)
{
    pair self;
    hand user;
    const char *folder = fresh_folder();
    if (!serve(&self, folder)) {
        return;
    }
    if (KILN_CHECK(hand_open(&user, &self))) {
        KILN_CHECK_INT(offer_graph(&user, 5, /*good=*/false), KILN_STATUS_NOT_FOUND);
        KILN_CHECK_INT(hand_fence(&user), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kept_files(folder), 0);
        KILN_CHECK_INT(offer_graph(&user, 6, /*good=*/true), KILN_STATUS_NOT_FOUND);
        check_negated(&user);
        KILN_CHECK_INT(kept_files(folder), 1);
        hand_close(&user);
    }
    if (KILN_CHECK(hand_open(&user, &self))) {
        KILN_CHECK_INT(offer_graph(&user, 9, /*good=*/true), 0);
        check_negated(&user);
        hand_close(&user);
    }
    pair_close(&self);
}

// ---- the client ----

typedef struct model {
    int64_t rows;
    float *weights; ///< rows x ELEMENTS
    kiln_hash128 stamp;
    int released;
} model;

static void note_released(void *user)
{
    ((model *)user)->released++;
}

static kiln_status add_last_row(kiln_tensor *w, kiln_tensor *x, int64_t rows, float *out_back,
                                kiln_error *err)
{
    const int64_t starts[] = {rows - 1, 0};
    const int64_t ends[] = {rows, ELEMENTS};
    kiln_tensor *row = NULL;
    kiln_tensor *y = NULL;
    kiln_status status = kiln_slice(w, starts, 2, ends, 2, NULL, 0, &row, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_add(row, x, &y, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(y, out_back, BYTES, err);
    }
    kiln_release(row);
    kiln_release(y);
    return status;
}

/// Of both sides, which are one process: what a machine without other work takes at most.
static uint64_t processor_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/// The last row of the weights plus an input, on a device of its own at `address`.
static void run_model(pair *self, const char *address, model *made, uint64_t *out_first_ns)
{
    const int64_t dims[] = {made->rows, ELEMENTS};
    float input[ELEMENTS];
    float back[ELEMENTS] = {0};
    kiln_constant_memory memory = KILN_CONSTANT_MEMORY_INIT;
    kiln_device *device = NULL;
    kiln_tensor *w = NULL;
    kiln_tensor *x = NULL;
    fill(input, 3);
    memory.bytes = made->weights;
    memory.release = note_released;
    memory.user = made;
    memory.stamp = made->stamp;
    uint64_t start = processor_ns();
    if (PAIR_OK(self, kiln_device_open(self->context, address, &device, &self->err)) &&
        PAIR_OK(self, kiln_tensor_wrap_constant(device, KILN_DTYPE_F32, 2, dims, &memory, &w,
                                                &self->err)) &&
        PAIR_OK(self, kiln_tensor_create(device, KILN_DTYPE_F32, 2, (int64_t[]){1, ELEMENTS}, input,
                                         &x, &self->err))) {
        PAIR_OK(self, add_last_row(w, x, made->rows, back, &self->err));
    }
    *out_first_ns = processor_ns() - start;
    for (int i = 0; i < ELEMENTS; i++) {
        KILN_CHECK(back[i] == input[i] + made->weights[(made->rows - 1) * ELEMENTS + i]);
    }
    kiln_release(w);
    kiln_release(x);
    kiln_device_release(device);
}

static void make_model(model *out_model, int64_t rows)
{
    *out_model = (model){.rows = rows, .weights = malloc((size_t)rows * BYTES), .stamp = {1, 2}};
    for (int64_t i = 0; i < rows * ELEMENTS; i++) {
        out_model->weights[i] = (float)(i / ELEMENTS % 13 + 1);
    }
}

static int port_of(const pair *peers)
{
    return (int)strtol(strrchr(kiln_rpc_server_address(peers->server, 0), ':') + 1, NULL, 10);
}

/// 100 MiB once, and never again, for as long as the server's folder is there.
static void test_second_session_sends_nothing(void)
{
    enum { MIB = 100, INPUT = BYTES };
    pair self;
    model weights;
    const char *folder = fresh_folder();
    make_model(&weights, (int64_t)(MIB << 20) / BYTES);
    for (int session = 0; session < 3; session++) {
        char address[64];
        uint64_t first_ns = 0;
        if (!serve(&self, folder)) {
            break;
        }
        tcp_proxy *proxy = proxy_start(port_of(&self));
        snprintf(address, sizeof(address), "grpc://127.0.0.1:%d", proxy_port(proxy));
        proxy_arm(proxy, PROXY_UP, 0, false);
        run_model(&self, address, &weights, &first_ns);
        uint64_t up = proxy_bytes(proxy, PROXY_UP);
        printf("    session %d: %llu bytes up, %.1f ms of processors until the first result\n",
               session + 1, (unsigned long long)up, (double)first_ns / 1e6);
        if (session == 0) {
            KILN_CHECK(up > (uint64_t)MIB << 20);
        } else {
            KILN_CHECK(up > INPUT && up < INPUT + 4096);
        }
        KILN_CHECK_INT(weights.released, session + 1);
        proxy_stop(proxy);
        pair_close(&self);
    }
    free(weights.weights);
}

/// A constant that lies in the client's memory outlives the session.
static void test_constants_come_again(void)
{
    const int64_t dims[] = {ELEMENTS};
    pair self;
    float data[ELEMENTS];
    float back[ELEMENTS];
    kiln_tensor *w = NULL;
    kiln_tensor *y = NULL;
    kiln_constant_memory memory = KILN_CONSTANT_MEMORY_INIT;
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    char listen[64];
    const char *const addresses[] = {listen};
    snprintf(listen, sizeof(listen), "unix:/tmp/kiln-weights-%d", (int)getpid());
    options.listen = addresses;
    options.n_listen = 1;
    fill(data, 1);
    memory.bytes = data;
    if (!serve_with(&self, fresh_folder(), "1G", &options) ||
        !PAIR_OK(&self, kiln_device_open(self.context, listen, &self.remote, &self.err)) ||
        !PAIR_OK(&self, kiln_tensor_wrap_constant(self.remote, KILN_DTYPE_F32, 1, dims, &memory, &w,
                                                  &self.err))) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        PAIR_OK(&self, kiln_neg(w, &y, &self.err));
        kiln_status status = kiln_read(y, back, sizeof(back), &self.err);
        kiln_release(y);
        if (status == KILN_STATUS_UNAVAILABLE) { // the first use tells of the loss
            PAIR_OK(&self, kiln_neg(w, &y, &self.err));
            PAIR_OK(&self, kiln_read(y, back, sizeof(back), &self.err));
            kiln_release(y);
        }
        KILN_CHECK(back[7] == -data[7]);
        PAIR_OK(&self, kiln_read(w, back, sizeof(back), &self.err));
        KILN_CHECK_MEM(back, data, sizeof(back));
        kiln_rpc_server_destroy(self.server);
        PAIR_OK(&self, kiln_rpc_server_create(&self.local, 1, &options, &self.server, &self.err));
    }
    kiln_release(w);
    pair_close(&self);
    unlink(listen + 5);
}

KILN_TEST_MAIN("unit/remote_grpc/weights", KILN_TEST(test_kept_across_restarts),
               KILN_TEST(test_sound_files_are_read_once), KILN_TEST(test_wrong_digest),
               KILN_TEST(test_malformed_offers), KILN_TEST(test_truncated),
               KILN_TEST(test_failures_wait), KILN_TEST(test_identities_are_apart),
               KILN_TEST(test_full), KILN_TEST(test_damaged_file), KILN_TEST(test_may_be_off),
               KILN_TEST(test_unwritable_folder), KILN_TEST(test_graphs),
               KILN_TEST(test_second_session_sends_nothing), KILN_TEST(test_constants_come_again))
