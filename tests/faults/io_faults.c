// SPDX-License-Identifier: MIT OR Apache-2.0
// A disk that fails, for tests: runs a command, counts what it asks of the system about files below
// a folder, and lets the k-th call fail. The kernel hands such calls over (seccomp's
// notifications), so it makes no difference who asks: the C library, SQLite, another library.
//
//     io_faults KIND K FOLDER COMMAND...
//
// KIND: count; ENOSPC, EIO or EINTR of writes; read, for EIO of reads; cut, for a file that is cut
// short to nothing before it is read; short, for a write that takes half; kill, for SIGKILL in
// place of the call. K counts from 1; "K+" means each from the k-th on. The last line on standard
// error is "io_faults: N calls". Ends as the command does.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SHORT = 1 << 16 };

static const int writes[] = {SYS_write, SYS_pwrite64,  SYS_writev,    SYS_pwritev,
                             SYS_fsync, SYS_fdatasync, SYS_ftruncate, SYS_fallocate};
static const int reads[] = {SYS_read, SYS_pread64};

typedef struct fault {
    const char *kind;
    unsigned long at; ///< 0: none
    bool persistent;
    const char *folder;
    unsigned long seen;
} fault;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "io_faults: %s: %s\n", what, strerror(errno));
    exit(125);
}

// ---- the command's side ----

/// Hands the calls of `numbers` over to whoever holds the descriptor that it returns.
static int install(const int *numbers, size_t count)
{
    struct sock_filter code[32] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    size_t n = 1;
    for (size_t i = 0; i < count; i++) {
        unsigned char to_last = (unsigned char)(count - i);
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[i],
                                                 to_last, 0);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static void pass_descriptor(int socket, int descriptor)
{
    _Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {0};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &descriptor, sizeof(descriptor));
    if (sendmsg(socket, &message, 0) != 1) {
        _exit(125);
    }
}

static int take_descriptor(int socket)
{
    _Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof(int))];
    char byte;
    int descriptor = -1;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != NULL) {
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(descriptor));
    }
    return descriptor;
}

// ---- the disk's side ----

enum { LINK_ROOM = 64 };

/// What stands for the call's file.
static void link_of(const struct seccomp_notif *call, char out[LINK_ROOM])
{
    snprintf(out, LINK_ROOM, "/proc/%u/fd/%d", call->pid, (int)call->data.args[0]);
}

static bool is_below(const fault *f, const struct seccomp_notif *call)
{
    char link[LINK_ROOM], path[4096];
    link_of(call, link);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    return strncmp(path, f->folder, strlen(f->folder)) == 0;
}

/// The process of a thread, for pidfd_open.
static int process_of(unsigned thread)
{
    char path[64], line[128];
    int process = -1;
    snprintf(path, sizeof(path), "/proc/%u/status", thread);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL &&
           sscanf(line, "Tgid: %d", &process) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return process;
}

/// Writes the first half in the command's name, with its descriptor. Gives what the call returns.
static long write_half(const struct seccomp_notif *call)
{
    static char half[MOST_SHORT];
    size_t length = (size_t)call->data.args[2] / 2;
    length = length < sizeof(half) ? length : sizeof(half);
    struct iovec mine = {half, length};
    struct iovec theirs = {(void *)(uintptr_t)call->data.args[1], length};
    int process = (int)syscall(SYS_pidfd_open, process_of(call->pid), 0);
    int file =
        process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, (int)call->data.args[0], 0);
    long done = -EIO;
    if (length > 0 && file >= 0 &&
        process_vm_readv((pid_t)call->pid, &mine, 1, &theirs, 1, 0) == (ssize_t)length) {
        done = call->data.nr == SYS_pwrite64 ? pwrite(file, half, length, (off_t)call->data.args[3])
                                             : write(file, half, length);
    }
    close(file);
    close(process);
    return done;
}

static void answer(fault *f, const struct seccomp_notif *call, struct seccomp_notif_resp *reply)
{
    reply->id = call->id;
    reply->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (!is_below(f, call)) {
        return;
    }
    f->seen++;
    if (f->at == 0 || f->seen < f->at || (f->seen > f->at && !f->persistent)) {
        return;
    }
    bool can_be_short = call->data.nr == SYS_write || call->data.nr == SYS_pwrite64;
    if (strcmp(f->kind, "short") == 0 && (!can_be_short || call->data.args[2] < 2)) {
        return;
    }
    if (strcmp(f->kind, "cut") == 0) {
        char link[LINK_ROOM];
        link_of(call, link);
        (void)!truncate(link, 0);
        return;
    }
    reply->flags = 0;
    if (strcmp(f->kind, "kill") == 0) {
        kill(process_of(call->pid), SIGKILL);
    } else if (strcmp(f->kind, "short") == 0) {
        long done = write_half(call);
        reply->val = done >= 0 ? done : 0;
        reply->error = done >= 0 ? 0 : (int)done;
        return;
    }
    reply->error = strcmp(f->kind, "ENOSPC") == 0  ? -ENOSPC
                   : strcmp(f->kind, "EINTR") == 0 ? -EINTR
                                                   : -EIO;
}

/// Answers until the last process that was filtered is gone.
static void serve(fault *f, int listener)
{
    struct seccomp_notif_sizes sizes;
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0) {
        die("seccomp");
    }
    struct seccomp_notif *call = malloc(sizes.seccomp_notif);
    struct seccomp_notif_resp *reply = malloc(sizes.seccomp_notif_resp);
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    while (call != NULL && reply != NULL && poll(&wait, 1, -1) > 0 &&
           (wait.revents & POLLIN) != 0) {
        memset(call, 0, sizes.seccomp_notif);
        memset(reply, 0, sizes.seccomp_notif_resp);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, call) != 0) {
            continue; // whoever asked is gone
        }
        answer(f, call, reply);
        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, reply);
    }
    free(call);
    free(reply);
}

int main(int argc, char **argv)
{
    int sockets[2], status = 0;
    if (argc < 5) {
        fprintf(stderr, "usage: io_faults KIND K FOLDER COMMAND...\n");
        return 125;
    }
    fault f = {.kind = argv[1],
               .at = strtoul(argv[2], NULL, 10),
               .persistent = strchr(argv[2], '+') != NULL,
               .folder = argv[3]};
    bool of_reads = strcmp(f.kind, "read") == 0 || strcmp(f.kind, "cut") == 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        die("socketpair");
    }
    pid_t child = fork();
    if (child == 0) {
        int listener = of_reads ? install(reads, sizeof(reads) / sizeof(reads[0]))
                                : install(writes, sizeof(writes) / sizeof(writes[0]));
        if (listener < 0) {
            die("no notifications of seccomp");
        }
        pass_descriptor(sockets[1], listener);
        close(listener);
        execvp(argv[4], argv + 4);
        _exit(127);
    }
    close(sockets[1]);
    int listener = take_descriptor(sockets[0]);
    if (listener >= 0) {
        serve(&f, listener);
    }
    waitpid(child, &status, 0);
    fprintf(stderr, "io_faults: %lu calls\n", f.seen);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
