// A program that tells ttmem what it does with device memory, in C++: a buffer whose lifetime is
// that of an object, on a mesh of two chips.
//
//     c++ -std=c++17 track.cpp $(pkg-config --cflags --libs ttmem) -o track
//     ./track            tracks a small workload and ends
//     ./track --hold     prints what it holds and keeps it until stdin is closed
//
// It runs just the same without a server: tracking is idle then.

#include <ttmem.h>

#include <array>
#include <cstdint>
#include <iostream>
#include <limits>
#include <string_view>
#include <vector>

namespace {

constexpr std::uint16_t dram_banks = 12;
constexpr std::uint64_t page_bytes = 2048;

ttmem_text_id_t text(std::string_view words) {
    ttmem_text_id_t id = 0;
    ttmem_text_define(words.data(), words.size(), &id);
    return id;
}

class Device {
public:
    explicit Device(std::uint32_t logical_id) {
        ttmem_device_t device{};
        device.struct_bytes = sizeof device;
        device.logical_id = logical_id;
        device.board = text("n300");
        device.arch = TTMEM_ARCH_WORMHOLE_B0;
        device.reach = logical_id == 0 ? TTMEM_REACH_LOCAL : TTMEM_REACH_REMOTE;
        device.grid_columns = 8;
        device.grid_rows = 8;
        device.l1_bytes_per_core = 1499136;
        ttmem_device_define(&device, &id_);
        ttmem_device_opened(id_);
    }
    ~Device() { ttmem_device_closed(id_); }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    ttmem_device_id_t id() const { return id_; }

private:
    ttmem_device_id_t id_ = 0;
};

class Mesh {
public:
    Mesh(const Device& first, const Device& second) {
        const std::array devices{first.id(), second.id()};
        ttmem_mesh_t mesh{};
        mesh.struct_bytes = sizeof mesh;
        mesh.kind = TTMEM_MESH_KIND_MESH;
        mesh.rows = 1;
        mesh.columns = 2;
        mesh.devices = devices.data();
        mesh.device_count = devices.size();
        ttmem_mesh_define(&mesh, &id_);
        ttmem_mesh_opened(id_);
    }
    ~Mesh() { ttmem_mesh_closed(id_); }
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;

    ttmem_mesh_id_t id() const { return id_; }

private:
    ttmem_mesh_id_t id_ = 0;
};

// A DRAM buffer, interleaved over all banks of every device of its mesh.
class Buffer {
public:
    Buffer(const Mesh& mesh, std::uint64_t address, std::uint64_t pages_per_bank)
        : mesh_(mesh.id()), id_(ttmem_buffer_next()), bytes_(dram_banks * pages_per_bank * page_bytes) {
        ttmem_buffer_allocated_t buffer{};
        buffer.mesh = mesh_;
        buffer.buffer = id_;
        buffer.memory_class = TTMEM_CLASS_DRAM;
        buffer.layout = TTMEM_LAYOUT_INTERLEAVED;
        buffer.address = address;
        buffer.requested_bytes = bytes_;
        buffer.per_bank_bytes = pages_per_bank * page_bytes;
        buffer.page_bytes = page_bytes;
        buffer.banks = dram_banks;
        buffer.operation = text("ttnn.empty");
        ttmem_buffer_allocated(&buffer);
    }
    ~Buffer() { ttmem_buffer_freed(mesh_, id_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    std::uint64_t bytes() const { return bytes_; }

private:
    ttmem_mesh_id_t mesh_;
    ttmem_buffer_id_t id_;
    std::uint64_t bytes_;
};

// A program with a circular buffer and a kernel on four by two cores, run twice.
class Program {
public:
    static constexpr std::uint64_t cores = 8, cb_bytes = 8192, kernel_bytes = 12000;

    explicit Program(const Mesh& mesh) : id_(ttmem_program_next()) {
        const ttmem_core_range_t range{0, 0, 3, 1};
        ttmem_cores_id_t cores_id = 0;
        ttmem_cores_define(&range, 1, &cores_id);

        ttmem_program_created(id_, text("ttnn.matmul"), 0, 0);
        ttmem_cb_allocated_t cb{};
        cb.mesh = mesh.id();
        cb.program = id_;
        cb.kind = TTMEM_CB_KIND_LOCAL;
        cb.address = 0x19000;
        cb.size_bytes = cb_bytes;
        cb.cores = cores_id;
        ttmem_cb_allocated(&cb);

        ttmem_kernel_loaded_t kernel{};
        kernel.mesh = mesh.id();
        kernel.program = id_;
        kernel.kernel = 0x3A73;
        kernel.name = text("bmm");
        kernel.binary_bytes = kernel_bytes;
        kernel.cores = cores_id;
        kernel.kind = TTMEM_KERNEL_KIND_APPLICATION;
        kernel.core_type = TTMEM_CORE_TENSIX;
        ttmem_kernel_loaded(&kernel);

        ttmem_program_dispatched_t run{};
        run.mesh = mesh.id();
        run.program = id_;
        run.operation = text("ttnn.matmul");
        run.program_cache = TTMEM_CACHE_RESULT_MISS;
        ttmem_program_dispatched(&run);
        run.program_cache = TTMEM_CACHE_RESULT_HIT;
        run.binary_reused = 1;
        ttmem_program_dispatched(&run);
    }
    ~Program() { ttmem_program_destroyed(id_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

private:
    ttmem_program_id_t id_;
};

void run(bool hold) {
    const Device local(0), remote(1);
    const Mesh mesh(local, remote);
    const Buffer weights(mesh, 0x40000, 128);
    const Buffer activations(mesh, 0x80000, 16);
    const Program program(mesh);
    if (hold) {
        ttmem_client_flush(10000);
        // On each of the two devices.
        std::cout << "dram_bytes=" << weights.bytes() + activations.bytes() << " l1_bytes=0"
                  << " cb_bytes=" << Program::cores * Program::cb_bytes
                  << " kernel_bytes=" << Program::cores * Program::kernel_bytes << " buffers=2"
                  << std::endl;
        std::cin.ignore(std::numeric_limits<std::streamsize>::max());
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string_view> words(argv, argv + argc);
    run(words.size() > 1 && words[1] == "--hold");
    // Without a server this waits a second for one, in vain.
    ttmem_client_close(1000);
    return 0;
}
