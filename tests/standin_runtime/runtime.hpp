// A stand-in for TT-Metal's host runtime: as little of it as a preloaded library can see.
//
// The names are the runtime's, so that they are mangled alike; what is behind them is ours and only
// keeps what it is given. Everything is defined out of line in a shared library that is built without
// -Bsymbolic, so that its calls of itself go through the loader, as those of the runtime do.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ttsl {
template <class T, class Tag>
struct StrongType {
    T value{};
};
}  // namespace ttsl

namespace tt {
struct xy_pair {
    std::size_t x, y;
    bool operator==(const xy_pair&) const = default;
};
}  // namespace tt

template <>
struct std::hash<tt::xy_pair> {
    std::size_t operator()(const tt::xy_pair& pair) const { return pair.x * 256 + pair.y; }
};

namespace tt::tt_metal {
enum class BufferType : std::uint32_t { DRAM, L1, SYSTEM_MEMORY, L1_SMALL, TRACE };
enum class TensorMemoryLayout : std::uint32_t { INTERLEAVED, WIDTH_SHARDED = 3 };
enum class HalMemType : std::uint8_t { L1, DRAM };
enum class HalProgrammableCoreType : std::uint8_t { TENSIX, ACTIVE_ETH, IDLE_ETH };
enum class ProgramBinaryStatus : std::uint8_t { NotSent, InFlight, Committed };
struct SubDeviceIdTag;
struct Hal {};
struct ThreadPool;
struct CQSharedState;
class DispatchTopology;

struct CoreRange {
    xy_pair first, last;
};
struct CoreRangeSet {
    std::vector<CoreRange> ranges;
};

// An interface of so many virtual functions as those of the runtime have at least.
#define TEN_OTHERS(n)                                                                                \
    virtual void other_##n##0(); virtual void other_##n##1(); virtual void other_##n##2();           \
    virtual void other_##n##3(); virtual void other_##n##4(); virtual void other_##n##5();           \
    virtual void other_##n##6(); virtual void other_##n##7(); virtual void other_##n##8();           \
    virtual void other_##n##9();
#define DEFINE_TEN_OTHERS(c, n)                                                                      \
    void c::other_##n##0() {} void c::other_##n##1() {} void c::other_##n##2() {}                    \
    void c::other_##n##3() {} void c::other_##n##4() {} void c::other_##n##5() {}                    \
    void c::other_##n##6() {} void c::other_##n##7() {} void c::other_##n##8() {}                    \
    void c::other_##n##9() {}

struct Statistics {
    std::uint64_t total, allocated, free, largest_free;
};

class Buffer;

class AllocatorImpl {
public:
    std::uint32_t get_num_banks(const BufferType&) const;
    std::uint32_t get_alignment(BufferType) const;
    std::uint64_t get_base_allocator_addr(const HalMemType&) const;
    Statistics get_statistics(const BufferType&) const;
    std::optional<std::uint64_t> get_lowest_occupied_l1_address(std::uint32_t) const;
    std::uint64_t allocate_buffer(Buffer*);
    void deallocate_buffer(Buffer*);
    void mirror_lockstep_allocation(std::uint64_t, std::uint64_t);

    // By kind of memory.
    std::array<std::uint64_t, 5> allocated{};
    std::array<std::uint64_t, 5> bank_bytes{1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30};
};

class IDevice {
public:
    virtual ~IDevice();
    virtual int id() const = 0;
    TEN_OTHERS(0)
    TEN_OTHERS(1)
};

class Device : public IDevice {
public:
    explicit Device(int number);
    int id() const override;
    const std::unique_ptr<AllocatorImpl>& allocator_impl() const;
    std::uint32_t arch() const;
    xy_pair compute_with_storage_grid_size() const;
    std::uint32_t l1_size_per_core() const;
    bool is_mmio_capable() const;
    bool initialize(
        std::uint8_t, std::uint64_t, std::uint64_t, std::uint64_t, std::span<const std::uint32_t>, bool);
    bool close();
    void configure_fabric();
    void configure_command_queue_programs(DispatchTopology*);

    int number;
    std::unique_ptr<AllocatorImpl> allocator;
    xy_pair grid{8, 8};
};

class Buffer {
public:
    std::uint32_t address() const;
    std::uint64_t size() const;
    std::uint64_t page_size() const;
    std::uint64_t aligned_size_per_bank() const;
    BufferType buffer_type() const;
    TensorMemoryLayout buffer_layout() const;
    std::uint64_t unique_id() const;
    bool is_allocated() const;
    IDevice* device() const;

