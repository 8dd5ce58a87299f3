/*
 * ttmem: live device-memory tracking for Tenstorrent accelerators.
 *
 * A program tells libttmem what happens to device memory; `ttmem serve` keeps the account of all
 * programs of the machine, and `ttmem status` shows it.
 *
 *     ttmem_client_start(NULL);                         settings from the environment; optional
 *     ttmem_device_define(&device, &device_id);         once per chip
 *     ttmem_mesh_define(&mesh, &mesh_id);               once per mesh; a single chip is a mesh of one
 *     ttmem_device_opened(device_id);
 *     ttmem_mesh_opened(mesh_id);
 *     buffer.buffer = ttmem_buffer_next();
 *     ttmem_buffer_allocated(&buffer);                  when it happened, from any thread
 *     ttmem_buffer_freed(mesh_id, buffer.buffer);
 *     ttmem_client_close(1000);
 *
 * Four kinds of functions:
 *   - ttmem_client_*: the connection to the server. May block, up to the time that is given.
 *   - ttmem_account_*: what this process holds, from its own account and without a server. May
 *     block, up to the time that is given.
 *   - ttmem_*_define: give an id to what has no fixed size. The same content gives the same id.
 *     Slow the first time, so do it once and keep the id.
 *   - all others report one thing that happened. They take tens of nanoseconds, never block on the
 *     server, and can be called from any thread and at any time; not from a signal handler.
 *     Instead of a structure they accept null, and return TTMEM_E_NULL.
 *
 * A failure never ends the program. Without a server, or when tracking is off, everything here is
 * idle: reports do nothing and return TTMEM_OK, ids are 0.
 *
 * Environment: TTMEM_SOCKET (path of the server's socket), TTMEM_DISABLE=1 (tracking is off),
 * TTMEM_NAME, TTMEM_HISTORY_EVENTS, TTMEM_FULL_RING_WAIT_MS, TTMEM_TRUST_UID, TTMEM_CLOCK.
 *
 * This file is generated; change the sources of libttmem instead.
 */


#ifndef TTMEM_H
#define TTMEM_H

#include <stddef.h>
#include <stdint.h>

// The version of this header, first number. It changes when programs must be compiled anew.
#define TTMEM_VERSION_MAJOR 0

// The version of this header, second number.
#define TTMEM_VERSION_MINOR 1

// The version of this header, third number.
#define TTMEM_VERSION_PATCH 0

// The version of this header as one number: two of them can be compared.
#define TTMEM_VERSION (((TTMEM_VERSION_MAJOR << 16) | (TTMEM_VERSION_MINOR << 8)) | TTMEM_VERSION_PATCH)

// In ttmem_cb_freed: all storage of the program.
#define TTMEM_CB_ALL 4294967295

// In ttmem_config_t.full_ring_wait_millis: do not wait at all.
#define TTMEM_NO_WAIT 4294967295

// How a call ended: TTMEM_OK, or one of TTMEM_E_*, which are all negative.
typedef int32_t ttmem_code_t;

// 0 for no, 1 for yes; anything else is refused with TTMEM_E_VALUE.
typedef uint8_t ttmem_flag_t;

// How the client of this process is to work.
//
// Members that are 0 or null stand for the environment's value, or the default. Set everything to
// zero and `struct_bytes` to the size, then what you want to change, in C:
// `ttmem_config_t config = {.struct_bytes = sizeof config, .name = "llama"};`
typedef struct ttmem_config_t {
    // sizeof(ttmem_config_t), so that the structure can grow.
    size_t struct_bytes;
    // Path of the server's socket.
    const char *socket;
    // The name that this process is shown under, in place of the command's.
    const char *name;
    // The devices that this process sees, as in TT_VISIBLE_DEVICES.
    const char *visible_devices;
    // How many events to keep while the server is away; beyond that, history is left out.
    uint64_t history_events;
    // How long a report may wait when its thread is far ahead of the one that sends; see
    // TTMEM_NO_WAIT.
    uint32_t full_ring_wait_millis;
    // A user whose server is trusted besides this process's own user and root.
    uint32_t trusted_uid;
    // Whether `trusted_uid` is set.
    ttmem_flag_t has_trusted_uid;
    // Zero.
    uint8_t reserved[7];
    // How much memory the threads of this process may record into; reports of threads beyond it
    // are lost.
    uint64_t ring_memory_bytes;
} ttmem_config_t;

