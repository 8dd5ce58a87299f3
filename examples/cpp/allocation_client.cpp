// The old AllocationClient, as an instrumented TT-Metal tree uses it.
//
//     c++ -std=c++17 allocation_client.cpp $(pkg-config --cflags ttmem) -o allocation_client
//     TT_ALLOC_TRACKING_ENABLED=1 ./allocation_client
//     TT_ALLOC_TRACKING_ENABLED=1 ./allocation_client --hold
//
// With --hold it prints what it holds and keeps it until stdin is closed. It is not linked with
// libttmem, which is looked up at the first report; without the variable, or without the library,
// it runs just the same.

#include <ttmem_allocation_client.hpp>

#include <cstdint>
#include <iostream>
#include <limits>
#include <string_view>
#include <vector>

using tt::tt_metal::AllocationClient;

namespace {

constexpr int device = 0;
constexpr std::uint8_t dram = 0, l1 = 1;
constexpr std::uint8_t fabric = 1;
constexpr std::uint64_t weights = 0x40000, activations = 0xE0000, cb = 0x19000;
constexpr std::uint64_t add_kernel = 7, router_kernel = 8;

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string_view> words(argv, argv + argc);

    AllocationClient::report_allocation(device, 33554432, dram, weights);
    AllocationClient::report_allocation(device, 524288, l1, activations);
    AllocationClient::report_cb_allocation(device, 262144, cb);
    AllocationClient::report_kernel_load(device, 102400, add_kernel);
    // The bytes of one core, on 16 Ethernet cores.
    AllocationClient::report_kernel_load(device, 57344, router_kernel, fabric, 16);

    if (words.size() > 1 && words[1] == "--hold") {
        std::cout << "dram_bytes=33554432 l1_bytes=524288 cb_bytes=262144 kernel_bytes="
                  << 102400 + 16 * 57344 << " buffers=2" << std::endl;
        std::cin.ignore(std::numeric_limits<std::streamsize>::max());
    }

    AllocationClient::report_kernel_unload(device, 16 * 57344, router_kernel);
    AllocationClient::report_kernel_unload(device, add_kernel);
    AllocationClient::report_cb_deallocation(device, cb);
    AllocationClient::report_deallocation(device, activations);
    AllocationClient::report_deallocation(device, weights);
    return 0;
}