    IDevice* on;
    AllocatorImpl* from;
    BufferType type;
    std::uint64_t bytes, number;
    std::uint32_t at = 0;
    // Of one that takes blocks of its cores' own.
    std::unordered_map<xy_pair, std::uint64_t> cores{};
};

namespace experimental::per_core_allocation {
bool is_per_core_allocation(const Buffer&);
const std::unordered_map<xy_pair, std::uint64_t>& get_per_core_addresses(const Buffer&);
}  // namespace experimental::per_core_allocation

class Program;

class GraphTracker {
public:
    static GraphTracker& instance();
    void track_allocate(const Buffer*);
    void track_deallocate(Buffer*);
    void track_program(Program*, const IDevice*);
    bool hook_program(Program*);
    void track_allocate_cb(const CoreRangeSet&, std::uint64_t, std::uint64_t, bool, const IDevice*);
    void track_deallocate_cb(const IDevice*);
};

class Kernel {
public:
    virtual ~Kernel();
    virtual std::uint8_t expected_num_binaries() const = 0;
    TEN_OTHERS(0)
    TEN_OTHERS(1)
    TEN_OTHERS(2)
    TEN_OTHERS(3)
    std::string name() const;
    CoreRangeSet logical_coreranges() const;
    std::uint64_t compute_hash() const;
    std::uint32_t get_binary_packed_size(IDevice*, int) const;

    std::string called;
    CoreRangeSet cores;
    std::uint64_t hash = 0;
    std::uint32_t bytes = 0;
};

class ComputeKernel : public Kernel {
public:
    std::uint8_t expected_num_binaries() const override;
};

namespace experimental::dfb::detail {
class DataflowBufferImpl {
public:
    void update_size(std::optional<std::uint32_t>, std::optional<std::uint32_t>);
};
}  // namespace experimental::dfb::detail

class CircularBufferImpl {
public:
    std::uint32_t address() const;
    bool is_on_logical_core(const xy_pair&) const;

    CoreRangeSet cores;
};

// A view of one.
class CircularBuffer {
public:
    explicit CircularBuffer(const CircularBufferImpl*);
    bool globally_allocated() const;
    std::size_t size() const;

    const CircularBufferImpl* implementation;
};

namespace distributed {
class MeshDevice;
}

namespace detail {
class ProgramImpl {
public:
    ~ProgramImpl();
    std::uint64_t get_runtime_id() const;
    std::uint32_t& get_program_config_size(std::uint32_t);
    const std::vector<std::shared_ptr<experimental::dfb::detail::DataflowBufferImpl>>&
    dataflow_buffers() const;
    std::span<const std::shared_ptr<CircularBufferImpl>> circular_buffers() const;
    std::uint32_t add_kernel(const std::shared_ptr<Kernel>&, const HalProgrammableCoreType&);
    void finalize_offsets(IDevice*);
    void set_kernels_bin_buffer(const std::shared_ptr<Buffer>&);
    void generate_dispatch_commands(distributed::MeshDevice*, bool);
    void allocate_circular_buffers(const IDevice*);
    void deallocate_circular_buffers();
    void validate_circular_buffer_region(const IDevice*);

    std::vector<std::shared_ptr<Kernel>> kernels;
    std::vector<std::shared_ptr<experimental::dfb::detail::DataflowBufferImpl>> dataflow;
    std::vector<std::shared_ptr<CircularBufferImpl>> circulars;
    std::shared_ptr<Buffer> binary;
    std::array<std::uint32_t, 4> sizes{};
    std::uint64_t runs = 0;
    bool has_commands = false;
    std::set<const IDevice*> storage_on;
};
}  // namespace detail

class Program {
public:
    std::shared_ptr<detail::ProgramImpl> implementation = std::make_shared<detail::ProgramImpl>();
};

struct ConfigBufferSync {
    bool need_sync;
    std::uint32_t sync_count;
};
struct ConfigBufferEntry {
    std::uint32_t address, size, sync;
};

class WorkerConfigBufferMgr {
public:
    void init_add_buffer(std::uint32_t, std::uint32_t);
    std::pair<ConfigBufferSync, std::vector<ConfigBufferEntry>&> reserve(
        const std::vector<std::uint32_t>&);
    void free(std::uint32_t);
    void alloc(std::uint32_t);
    void mark_completely_full(std::uint32_t);