// What became of the reports of this process; after a flush, as of its end.
typedef struct ttmem_statistics_t {
    // sizeof(ttmem_statistics_t), so that the structure can grow; set it before the call.
    size_t struct_bytes;
    // Reports that never reach the server: its totals of this process are not to be trusted.
    uint64_t lost_events;
    // Reports missing from the history only; totals are exact.
    uint64_t elided_events;
    // How often everything that this process holds was sent anew.
    uint64_t resyncs;
    // CPU time of the thread that sends the reports.
    uint64_t pump_cpu_nanos;
    // Whether a server is connected and has the state of this process; the newest reports may still be on
    // their way. 1 after a flush that returned TTMEM_OK. A server that ends is noticed within a second.
    ttmem_flag_t connected;
    // Zero.
    uint8_t reserved[7];
} ttmem_statistics_t;

// What to ask the account of this process: one of TTMEM_ASK_*.
typedef uint32_t ttmem_ask_t;

// A defined text; 0 means none. See ttmem_text_define.
typedef uint32_t ttmem_text_id_t;

// A rectangle of cores in logical coordinates, both corners included; at most 32 by 32.
typedef struct ttmem_core_range_t {
    // Left column.
    uint16_t x_first;
    // Top row.
    uint16_t y_first;
    // Right column.
    uint16_t x_last;
    // Bottom row.
    uint16_t y_last;
} ttmem_core_range_t;

// A defined core set; 0 means none. See ttmem_cores_define.
typedef uint32_t ttmem_cores_id_t;

// A chip architecture, with the runtime's own numbers; others are shown as unknown.
typedef uint16_t ttmem_arch_t;

// How a chip is reached: one of TTMEM_REACH_*.
typedef uint8_t ttmem_reach_t;

// A physical device. Set everything that is not known to zero.
typedef struct ttmem_device_t {
    // sizeof(ttmem_device_t), so that the structure can grow.
    size_t struct_bytes;
    // The chip's burnt-in id; with it, the server knows the chip whatever its logical id is.
    uint64_t unique_id;
    // The runtime's logical id.
    uint32_t logical_id;
    // The board's name.
    ttmem_text_id_t board;
    // Bytes of L1 of each compute core.
    uint32_t l1_bytes_per_core;
    // Bytes at the bottom of L1 that no allocator hands out.
    uint32_t l1_reserved_bytes;
    // The architecture.
    ttmem_arch_t arch;
    // Columns of the compute grid.
    uint16_t grid_columns;
    // Rows of the compute grid.
    uint16_t grid_rows;
    // How it is reached.
    ttmem_reach_t reach;
    // Zero.
    uint8_t reserved;
} ttmem_device_t;

// A defined physical device. See ttmem_device_define.
typedef uint32_t ttmem_device_id_t;

// What a mesh handle stands for in the runtime: one of TTMEM_MESH_KIND_*.
typedef uint8_t ttmem_mesh_kind_t;

// The devices behind a mesh handle.
typedef struct ttmem_mesh_t {
    // sizeof(ttmem_mesh_t), so that the structure can grow.
    size_t struct_bytes;
    // The runtime's own id of it.
    uint64_t handle;
    // Its devices in mesh order, each once.
    const ttmem_device_id_t *devices;
    // How many; at most 256.
    size_t device_count;
    // Rows of the mesh.
    uint16_t rows;
    // Columns of the mesh.
    uint16_t columns;
    // What the handle stands for.
    ttmem_mesh_kind_t kind;
    // Zero.
    uint8_t reserved[3];
} ttmem_mesh_t;

// A defined mesh: the devices that a report is about. See ttmem_mesh_define.
typedef uint32_t ttmem_mesh_id_t;

// A device allocation, from creation to release: see ttmem_buffer_next. Never an address.
typedef uint64_t ttmem_buffer_id_t;

// A program, from construction to destruction: see ttmem_program_next. Never a pointer.
typedef uint64_t ttmem_program_id_t;

// A captured trace of one mesh: the runtime's own number.
typedef uint32_t ttmem_trace_id_t;

// Where a buffer lives: one of TTMEM_CLASS_*. The numbers are the runtime's own.
typedef uint8_t ttmem_class_t;

// How a buffer is laid out over banks: one of TTMEM_LAYOUT_*. The numbers are the runtime's own.
typedef uint8_t ttmem_layout_t;

// The end of the bank that a buffer was taken from: one of TTMEM_DIRECTION_*.
typedef uint8_t ttmem_direction_t;

