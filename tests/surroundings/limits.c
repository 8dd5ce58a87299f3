/*
 * A program in a small room: what the system refuses must not reach it.
 *
 *   EPERM, ENOSYS   a seccomp filter refuses memfd_create with this
 *   connect         one refuses connect with EPERM
 *   fsize           no file may be larger than a page
 *   nofile          only few descriptors
 *   as BYTES        so much address space is left when tracking begins
 *   unread BYTES    the same, and whoever read stderr is gone
 *   alone           no limit, but nobody to talk to: it does not wait long
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "story.h"

static void refuse(uint32_t call, uint32_t error) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void limit(int resource, rlim_t most) {
    const struct rlimit limit = {most, most};
    EXPECT(setrlimit(resource, &limit) == 0);
}

/* Writing to it would end the program by SIGPIPE. */
static void break_stderr(void) {
    int ends[2];
    EXPECT(pipe(ends) == 0 && close(ends[0]) == 0);
    EXPECT(dup2(ends[1], 2) == 2 && close(ends[1]) == 0);
    EXPECT(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
}

static rlim_t address_space_in_use(void) {
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    EXPECT(statm != NULL && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

int main(int count, char **arguments) {
    EXPECT(count >= 2);
    if (is_mode(arguments, "EPERM")) {
        refuse(SYS_memfd_create, EPERM);
    } else if (is_mode(arguments, "ENOSYS")) {
        refuse(SYS_memfd_create, ENOSYS);
    } else if (is_mode(arguments, "connect")) {
        refuse(SYS_connect, EPERM);
    } else if (is_mode(arguments, "fsize")) {
        limit(RLIMIT_FSIZE, 4096);
    } else if (is_mode(arguments, "nofile")) {
        limit(RLIMIT_NOFILE, 16);
    } else if (is_mode(arguments, "as") || is_mode(arguments, "unread")) {
        EXPECT(count == 3);
        if (is_mode(arguments, "unread")) {
            break_stderr();
        }
        limit(RLIMIT_AS, address_space_in_use() + strtoul(arguments[2], NULL, 10));
    }
    const ttmem_mesh_id_t mesh = open_chip();
    for (int round = 0; round < 20000; round++) {
        ttmem_buffer_freed(mesh, hold(mesh));
    }
    hold_many(mesh, 3);
    const int is_alone = is_mode(arguments, "alone") || is_mode(arguments, "connect");
    const uint32_t patience = is_alone ? 300 : PATIENCE_MILLIS;
    const int settled = ttmem_client_flush(patience) == TTMEM_OK;
    reach(settled ? "settled" : ttmem_client_is_enabled() ? "alone" : "off");
    return 9;
}
