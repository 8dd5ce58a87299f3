// What is done with the stand-in, as an operation library would: it is linked with the runtime and is
// opened by a program that knows nothing of either.
#include "runtime.hpp"

#include <cstdio>
#include <cstring>

using namespace tt::tt_metal;
using namespace tt::tt_metal::distributed;

namespace {
// Two chips as one mesh; no two meshes of a process have the same number.
struct Board {
    static inline int last_number = 0;
    Device first{0}, second{1};
    MeshDevice mesh{++last_number, {&first, &second}};
    MeshDeviceImpl implementation;
    MeshCommandQueue queue{&implementation};

    void open() {
        first.initialize(1, 0, 0, 0, {}, false);
        second.initialize(1, 0, 0, 0, {}, false);
        implementation.initialize_impl(&mesh, 1, 0, 0, 0, {}, false);
    }
    void close() {
        implementation.close_impl(&mesh);
        second.close();
        first.close();
    }
};

// Says where the story is, and waits until it may go on.
void wait(const char* word) {
    std::printf("%s\n", word);
    std::fflush(stdout);
    char line[64];
    if (std::fgets(line, sizeof line, stdin) == nullptr) {
        std::exit(1);
    }
}

MeshWorkload workload(std::uint64_t number, std::uint32_t text_bytes) {
    MeshWorkload made;
    made.implementation->number = number;
    auto kernel = std::make_shared<ComputeKernel>();
    kernel->called = "eltwise";
    kernel->cores.ranges = {{{0, 0}, {7, 0}}};
    kernel->hash = number;
    kernel->bytes = text_bytes;
    auto& program = made.implementation->programs.emplace_back();
    program.implementation->add_kernel(kernel, HalProgrammableCoreType::TENSIX);
    return made;
}

void dispatches() {
    Board board;
    board.open();
    wait("open");
    auto one = workload(7, 3000), two = workload(8, 20000);
    for (int run = 0; run < 10; ++run) {
        EnqueueMeshWorkload(board.queue, one, false);
        EnqueueMeshWorkload(board.queue, two, false);
    }
    wait("sent");
    for (auto* sent : {&one, &two}) {
        auto& program = *sent->implementation->programs[0].implementation;
        standin::give_back(program.binary);
        program.deallocate_circular_buffers();
        sent->implementation->programs.clear();
    }
    board.close();
    wait("closed");
}

void traces() {
    Board board;
    board.open();
    auto one = workload(7, 3000);
    EnqueueMeshWorkload(board.queue, one, false);
    const MeshTraceId trace{3};
    board.implementation.begin_mesh_trace(0, trace);
    board.implementation.end_mesh_trace(0, trace);
    wait("captured");
    board.implementation.replay_mesh_trace(0, trace, false);
    board.implementation.replay_mesh_trace(0, trace, false);
    wait("replayed");
    board.implementation.release_mesh_trace(trace);
    wait("released");
}

void system_kernels() {
    Board board;
    board.open();
    for (auto* chip : {&board.first, &board.second}) {
        chip->configure_fabric();
        chip->configure_command_queue_programs(nullptr);
    }
    wait("configured");
    board.close();
    wait("closed");
}

void slow() {
    Board board;
    board.open();
    auto one = workload(7, 3000);
    auto& program = one.implementation->programs[0];
    for (int run = 0; run < 2; ++run) {
        slow_dispatch::LaunchProgramAsync(board.first, program, false);
        experimental::DispatchCompiledProgramToDevice(&board.second, program);
    }
    wait("launched");
}

// A buffer on cores of its own, which have two addresses.
std::shared_ptr<Buffer> on_cores(Device& chip) {
    const std::unordered_map<tt::xy_pair, std::uint64_t> cores = {
        {{0, 0}, 0x20000}, {{1, 0}, 0x30000}, {{2, 0}, 0x20000}};
    return standin::place(&chip, chip.allocator.get(), BufferType::L1, 3 * 2048, cores);
}

// Buffers that take other blocks than most: of some cores, and the smallest there is.
void blocks() {
    Board board;
    board.open();
    auto* allocator = board.mesh.allocator.get();
    auto shared = standin::place(&board.mesh, allocator, BufferType::L1, 12 * 2048);
    for (auto* chip : {&board.first, &board.second}) {
        chip->allocator->mirror_lockstep_allocation(shared->at, 2048);
    }
    auto none = standin::place(&board.mesh, allocator, BufferType::DRAM, 0);
    auto alone = on_cores(board.first);
    wait("placed");
    // Often enough for the statistics to be compared.
    for (int times = 0; times < 1100; ++times) {
        standin::give_back(on_cores(board.first));
    }
    for (const auto& buffer : {alone, none, shared}) {
        standin::give_back(buffer);
    }
    wait("given back");
    board.close();
    wait("closed");
}

// A board that is opened again with other regions and another grid, while a buffer of it is alive.
void reopened() {
    Board board;
    board.open();
    auto alive = on_cores(board.first);
    wait("open");
    board.close();
    MeshDevice other{++Board::last_number, {&board.first, &board.second}};
    other.allocator->bank_bytes = {1 << 20, 1 << 19, 0, 0, 0};
    for (auto* chip : {&board.first, &board.second}) {
        chip->grid = {7, 9};
        chip->initialize(1, 0, 0, 0, {}, false);
    }
    board.implementation.initialize_impl(&other, 1, 0, 0, 0, {}, false);
    standin::give_back(alive);
    wait("open again");
    board.implementation.close_impl(&other);
    board.second.close();
    board.first.close();
    wait("closed");
}

// A mesh all of whose chips are another host's, beside one of this host's.
void elsewhere() {
    MeshDevice remote{++Board::last_number, {}};
    MeshDeviceImpl implementation;
    implementation.initialize_impl(&remote, 1, 0, 0, 0, {}, false);
    Board board;
    board.open();
    wait("open");
    implementation.close_impl(&remote);
    board.close();
    wait("closed");
}

// Has each of these functions throw once; the exception must arrive as it was thrown.
void exceptions() {
    const char* const functions[] = {
        "Device::initialize", "MeshDeviceImpl::initialize_impl", "FDMeshCommandQueue::FDMeshCommandQueue",
        "program_dispatch::reset_config_buf_mgrs_and_expected_workers",
        "WorkerConfigBufferMgr::init_add_buffer", "RingbufferCacheManager::RingbufferCacheManager",
        "distributed::EnqueueMeshWorkload", "ProgramImpl::allocate_circular_buffers",
        "GraphTracker::track_allocate_cb", "ProgramImpl::validate_circular_buffer_region",
        "AllocatorImpl::allocate_buffer", "GraphTracker::track_allocate",
        "ProgramImpl::set_kernels_bin_buffer", "ProgramImpl::generate_dispatch_commands",
        "program_dispatch::assemble_device_commands", "WorkerConfigBufferMgr::reserve",
        "WorkerConfigBufferMgr::alloc", "WorkerConfigBufferMgr::free",
        "RingbufferCacheManager::get_cache_offset", "MeshWorkloadImpl::set_program_binary_status",
        "ProgramImpl::add_kernel", "Device::configure_fabric", "ProgramImpl::finalize_offsets",
        "Device::configure_command_queue_programs", "slow_dispatch::LaunchProgramAsync",
        "experimental::DispatchCompiledProgramToDevice", "GraphTracker::track_program",
        "GraphTracker::hook_program", "MeshDeviceImpl::begin_mesh_trace",
        "MeshDeviceImpl::end_mesh_trace", "MeshDeviceImpl::replay_mesh_trace",
        "WorkerConfigBufferMgr::mark_completely_full", "RingbufferCacheManager::reset",
        "MeshDeviceImpl::release_mesh_trace", "GraphTracker::track_deallocate",
        "AllocatorImpl::deallocate_buffer", "ProgramImpl::deallocate_circular_buffers",
        "GraphTracker::track_deallocate_cb", "MeshDeviceImpl::close_impl", "Device::close",
    };
    for (const char* function : functions) {
        const auto text = std::string("thrown by ") + function;
        standin::fail_at(function, text);
        bool arrived = false;
        // What failed is tried again, unless half of it cannot be done twice.
        const auto attempt = [&](auto call, bool again = true) {
            try {
                call();
            } catch (const std::runtime_error& error) {
                if (arrived || error.what() != text) {
                    std::printf("%s became %s\n", text.c_str(), error.what());
                    std::exit(1);
                }
                arrived = true;
                if (again) {
                    call();
                }
            }
        };
        Board board;
        attempt([&] { board.first.initialize(1, 0, 0, 0, {}, false); });
        attempt([&] { board.second.initialize(1, 0, 0, 0, {}, false); });
        attempt([&] { board.implementation.initialize_impl(&board.mesh, 1, 0, 0, 0, {}, false); });
        std::optional<MeshWorkload> one;
        attempt([&] { one = workload(7, 3000); });
        auto& program = one->implementation->programs[0];
        attempt([&] { GraphTracker::instance().track_program(&program, &board.mesh); });
        attempt([&] { GraphTracker::instance().hook_program(&program); });
        for (int run = 0; run < 3; ++run) {
            attempt([&] { EnqueueMeshWorkload(board.queue, *one, false); });
        }
        attempt([&] { board.first.configure_fabric(); });
        attempt([&] { board.first.configure_command_queue_programs(nullptr); });
        attempt([&] { slow_dispatch::LaunchProgramAsync(board.first, program, false); });
        attempt([&] { experimental::DispatchCompiledProgramToDevice(&board.second, program); });
        const MeshTraceId trace{3};
        attempt([&] { board.implementation.begin_mesh_trace(0, trace); });
        attempt([&] { board.implementation.end_mesh_trace(0, trace); });
        attempt([&] { board.implementation.replay_mesh_trace(0, trace, false); });
        const bool frees = std::strstr(function, "deallocate_buffer") || std::strstr(function, "track_deallocate");
        attempt([&] { board.implementation.release_mesh_trace(trace); }, !frees);
        attempt([&] { program.implementation->deallocate_circular_buffers(); });
        attempt([&] { standin::give_back(program.implementation->binary); }, false);
        attempt([&] { board.implementation.close_impl(&board.mesh); });
        attempt([&] { board.second.close(); });
        attempt([&] { board.first.close(); });
        if (!arrived) {
            std::printf("%s never arrived\n", text.c_str());
            std::exit(1);
        }
    }
    wait("survived");
}
}  // namespace

extern "C" int play(const char* story) {
    const std::pair<const char*, void (*)()> stories[] = {
        {"dispatches", dispatches}, {"traces", traces},         {"system_kernels", system_kernels},
        {"slow", slow},             {"exceptions", exceptions}, {"blocks", blocks},
        {"reopened", reopened},     {"elsewhere", elsewhere},
    };
    for (const auto& [name, run] : stories) {
        if (std::strcmp(name, story) == 0) {
            run();
            return 0;
        }
    }
    return 2;
}