// A buffer was placed.
typedef struct ttmem_buffer_allocated_t {
    // The new buffer, from ttmem_buffer_next.
    ttmem_buffer_id_t buffer;
    // Its address in every bank.
    uint64_t address;
    // What the caller asked for, over all banks of one device.
    uint64_t requested_bytes;
    // What each bank gives up.
    uint64_t per_bank_bytes;
    // The allocator's mesh.
    ttmem_mesh_id_t mesh;
    // Bytes of a page.
    uint32_t page_bytes;
    // Cores of a buffer that takes only those banks; 0 = lockstep over all banks.
    ttmem_cores_id_t cores;
    // The operation that asked for it; 0 = not known.
    ttmem_text_id_t operation;
    // How many banks give up bytes.
    uint16_t banks;
    // Where it lives.
    ttmem_class_t memory_class;
    // How it is laid out.
    ttmem_layout_t layout;
    // Which end of the bank it was taken from.
    ttmem_direction_t direction;
    // Zero.
    uint8_t reserved[3];
} ttmem_buffer_allocated_t;

// What an allocator can hand out, as the runtime reports it.
typedef struct ttmem_capacity_reported_t {
    // First address in a bank.
    uint64_t base;
    // Bytes of a bank.
    uint64_t per_bank_bytes;
    // The allocator's mesh.
    ttmem_mesh_id_t mesh;
    // Every address and size is a multiple of this.
    uint32_t alignment;
    // Banks of one device.
    uint16_t banks;
    // The class.
    ttmem_class_t memory_class;
    // Zero.
    uint8_t reserved[5];
} ttmem_capacity_reported_t;

// An allocation was refused.
typedef struct ttmem_allocation_failed_t {
    // Asked for, over all banks.
    uint64_t requested_bytes;
    // Asked for in each bank.
    uint64_t per_bank_bytes;
    // Free in each bank.
    uint64_t free_bytes;
    // Largest free block of a bank.
    uint64_t largest_free_bytes;
    // Bytes of a bank.
    uint64_t bank_bytes;
    // The allocator's mesh.
    ttmem_mesh_id_t mesh;
    // The operation that asked; 0 = not known.
    ttmem_text_id_t operation;
    // Banks.
    uint16_t banks;
    // The class.
    ttmem_class_t memory_class;
    // Zero.
    uint8_t reserved[1];
    // The lower half of the first buffer id of the call that failed; 0 = not known.
    uint32_t call_first;
} ttmem_allocation_failed_t;

// The offsets of a program were fixed.
typedef struct ttmem_program_finalized_t {
    // The program.
    ttmem_program_id_t program;
    // Bytes of configuration per core.
    uint64_t config_bytes;
    // Bytes of kernel text per core.
    uint64_t text_bytes;
    // Bytes of all binaries packed for DRAM.
    uint64_t binary_bytes;
    // The devices.
    ttmem_mesh_id_t mesh;
    // Zero.
    uint8_t reserved[4];
} ttmem_program_finalized_t;

// Where the binary of a program is, per device: one of TTMEM_BINARY_STATUS_*.
typedef uint8_t ttmem_binary_status_t;

// Whether something was found in a cache: one of TTMEM_CACHE_RESULT_*.
typedef uint8_t ttmem_cache_result_t;

// The way a program reaches the device: one of TTMEM_DISPATCH_PATH_*.
typedef uint8_t ttmem_dispatch_path_t;

// A program was sent to run.
typedef struct ttmem_program_dispatched_t {
    // The program.
    ttmem_program_id_t program;
    // The runtime's id of this run.
    uint64_t runtime_id;
    // The devices.
    ttmem_mesh_id_t mesh;
    // The operation that ran it; 0 = not known.
    ttmem_text_id_t operation;
    // Whether the program came from the program cache.
    ttmem_cache_result_t program_cache;
    // Whether the binary on the device was reused.
    ttmem_flag_t binary_reused;
    // The way it went.
    ttmem_dispatch_path_t path;
    // Zero.
    uint8_t reserved[5];
} ttmem_program_dispatched_t;

// Why a program's per-core storage was refused: one of TTMEM_CLASH_KIND_*.
typedef uint8_t ttmem_clash_kind_t;

// A program's per-core storage was refused.
typedef struct ttmem_program_clashed_t {
    // The program.
    ttmem_program_id_t program;
    // Where the storage would end.
    uint64_t region_end;
    // What it met: the lowest buffer, or the end of L1.
    uint64_t limit;
    // The devices.
    ttmem_mesh_id_t mesh;
    // Where.
    ttmem_cores_id_t cores;
    // Why.
    ttmem_clash_kind_t kind;
    // Zero.
    uint8_t reserved[3];
    // The lower half of the first buffer id of the call that failed; 0 = not known.
    uint32_t call_first;
} ttmem_program_clashed_t;

