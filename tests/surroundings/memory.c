/*
 * A program that runs out of memory, or nearly: whatever the library finds, it goes on.
 *
 *   as BYTES BUFFERS OWN      no more address space than this
 *   data BYTES BUFFERS OWN    no more private memory than this
 *   free 0 BUFFERS OWN        no limit
 *
 * It holds BUFFERS and takes OWN bytes for itself meanwhile; on the way it uses everything else that
 * the library has: other threads, programs, texts, questions, a child. It ends with 0, or with 3 if
 * it did not get its own memory.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "story.h"

enum { STEP = 1000, THREADS = 3, STACK_BYTES = 64 << 10, NO_MEMORY = 3 };

static ttmem_mesh_id_t mesh;

static void limit(int resource, const char *bytes) {
    const rlim_t most = strtoul(bytes, NULL, 10);
    const struct rlimit limit = {most, most};
    EXPECT(setrlimit(resource, &limit) == 0);
}

/* The stack that the rest needs: growing it under the limit would be a fault of the program's. */
static void touch_stack(void) {
    volatile char bytes[512 << 10];
    for (size_t at = 0; at < sizeof bytes; at += 4096) {
        bytes[at] = 1;
    }
}

static void report_program(int number) {
    char name[64];
    const int length = snprintf(name, sizeof name, "operation %d", number);
    ttmem_text_id_t text = 0;
    ttmem_text_define(name, (size_t)length, &text);
    const ttmem_core_range_t range = {0, 0, (uint16_t)(number % 7), 7};
    ttmem_cores_id_t cores = 0;
    ttmem_cores_define(&range, 1, &cores);
    const ttmem_program_id_t program = ttmem_program_next();
    ttmem_program_created(program, text, 0, 0);
    for (uint32_t cb = 0; cb < 4; cb++) {
        ttmem_cb_allocated_t storage;
        memset(&storage, 0, sizeof storage);
        storage.program = program;
        storage.mesh = mesh;
        storage.cb = cb;
        storage.address = 100000 + 4096 * cb;
        storage.size_bytes = 4096;
        storage.cores = cores;
        ttmem_cb_allocated(&storage);
    }
    ttmem_program_dispatched_t run;
    memset(&run, 0, sizeof run);
    run.program = program;
    run.mesh = mesh;
    run.operation = text;
    ttmem_program_dispatched(&run);
    if (number % 2 == 0) {
        ttmem_program_destroyed(program);
    }
}

static void *work(void *nothing) {
    for (int i = 0; i < STEP; i++) {
        ttmem_buffer_freed(mesh, hold(mesh));
    }
    return nothing;
}

static void work_on_threads(void) {
    pthread_attr_t attributes;
    pthread_t threads[THREADS];
    int started = 0;
    EXPECT(pthread_attr_init(&attributes) == 0);
    EXPECT(pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    while (started < THREADS && pthread_create(&threads[started], &attributes, work, NULL) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
    }
    pthread_attr_destroy(&attributes);
}

/* The answer, if there is one; it says that tracking is off, or that there is no memory for it. */
static void ask(ttmem_ask_t question, uint64_t subject) {
    char *answer = NULL;
    size_t bytes = 0;
    const ttmem_code_t code = ttmem_account_ask(question, subject, 100, 5000, &answer, &bytes);
    EXPECT((code == TTMEM_OK) == (answer != NULL));
    EXPECT(answer == NULL || answer[bytes - 1] == '}');
    ttmem_account_free(answer, bytes);
}

static void ask_all(void) {
    ask(TTMEM_ASK_FIGURES, 0);
    ask(TTMEM_ASK_BEGIN, 0);
    hold_many(mesh, 10);
    ask(TTMEM_ASK_SNAPSHOT, 1);
    ask(TTMEM_ASK_PEAKS, 1);
    ask(TTMEM_ASK_END, 1);
}

static void work_in_child(void) {
    const pid_t child = fork();
    if (child == 0) {
        work(NULL);
        _exit(7);
    }
    int status = 0;
    if (child > 0) {
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
}

int main(int count, char **arguments) {
    EXPECT(count == 5);
    touch_stack();
    if (is_mode(arguments, "as")) {
        limit(RLIMIT_AS, arguments[2]);
    } else if (is_mode(arguments, "data")) {
        limit(RLIMIT_DATA, arguments[2]);
    }
    const int buffers = atoi(arguments[3]);
    const size_t own_bytes = strtoul(arguments[4], NULL, 10);
    const int steps = buffers / STEP;
    mesh = open_chip();
    for (int step = 0; step < steps; step++) {
        hold_many(mesh, STEP);
        report_program(step);
        const size_t part = own_bytes / (size_t)steps;
        char *own = part > 0 ? malloc(part) : NULL;
        if (part > 0 && own == NULL) {
            return NO_MEMORY;
        }
        if (part > 0) {
            memset(own, 1, part);
        }
        if (step == steps / 2) {
            work_on_threads();
            ask_all();
        }
    }
    ask_all();
    work_in_child();
    ttmem_client_flush(100);
    const ttmem_buffer_id_t last = ttmem_buffer_next();
    EXPECT(last > 0);
    dprintf(1, "%s\n", ttmem_client_is_enabled() ? "tracked" : "off");
    return 0;
}
