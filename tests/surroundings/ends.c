/*
 * The ends of a process that it reports to nobody, right after its last event.
 *
 *   _exit, abort, kill          after the server has confirmed that it knows the process
 *   _exit, abort, kill COUNT    at once, after so many buffers
 *   child COUNT                 the same in a forked child, which frees a buffer of its parent
 *   exec COUNT                  becomes another program at once
 *   pthread_exit                the main thread ends, then the last of the others
 *   full_stderr                 nobody reads its stderr, which the library would write to
 */
#include "story.h"
#include <fcntl.h>
#include <pthread.h>
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

static void *last_thread(void *mesh) {
    hold_many(*(ttmem_mesh_id_t *)mesh, 250);
    usleep(100000);
    return NULL;
}

static void end_with_the_last_thread(void) {
    static ttmem_mesh_id_t mesh;
    mesh = open_chip();
    settle();
    hold_many(mesh, 250);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, last_thread, &mesh) == 0);
    EXPECT(pthread_detach(thread) == 0);
    pthread_exit(NULL);
}

/* A line of the library has no room there: it is left out, and nothing waits for it. */
static void fill_stderr(void) {
    int ends[2];
    char bytes[4096];
    memset(bytes, 'x', sizeof bytes);
    EXPECT(pipe(ends) == 0);
    EXPECT(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], bytes, sizeof bytes) > 0) {
    }
    EXPECT(fcntl(ends[1], F_SETFL, 0) == 0);
    EXPECT(dup2(ends[1], 2) == 2);
}

int main(int count, char **arguments) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (is_mode(arguments, "pthread_exit")) {
        end_with_the_last_thread();
    }
    if (is_mode(arguments, "full_stderr")) {
        fill_stderr();
        /* No rings: tracking is off, with a line. */
        setenv("TTMEM_RING_MEMORY_MIB", "0", 1);
        open_chip();
        EXPECT(!ttmem_client_is_enabled());
        exit(7);
    }
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
