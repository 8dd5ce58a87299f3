/*
 * exec: what the old program held is released, though the process lives on.
 *
 *   again  becomes this program once more, which holds one buffer
 *   cat    becomes a program that never tracks
 */
#include "story.h"

int main(int count, char **arguments) {
    (void)count;
    if (is_mode(arguments, "anew")) {
        hold(open_chip());
        settle();
        reach("anew");
        return 7;
    }
    const ttmem_mesh_id_t mesh = open_chip();
    hold_many(mesh, 3);
    settle();
    reach("before");
    /* Not waited for: it may still be in the ring when the program is gone. */
    hold_many(mesh, 2);
    if (is_mode(arguments, "again")) {
        execl("/proc/self/exe", arguments[0], "anew", NULL);
    } else {
        execl("/bin/cat", "cat", NULL);
    }
    return 98;
}
