/* Runs a program in whose reads of some files fail, as a driver's do.
 *
 *     failing_reads tt_heartbeat=19 tt_aiclk=hang -- PROGRAM ARGUMENT...
 *
 * A file is given by the end of its path, what happens by the number of an error; `hang` never answers. With
 * `process_vm_readv=1` that call is refused, as containers do. The kernel
 * asks this process about every read of the program (seccomp notifications), so the program gets real
 * errors of real system calls, however it makes them. Ends as the program does. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the tests take for "cannot be done here". */
#define CANNOT 77

static int send_descriptor(int socket, int descriptor) {
    char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

static int receive_descriptor(int socket) {
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL) {
        return -1;
    }
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

/* Every `read` is asked about; everything else goes on, but for one call that may be refused. */
static int install(int refuses) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_read, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, refuses ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* The error for a file, 0 for none, -1 for no answer at all. */
static int rule_of(const char *path, char **rules, int count) {
    for (int i = 0; i < count; i++) {
        const char *value = strrchr(rules[i], '=');
        size_t length = value == NULL ? 0 : (size_t)(value - rules[i]), all = strlen(path);
        if (length > 0 && all >= length && memcmp(path + all - length, rules[i], length) == 0) {
            return strcmp(value, "=hang") == 0 ? -1 : atoi(value + 1);
        }
    }
    return 0;
}

static void answer(int listener, char **rules, int count) {
    struct seccomp_notif asked;
    struct seccomp_notif_resp said;
    memset(&asked, 0, sizeof asked);
    memset(&said, 0, sizeof said);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) {
        return;
    }
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/%u/fd/%llu", asked.pid, (unsigned long long)asked.data.args[0]);
    ssize_t length = readlink(name, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    int rule = rule_of(path, rules, count);
    if (rule == -1) {
        return;
    }
    said.id = asked.id;
    said.error = -rule;
    said.flags = rule == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
    /* It may have been killed meanwhile. */
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &said);
}

int main(int argc, char **argv) {
    int end = 1;
    while (end < argc && strcmp(argv[end], "--") != 0) {
        end++;
    }
    int pair[2];
    if (end + 1 >= argc || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return CANNOT;
    }
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        int listener = install(rule_of("process_vm_readv", argv + 1, end - 1));
        if (listener < 0 || send_descriptor(pair[1], listener) != 0) {
            _exit(CANNOT);
        }
        close(listener);
        /* Who ends this process means the program. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(argv[end + 1], argv + end + 1);
        _exit(127);
    }
    close(pair[1]);
    int listener = child < 0 ? -1 : receive_descriptor(pair[0]);
    if (listener < 0) {
        return CANNOT;
    }
    for (;;) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        struct pollfd ready = {listener, POLLIN, 0};
        if (poll(&ready, 1, 50) > 0 && (ready.revents & POLLIN)) {
            answer(listener, argv + 1, end - 1);
        } else if (ready.revents & POLLHUP) {
            usleep(1000);
        }
    }
}