    std::vector<ConfigBufferEntry> rings, found;
};

#ifndef WITHOUT_PREFETCHER
class RingbufferCacheManager {
public:
    struct CacheOffset {
        bool is_cached;
        std::uint32_t offset;
    };
    RingbufferCacheManager(int, int, int);
    std::optional<CacheOffset> get_cache_offset(std::uint64_t, std::uint32_t);
    void reset();

    int block_bytes, blocks;
    std::uint32_t next = 0;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> entries;
};
#endif

struct ProgramCommandSequence {
    std::vector<std::vector<std::uint8_t>> chunks;
};

namespace distributed {
struct MeshTraceIdTag;
using MeshTraceId = ttsl::StrongType<std::uint32_t, MeshTraceIdTag>;
namespace multihost {
class DistributedContext;
}

class MeshDevice : public IDevice {
public:
    MeshDevice(int number, std::vector<IDevice*> chips);
    int id() const override;
    std::size_t num_rows() const;
    std::size_t num_cols() const;
    std::vector<IDevice*> get_devices() const;
    const std::unique_ptr<AllocatorImpl>& allocator_impl() const;

    int number;
    std::vector<IDevice*> chips;
    std::unique_ptr<AllocatorImpl> allocator;
};

class FDMeshCommandQueue {
public:
    FDMeshCommandQueue(
        MeshDevice*,
        std::uint32_t,
        std::shared_ptr<ThreadPool>&,
        std::shared_ptr<ThreadPool>&,
        std::shared_ptr<CQSharedState>&,
        std::function<std::lock_guard<std::mutex>()>,
        std::shared_ptr<multihost::DistributedContext>);

    std::array<WorkerConfigBufferMgr, 8> managers;
    std::array<std::uint32_t, 8> expected{};
#ifndef WITHOUT_PREFETCHER
    std::unique_ptr<RingbufferCacheManager> cache, stand_in;
#endif
};

class MeshDeviceImpl {
public:
    bool initialize_impl(
        MeshDevice*, std::uint8_t, std::uint64_t, std::uint64_t, std::uint64_t,
        std::span<const std::uint32_t>, bool);
    bool close_impl(MeshDevice*);
    void begin_mesh_trace(std::uint8_t, const MeshTraceId&);
    void end_mesh_trace(std::uint8_t, const MeshTraceId&);
    void replay_mesh_trace(std::uint8_t, const MeshTraceId&, bool);
    void release_mesh_trace(const MeshTraceId&);

    MeshDevice* mesh = nullptr;
    std::unique_ptr<FDMeshCommandQueue> queue;
    std::shared_ptr<Buffer> trace;
};

class MeshWorkloadImpl {
public:
    void set_program_binary_status(std::uint64_t, ProgramBinaryStatus);

    std::vector<Program> programs;
    std::uint64_t number = 0;
    ProgramBinaryStatus status = ProgramBinaryStatus::NotSent;
};
class MeshWorkload {
public:
    std::unique_ptr<MeshWorkloadImpl> implementation = std::make_unique<MeshWorkloadImpl>();
};
// What sends workloads: here it only says through which queue of which mesh.
class MeshCommandQueue {
public:
    MeshDeviceImpl* mesh;
};
void EnqueueMeshWorkload(MeshCommandQueue&, MeshWorkload&, bool);
}  // namespace distributed

namespace program_dispatch {
void reset_config_buf_mgrs_and_expected_workers(
    const Hal&, std::array<WorkerConfigBufferMgr, 8>&, std::array<std::uint32_t, 8>&, std::uint32_t,
    std::uint32_t);
void assemble_device_commands(
    ProgramCommandSequence&, detail::ProgramImpl&, distributed::MeshDevice*,
    ttsl::StrongType<std::uint8_t, SubDeviceIdTag>, bool);
void for_each_program_command_sequence_chunk(
    const ProgramCommandSequence&, bool, bool, bool,
    const std::function<void(const void*, std::uint32_t)>&);
}  // namespace program_dispatch

namespace slow_dispatch {
void LaunchProgramAsync(IDevice&, Program&, bool);
}
namespace experimental {
void DispatchCompiledProgramToDevice(IDevice*, Program&);
}

// Helpers of the stand-in alone.
namespace standin {
// What the next call of a function of this name throws.
void fail_at(const std::string& function, const std::string& text);
void may_fail(const char* function);
std::shared_ptr<Buffer> place(
    IDevice*, AllocatorImpl*, BufferType, std::uint64_t bytes,
    std::unordered_map<xy_pair, std::uint64_t> cores = {});
void give_back(const std::shared_ptr<Buffer>&);
}  // namespace standin
}  // namespace tt::tt_metal
