/*
 * The ends of a process that nobody is told of, right after the last report.
 *
 *   _exit, abort, kill
 */
#include "story.h"
#include <signal.h>
#include <sys/resource.h>

int main(int count, char **arguments) {
    (void)count;
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const ttmem_mesh_id_t mesh = open_chip();
    settle();
    hold_many(mesh, 500);
    if (is_mode(arguments, "_exit")) {
        _exit(5);
    } else if (is_mode(arguments, "abort")) {
        abort();
    }
    kill(getpid(), SIGKILL);
}
