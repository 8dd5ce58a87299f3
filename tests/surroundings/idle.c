/* Has the library linked and never calls it: nothing may come of that. */
#include "story.h"

/* Referred to, so that the linker keeps the library. */
ttmem_code_t (*const never_called)(uint32_t) = ttmem_client_flush;

int main(void) {
    EXPECT(mappings_named("libttmem.so") > 0);
    EXPECT(threads_named("ttmem-pump") == 0);
    EXPECT(mappings_named("ttmem-rings") == 0);
    return 0;
}
