/*
 * A program that records nothing for a while, and then one single event.
 *
 * How often the pump's thread went to sleep of its own accord is how often it was awake.
 */
#include <time.h>

#include "story.h"

enum { SETTLING_SECONDS = 2, SECONDS = 5, WAKE_UPS_PER_SECOND = 2 };

static long pump_wake_ups(void) {
    DIR *tasks = opendir("/proc/self/task");
    EXPECT(tasks != NULL);
    long count = -1;
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        char path[300];
        char line[256];
        int is_pump = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "re");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            is_pump |= strcmp(line, "Name:\tttmem-pump\n") == 0;
            if (is_pump) {
                sscanf(line, "voluntary_ctxt_switches: %ld", &count);
            }
        }
        if (status != NULL) {
            fclose(status);
        }
    }
    closedir(tasks);
    EXPECT(count >= 0);
    return count;
}

static long now_seconds(void) {
    struct timespec now;
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec;
}

int main(int count, char **arguments) {
    (void)arguments;
    const ttmem_mesh_id_t mesh = open_chip();
    hold(mesh);
    if (count == 1) {
        settle();
    }
    sleep(SETTLING_SECONDS);
    const long before = pump_wake_ups(), began = now_seconds();
    sleep(SECONDS);
    const long woke = pump_wake_ups() - before;
    /* However long it really was; one more, because seconds are cut off. */
    const long seconds = now_seconds() - began + 1;
    if (woke > WAKE_UPS_PER_SECOND * seconds) {
        dprintf(2, "%ld wake-ups in %ld seconds\n", woke, seconds);
    }
    hold(mesh);
    reach("lone");
    return 9;
}
