/*
 * fork: the child tracks under its own name from its first call on, the parent does not notice.
 *
 *   family  the child frees what it inherited and holds buffers of its own
 *   silent  the child never tracks
 *   busy    the parent forks while another thread records as fast as it can
 */
#include "story.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static void wait_for(pid_t child) {
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void family(ttmem_mesh_id_t mesh) {
    const ttmem_buffer_id_t inherited = hold(mesh);
    hold_many(mesh, 2);
    settle();
    const pid_t child = fork();
    if (child == 0) {
        /* As a destructor would: with the ids that were there before the fork. */
        ttmem_buffer_freed(mesh, inherited);
        hold_many(open_chip(), 2);
        settle();
        dprintf(1, "child %d\n", getpid());
        go_on_when_told();
        exit(0);
    }
    wait_for(child);
    hold(mesh);
    settle();
    reach("parent");
    ttmem_buffer_freed(mesh, inherited);
    settle();
    reach("freed");
}

static void silent(ttmem_mesh_id_t mesh) {
    hold(mesh);
    settle();
    for (int number = 0; number < 20; number++) {
        const pid_t child = fork();
        if (child == 0) {
            EXPECT(threads_named("ttmem-pump") == 0);
            EXPECT(mappings_named("ttmem-rings") == 0);
            exit(0);
        }
        wait_for(child);
    }
    hold(mesh);
    settle();
    reach("parent");
}

static atomic_bool enough;

static void *record_at_full_speed(void *mesh) {
    while (!enough) {
        ttmem_buffer_freed(*(ttmem_mesh_id_t *)mesh, hold(*(ttmem_mesh_id_t *)mesh));
    }
    return NULL;
}

static void busy(ttmem_mesh_id_t mesh) {
    hold_many(mesh, 5);
    pthread_t recorder;
    EXPECT(pthread_create(&recorder, NULL, record_at_full_speed, &mesh) == 0);
    for (int number = 0; number < 40; number++) {
        const pid_t child = fork();
        if (child == 0) {
            hold_many(open_chip(), 3);
            settle();
            _exit(0);
        }
        dprintf(1, "child %d\n", child);
        wait_for(child);
    }
    enough = 1;
    EXPECT(pthread_join(recorder, NULL) == 0);
    settle();
    reach("parent");
}

int main(int count, char **arguments) {
    (void)count;
    const ttmem_mesh_id_t mesh = open_chip();
    if (is_mode(arguments, "family")) {
        family(mesh);
    } else if (is_mode(arguments, "silent")) {
        silent(mesh);
    } else {
        busy(mesh);
    }
    return 0;
}
