/*
 * What every program here does: open a chip, hold buffers, and talk to the test.
 *
 * A program prints a word when it has reached a place (reach) and goes on when the test sends a
 * line. It says so by bare system calls: a program under test has every right to fork or to close
 * things around them. All buffers have the same size, so a count of them is a total.
 */
#ifndef STORY_H
#define STORY_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ttmem.h>
#include <unistd.h>

enum { BANKS = 12, PER_BANK_BYTES = 4096, PATIENCE_MILLIS = 20000 };

/* Ends the program with a word on stderr, which every test looks at. */
#define EXPECT(holds)                                                                            \
    do {                                                                                         \
        if (!(holds)) {                                                                          \
            dprintf(2, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds);                       \
            _exit(99);                                                                           \
        }                                                                                        \
    } while (0)

static inline ttmem_mesh_id_t open_chip(void) {
    ttmem_device_t chip;
    memset(&chip, 0, sizeof chip);
    chip.struct_bytes = sizeof chip;
    chip.unique_id = 0xC41B;
    chip.arch = TTMEM_ARCH_WORMHOLE_B0;
    ttmem_device_id_t device;
    ttmem_device_define(&chip, &device);
    ttmem_device_opened(device);
    ttmem_mesh_t single;
    memset(&single, 0, sizeof single);
    single.struct_bytes = sizeof single;
    single.rows = 1;
    single.columns = 1;
    single.devices = &device;
    single.device_count = 1;
    ttmem_mesh_id_t mesh;
    ttmem_mesh_define(&single, &mesh);
    ttmem_mesh_opened(mesh);
    return mesh;
}

/* The report of a buffer; the caller sends it. */
static inline ttmem_buffer_allocated_t buffer_of(ttmem_mesh_id_t mesh, ttmem_buffer_id_t id) {
    ttmem_buffer_allocated_t buffer;
    memset(&buffer, 0, sizeof buffer);
    buffer.mesh = mesh;
    buffer.buffer = id;
    buffer.memory_class = TTMEM_CLASS_DRAM;
    buffer.address = id * PER_BANK_BYTES;
    buffer.requested_bytes = BANKS * PER_BANK_BYTES;
    buffer.per_bank_bytes = PER_BANK_BYTES;
    buffer.page_bytes = PER_BANK_BYTES;
    buffer.banks = BANKS;
    return buffer;
}

static inline ttmem_buffer_id_t hold(ttmem_mesh_id_t mesh) {
    const ttmem_buffer_allocated_t buffer = buffer_of(mesh, ttmem_buffer_next());
    ttmem_buffer_allocated(&buffer);
    return buffer.buffer;
}

static inline void hold_many(ttmem_mesh_id_t mesh, int count) {
    while (count-- > 0) {
        hold(mesh);
    }
}

/* The server has everything now, and the library says so. */
static inline void settle(void) {
    EXPECT(ttmem_client_flush(PATIENCE_MILLIS) == TTMEM_OK);
    ttmem_statistics_t statistics;
    memset(&statistics, 0, sizeof statistics);
    statistics.struct_bytes = sizeof statistics;
    EXPECT(ttmem_client_statistics(&statistics) == TTMEM_OK);
    EXPECT(statistics.connected);
}

static inline void go_on_when_told(void) {
    char byte = 0;
    while (byte != '\n' && read(0, &byte, 1) == 1) {
    }
}

static inline void reach(const char *place) {
    dprintf(1, "%s\n", place);
    go_on_when_told();
}

static inline int is_mode(char **arguments, const char *mode) {
    return arguments[1] != NULL && strcmp(arguments[1], mode) == 0;
}

/* How many mappings of this process have such a name. */
static inline int mappings_named(const char *name) {
    FILE *maps = fopen("/proc/self/maps", "re");
    EXPECT(maps != NULL);
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        count += strstr(line, name) != NULL;
    }
    fclose(maps);
    return count;
}

/* How many threads of this process have such a name. */
static inline int threads_named(const char *name) {
    DIR *tasks = opendir("/proc/self/task");
    EXPECT(tasks != NULL);
    int count = 0;
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        char path[300];
        char found[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *comm = fopen(path, "re");
        if (comm != NULL) {
            if (fgets(found, sizeof found, comm) != NULL) {
                found[strcspn(found, "\n")] = '\0';
                count += strcmp(found, name) == 0;
            }
            fclose(comm);
        }
    }
    closedir(tasks);
    return count;
}

#endif
