/*
 * Two copies of the library in one process, as when a preloaded one meets a linked one: the second
 * forwards to the first, and the server sees one process. This program has one copy linked in,
 * statically or not, and loads another.
 *
 * Arguments: the other copy; "linked" or "loaded", which of them is called first; in a child of a
 * fork it is the other one. Or "at-once": in many children both are called first.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#include "story.h"

static ttmem_buffer_id_t (*loaded_next)(void);
static ttmem_code_t (*loaded_allocated)(const ttmem_buffer_allocated_t *);
static ttmem_code_t (*loaded_mesh_define)(const ttmem_mesh_t *, ttmem_mesh_id_t *);
static ttmem_code_t (*loaded_device_define)(const ttmem_device_t *, ttmem_device_id_t *);
static ttmem_code_t (*loaded_flush)(uint32_t);

static void *symbol(void *copy, const char *name, const void *linked) {
    void *found = dlsym(copy, name);
    EXPECT(found != NULL && found != linked);
    return found;
}

static void load(const char *path) {
    void *copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (copy == NULL) {
        dprintf(2, "%s\n", dlerror());
        _exit(98);
    }
    *(void **)&loaded_next = symbol(copy, "ttmem_buffer_next", (void *)ttmem_buffer_next);
    *(void **)&loaded_allocated = dlsym(copy, "ttmem_buffer_allocated");
    *(void **)&loaded_mesh_define = dlsym(copy, "ttmem_mesh_define");
    *(void **)&loaded_device_define = dlsym(copy, "ttmem_device_define");
    *(void **)&loaded_flush = dlsym(copy, "ttmem_client_flush");
}

static void hold_by_loaded(int count) {
    const ttmem_device_t chip = {
        .struct_bytes = sizeof chip, .unique_id = 0xC41B, .arch = TTMEM_ARCH_WORMHOLE_B0};
    ttmem_device_id_t device;
    loaded_device_define(&chip, &device);
    const ttmem_mesh_t single = {.struct_bytes = sizeof single,
                                 .rows = 1,
                                 .columns = 1,
                                 .devices = &device,
                                 .device_count = 1};
    ttmem_mesh_id_t mesh;
    loaded_mesh_define(&single, &mesh);
    while (count-- > 0) {
        const ttmem_buffer_allocated_t buffer = buffer_of(mesh, loaded_next());
        loaded_allocated(&buffer);
    }
}

static void hold_by_both(int loaded_is_first) {
    if (loaded_is_first) {
        hold_by_loaded(2);
    }
    hold_many(open_chip(), 3);
    if (!loaded_is_first) {
        hold_by_loaded(2);
    }
    EXPECT(loaded_flush(PATIENCE_MILLIS) == TTMEM_OK);
    settle();
    EXPECT(threads_named("ttmem-pump") == 1);
}

static pthread_barrier_t both_ready;

static void *hold_by_loaded_at_once(void *nothing) {
    pthread_barrier_wait(&both_ready);
    hold_by_loaded(2);
    return nothing;
}

/* A child in which two threads make the first call of one copy each. */
static void start_at_once(void) {
    pthread_t thread;
    EXPECT(pthread_barrier_init(&both_ready, NULL, 2) == 0);
    EXPECT(pthread_create(&thread, NULL, hold_by_loaded_at_once, NULL) == 0);
    pthread_barrier_wait(&both_ready);
    hold_many(open_chip(), 3);
    EXPECT(pthread_join(thread, NULL) == 0);
    settle();
    EXPECT(threads_named("ttmem-pump") == 1);
    _exit(0);
}

int main(int count, char **arguments) {
    EXPECT(count == 3);
    load(arguments[1]);
    for (int round = 0; round < 50 && strcmp(arguments[2], "at-once") == 0; round++) {
        const pid_t child = fork();
        if (child == 0) {
            start_at_once();
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        dprintf(1, "child %d\n", child);
    }
    const int loaded_is_first = strcmp(arguments[2], "loaded") == 0;
    hold_by_both(loaded_is_first);
    reach("both");
    const pid_t child = fork();
    if (child == 0) {
        hold_by_both(!loaded_is_first);
        dprintf(1, "child %d\n", getpid());
        go_on_when_told();
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    hold_by_loaded(1);
    settle();
    reach("parent");
    return 0;
}
