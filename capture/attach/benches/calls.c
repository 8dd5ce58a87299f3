/* Calls a stand-in runtime in the order in which ttnn 0.81.1 calls the real one.
 *
 *   calls                           says which workloads there are
 *   calls WORKLOAD RUNS             runs one, to be counted by a counter of instructions
 *   calls WORKLOAD RUNS time        runs it again and again, and says the ns of one run: the least
 *                                   and the median, in processor time of this thread
 *
 * With the attach library preloaded the calls are tracked; then it fails if a kind of call is not. */

#define _GNU_SOURCE
#include "runtime.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_BYTES 2048
#define WARM_UP_RUNS 50
#define TIMED_BLOCKS 101
/* So long the pump takes to read what a block has recorded. */
#define PAUSE_NANOS 15000000

/* The places of the fields of a dataflow buffer that are read. */
struct place {
    uint64_t x, y;
    uint32_t address;
};
struct group {
    struct vector cores, processors, places;
};
struct dataflow_buffer {
    uint32_t number, context, slot, padding;
    struct vector cores;
    uint32_t entry_bytes, entries;
    uint64_t unread[10];
    struct vector groups;
};

#define CORES 16
#define DATAFLOW_BUFFERS 2

static struct allocator mesh_allocator, chip_allocator;
static struct device chip, mesh;
static struct queue queue;
static uint64_t next_id, next_runtime_id;
static struct program *programs;
static struct shared dataflow_list[DATAFLOW_BUFFERS];
static struct dataflow_buffer dataflow_buffers[DATAFLOW_BUFFERS];
static struct group groups[DATAFLOW_BUFFERS];
static struct place places[DATAFLOW_BUFFERS][CORES];
static const uint64_t cores[1][4] = {{0, 0, 3, 3}};

static struct vector vector_of(const void *begin, size_t bytes) {
    const void *end = (const char *)begin + bytes;
    return (struct vector){begin, end, end};
}

static void allocate(struct buffer *buffer) {
    *buffer = (struct buffer){.device = &mesh,
                              .unique_id = next_id++,
                              .size = PAGE_BYTES,
                              .page_size = PAGE_BYTES,
                              .size_per_bank = PAGE_BYTES};
    buffer->address = (uint32_t)ALLOCATE_BUFFER(&mesh_allocator, buffer);
    buffer->allocated = true;
    TRACK_ALLOCATE(NULL, buffer);
}

static void deallocate(struct buffer *buffer) {
    TRACK_DEALLOCATE(NULL, buffer);
    DEALLOCATE_BUFFER(&mesh_allocator, buffer);
}

static void run_program(struct program *program) {
    program->implementation->runtime_id = next_runtime_id++;
    TRACK_PROGRAM(NULL, program, &mesh);
    if (!HOOK_PROGRAM(NULL, program)) {
        ENQUEUE_MESH_WORKLOAD(&queue, NULL, false);
    }
}

static void empty_deallocate(void) {
    struct buffer buffer;
    allocate(&buffer);
    deallocate(&buffer);
}

static void cached_add(void) {
    struct buffer buffer;
    allocate(&buffer);
    run_program(&programs[0]);
    deallocate(&buffer);
}

