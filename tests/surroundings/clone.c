/*
 * A child made by the bare system call: the C library does not know of it, so it is not tracked.
 * Whatever it calls changes nothing, and comes back.
 */
#include "story.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static atomic_bool enough;

static void *record_at_full_speed(void *mesh) {
    while (!enough) {
        ttmem_buffer_freed(*(ttmem_mesh_id_t *)mesh, hold(*(ttmem_mesh_id_t *)mesh));
    }
    return NULL;
}

int main(void) {
    ttmem_mesh_id_t mesh = open_chip();
    const ttmem_buffer_id_t held = hold(mesh);
    hold_many(mesh, 2);
    settle();
    pthread_t recorder;
    EXPECT(pthread_create(&recorder, NULL, record_at_full_speed, &mesh) == 0);
    for (int number = 0; number < 50; number++) {
        const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            ttmem_buffer_freed(mesh, held);
            hold_many(mesh, 20000);
            const int is_off = ttmem_client_flush(PATIENCE_MILLIS) == TTMEM_E_DISABLED;
            syscall(SYS_exit_group, is_off ? 0 : 1);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    enough = 1;
    EXPECT(pthread_join(recorder, NULL) == 0);
    hold(mesh);
    settle();
    reach("parent");
    return 0;
}
