/*
 * A host that loads a library, lets it track, and unloads it while the pump is running, from a
 * thread that ends only afterwards; then loads it again.
 *
 * Arguments: the library, which is libttmem itself or a plugin with `plugin_hold`.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

#include "story.h"

static void *library;
static sem_t recorded, unloaded;

static void load(const char *path) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        dprintf(2, "%s\n", dlerror());
        _exit(98);
    }
}

/* Through the library's own functions, or through the plugin's. */
static void hold_through_it(int count) {
    void (*plugin)(int);
    *(void **)&plugin = dlsym(library, "plugin_hold");
    if (plugin != NULL) {
        plugin(count);
        return;
    }
    ttmem_buffer_id_t (*next)(void);
    ttmem_code_t (*allocated)(const ttmem_buffer_allocated_t *);
    ttmem_code_t (*device_define)(const ttmem_device_t *, ttmem_device_id_t *);
    ttmem_code_t (*mesh_define)(const ttmem_mesh_t *, ttmem_mesh_id_t *);
    ttmem_code_t (*flush)(uint32_t);
    *(void **)&next = dlsym(library, "ttmem_buffer_next");
    *(void **)&allocated = dlsym(library, "ttmem_buffer_allocated");
    *(void **)&device_define = dlsym(library, "ttmem_device_define");
    *(void **)&mesh_define = dlsym(library, "ttmem_mesh_define");
    *(void **)&flush = dlsym(library, "ttmem_client_flush");
    const ttmem_device_t chip = {.struct_bytes = sizeof chip, .unique_id = 0xC41B};
    ttmem_device_id_t device;
    device_define(&chip, &device);
    const ttmem_mesh_t single = {.struct_bytes = sizeof single,
                                 .rows = 1,
                                 .columns = 1,
                                 .devices = &device,
                                 .device_count = 1};
    ttmem_mesh_id_t mesh;
    mesh_define(&single, &mesh);
    while (count-- > 0) {
        const ttmem_buffer_allocated_t buffer = buffer_of(mesh, next());
        allocated(&buffer);
    }
    EXPECT(flush(PATIENCE_MILLIS) == TTMEM_OK);
}

static void *record_and_outlive_it(void *nothing) {
    hold_through_it(2);
    sem_post(&recorded);
    sem_wait(&unloaded);
    return nothing;
}

int main(int count, char **arguments) {
    EXPECT(count == 2);
    sem_init(&recorded, 0, 0);
    sem_init(&unloaded, 0, 0);
    for (int round = 0; round < 5; round++) {
        load(arguments[1]);
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, record_and_outlive_it, NULL) == 0);
        sem_wait(&recorded);
        hold_through_it(1);
        EXPECT(dlclose(library) == 0);
        /* The pump takes several turns without anybody holding the library. */
        usleep(60000);
        sem_post(&unloaded);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    EXPECT(threads_named("ttmem-pump") == 1);
    reach("unloaded");
    return 0;
}
