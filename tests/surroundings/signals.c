/*
 * Signals: the program's are the program's.
 *
 *   handler  a handler reports while the thread that it interrupts reports, from the first call on
 *   pipe     the server goes away in the middle of the traffic; SIGPIPE would end this program
 *   mask     the pump takes no signal: what the program blocks stays pending
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

#include "story.h"

enum { MOST = 2000 };

static _Atomic ttmem_mesh_id_t mesh;
static atomic_bool has_begun;
static atomic_int held_by_handler;

static void report(int signal) {
    (void)signal;
    if (mesh == 0 && has_begun) {
        ttmem_jit_disk_lookup(0, 0, 0, 1);
    } else if (mesh != 0 && held_by_handler < MOST) {
        held_by_handler++;
        hold(mesh);
    }
}

static void handler(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = report;
    action.sa_flags = SA_RESTART;
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    const struct itimerval often = {{0, 50}, {0, 50}};
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    /* The first call, which starts everything, is interrupted as well; but a handler must not make
       it while the program is inside malloc. */
    has_begun = 1;
    ttmem_jit_disk_lookup(0, 0, 0, 1);
    const ttmem_mesh_id_t chip = open_chip();
    hold(chip);
    mesh = chip;
    while (held_by_handler < MOST) {
        ttmem_jit_disk_lookup(0, 0, 0, 1);
    }
    const struct itimerval never = {{0, 0}, {0, 0}};
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    settle();
    dprintf(1, "held %d\n", held_by_handler + 1);
    go_on_when_told();
}

static void pipe_breaks(void) {
    mesh = open_chip();
    hold(mesh);
    settle();
    dprintf(1, "traffic\n");
    /* The server is killed meanwhile, several times. */
    const time_t until = time(NULL) + 3;
    while (time(NULL) < until) {
        ttmem_buffer_freed(mesh, hold(mesh));
    }
    reach("survived");
    settle();
    reach("settled");
}

static void mask(void) {
    mesh = open_chip();
    hold(mesh);
    settle();
    sigset_t all;
    sigfillset(&all);
    EXPECT(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        const int is_the_c_librarys = signal >= 32 && signal < SIGRTMIN;
        if (signal == SIGKILL || signal == SIGSTOP || is_the_c_librarys) {
            continue;
        }
        /* Fatal or stopping, if any thread had it unblocked. */
        EXPECT(kill(getpid(), signal) == 0);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signal);
        /* SIGCONT withdraws the stop signals, and they it: none of these is lost here. */
        const struct timespec soon = {5, 0};
        EXPECT(sigtimedwait(&one, NULL, &soon) == signal);
    }
    /* The C library changes ids by a signal of its own, which every thread must take. */
    EXPECT(setuid(getuid()) == 0);
    hold(mesh);
    settle();
    reach("masked");
}

int main(int count, char **arguments) {
    (void)count;
    if (is_mode(arguments, "handler")) {
        handler();
    } else if (is_mode(arguments, "pipe")) {
        pipe_breaks();
    } else {
        mask();
    }
    return 0;
}
