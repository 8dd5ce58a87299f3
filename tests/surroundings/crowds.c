/*
 * More threads than anybody expects, at one time or one after the other.
 *
 *   together THREADS PAIRS   all record and none ends before all have
 *   killed THREADS PAIRS     the same after the server has everything so far; it waits to be killed
 *   passing THREADS          in groups of fifty, of which only one is there at a time
 *   leaving THREADS          all at one time, and then none
 *   alone BUFFERS PAIRS      one thread at full speed, and no server until it is done
 */
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#include "story.h"

enum { SMALL_STACK_BYTES = 128 << 10, GROUP = 50, MIB = 1 << 20 };

static ttmem_mesh_id_t mesh;
static int pairs;
static pthread_barrier_t all_recorded;
static pthread_barrier_t all_may_end;

static void record(void) {
    hold(mesh);
    for (int pair = 0; pair < pairs; pair++) {
        ttmem_buffer_freed(mesh, hold(mesh));
    }
}

static void *record_and_stay(void *nothing) {
    record();
    pthread_barrier_wait(&all_recorded);
    pthread_barrier_wait(&all_may_end);
    return nothing;
}

static void *record_and_end(void *nothing) {
    record();
    return nothing;
}

static pthread_t *start(int count, void *(*body)(void *)) {
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_t small;
    EXPECT(threads != NULL && pthread_attr_init(&small) == 0);
    EXPECT(pthread_attr_setstacksize(&small, SMALL_STACK_BYTES) == 0);
    for (int number = 0; number < count; number++) {
        EXPECT(pthread_create(&threads[number], &small, body, NULL) == 0);
    }
    return threads;
}

static void join(pthread_t *threads, int count) {
    for (int number = 0; number < count; number++) {
        EXPECT(pthread_join(threads[number], NULL) == 0);
    }
    free(threads);
}

static pthread_t *start_together(int count) {
    EXPECT(pthread_barrier_init(&all_recorded, NULL, (unsigned)count + 1) == 0);
    EXPECT(pthread_barrier_init(&all_may_end, NULL, (unsigned)count + 1) == 0);
    pthread_t *threads = start(count, record_and_stay);
    pthread_barrier_wait(&all_recorded);
    return threads;
}

static void end_together(pthread_t *threads, int count) {
    pthread_barrier_wait(&all_may_end);
    join(threads, count);
}

/* What the rings of this process really take, whatever their length. */
static long long ring_bytes(void) {
    DIR *descriptors = opendir("/proc/self/fd");
    EXPECT(descriptors != NULL);
    long long bytes = 0;
    for (struct dirent *entry = readdir(descriptors); entry != NULL; entry = readdir(descriptors)) {
        char target[256] = "";
        struct stat status;
        if (readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target - 1) > 0 &&
            strstr(target, "ttmem-rings") != NULL && fstat(atoi(entry->d_name), &status) == 0) {
            bytes += (long long)status.st_blocks * 512;
        }
    }
    closedir(descriptors);
    return bytes;
}

/* Threads of which only a few are there at a time take the memory of a few. */
static void passing(int count) {
    long long most_early = 0;
    long long most_late = 0;
    for (int done = 0; done < count; done += GROUP) {
        join(start(GROUP, record_and_end), GROUP);
        long long *most = done < count / 4 ? &most_early : &most_late;
        const long long bytes = ring_bytes();
        *most = bytes > *most ? bytes : *most;
    }
    EXPECT(most_early > 0);
    /* Fifty threads have three segments at most, of four megabytes each. */
    EXPECT(most_early <= 13 * MIB && most_late <= 13 * MIB);
}

static void leaving(int count) {
    pthread_t *threads = start_together(count);
    const long long together = ring_bytes();
    EXPECT(together >= (long long)count * 65536);
    end_together(threads, count);
    /* The first segment stays, and the words of every ring. */
    const long long kept = 4 * MIB + MIB;
    const time_t deadline = time(NULL) + 60;
    while (ring_bytes() > kept && time(NULL) < deadline) {
        usleep(100000);
    }
    EXPECT(ring_bytes() <= kept);
    /* What was given back can be used again. */
    end_together(start_together(count), count);
}

static uint64_t lost(void) {
    ttmem_statistics_t statistics = {.struct_bytes = sizeof statistics};
    EXPECT(ttmem_client_statistics(&statistics) == TTMEM_OK);
    return statistics.lost_events;
}

int main(int count, char **arguments) {
    EXPECT(count >= 3);
    const int first = atoi(arguments[2]);
    pairs = count > 3 ? atoi(arguments[3]) : 3;
    mesh = open_chip();
    if (is_mode(arguments, "alone")) {
        hold_many(mesh, first);
        record();
        reach("recorded");
    } else if (is_mode(arguments, "killed")) {
        settle();
        reach("settled");
        start_together(first);
        reach("recorded");
    } else if (is_mode(arguments, "passing")) {
        passing(first);
    } else if (is_mode(arguments, "leaving")) {
        leaving(first);
        reach("left");
    } else {
        pthread_t *threads = start_together(first);
        settle();
        reach("together");
        end_together(threads, first);
    }
    settle();
    dprintf(1, "counted %llu\n", (unsigned long long)lost());
    go_on_when_told();
    return 0;
}
