/*
 * A program that tells ttmem what it does with device memory, in C.
 *
 *     cc track.c $(pkg-config --cflags --libs ttmem) -o track
 *     ./track            tracks a small workload and ends
 *     ./track --hold     prints what it holds and keeps it until stdin is closed
 *
 * It runs just the same without a server: tracking is idle then.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <ttmem.h>

enum { DRAM_BANKS = 12, L1_BANKS = 64, PAGE_BYTES = 2048 };

static ttmem_text_id_t text(const char *words) {
    ttmem_text_id_t id;
    ttmem_text_define(words, strlen(words), &id);
    return id;
}

/* One Wormhole chip; what is not known of it stays zero. */
static ttmem_device_id_t open_device(void) {
    const ttmem_device_t device = {
        .struct_bytes = sizeof device,
        .logical_id = 0,
        .board = text("n150"),
        .arch = TTMEM_ARCH_WORMHOLE_B0,
        .reach = TTMEM_REACH_LOCAL,
        .grid_columns = 8,
        .grid_rows = 8,
        .l1_bytes_per_core = 1499136,
    };
    ttmem_device_id_t id;
    ttmem_device_define(&device, &id);
    ttmem_device_opened(id);
    return id;
}

/* Every report names a mesh; a single chip is a mesh of one. */
static ttmem_mesh_id_t open_mesh(ttmem_device_id_t device) {
    const ttmem_mesh_t mesh = {
        .struct_bytes = sizeof mesh,
        .kind = TTMEM_MESH_KIND_MESH,
        .rows = 1,
        .columns = 1,
        .devices = &device,
        .device_count = 1,
    };
    ttmem_mesh_id_t id;
    ttmem_mesh_define(&mesh, &id);
    ttmem_mesh_opened(id);
    return id;
}

/* A buffer of the same number of bytes in every bank. */
static ttmem_buffer_id_t allocate(ttmem_mesh_id_t mesh, ttmem_class_t memory_class, uint16_t banks,
                                  uint64_t address, uint64_t per_bank_bytes) {
    const ttmem_buffer_allocated_t buffer = {
        .mesh = mesh,
        .buffer = ttmem_buffer_next(),
        .memory_class = memory_class,
        .layout = TTMEM_LAYOUT_INTERLEAVED,
        .address = address,
        .requested_bytes = banks * per_bank_bytes,
        .per_bank_bytes = per_bank_bytes,
        .page_bytes = PAGE_BYTES,
        .banks = banks,
        .operation = text("ttnn.empty"),
    };
    ttmem_buffer_allocated(&buffer);
    return buffer.buffer;
}

/* A program with a circular buffer and a kernel on a row of eight cores, run once. */
static ttmem_program_id_t run_program(ttmem_mesh_id_t mesh) {
    const ttmem_core_range_t row = {.x_first = 0, .y_first = 0, .x_last = 7, .y_last = 0};
    ttmem_cores_id_t cores;
    ttmem_cores_define(&row, 1, &cores);

    const ttmem_program_id_t program = ttmem_program_next();
    ttmem_program_created(program, text("ttnn.add"), 0, 0);
    const ttmem_cb_allocated_t cb = {
        .mesh = mesh,
        .program = program,
        .kind = TTMEM_CB_KIND_LOCAL,
        .address = 0x19000,
        .size_bytes = 4096,
        .cores = cores,
    };
    ttmem_cb_allocated(&cb);
    const ttmem_kernel_loaded_t kernel = {
        .mesh = mesh,
        .program = program,
        .kernel = 0xADD,
        .name = text("eltwise_add"),
        .binary_bytes = 10000,
        .cores = cores,
        .kind = TTMEM_KERNEL_KIND_APPLICATION,
        .core_type = TTMEM_CORE_TENSIX,
    };
    ttmem_kernel_loaded(&kernel);
    const ttmem_program_dispatched_t run = {
        .mesh = mesh,
        .program = program,
        .operation = text("ttnn.add"),
        .program_cache = TTMEM_CACHE_RESULT_MISS,
        .path = TTMEM_DISPATCH_PATH_FAST,
    };
    ttmem_program_dispatched(&run);
    return program;
}

int main(int argc, char **argv) {
    const bool hold = argc > 1 && strcmp(argv[1], "--hold") == 0;

    const ttmem_device_id_t device = open_device();
    const ttmem_mesh_id_t mesh = open_mesh(device);
    const ttmem_buffer_id_t weights =
        allocate(mesh, TTMEM_CLASS_DRAM, DRAM_BANKS, 0x40000, 64 * PAGE_BYTES);
    const ttmem_buffer_id_t activations =
        allocate(mesh, TTMEM_CLASS_L1, L1_BANKS, 0xE0000, 4 * PAGE_BYTES);
    const ttmem_program_id_t program = run_program(mesh);

    if (hold) {
        ttmem_client_flush(10000);
        printf("dram_bytes=%d l1_bytes=%d cb_bytes=%d kernel_bytes=%d buffers=2\n",
               DRAM_BANKS * 64 * PAGE_BYTES, L1_BANKS * 4 * PAGE_BYTES, 8 * 4096, 8 * 10000);
        fflush(stdout);
        while (getchar() != EOF) {
        }
    }

    ttmem_program_destroyed(program);
    ttmem_buffer_freed(mesh, activations);
    ttmem_buffer_freed(mesh, weights);
    ttmem_mesh_closed(mesh);
    ttmem_device_closed(device);
    /* Without a server this waits a second for one, in vain. */
    ttmem_client_close(1000);
    return 0;
}