// The kinds of per-core storage that a program places itself: one of TTMEM_CB_KIND_*.
typedef uint8_t ttmem_cb_kind_t;

// A program placed per-core storage: a circular or dataflow buffer, or a scratchpad.
typedef struct ttmem_cb_allocated_t {
    // The program.
    ttmem_program_id_t program;
    // Its address on every core.
    uint64_t address;
    // Bytes on every core.
    uint64_t size_bytes;
    // The devices.
    ttmem_mesh_id_t mesh;
    // Number of this storage within the program.
    uint32_t cb;
    // The cores.
    ttmem_cores_id_t cores;
    // What it is.
    ttmem_cb_kind_t kind;
    // Zero.
    uint8_t reserved[3];
} ttmem_cb_allocated_t;

// A kernel binary: equal binaries have equal ids, such as a hash of their content.
typedef uint64_t ttmem_kernel_id_t;

// What a kernel is for: one of TTMEM_KERNEL_KIND_*.
typedef uint8_t ttmem_kernel_kind_t;

// The kinds of programmable cores of a device: one of TTMEM_CORE_*.
typedef uint8_t ttmem_core_type_t;

// A kernel of a program is on its cores.
typedef struct ttmem_kernel_loaded_t {
    // The program.
    ttmem_program_id_t program;
    // The binary.
    ttmem_kernel_id_t kernel;
    // Bytes on each core.
    uint64_t binary_bytes;
    // The devices.
    ttmem_mesh_id_t mesh;
    // The kernel's name; 0 = not known.
    ttmem_text_id_t name;
    // The cores; 0 = their places are not known.
    ttmem_cores_id_t cores;
    // How many cores, when their places are not known.
    uint32_t core_count;
    // What it is for.
    ttmem_kernel_kind_t kind;
    // The kind of core it runs on.
    ttmem_core_type_t core_type;
    // Zero.
    uint8_t reserved[6];
} ttmem_kernel_loaded_t;

// A kernel config ring exists.
typedef struct ttmem_config_ring_opened_t {
    // First address.
    uint64_t base;
    // Bytes per core.
    uint64_t size_bytes;
    // The devices.
    ttmem_mesh_id_t mesh;
    // The sub-device it belongs to.
    uint8_t sub_device;
    // The kind of core it lies on.
    ttmem_core_type_t core_type;
    // Zero.
    uint8_t reserved[2];
} ttmem_config_ring_opened_t;

// Room in a config ring was asked for.
typedef struct ttmem_config_ring_reserved_t {
    // Bytes asked for.
    uint64_t size_bytes;
    // What to wait for.
    uint64_t sync;
    // The devices.
    ttmem_mesh_id_t mesh;
    // The sub-device.
    uint8_t sub_device;
    // The kind of core.
    ttmem_core_type_t core_type;
    // Whether dispatch must wait for earlier programs.
    ttmem_flag_t stalled;
    // Zero.
    uint8_t reserved;
} ttmem_config_ring_reserved_t;

// A program took room in a config ring.
typedef struct ttmem_config_ring_allocated_t {
    // The program.
    ttmem_program_id_t program;
    // Where.
    uint64_t address;
    // How much.
    uint64_t size_bytes;
    // When this number of completions is reached, it may go.
    uint64_t sync;
    // The devices.
    ttmem_mesh_id_t mesh;
    // The sub-device.
    uint8_t sub_device;
    // The kind of core.
    ttmem_core_type_t core_type;
    // Zero.
    uint8_t reserved[2];
} ttmem_config_ring_allocated_t;

// The prefetcher cache was asked for a workload.
typedef struct ttmem_prefetched_t {
    // The workload.
    uint64_t workload;
    // Where it is now.
    uint64_t offset;
    // Its bytes.
    uint64_t size_bytes;
    // The devices.
    ttmem_mesh_id_t mesh;
    // Whether it was there already.
    ttmem_flag_t hit;
    // Zero.
    uint8_t reserved[3];
} ttmem_prefetched_t;

// Done; or there was nothing to do because tracking is off.
#define TTMEM_OK 0

// Tracking is off: by choice, or because it failed and has turned itself off.
#define TTMEM_E_DISABLED -1

// A pointer that must be given is null.
#define TTMEM_E_NULL -2

// A value is outside the range of its type: a class, a kind, a flag, a core range, a count.
#define TTMEM_E_VALUE -3

// `struct_bytes` is too small, or members that this library does not know are not zero.
#define TTMEM_E_SIZE -4

// The time was over before the server had confirmed everything; nothing is lost by that.
#define TTMEM_E_TIMEOUT -5

