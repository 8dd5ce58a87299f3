// One chip of the stand-in, to be opened and filled from a language that can call C.
#include "runtime.hpp"

using namespace tt::tt_metal;
using namespace tt::tt_metal::distributed;

namespace {
struct Board {
    Device chip{0};
    MeshDevice mesh{1, {&chip}};
    MeshDeviceImpl implementation;
};

// Never destroyed: buffers may be given back while the process ends.
Board& board() {
    static auto* only = new Board;
    return *only;
}
}  // namespace

extern "C" void board_open() {
    board().chip.initialize(1, 0, 0, 0, {}, false);
    board().implementation.initialize_impl(&board().mesh, 1, 0, 0, 0, {}, false);
}

extern "C" void board_close() {
    board().implementation.close_impl(&board().mesh);
    board().chip.close();
}

extern "C" void* board_place(std::uint32_t kind, std::uint64_t bytes) {
    auto* allocator = board().mesh.allocator.get();
    const auto type = static_cast<BufferType>(kind);
    return new std::shared_ptr(standin::place(&board().mesh, allocator, type, bytes));
}

extern "C" void board_give_back(void* placed) {
    const std::unique_ptr<std::shared_ptr<Buffer>> buffer(
        static_cast<std::shared_ptr<Buffer>*>(placed));
    standin::give_back(*buffer);
}
