/*
 * Threads that come and go, and threads that end or stop in the middle of a call.
 *
 *   many      hundreds of short-lived ones: their rings are used again
 *   cancel    cancelled where the program allows it
 *   async     cancelled anywhere in a stretch of the program's own, with its ring in use
 *   exit      still recording when the program ends
 *   stopped   caught inside the library by a signal whose handler never returns
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ucontext.h>

#include "story.h"

static ttmem_mesh_id_t mesh;
static pthread_key_t key;

/* Runs when the thread-local data of the library is gone already. */
static void report_at_the_very_end(void *buffer) {
    ttmem_buffer_freed(mesh, (ttmem_buffer_id_t)(uintptr_t)buffer);
}

static void *come_and_go(void *number) {
    pthread_setspecific(key, (void *)(uintptr_t)hold(mesh));
    hold(mesh);
    if ((uintptr_t)number % 2 == 0) {
        pthread_exit(NULL);
    }
    return NULL;
}

static void many(void) {
    EXPECT(pthread_key_create(&key, report_at_the_very_end) == 0);
    for (uintptr_t group = 0; group < 50; group++) {
        pthread_t threads[4];
        for (int number = 0; number < 4; number++) {
            void *argument = (void *)(uintptr_t)number;
            EXPECT(pthread_create(&threads[number], NULL, come_and_go, argument) == 0);
        }
        for (int number = 0; number < 4; number++) {
            EXPECT(pthread_join(threads[number], NULL) == 0);
        }
    }
    /* Five threads at once need one segment of eight rings. */
    EXPECT(mappings_named("ttmem-rings") == 1);
}

static atomic_int running;

static void *report_until_cancelled(void *is_async) {
    hold(mesh);
    running = 1;
    for (;;) {
        ttmem_buffer_freed(mesh, hold(mesh));
        if (is_async != NULL) {
            /* No function but three may be called like this; a stretch of computing may. */
            pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
            for (volatile int step = 0; step < 10000; step++) {
            }
            pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
        } else {
            pthread_testcancel();
        }
    }
    return NULL;
}

static void cancel(int is_async) {
    static int yes;
    for (int round = 0; round < 100; round++) {
        pthread_t thread;
        running = 0;
        EXPECT(pthread_create(&thread, NULL, report_until_cancelled, is_async ? &yes : NULL) == 0);
        while (!running) {
            usleep(10);
        }
        usleep((useconds_t)(round % 10) * 50);
        EXPECT(pthread_cancel(thread) == 0);
        void *result;
        EXPECT(pthread_join(thread, &result) == 0);
        EXPECT(result == PTHREAD_CANCELED);
    }
    EXPECT(mappings_named("ttmem-rings") == 1);
}

static atomic_int caught;
static const void *library_base;

/* Never returns, if it came while the thread was inside the library. */
static void stop_here(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    const ucontext_t *interrupted = (const ucontext_t *)context;
#if defined(__x86_64__)
    const void *where = (const void *)interrupted->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    const void *where = (const void *)interrupted->uc_mcontext.pc;
#else
#error "where was the thread?"
#endif
    Dl_info found;
    if (dladdr(where, &found) != 0 && found.dli_fbase == library_base) {
        caught++;
        for (;;) {
            pause();
        }
    }
}

static void *report_for_ever(void *nothing) {
    for (;;) {
        ttmem_jit_disk_lookup(0, 0, 0, 1);
    }
    return nothing;
}

static void stopped(void) {
    enum { THREADS = 6 };
    Dl_info library;
    EXPECT(dladdr((const void *)(uintptr_t)ttmem_buffer_allocated, &library) != 0);
    library_base = library.dli_fbase;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = stop_here;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int number = 0; number < THREADS; number++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, report_for_ever, NULL) == 0);
        while (caught == number) {
            EXPECT(pthread_kill(thread, SIGUSR1) == 0);
            usleep(1000);
        }
    }
    /* More threads than rings are left in the segment. */
    for (uintptr_t number = 1; number < 8; number += 2) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, come_and_go, (void *)number) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
}

/* At a pace that any server keeps up with: what is still to be sent is in the rings. */
static void *hold_and_free_for_ever(void *nothing) {
    for (;;) {
        ttmem_buffer_freed(mesh, hold(mesh));
        usleep(50);
    }
    return nothing;
}

static void leave_them_recording(void) {
    for (int number = 0; number < 3; number++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, hold_and_free_for_ever, NULL) == 0);
    }
    usleep(50000);
}

int main(int count, char **arguments) {
    (void)count;
    mesh = open_chip();
    hold(mesh);
    if (is_mode(arguments, "exit")) {
        settle();
        leave_them_recording();
        return 3;
    }
    if (is_mode(arguments, "many")) {
        many();
    } else if (is_mode(arguments, "stopped")) {
        EXPECT(pthread_key_create(&key, report_at_the_very_end) == 0);
        stopped();
    } else {
        cancel(is_mode(arguments, "async"));
    }
    settle();
    reach("counted");
    return 0;
}
