/*
 * What the library knows about itself right after a flush, in COUNT processes one after the other:
 * the first flush of a process returns while the library's thread is still at its first turns.
 */
#include <sys/wait.h>

#include "story.h"

static ttmem_statistics_t statistics_now(void) {
    ttmem_statistics_t statistics;
    memset(&statistics, 0, sizeof statistics);
    statistics.struct_bytes = sizeof statistics;
    EXPECT(ttmem_client_statistics(&statistics) == TTMEM_OK);
    return statistics;
}

int main(int count, char **arguments) {
    EXPECT(count == 2);
    for (long process = strtol(arguments[1], NULL, 10); process > 0; process--) {
        const pid_t child = fork();
        if (child == 0) {
            hold_many(open_chip(), 3);
            settle();
            EXPECT(statistics_now().lost_events == 0);
            EXPECT(ttmem_client_close(PATIENCE_MILLIS) == TTMEM_OK);
            EXPECT(!statistics_now().connected);
            _exit(0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
    return 9;
}