// So many are open that there is no room for another.
#define TTMEM_E_TOO_MANY -6

// The process has no memory left for it.
#define TTMEM_E_NO_MEMORY -7

// In ttmem_kernel_unloaded: all kernels of the program.
#define TTMEM_KERNEL_ALL 18446744073709551615ull

// Device DRAM.
#define TTMEM_CLASS_DRAM 0

// The L1 of the compute cores.
#define TTMEM_CLASS_L1 1

// Host memory the device can reach; never device memory.
#define TTMEM_CLASS_SYSTEM_MEMORY 2

// The small region at the top of L1.
#define TTMEM_CLASS_L1_SMALL 3

// The trace region at the top of DRAM.
#define TTMEM_CLASS_TRACE 4

// In ttmem_buffers_released: every class.
#define TTMEM_CLASS_ALL 255

// Pages dealt over all banks.
#define TTMEM_LAYOUT_INTERLEAVED 0

// Not known.
#define TTMEM_LAYOUT_UNKNOWN 1

// Sharded by rows.
#define TTMEM_LAYOUT_HEIGHT_SHARDED 2

// Sharded by columns.
#define TTMEM_LAYOUT_WIDTH_SHARDED 3

// Sharded by blocks.
#define TTMEM_LAYOUT_BLOCK_SHARDED 4

// Sharded in any number of dimensions.
#define TTMEM_LAYOUT_ND_SHARDED 5

// From low addresses.
#define TTMEM_DIRECTION_BOTTOM_UP 0

// From high addresses.
#define TTMEM_DIRECTION_TOP_DOWN 1

// A circular buffer placed by the program.
#define TTMEM_CB_KIND_LOCAL 0

// A circular buffer inside an existing L1 buffer: shown, but no further memory.
#define TTMEM_CB_KIND_GLOBAL 1

// A dataflow buffer placed by the program.
#define TTMEM_CB_KIND_DATAFLOW 2

// A dataflow buffer inside an existing L1 buffer: shown, but no further memory.
#define TTMEM_CB_KIND_DATAFLOW_BORROWED 3

// Scratch memory placed by the program.
#define TTMEM_CB_KIND_SCRATCHPAD 4

// The user's computation.
#define TTMEM_KERNEL_KIND_APPLICATION 0

// Fabric routers.
#define TTMEM_KERNEL_KIND_FABRIC 1

// Command queues.
#define TTMEM_KERNEL_KIND_DISPATCH 2

// Not known.
#define TTMEM_KERNEL_KIND_UNKNOWN 3

// Not yet written.
#define TTMEM_BINARY_STATUS_NOT_SENT 0

// The commands to write it were issued.
#define TTMEM_BINARY_STATUS_IN_FLIGHT 1

// Written, reused from now on.
#define TTMEM_BINARY_STATUS_COMMITTED 2

// The runtime did not say.
#define TTMEM_CACHE_RESULT_UNKNOWN 0

// Found.
#define TTMEM_CACHE_RESULT_HIT 1

// Not found.
#define TTMEM_CACHE_RESULT_MISS 2

// Through the command queues on the device.
#define TTMEM_DISPATCH_PATH_FAST 0

// Written by the host.
#define TTMEM_DISPATCH_PATH_SLOW 1

// It grows into an L1 buffer.
#define TTMEM_CLASH_KIND_L1_BUFFER 0

// It grows beyond the end of L1.
#define TTMEM_CLASH_KIND_BEYOND_L1 1

// It grows into memory of service cores.
#define TTMEM_CLASH_KIND_SERVICE_CORE 2

// Its cores lie outside the compute grid.
#define TTMEM_CLASH_KIND_OUTSIDE_GRID 3

// A mesh device with an allocator of its own.
#define TTMEM_MESH_KIND_MESH 0

// A single physical device used directly.
#define TTMEM_MESH_KIND_CHIP 1

// Compute cores.
#define TTMEM_CORE_TENSIX 0

// Ethernet cores with a trained link.
#define TTMEM_CORE_ACTIVE_ETH 1

// Ethernet cores without a link, free for dispatch.
#define TTMEM_CORE_IDLE_ETH 2

// Cores of the DRAM controllers.
#define TTMEM_CORE_DRAM 3

// Not known.
#define TTMEM_ARCH_UNKNOWN 0

// Grayskull.
#define TTMEM_ARCH_GRAYSKULL 1

// Wormhole B0.
#define TTMEM_ARCH_WORMHOLE_B0 2

// Blackhole.
#define TTMEM_ARCH_BLACKHOLE 3

