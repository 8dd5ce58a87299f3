// The stand-in's functions: each keeps what it is given, or fails if a story wants it to.
#include "runtime.hpp"

#include <algorithm>

namespace tt::tt_metal {
namespace standin {
static std::string failing, failure;
void fail_at(const std::string& function, const std::string& text) {
    failing = function;
    failure = text;
}
void may_fail(const char* function) {
    if (failing == function) {
        failing.clear();
        throw std::runtime_error(failure);
    }
}
std::shared_ptr<Buffer> place(
    IDevice* on, AllocatorImpl* from, BufferType type, std::uint64_t bytes,
    std::unordered_map<xy_pair, std::uint64_t> cores) {
    static std::uint64_t number = 0;
    auto buffer = std::make_shared<Buffer>(Buffer{on, from, type, bytes, number++, 0, std::move(cores)});
    buffer->at = static_cast<std::uint32_t>(from->allocate_buffer(buffer.get()));
    GraphTracker::instance().track_allocate(buffer.get());
    return buffer;
}
void give_back(const std::shared_ptr<Buffer>& buffer) {
    GraphTracker::instance().track_deallocate(buffer.get());
    buffer->from->deallocate_buffer(buffer.get());
}
}  // namespace standin

using standin::may_fail;

constexpr std::uint32_t BANKS = 12;

// What all banks give up for a buffer: no block is without bytes, and nothing of blocks of its cores'.
static std::uint64_t block_bytes(const Buffer& buffer) {
    return buffer.cores.empty() ? std::max<std::uint64_t>(buffer.aligned_size_per_bank(), 32) : 0;
}

std::uint32_t AllocatorImpl::get_num_banks(const BufferType& type) const {
    return bank_bytes.at(static_cast<std::size_t>(type)) == 0 ? 0 : BANKS;
}
std::uint32_t AllocatorImpl::get_alignment(BufferType) const { return 32; }
std::uint64_t AllocatorImpl::get_base_allocator_addr(const HalMemType&) const { return 4096; }
Statistics AllocatorImpl::get_statistics(const BufferType& type) const {
    const auto used = allocated.at(static_cast<std::size_t>(type));
    const auto all = bank_bytes.at(static_cast<std::size_t>(type));
    return {all, used, all - used, all - used};
}
std::optional<std::uint64_t> AllocatorImpl::get_lowest_occupied_l1_address(std::uint32_t) const {
    return std::nullopt;
}
std::uint64_t AllocatorImpl::allocate_buffer(Buffer* buffer) {
    may_fail("AllocatorImpl::allocate_buffer");
    allocated.at(static_cast<std::size_t>(buffer->type)) += block_bytes(*buffer);
    if (!buffer->cores.empty()) {
        return buffer->cores.begin()->second;
    }
    // The trace region lies on top of DRAM.
    const auto base = 4096 + (buffer->type == BufferType::TRACE ? bank_bytes[0] : 0);
    return base + 65536 * (buffer->number + 1);
}
void AllocatorImpl::deallocate_buffer(Buffer* buffer) {
    allocated.at(static_cast<std::size_t>(buffer->type)) -= block_bytes(*buffer);
    may_fail("AllocatorImpl::deallocate_buffer");
}

void AllocatorImpl::mirror_lockstep_allocation(std::uint64_t, std::uint64_t size) {
    may_fail("AllocatorImpl::mirror_lockstep_allocation");
    allocated.at(static_cast<std::size_t>(BufferType::L1)) += size;
}
bool experimental::per_core_allocation::is_per_core_allocation(const Buffer& buffer) {
    return !buffer.cores.empty();
}
const std::unordered_map<xy_pair, std::uint64_t>&
experimental::per_core_allocation::get_per_core_addresses(const Buffer& buffer) {
    return buffer.cores;
}

std::uint32_t Buffer::address() const { return at; }
std::uint64_t Buffer::size() const { return bytes; }
std::uint64_t Buffer::page_size() const { return 2048; }
std::uint64_t Buffer::aligned_size_per_bank() const {
    const auto banks = cores.empty() ? BANKS : cores.size();
    const auto pages = (bytes + 2047) / 2048;
    return (pages + banks - 1) / banks * 2048;
}
BufferType Buffer::buffer_type() const { return type; }
TensorMemoryLayout Buffer::buffer_layout() const {
    return cores.empty() ? TensorMemoryLayout::INTERLEAVED : TensorMemoryLayout::WIDTH_SHARDED;
}
std::uint64_t Buffer::unique_id() const { return number; }
bool Buffer::is_allocated() const { return true; }
IDevice* Buffer::device() const { return on; }

IDevice::~IDevice() = default;
DEFINE_TEN_OTHERS(IDevice, 0)
DEFINE_TEN_OTHERS(IDevice, 1)

Device::Device(int number) : number(number), allocator(std::make_unique<AllocatorImpl>()) {}
int Device::id() const { return number; }
const std::unique_ptr<AllocatorImpl>& Device::allocator_impl() const { return allocator; }
std::uint32_t Device::arch() const { return 1; }
xy_pair Device::compute_with_storage_grid_size() const { return grid; }
std::uint32_t Device::l1_size_per_core() const { return 1499136; }
bool Device::is_mmio_capable() const { return true; }
bool Device::initialize(
    std::uint8_t, std::uint64_t, std::uint64_t, std::uint64_t, std::span<const std::uint32_t>, bool) {
    may_fail("Device::initialize");
    return true;
}
bool Device::close() {
    may_fail("Device::close");
    return true;
}

// The runtime's own programs live as long as the library.
static std::vector<Program> own_programs;

static void own_program(
    IDevice* device, const char* name, HalProgrammableCoreType core_type, CoreRange cores,
    std::uint32_t bytes) {
    auto kernel = std::make_shared<ComputeKernel>();
    kernel->called = name;
    kernel->cores.ranges = {cores};
    kernel->hash = own_programs.size() + 100;
    kernel->bytes = bytes;
    auto& program = own_programs.emplace_back();
    program.implementation->add_kernel(kernel, core_type);
    program.implementation->finalize_offsets(device);
}

void Device::configure_fabric() {
    may_fail("Device::configure_fabric");
    own_program(
        this, "fabric_erisc_router", HalProgrammableCoreType::ACTIVE_ETH, {{0, 0}, {3, 0}}, 5000);
}
void Device::configure_command_queue_programs(DispatchTopology*) {
    may_fail("Device::configure_command_queue_programs");
    own_program(this, "cq_prefetch", HalProgrammableCoreType::TENSIX, {{7, 7}, {7, 7}}, 3000);
}

GraphTracker& GraphTracker::instance() {
    static GraphTracker tracker;
    return tracker;
}
void GraphTracker::track_allocate(const Buffer*) { may_fail("GraphTracker::track_allocate"); }
void GraphTracker::track_deallocate(Buffer*) { may_fail("GraphTracker::track_deallocate"); }
void GraphTracker::track_program(Program*, const IDevice*) { may_fail("GraphTracker::track_program"); }
bool GraphTracker::hook_program(Program*) {
    may_fail("GraphTracker::hook_program");
    return false;
}
void GraphTracker::track_allocate_cb(
    const CoreRangeSet&, std::uint64_t, std::uint64_t, bool, const IDevice*) {
    may_fail("GraphTracker::track_allocate_cb");
}
void GraphTracker::track_deallocate_cb(const IDevice*) { may_fail("GraphTracker::track_deallocate_cb"); }

Kernel::~Kernel() = default;
DEFINE_TEN_OTHERS(Kernel, 0)
DEFINE_TEN_OTHERS(Kernel, 1)
DEFINE_TEN_OTHERS(Kernel, 2)
DEFINE_TEN_OTHERS(Kernel, 3)
std::string Kernel::name() const { return called; }
CoreRangeSet Kernel::logical_coreranges() const { return cores; }
std::uint64_t Kernel::compute_hash() const { return hash; }
std::uint32_t Kernel::get_binary_packed_size(IDevice*, int) const { return bytes; }
std::uint8_t ComputeKernel::expected_num_binaries() const { return 1; }

void experimental::dfb::detail::DataflowBufferImpl::update_size(
    std::optional<std::uint32_t>, std::optional<std::uint32_t>) {}

// Every program has one circular buffer, of one page, on the cores of its first kernel.
constexpr std::uint32_t circular_address = 105824, circular_bytes = 4096;
std::uint32_t CircularBufferImpl::address() const { return circular_address; }
bool CircularBufferImpl::is_on_logical_core(const xy_pair& core) const {
    return std::any_of(cores.ranges.begin(), cores.ranges.end(), [&](const CoreRange& range) {
        return range.first.x <= core.x && core.x <= range.last.x && range.first.y <= core.y &&
               core.y <= range.last.y;
    });
}
CircularBuffer::CircularBuffer(const CircularBufferImpl* viewed) : implementation(viewed) {}
bool CircularBuffer::globally_allocated() const { return false; }
std::size_t CircularBuffer::size() const { return circular_bytes; }

namespace detail {
ProgramImpl::~ProgramImpl() = default;
std::uint64_t ProgramImpl::get_runtime_id() const { return runs; }
std::uint32_t& ProgramImpl::get_program_config_size(std::uint32_t core_type) {
    return sizes.at(core_type);
}
const std::vector<std::shared_ptr<experimental::dfb::detail::DataflowBufferImpl>>&
ProgramImpl::dataflow_buffers() const {
    return dataflow;
}
std::span<const std::shared_ptr<CircularBufferImpl>> ProgramImpl::circular_buffers() const {
    return circulars;
}
std::uint32_t ProgramImpl::add_kernel(
    const std::shared_ptr<Kernel>& kernel, const HalProgrammableCoreType& core_type) {
    may_fail("ProgramImpl::add_kernel");
    kernels.push_back(kernel);
    sizes.at(static_cast<std::size_t>(core_type)) += (kernel->bytes + 15) / 16 * 16 + 208;
    return 0;
}
void ProgramImpl::finalize_offsets(IDevice*) { may_fail("ProgramImpl::finalize_offsets"); }
void ProgramImpl::set_kernels_bin_buffer(const std::shared_ptr<Buffer>& buffer) {
    may_fail("ProgramImpl::set_kernels_bin_buffer");
    binary = buffer;
}
void ProgramImpl::generate_dispatch_commands(distributed::MeshDevice* mesh, bool) {
    may_fail("ProgramImpl::generate_dispatch_commands");
    if (!has_commands) {
        ProgramCommandSequence commands;
        program_dispatch::assemble_device_commands(commands, *this, mesh, {}, false);
        has_commands = true;
    }
}
void ProgramImpl::allocate_circular_buffers(const IDevice* device) {
    may_fail("ProgramImpl::allocate_circular_buffers");
    const auto& cores = kernels.at(0)->cores;
    if (circulars.empty()) {
        circulars.push_back(std::make_shared<CircularBufferImpl>(CircularBufferImpl{cores}));
    }
    if (storage_on.insert(device).second) {
        GraphTracker::instance().track_allocate_cb(
            cores, circular_address, circular_bytes, false, device);
    }
}
void ProgramImpl::deallocate_circular_buffers() {
    may_fail("ProgramImpl::deallocate_circular_buffers");
    for (const auto* device : storage_on) {
        GraphTracker::instance().track_deallocate_cb(device);
    }
    storage_on.clear();
}
void ProgramImpl::validate_circular_buffer_region(const IDevice*) {
    may_fail("ProgramImpl::validate_circular_buffer_region");
}
}  // namespace detail

void WorkerConfigBufferMgr::init_add_buffer(std::uint32_t base, std::uint32_t size) {
    may_fail("WorkerConfigBufferMgr::init_add_buffer");
    rings.push_back({base, size, base});
    found.resize(rings.size());
}
std::pair<ConfigBufferSync, std::vector<ConfigBufferEntry>&> WorkerConfigBufferMgr::reserve(
    const std::vector<std::uint32_t>& sizes) {
    may_fail("WorkerConfigBufferMgr::reserve");
    for (std::size_t ring = 0; ring < rings.size(); ++ring) {
        // `sync` of a ring is where its next entry goes.
        const auto end = rings[ring].address + rings[ring].size;
        const auto fits = rings[ring].sync + sizes[ring] <= end;
        found[ring] = {fits ? rings[ring].sync : rings[ring].address, sizes[ring], 0};
    }
    return {ConfigBufferSync{false, 0}, found};
}
void WorkerConfigBufferMgr::free(std::uint32_t) { may_fail("WorkerConfigBufferMgr::free"); }
void WorkerConfigBufferMgr::alloc(std::uint32_t) {
    may_fail("WorkerConfigBufferMgr::alloc");
    for (std::size_t ring = 0; ring < rings.size(); ++ring) {
        rings[ring].sync = found[ring].address + found[ring].size;
    }
}
void WorkerConfigBufferMgr::mark_completely_full(std::uint32_t) {
    may_fail("WorkerConfigBufferMgr::mark_completely_full");
}

#ifndef WITHOUT_PREFETCHER
RingbufferCacheManager::RingbufferCacheManager(int block_bytes, int blocks, int) :
    block_bytes(block_bytes), blocks(blocks) {
    may_fail("RingbufferCacheManager::RingbufferCacheManager");
}
std::optional<RingbufferCacheManager::CacheOffset> RingbufferCacheManager::get_cache_offset(
    std::uint64_t workload, std::uint32_t bytes) {
    may_fail("RingbufferCacheManager::get_cache_offset");
    for (const auto& [there, offset] : entries) {
        if (there == workload) {
            return CacheOffset{true, offset};
        }
    }
    const auto length = (bytes + block_bytes - 1) / block_bytes;
    if (length > static_cast<std::uint32_t>(blocks)) {
        return std::nullopt;
    }
    const auto offset = next + length <= static_cast<std::uint32_t>(blocks) ? next : 0;
    entries.emplace_back(workload, offset);
    next = offset + length;
    return CacheOffset{false, offset};
}
void RingbufferCacheManager::reset() {
    may_fail("RingbufferCacheManager::reset");
    entries.clear();
    next = 0;
}
#endif

namespace program_dispatch {
void reset_config_buf_mgrs_and_expected_workers(
    const Hal&, std::array<WorkerConfigBufferMgr, 8>& managers, std::array<std::uint32_t, 8>& expected,
    std::uint32_t count, std::uint32_t end) {
    may_fail("program_dispatch::reset_config_buf_mgrs_and_expected_workers");
    for (std::uint32_t sub_device = 0; sub_device < count; ++sub_device) {
        auto& manager = managers.at(sub_device);
        manager = {};
        manager.init_add_buffer(end - 70656, 70656);
        manager.init_add_buffer(258336, 640);
        manager.init_add_buffer(32240, 25600);
        manager.init_add_buffer(0, 7);
        manager.init_add_buffer(0, 1);
        expected.at(sub_device) = 0;
    }
}
void assemble_device_commands(
    ProgramCommandSequence& commands, detail::ProgramImpl&, distributed::MeshDevice*,
    ttsl::StrongType<std::uint8_t, SubDeviceIdTag>, bool) {
    may_fail("program_dispatch::assemble_device_commands");
    commands.chunks = {std::vector<std::uint8_t>(1024), std::vector<std::uint8_t>(336)};
}
void for_each_program_command_sequence_chunk(
    const ProgramCommandSequence& commands, bool, bool, bool,
    const std::function<void(const void*, std::uint32_t)>& look) {
    for (const auto& chunk : commands.chunks) {
        look(chunk.data(), static_cast<std::uint32_t>(chunk.size()));
    }
}
}  // namespace program_dispatch

namespace distributed {
MeshDevice::MeshDevice(int number, std::vector<IDevice*> chips) :
    number(number), chips(std::move(chips)), allocator(std::make_unique<AllocatorImpl>()) {}
int MeshDevice::id() const { return number; }
std::size_t MeshDevice::num_rows() const { return 1; }
std::size_t MeshDevice::num_cols() const { return chips.size(); }
std::vector<IDevice*> MeshDevice::get_devices() const { return chips; }
// As the runtime's: a mesh all of whose chips are another host's has none.
const std::unique_ptr<AllocatorImpl>& MeshDevice::allocator_impl() const {
    if (chips.empty()) {
        throw std::runtime_error("a mesh without chips here was asked for its allocator");
    }
    return allocator;
}

FDMeshCommandQueue::FDMeshCommandQueue(
    MeshDevice*, std::uint32_t, std::shared_ptr<ThreadPool>&, std::shared_ptr<ThreadPool>&,
    std::shared_ptr<CQSharedState>&, std::function<std::lock_guard<std::mutex>()>,
    std::shared_ptr<multihost::DistributedContext>) {
    may_fail("FDMeshCommandQueue::FDMeshCommandQueue");
    program_dispatch::reset_config_buf_mgrs_and_expected_workers({}, managers, expected, 8, 105824);
#ifndef WITHOUT_PREFETCHER
    cache = std::make_unique<RingbufferCacheManager>(32, 128, 16);
    stand_in = std::make_unique<RingbufferCacheManager>(32, 128, 16);
#endif
}

bool MeshDeviceImpl::initialize_impl(
    MeshDevice* device, std::uint8_t, std::uint64_t, std::uint64_t, std::uint64_t,
    std::span<const std::uint32_t>, bool) {
    may_fail("MeshDeviceImpl::initialize_impl");
    mesh = device;
    if (device->chips.empty()) {
        return true;
    }
    std::shared_ptr<ThreadPool> pool;
    std::shared_ptr<CQSharedState> state;
    queue = std::make_unique<FDMeshCommandQueue>(mesh, 0, pool, pool, state, nullptr, nullptr);
    return true;
}
bool MeshDeviceImpl::close_impl(MeshDevice*) {
    may_fail("MeshDeviceImpl::close_impl");
    queue.reset();
    return true;
}
void MeshDeviceImpl::begin_mesh_trace(std::uint8_t, const MeshTraceId&) {
    may_fail("MeshDeviceImpl::begin_mesh_trace");
}
void MeshDeviceImpl::end_mesh_trace(std::uint8_t, const MeshTraceId&) {
    may_fail("MeshDeviceImpl::end_mesh_trace");
    trace = standin::place(mesh, mesh->allocator.get(), BufferType::TRACE, 10240);
}
void MeshDeviceImpl::replay_mesh_trace(std::uint8_t, const MeshTraceId&, bool) {
    may_fail("MeshDeviceImpl::replay_mesh_trace");
    queue->managers[0].mark_completely_full(64);
#ifndef WITHOUT_PREFETCHER
    queue->cache->reset();
#endif
}
void MeshDeviceImpl::release_mesh_trace(const MeshTraceId&) {
    may_fail("MeshDeviceImpl::release_mesh_trace");
    standin::give_back(trace);
    trace.reset();
}

void MeshWorkloadImpl::set_program_binary_status(std::uint64_t, ProgramBinaryStatus now) {
    may_fail("MeshWorkloadImpl::set_program_binary_status");
    status = now;
}

void EnqueueMeshWorkload(MeshCommandQueue& through, MeshWorkload& workload, bool) {
    may_fail("distributed::EnqueueMeshWorkload");
    auto& sent = *workload.implementation;
    auto* mesh = through.mesh->mesh;
    auto& queue = *through.mesh->queue;
    std::uint32_t tensix = 0;
    for (auto& program : sent.programs) {
        auto& implementation = *program.implementation;
        for (auto* chip : mesh->chips) {
            implementation.allocate_circular_buffers(chip);
        }
        implementation.validate_circular_buffer_region(mesh);
        tensix = std::max(tensix, implementation.sizes[0]);
        if (!implementation.binary) {
            auto buffer = standin::place(mesh, mesh->allocator.get(), BufferType::DRAM, 6144);
            implementation.set_kernels_bin_buffer(buffer);
        }
        implementation.generate_dispatch_commands(mesh, true);
        ++implementation.runs;
    }
    auto& manager = queue.managers[0];
    manager.reserve({tensix, 0, 0, 1, 0});
    if (queue.expected[0] > 0) {
        manager.free(queue.expected[0]);
    }
    queue.expected[0] += 64;
    manager.alloc(queue.expected[0]);
#ifndef WITHOUT_PREFETCHER
    if (!queue.cache->get_cache_offset(sent.number, 2048)) {
        queue.cache->reset();
    }
#endif
    sent.set_program_binary_status(0, ProgramBinaryStatus::Committed);
}
}  // namespace distributed

void slow_dispatch::LaunchProgramAsync(IDevice& device, Program& program, bool) {
    may_fail("slow_dispatch::LaunchProgramAsync");
    program.implementation->allocate_circular_buffers(&device);
    ++program.implementation->runs;
}
void experimental::DispatchCompiledProgramToDevice(IDevice* device, Program& program) {
    may_fail("experimental::DispatchCompiledProgramToDevice");
    program.implementation->allocate_circular_buffers(device);
}
}  // namespace tt::tt_metal
