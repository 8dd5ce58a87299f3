/* Tracking that is turned off: calls come back, and nothing comes of them. */
#include "story.h"

int main(void) {
    const ttmem_mesh_id_t mesh = open_chip();
    EXPECT(mesh == 0);
    for (int round = 0; round < 1000; round++) {
        ttmem_buffer_freed(mesh, hold(mesh));
    }
    EXPECT(ttmem_client_flush(0) == TTMEM_E_DISABLED);
    EXPECT(ttmem_client_is_enabled() == 0);
    EXPECT(threads_named("ttmem-pump") == 0);
    EXPECT(mappings_named("ttmem-rings") == 0);
    reach("off");
    return 0;
}