// Quasar.
#define TTMEM_ARCH_QUASAR 4

// Not known.
#define TTMEM_REACH_UNKNOWN 0

// Over PCIe.
#define TTMEM_REACH_LOCAL 1

// Through another chip.
#define TTMEM_REACH_REMOTE 2

// What is held, with the peaks of the stretch `subject`; 0 is the one since start or reset.
#define TTMEM_ASK_FIGURES 0

// The same with the `max_rows` largest buffers; of a stretch other than 0, those placed in it.
#define TTMEM_ASK_SNAPSHOT 1

// Peaks begin anew on the device `subject`, or on all devices if it is UINT64_MAX.
#define TTMEM_ASK_RESET 2

// A stretch of its own begins; the answer has its number.
#define TTMEM_ASK_BEGIN 3

// The stretch `subject` ends: its peaks, and the `max_rows` largest buffers that were placed in
// it and are still held, or were when their mesh was closed.
#define TTMEM_ASK_END 4

// Figures of the stretch `subject`, and up to `max_rows` texts that held most at each peak.
#define TTMEM_ASK_PEAKS 5

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that is loaded, in the form of TTMEM_VERSION.
uint32_t ttmem_version(void);

// Says how the client of this process is to work; null takes everything from the environment.
//
// Optional: without it, the first call does the same with null. Nothing is connected and no thread
// is started before the first definition or report. The first start wins; later ones are ignored.
//
// # Safety
// `config` is null, or points to a structure as long as its `struct_bytes` says, with texts that
// are closed by a zero. Nothing of it is used after the call.
ttmem_code_t ttmem_client_start(const struct ttmem_config_t *config);

// Whether reports are recorded: 1, or 0 when tracking is off.
ttmem_flag_t ttmem_client_is_enabled(void);

// Turns tracking off for this process, for good.
ttmem_code_t ttmem_client_disable(void);

// Waits until the server's account has everything that was reported before the call.
//
// TTMEM_E_TIMEOUT when that takes longer, or the server is not there; nothing is lost by it.
ttmem_code_t ttmem_client_flush(uint32_t timeout_millis);

// Flushes, then says goodbye to the server, which gives back everything this process holds.
//
// Tracking is off afterwards. A process that just ends needs no close: the server sees it.
ttmem_code_t ttmem_client_close(uint32_t timeout_millis);

// Tells what became of the reports of this process.
//
// # Safety
// `statistics` is null, or points to a structure as long as its `struct_bytes` says.
ttmem_code_t ttmem_client_statistics(struct ttmem_statistics_t *statistics);

// Asks the account of this process what it holds; needs no server.
//
// `*answer` is a JSON document of `*bytes` bytes that has everything reported before the call, not
// closed by a zero; `ttmem_account_free` frees it. Where the code is not TTMEM_OK it is null:
// TTMEM_E_VALUE for a stretch that is not open, TTMEM_E_TOO_MANY when a thousand are,
// TTMEM_E_NO_MEMORY where there is none for the answer.
//
// # Safety
// `answer` and `bytes` are null or can be written to.
ttmem_code_t ttmem_account_ask(ttmem_ask_t ask,
                               uint64_t subject,
                               uint32_t max_rows,
                               uint32_t timeout_millis,
                               char **answer,
                               size_t *bytes);

// Frees an answer of `ttmem_account_ask`; null is none.
//
// # Safety
// `answer` and `bytes` are what one call of `ttmem_account_ask` gave, and are freed once.
void ttmem_account_free(char *answer, size_t bytes);

// Gives an id to a text: the name of an operation, a kernel, a board, a mark.
//
// The text is UTF-8 and need not be closed by a zero; other bytes are replaced. At most 32 KiB.
// `*id` is 0 (no text) whenever the call fails or tracking is off.
//
// # Safety
// `text` is null or points to `length_bytes` bytes; `id` is null or points to an id.
ttmem_code_t ttmem_text_define(const char *text, size_t length_bytes, ttmem_text_id_t *id);

// Gives an id to a set of cores: the union of some ranges.
//
// TTMEM_E_VALUE when a range is turned round or leaves the grid of 32 by 32. `*id` is 0 (no cores)
// whenever the call fails or tracking is off.
//
// # Safety
// `ranges` is null or points to `count` ranges; `id` is null or points to an id.
ttmem_code_t ttmem_cores_define(const struct ttmem_core_range_t *ranges,
                                size_t count,
                                ttmem_cores_id_t *id);