static void set_up(size_t program_count, size_t buffer_count, bool borrows) {
    chip = (struct device){chip_table(), &chip_allocator, NULL};
    mesh = (struct device){mesh_table(), &mesh_allocator, &chip};
    MAKE_QUEUE(&queue, &mesh, 0, NULL, NULL, NULL, NULL, NULL);
    INITIALIZE_MESH(&mesh + 1, &mesh, 1, 0, 0, 0, NULL, 0, false);
    programs = calloc(program_count, sizeof *programs);
    if (programs == NULL) {
        abort();
    }
    for (size_t i = 0; i < program_count; i++) {
        programs[i].implementation = calloc(1, sizeof *programs[i].implementation);
        if (programs[i].implementation == NULL) {
            abort();
        }
        run_program(&programs[i]);
    }
    for (size_t i = 0; i < buffer_count; i++) {
        struct buffer buffer;
        allocate(&buffer);
    }
    if (borrows) {
        for (uint32_t i = 0; i < DATAFLOW_BUFFERS; i++) {
            for (size_t core = 0; core < CORES; core++) {
                places[i][core] = (struct place){core % 4, core / 4, 0};
            }
            groups[i].places = vector_of(places[i], sizeof places[i]);
            dataflow_buffers[i] = (struct dataflow_buffer){.number = i,
                                                           .cores = vector_of(cores, sizeof cores),
                                                           .entry_bytes = PAGE_BYTES,
                                                           .entries = 2,
                                                           .groups = vector_of(&groups[i], sizeof groups[i])};
            dataflow_list[i] = (struct shared){&dataflow_buffers[i], NULL};
        }
        programs[0].implementation->dataflow_buffers = vector_of(dataflow_list, sizeof dataflow_list);
        VALIDATE_DATAFLOW_BUFFERS(programs[0].implementation, &mesh);
        for (uint32_t i = 0; i < DATAFLOW_BUFFERS; i++) {
            for (size_t core = 0; core < CORES; core++) {
                places[i][core].address = 200000 + 8192 * i;
            }
        }
    }
}

struct workload {
    const char *name;
    void (*run)(void);
    size_t programs, buffers;
    bool borrows;
};

static const struct workload workloads[] = {
    {"empty_deallocate", empty_deallocate, 1, 1, false},
    {"cached_add", cached_add, 1, 1, false},
    {"cached_borrowing", cached_add, 1, 1, true},
    {"among_buffers", empty_deallocate, 1, 100000, false},
    {"among_programs", cached_add, 10000, 1, false},
};

/* The part that is counted: the counter finds it by its name. */
__attribute__((noinline)) void measured_events(void (*run)(void), size_t runs) {
    for (size_t i = 0; i < runs; i++) {
        run();
        __asm__ volatile("" ::: "memory");
    }
}

/* Whether the kinds of calls that are made here are tracked; they are if nobody is preloaded. */
static bool tracked(void) {
    int (*status)(char *, size_t) = (int (*)(char *, size_t))dlsym(RTLD_DEFAULT, "ttmem_attach_status");
    if (status == NULL) {
        return true;
    }
    static const char *const needed[] = {
        "devices: on\n",    "buffers: on\n",      "failures: on\n",
        "programs: on\n",   "dispatches: on\n",   "dataflow buffers: on\n",
        "config rings: on\n", "circular buffers in tensors: on\n",
    };
    char text[4096];
    status(text, sizeof text);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (strstr(text, needed[i]) == NULL) {
            fprintf(stderr, "not %s%s", needed[i], text);
            return false;
        }
    }
    return true;
}

static uint64_t processor_nanos(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void time_runs(const struct workload *workload, size_t runs) {
    static double nanos[TIMED_BLOCKS];
    for (size_t block = 0; block < TIMED_BLOCKS; block++) {
        struct timespec pause = {0, PAUSE_NANOS};
        nanosleep(&pause, NULL);
        measured_events(workload->run, runs / 10);
        uint64_t begin = processor_nanos();
        measured_events(workload->run, runs);
        nanos[block] = (double)(processor_nanos() - begin) / (double)runs;
    }
    qsort(nanos, TIMED_BLOCKS, sizeof *nanos, ascending);
    printf("%.1f %.1f\n", nanos[0], nanos[TIMED_BLOCKS / 2]);
}

int main(int argc, char **argv) {
    const size_t count = sizeof workloads / sizeof *workloads;
    for (size_t i = 0; i < count; i++) {
        const struct workload *workload = &workloads[i];
        if (argc == 1) {
            puts(workload->name);
            continue;
        }
        if (strcmp(workload->name, argv[1]) != 0 || argc < 3) {
            continue;
        }
        size_t runs = strtoul(argv[2], NULL, 10);
        set_up(workload->programs, workload->buffers, workload->borrows);
        for (size_t run = 0; run < WARM_UP_RUNS; run++) {
            workload->run();
        }
        if (!tracked()) {
            return EXIT_FAILURE;
        }
        if (argc == 4 && strcmp(argv[3], "time") == 0) {
            time_runs(workload, runs);
        } else {
            measured_events(workload->run, runs);
        }
        return EXIT_SUCCESS;
    }
    return argc == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
