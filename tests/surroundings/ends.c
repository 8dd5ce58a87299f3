/*
 * The ends of a process that it reports to nobody, right after its last event.
 *
 *   _exit, abort, kill          after the server has confirmed that it knows the process
 *   _exit, abort, kill COUNT    at once, after so many buffers
 *   child COUNT                 the same in a forked child, which frees a buffer of its parent
 *   exec COUNT                  becomes another program at once
 */
#include "story.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* A child's first call is as much a first call as its parent's. */
static void end_in_child(int buffers) {
    const ttmem_mesh_id_t mesh = open_chip();
    const ttmem_buffer_id_t inherited = hold(mesh);
    settle();
    const pid_t child = fork();
    if (child == 0) {
        ttmem_buffer_freed(mesh, inherited);
        hold_many(open_chip(), buffers);
        _exit(0);
    }
    EXPECT(waitpid(child, NULL, 0) == child);
    dprintf(1, "child %d\n", child);
    go_on_when_told();
    exit(5);
}

int main(int count, char **arguments) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (is_mode(arguments, "child")) {
        end_in_child(atoi(arguments[2]));
    }
    const ttmem_mesh_id_t mesh = open_chip();
    if (count == 2) {
        settle();
    }
    hold_many(mesh, count == 2 ? 500 : atoi(arguments[2]));
    if (is_mode(arguments, "exec")) {
        execlp("sleep", "sleep", "300", (char *)NULL);
    }
    if (is_mode(arguments, "_exit")) {
        _exit(5);
    } else if (is_mode(arguments, "abort")) {
        abort();
    }
    kill(getpid(), SIGKILL);
}