// Gives an id to a physical device.
//
// `*id` is 0 whenever the call fails or tracking is off.
//
// # Safety
// `device` is null or points to a structure as long as its `struct_bytes` says; `id` is null or
// points to an id.
ttmem_code_t ttmem_device_define(const struct ttmem_device_t *device, ttmem_device_id_t *id);

// Gives an id to a mesh. A single chip is a mesh of one.
//
// `*id` is 0 whenever the call fails or tracking is off.
//
// # Safety
// `mesh` is null or points to a structure as long as its `struct_bytes` says, whose `devices` is
// null or points to `device_count` ids; `id` is null or points to an id.
ttmem_code_t ttmem_mesh_define(const struct ttmem_mesh_t *mesh, ttmem_mesh_id_t *id);

// The next id for a buffer: a counter of this process, from 1.
ttmem_buffer_id_t ttmem_buffer_next(void);

// The next id for a program: a counter of this process, from 1.
ttmem_program_id_t ttmem_program_next(void);

// A physical device was opened.
ttmem_code_t ttmem_device_opened(ttmem_device_id_t device);

// A physical device was closed: all that the process held on it is gone.
ttmem_code_t ttmem_device_closed(ttmem_device_id_t device);

// A mesh was opened.
ttmem_code_t ttmem_mesh_opened(ttmem_mesh_id_t mesh);

// A mesh was closed: all that its allocators held is gone.
ttmem_code_t ttmem_mesh_closed(ttmem_mesh_id_t mesh);

// Capturing a trace began.
ttmem_code_t ttmem_trace_began(ttmem_mesh_id_t mesh, ttmem_trace_id_t trace);

// Capturing a trace ended: its commands take `bytes` on each device.
ttmem_code_t ttmem_trace_ended(ttmem_mesh_id_t mesh, ttmem_trace_id_t trace, uint64_t bytes);

// A trace was run.
ttmem_code_t ttmem_trace_replayed(ttmem_mesh_id_t mesh, ttmem_trace_id_t trace);

// A trace was given up.
ttmem_code_t ttmem_trace_released(ttmem_mesh_id_t mesh, ttmem_trace_id_t trace);

// The user set a mark: peaks are also counted from here.
ttmem_code_t ttmem_mark_set(ttmem_text_id_t name, uint64_t number);

// A buffer was placed.
ttmem_code_t ttmem_buffer_allocated(const struct ttmem_buffer_allocated_t *event);

// A buffer was given back.
//
// What is given back is what was booked for it.
ttmem_code_t ttmem_buffer_freed(ttmem_mesh_id_t mesh, ttmem_buffer_id_t buffer);

// Every buffer of an allocator was given back at once.
//
// `memory_class` may be TTMEM_CLASS_ALL.
ttmem_code_t ttmem_buffers_released(ttmem_mesh_id_t mesh, ttmem_class_t memory_class);

// What an allocator can hand out, as the runtime reports it.
ttmem_code_t ttmem_capacity_reported(const struct ttmem_capacity_reported_t *event);

// An allocation was refused.
ttmem_code_t ttmem_allocation_failed(const struct ttmem_allocation_failed_t *event);

// The allocator's own statistics, for the server to compare its account with.
//
// `allocated_bytes` are taken in each bank; `largest_free_bytes` is the largest free block of one.
ttmem_code_t ttmem_statistics_reported(ttmem_mesh_id_t mesh,
                                       ttmem_class_t memory_class,
                                       uint64_t allocated_bytes,
                                       uint64_t largest_free_bytes);

// A program was constructed.
//
// `program` is from ttmem_program_next, `name` is the operation's; `runtime_id` and `pointer`, which the
// runtime reuses, are only shown.
ttmem_code_t ttmem_program_created(ttmem_program_id_t program,
                                   ttmem_text_id_t name,
                                   uint64_t runtime_id,
                                   uint64_t pointer);

// The offsets of a program were fixed.
ttmem_code_t ttmem_program_finalized(const struct ttmem_program_finalized_t *event);

// The commands of a program were generated for the first time.
ttmem_code_t ttmem_commands_cached(ttmem_mesh_id_t mesh,
                                   ttmem_program_id_t program,
                                   uint64_t bytes);

// The binary of a program was written to the devices: `bytes` to each.
ttmem_code_t ttmem_binary_sent(ttmem_mesh_id_t mesh, ttmem_program_id_t program, uint64_t bytes);

// The state of a program's binary changed.
ttmem_code_t ttmem_binary_status_changed(ttmem_mesh_id_t mesh,
                                         ttmem_program_id_t program,
                                         ttmem_binary_status_t status);

