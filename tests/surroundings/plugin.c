/* A plugin that tracks: linked with libttmem, which its host knows nothing of. */
#include "story.h"

void plugin_hold(int count) {
    hold_many(open_chip(), count);
    settle();
}
