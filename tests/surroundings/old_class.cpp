// The old AllocationClient, which only TT_ALLOC_TRACKING_ENABLED=1 turns on.
#include <ttmem_allocation_client.hpp>

#include "story.h"

using tt::tt_metal::AllocationClient;

int main() {
    for (std::uint64_t address = 1; address <= 100; address++) {
        AllocationClient::report_allocation(0, BANKS * PER_BANK_BYTES, 0, address << 12);
    }
    for (std::uint64_t address = 3; address <= 100; address++) {
        AllocationClient::report_deallocation(0, address << 12);
    }
    if (AllocationClient::is_enabled()) {
        reach("on");
        return 0;
    }
    EXPECT(mappings_named("libttmem.so") == 0);
    EXPECT(threads_named("ttmem-pump") == 0);
    EXPECT(mappings_named("ttmem-rings") == 0);
    reach("off");
    return 0;
}