// A program was sent to run.
ttmem_code_t ttmem_program_dispatched(const struct ttmem_program_dispatched_t *event);

// A program was destroyed: its storage and its kernels are gone.
ttmem_code_t ttmem_program_destroyed(ttmem_program_id_t program);

// A program's per-core storage was refused.
ttmem_code_t ttmem_program_clashed(const struct ttmem_program_clashed_t *event);

// A program placed per-core storage: a circular or dataflow buffer, or a scratchpad.
ttmem_code_t ttmem_cb_allocated(const struct ttmem_cb_allocated_t *event);

// A program gave back per-core storage.
//
// `cb` is its number within the program, or TTMEM_CB_ALL.
ttmem_code_t ttmem_cb_freed(ttmem_mesh_id_t mesh, ttmem_program_id_t program, uint32_t cb);

// A kernel of a program is on its cores.
ttmem_code_t ttmem_kernel_loaded(const struct ttmem_kernel_loaded_t *event);

// Kernels of a program left their cores.
//
// `kernel` is the binary, or TTMEM_KERNEL_ALL.
ttmem_code_t ttmem_kernel_unloaded(ttmem_mesh_id_t mesh,
                                   ttmem_program_id_t program,
                                   ttmem_kernel_id_t kernel);

// A kernel config ring exists.
ttmem_code_t ttmem_config_ring_opened(const struct ttmem_config_ring_opened_t *event);

// Room in a config ring was asked for.
ttmem_code_t ttmem_config_ring_reserved(const struct ttmem_config_ring_reserved_t *event);

// A program took room in a config ring.
ttmem_code_t ttmem_config_ring_allocated(const struct ttmem_config_ring_allocated_t *event);

// Room in a config ring was given back: the oldest entries up to `sync`.
ttmem_code_t ttmem_config_ring_freed(ttmem_mesh_id_t mesh,
                                     uint8_t sub_device,
                                     ttmem_core_type_t core_type,
                                     uint64_t sync);

// A config ring was marked full: its entries are gone, and it is free again at `sync`.
ttmem_code_t ttmem_config_ring_filled(ttmem_mesh_id_t mesh,
                                      uint8_t sub_device,
                                      ttmem_core_type_t core_type,
                                      uint64_t sync);

// A prefetcher cache exists.
ttmem_code_t ttmem_prefetch_opened(ttmem_mesh_id_t mesh, uint64_t size_bytes);

// The prefetcher cache was asked for a workload.
ttmem_code_t ttmem_prefetched(const struct ttmem_prefetched_t *event);

// The prefetcher cache was emptied.
ttmem_code_t ttmem_prefetch_reset(ttmem_mesh_id_t mesh);

// The compiler's cache on disk was asked for a kernel.
//
// `program`, `kernel` and `name` are 0 when not known.
ttmem_code_t ttmem_jit_disk_lookup(ttmem_program_id_t program,
                                   ttmem_kernel_id_t kernel,
                                   ttmem_text_id_t name,
                                   ttmem_flag_t hit);

// Old vocabulary: whether TT_ALLOC_TRACKING_ENABLED is 1 and tracking is on.
ttmem_flag_t ttmem_legacy_is_enabled(void);

// Old vocabulary: a buffer was placed; `id` is its address.
ttmem_code_t ttmem_legacy_report_allocation(int32_t device,
                                            uint64_t size_bytes,
                                            ttmem_class_t memory_class,
                                            uint64_t id);

// Old vocabulary: the buffer at address `id` was given back.
ttmem_code_t ttmem_legacy_report_deallocation(int32_t device, uint64_t id);

// Old vocabulary: a circular buffer was placed; `id` is its address.
ttmem_code_t ttmem_legacy_report_cb_allocation(int32_t device, uint64_t size_bytes, uint64_t id);

// Old vocabulary: a circular buffer was given back.
//
// What was booked is given back; the size only tells several at one address apart. 0 = not known.
ttmem_code_t ttmem_legacy_report_cb_deallocation(int32_t device, uint64_t size_bytes, uint64_t id);

// Old vocabulary: a kernel was loaded, with its bytes over all cores.
//
// A kind that is not known is counted as TTMEM_KERNEL_KIND_UNKNOWN, as the old server did.
ttmem_code_t ttmem_legacy_report_kernel_load(int32_t device,
                                             uint64_t size_bytes,
                                             uint64_t id,
                                             ttmem_kernel_kind_t kind);

// Old vocabulary: a kernel is gone; what was booked for it is given back.
ttmem_code_t ttmem_legacy_report_kernel_unload(int32_t device, uint64_t id);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TTMEM_H */
