/*
 * Programs to be run by another one: `ttmem run` must not be noticed by them.
 *
 *   exit CODE    uses every class, leaves one buffer behind at close, and exits
 *   fork         the work is done by a child; its parent exits with the child's code
 *   signals      says which signals come, and how often; TERM ends it the usual way
 *   nothing      reports nothing
 */
#include <signal.h>
#include <sys/wait.h>

#include "story.h"

enum { L1_BANKS = 64, L1_SMALL_BYTES = 1000, TRACE_BYTES = 10000 };

static void report_capacity(ttmem_mesh_id_t mesh, ttmem_class_t memory_class, uint16_t banks) {
    ttmem_capacity_reported_t capacity;
    memset(&capacity, 0, sizeof capacity);
    capacity.mesh = mesh;
    capacity.memory_class = memory_class;
    capacity.banks = banks;
    capacity.per_bank_bytes = 1 << 20;
    capacity.alignment = 32;
    ttmem_capacity_reported(&capacity);
}

static ttmem_buffer_id_t hold_in(ttmem_mesh_id_t mesh, ttmem_class_t memory_class, uint16_t banks,
                                 uint64_t per_bank_bytes, const char *operation) {
    ttmem_buffer_allocated_t buffer = buffer_of(mesh, ttmem_buffer_next());
    buffer.memory_class = memory_class;
    buffer.banks = banks;
    buffer.per_bank_bytes = per_bank_bytes;
    buffer.requested_bytes = banks * per_bank_bytes;
    ttmem_text_define(operation, strlen(operation), &buffer.operation);
    ttmem_buffer_allocated(&buffer);
    return buffer.buffer;
}

/* Holds ten buffers of DRAM at most and one at the end, and some of the small regions. */
static void work(void) {
    const ttmem_mesh_id_t mesh = open_chip();
    report_capacity(mesh, TTMEM_CLASS_DRAM, BANKS);
    report_capacity(mesh, TTMEM_CLASS_TRACE, BANKS);
    report_capacity(mesh, TTMEM_CLASS_L1_SMALL, L1_BANKS);
    ttmem_buffer_id_t freed[9];
    for (int i = 0; i < 9; i++) {
        freed[i] = hold(mesh);
    }
    hold_in(mesh, TTMEM_CLASS_DRAM, BANKS, PER_BANK_BYTES, "matmul");
    const ttmem_buffer_id_t trace =
        hold_in(mesh, TTMEM_CLASS_TRACE, BANKS, TRACE_BYTES, "capture");
    const ttmem_buffer_id_t small =
        hold_in(mesh, TTMEM_CLASS_L1_SMALL, L1_BANKS, L1_SMALL_BYTES, "conv2d");
    settle();
    reach("holding");
    for (int i = 0; i < 9; i++) {
        ttmem_buffer_freed(mesh, freed[i]);
    }
    ttmem_buffer_freed(mesh, trace);
    ttmem_buffer_freed(mesh, small);
    ttmem_mesh_closed(mesh);
    settle();
}

static int wait_for_signals(void) {
    static const struct {
        int number;
        const char *name;
    } signals[] = {
        {SIGINT, "INT"},   {SIGHUP, "HUP"},     {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"},
        {SIGUSR2, "USR2"}, {SIGWINCH, "WINCH"}, {SIGTSTP, "TSTP"}, {SIGCONT, "CONT"},
    };
    enum { COUNT = sizeof signals / sizeof *signals };
    sigset_t set;
    /* What the program around this one blocks for itself must not be blocked here. */
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &set) == 0);
    for (int i = 0; i < COUNT; i++) {
        EXPECT(!sigismember(&set, signals[i].number));
    }
    EXPECT(!sigismember(&set, SIGTERM) && !sigismember(&set, SIGCHLD));
    EXPECT(signal(SIGPIPE, SIG_DFL) == SIG_DFL);
    for (int i = 0; i < COUNT; i++) {
        sigaddset(&set, signals[i].number);
    }
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    dprintf(1, "waiting %d\n", getpid());
    for (;;) {
        int number = 0;
        EXPECT(sigwait(&set, &number) == 0);
        for (int i = 0; i < COUNT; i++) {
            if (signals[i].number == number) {
                dprintf(1, "%s\n", signals[i].name);
            }
        }
        if (number == SIGTSTP) {
            /* Not the default action: the kernel leaves it out where no shell could continue us. */
            kill(getpid(), SIGSTOP);
        }
    }
}

int main(int count, char **arguments) {
    if (is_mode(arguments, "signals")) {
        return wait_for_signals();
    }
    if (is_mode(arguments, "nothing")) {
        dprintf(1, "nothing to report\n");
        return 0;
    }
    if (is_mode(arguments, "fork")) {
        const pid_t child = fork();
        if (child == 0) {
            work();
            exit(7);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
        return WEXITSTATUS(status);
    }
    EXPECT(is_mode(arguments, "exit") && count == 3);
    work();
    dprintf(2, "its own complaint\n");
    return atoi(arguments[2]);
}
