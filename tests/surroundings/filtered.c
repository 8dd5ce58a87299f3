/*
 * A program in which a seccomp filter refuses one system call: filtered CALL ERROR WHEN CLOCKS
 *
 *   CALL     the number of the call
 *   ERROR    the error that it fails with
 *   WHEN     before or after tracking begins
 *   CLOCKS   `page` if clocks are read from the page that the kernel maps, `calls` if every reading is a
 *            system call, as on machines whose clock the processor does not have
 *
 * Prints `ended` and the CPU time in percent of the time in which only the library's thread runs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "story.h"

static int clocks_are_calls;

/* What the library finds: without its address, the kernel's page with clocks is not used. */
unsigned long getauxval(unsigned long type) {
    static unsigned long (*next)(unsigned long);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "getauxval");
    }
    return clocks_are_calls && type == AT_SYSINFO_EHDR ? 0 : next(type);
}

static void refuse(uint32_t call, uint32_t error) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    /* In all threads, also in the library's. */
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

static _Atomic int is_done;

static void *work(void *mesh) {
    for (int round = 0; round < 1000; round++) {
        ttmem_buffer_freed(*(ttmem_mesh_id_t *)mesh, hold(*(ttmem_mesh_id_t *)mesh));
    }
    is_done++;
    return NULL;
}

static double seconds_of(clockid_t clock) {
    struct timespec time = {0, 0};
    syscall(SYS_clock_gettime, clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    EXPECT(count == 5);
    const uint32_t call = (uint32_t)strtoul(arguments[1], NULL, 10);
    const uint32_t error = (uint32_t)strtoul(arguments[2], NULL, 10);
    const int is_before = strcmp(arguments[3], "before") == 0;
    clocks_are_calls = strcmp(arguments[4], "calls") == 0;
    if (is_before) {
        refuse(call, error);
    }
    ttmem_mesh_id_t mesh = open_chip();
    work(&mesh);
    if (!is_before) {
        ttmem_client_flush(PATIENCE_MILLIS);
        refuse(call, error);
    }
    work(&mesh);
    pthread_t thread;
    /* The C library ends this program over a thread that cannot register. */
    const int may_start = call != SYS_rseq;
    if (may_start && pthread_create(&thread, NULL, work, &mesh) == 0) {
        /* Joining it would end this program where waiting is refused: the C library aborts. */
        while (is_done < 3) {
            sched_yield();
        }
    }
    ttmem_client_flush(50);
    ttmem_statistics_t statistics;
    memset(&statistics, 0, sizeof statistics);
    statistics.struct_bytes = sizeof statistics;
    ttmem_client_statistics(&statistics);
    /* The library's thread alone: it must not use a processor because it cannot wait. */
    const double begun = seconds_of(CLOCK_MONOTONIC);
    const double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    struct timespec rest = {0, 200000000};
    if (syscall(SYS_nanosleep, &rest, NULL) != 0) {
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &rest, NULL);
    }
    const double took = seconds_of(CLOCK_MONOTONIC) - begun;
    const double share = took > 0 ? (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used) / took : 0;
    char line[64];
    const int length = snprintf(line, sizeof line, "ended %d\n", (int)(share * 100));
    /* If write is what is refused, standard output says nothing, and the code says it all. */
    (void)!write(1, line, (size_t)length);
    ttmem_client_close(50);
    syscall(SYS_exit_group, 9);
    return 9;
}
