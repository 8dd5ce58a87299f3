/*
 * A program and its child in one process group, which print every signal that they receive.
 *
 *   together   both stay in the group that they were started in
 *   apart      both move to another group first
 *
 * The first line has the numbers of the program, its child and its parent. SIGKILL ends both.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EXPECT(holds)                                                                            \
    do {                                                                                         \
        if (!(holds)) {                                                                          \
            dprintf(2, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds);                       \
            _exit(99);                                                                           \
        }                                                                                        \
    } while (0)

static const int signals[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGCONT, SIGWINCH, SIGTSTP};
enum { COUNT = sizeof signals / sizeof *signals };

static void print_signals(const char *who, const sigset_t *set) {
    for (;;) {
        int number = 0;
        EXPECT(sigwait(set, &number) == 0);
        /* One write: lines of both go to one pipe. */
        dprintf(1, "%s %d\n", who, number);
    }
}

int main(int count, char **arguments) {
    EXPECT(count == 2);
    if (strcmp(arguments[1], "apart") == 0) {
        EXPECT(setpgid(0, 0) == 0);
    }
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < COUNT; i++) {
        sigaddset(&set, signals[i]);
    }
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        EXPECT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        print_signals("child", &set);
    }
    dprintf(1, "group %d %d %d\n", getpid(), child, getppid());
    print_signals("program", &set);
}
