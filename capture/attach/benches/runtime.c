/* See runtime.h. */

#include "runtime.h"
#include <stdlib.h>

#define DRAM_BYTES_PER_BANK (1ull << 30)
#define DRAM_BANKS 12

struct statistics {
    uint64_t total, allocated, free, largest_free;
};

struct optional_word {
    uint64_t value, has_value;
};

struct coordinate {
    uint64_t x, y;
};

void *GRAPH_TRACKER_INSTANCE(void) { return NULL; }

/* What hooks take the place of. */

void TRACK_ALLOCATE(void *tracker, const struct buffer *buffer) {
    (void)tracker, (void)buffer;
}

void TRACK_DEALLOCATE(void *tracker, struct buffer *buffer) { (void)tracker, (void)buffer; }

void TRACK_PROGRAM(void *tracker, struct program *program, const struct device *device) {
    (void)tracker, (void)program, (void)device;
}

bool HOOK_PROGRAM(void *tracker, struct program *program) {
    (void)tracker, (void)program;
    return false;
}

void ADD_RING(struct rings *rings, uint32_t base, uint32_t size) {
    (void)rings, (void)base, (void)size;
}

void RESET_RINGS(const void *hal, struct rings *rings, void *expected, uint32_t count,
                 uint32_t end) {
    (void)hal, (void)expected, (void)count, (void)end;
    for (uint32_t i = 0; i < RINGS; i++) {
        ADD_RING(rings, 4096 * (i + 1), 4096);
    }
}

void MAKE_QUEUE(struct queue *queue, struct device *mesh, uint32_t number, void *dispatch,
                void *reader, void *state, void *lock, void *context) {
    (void)mesh, (void)number, (void)dispatch, (void)reader, (void)state, (void)lock, (void)context;
    RESET_RINGS(NULL, &queue->rings, NULL, 1, 0);
}

/* A result of two words. */
struct reservation {
    uint64_t sync;
    const struct vector *found;
};

struct reservation RESERVE_IN_RINGS(struct rings *rings, const struct vector *sizes) {
    const uint32_t *size = sizes->begin;
    for (uint32_t i = 0; i < RINGS; i++) {
        rings->entries[i][0] = 4096 * (i + 1);
        rings->entries[i][1] = size[i];
    }
    rings->found = (struct vector){rings->entries, rings->entries + RINGS, rings->entries + RINGS};
    return (struct reservation){0, &rings->found};
}

void FREE_IN_RINGS(struct rings *rings, uint32_t sync) { (void)rings, (void)sync; }

void TAKE_IN_RINGS(struct rings *rings, uint32_t sync) { (void)rings, (void)sync; }

/* Takes room in the ring of the first kind of cores, which the program before it has left. */
void ENQUEUE_MESH_WORKLOAD(struct queue *queue, void *workload, bool blocking) {
    (void)workload, (void)blocking;
    static const uint32_t sizes[RINGS] = {1024};
    const struct vector wanted = {sizes, sizes + RINGS, sizes + RINGS};
    /* The real one looks three times: whether there is room, for what, and where. */
    for (int times = 0; times < 3; times++) {
        RESERVE_IN_RINGS(&queue->rings, &wanted);
    }
    FREE_IN_RINGS(&queue->rings, queue->completions);
    TAKE_IN_RINGS(&queue->rings, ++queue->completions);
}

uint64_t ALLOCATE_IN_BANKS(struct allocator *manager, uint64_t size, uint64_t page, bool bottom_up,
                           const void *cores, uint64_t shards, uint32_t allocator,
                           const void *reserved, const void *excluded) {
    (void)page, (void)bottom_up, (void)cores, (void)shards, (void)allocator, (void)reserved;
    (void)excluded;
    manager->allocated += size;
    return 4096;
}

uint64_t ALLOCATE_BUFFER(struct allocator *allocator, struct buffer *buffer) {
    return ALLOCATE_IN_BANKS(allocator, buffer->size_per_bank, buffer->page_size, true, NULL, 0, 0,
                             NULL, NULL);
}

void DEALLOCATE_BUFFER(struct allocator *allocator, struct buffer *buffer) {
    allocator->allocated -= buffer->size_per_bank;
}

bool INITIALIZE_MESH(void *implementation, struct device *mesh, uint8_t queues, uint64_t l1_small,
                     uint64_t trace, uint64_t l1, const void *begin, uint64_t count, bool minimal) {
    (void)implementation, (void)mesh, (void)queues, (void)l1_small, (void)trace, (void)l1;
    (void)begin, (void)count, (void)minimal;
    return true;
}

bool _ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE(
    void *implementation, struct device *mesh) {
    (void)implementation, (void)mesh;
    return true;
}

void VALIDATE_DATAFLOW_BUFFERS(struct program_implementation *program,
                               const struct device *device) {
    (void)program, (void)device;
}

/* What hooks ask: of buffers, */

uint32_t _ZNK2tt8tt_metal6Buffer7addressEv(const struct buffer *buffer) { return buffer->address; }
uint64_t _ZNK2tt8tt_metal6Buffer4sizeEv(const struct buffer *buffer) { return buffer->size; }
uint64_t _ZNK2tt8tt_metal6Buffer9page_sizeEv(const struct buffer *buffer) {
    return buffer->page_size;
}
uint64_t _ZNK2tt8tt_metal6Buffer21aligned_size_per_bankEv(const struct buffer *buffer) {
    return buffer->size_per_bank;
}
uint32_t _ZNK2tt8tt_metal6Buffer11buffer_typeEv(const struct buffer *buffer) {
    return buffer->type;
}
uint32_t _ZNK2tt8tt_metal6Buffer13buffer_layoutEv(const struct buffer *buffer) {
    return buffer->layout;
}
uint64_t _ZNK2tt8tt_metal6Buffer9unique_idEv(const struct buffer *buffer) {
    return buffer->unique_id;
}
bool _ZNK2tt8tt_metal6Buffer12is_allocatedEv(const struct buffer *buffer) {
    return buffer->allocated;
}
const struct device *_ZNK2tt8tt_metal6Buffer6deviceEv(const struct buffer *buffer) {
    return buffer->device;
}

/* of allocators, */

uint32_t _ZNK2tt8tt_metal13AllocatorImpl13get_num_banksERKNS0_10BufferTypeE(
    const struct allocator *allocator, const uint32_t *type) {
    (void)allocator, (void)type;
    return DRAM_BANKS;
}
uint32_t _ZNK2tt8tt_metal13AllocatorImpl13get_alignmentENS0_10BufferTypeE(
    const struct allocator *allocator, uint32_t type) {
    (void)allocator, (void)type;
    return 32;
}
uint64_t _ZNK2tt8tt_metal13AllocatorImpl23get_base_allocator_addrERKNS0_10HalMemTypeE(
    const struct allocator *allocator, const uint8_t *memory) {
    (void)allocator, (void)memory;
    return 4096;
}
struct statistics _ZNK2tt8tt_metal13AllocatorImpl14get_statisticsERKNS0_10BufferTypeE(
    const struct allocator *allocator, const uint32_t *type) {
    uint64_t allocated = *type == 0 ? allocator->allocated : 0;
    uint64_t left = DRAM_BYTES_PER_BANK - allocated;
    return (struct statistics){DRAM_BYTES_PER_BANK, allocated, left, left};
}
struct optional_word _ZNK2tt8tt_metal13AllocatorImpl30get_lowest_occupied_l1_addressEj(
    const struct allocator *allocator, uint32_t bank) {
    (void)allocator, (void)bank;
    return (struct optional_word){0, 0};
}

/* of devices, */

int32_t _ZNK2tt8tt_metal11distributed10MeshDevice2idEv(const struct device *mesh) {
    (void)mesh;
    return 1;
}
static int32_t chip_id(const struct device *chip) {
    (void)chip;
    return 0;
}
uint64_t _ZNK2tt8tt_metal11distributed10MeshDevice8num_rowsEv(const struct device *mesh) {
    (void)mesh;
    return 1;
}
uint64_t _ZNK2tt8tt_metal11distributed10MeshDevice8num_colsEv(const struct device *mesh) {
    (void)mesh;
    return 1;
}
struct vector _ZNK2tt8tt_metal11distributed10MeshDevice11get_devicesEv(const struct device *mesh) {
    const struct device **chips = malloc(sizeof *chips);
    if (chips == NULL) {
        return (struct vector){NULL, NULL, NULL};
    }
    chips[0] = mesh->chip;
    return (struct vector){chips, chips + 1, chips + 1};
}
struct allocator *const *_ZNK2tt8tt_metal11distributed10MeshDevice14allocator_implEv(
    const struct device *mesh) {
    return &mesh->allocator;
}
struct allocator *const *_ZNK2tt8tt_metal6Device14allocator_implEv(const struct device *chip) {
    return &chip->allocator;
}
uint32_t _ZNK2tt8tt_metal6Device4archEv(const struct device *chip) {
    (void)chip;
    return 2;
}
struct coordinate _ZNK2tt8tt_metal6Device30compute_with_storage_grid_sizeEv(
    const struct device *chip) {
    (void)chip;
    return (struct coordinate){8, 8};
}
uint32_t _ZNK2tt8tt_metal6Device16l1_size_per_coreEv(const struct device *chip) {
    (void)chip;
    return 1499136;
}
bool _ZNK2tt8tt_metal6Device15is_mmio_capableEv(const struct device *chip) {
    (void)chip;
    return true;
}
void _ZdlPv(void *memory) { free(memory); }

#define TABLE_ENTRIES 32

const void *const _ZTVN2tt8tt_metal11distributed10MeshDeviceE[TABLE_ENTRIES] = {
    [4] = (const void *)_ZNK2tt8tt_metal11distributed10MeshDevice2idEv,
};
const void *const _ZTVN2tt8tt_metal6DeviceE[TABLE_ENTRIES] = {[4] = (const void *)chip_id};

const void *const *mesh_table(void) { return _ZTVN2tt8tt_metal11distributed10MeshDeviceE + 2; }
const void *const *chip_table(void) { return _ZTVN2tt8tt_metal6DeviceE + 2; }

/* and of programs. */

uint64_t _ZNK2tt8tt_metal6detail11ProgramImpl14get_runtime_idEv(
    const struct program_implementation *program) {
    return program->runtime_id;
}
const struct vector *_ZNK2tt8tt_metal6detail11ProgramImpl16dataflow_buffersEv(
    const struct program_implementation *program) {
    return &program->dataflow_buffers;
}

/* No program here has circular buffers, so that nobody asks one of them anything. */
struct span {
    const struct shared *first;
    uint64_t count;
};
struct span _ZNK2tt8tt_metal6detail11ProgramImpl16circular_buffersEv(
    const struct program_implementation *program) {
    (void)program;
    return (struct span){NULL, 0};
}
void _ZN2tt8tt_metal14CircularBufferC1EPKNS0_18CircularBufferImplE(void) {}
void _ZNK2tt8tt_metal14CircularBuffer18globally_allocatedEv(void) {}
void _ZNK2tt8tt_metal18CircularBufferImpl7addressEv(void) {}
void _ZNK2tt8tt_metal14CircularBuffer4sizeEv(void) {}
void _ZNK2tt8tt_metal18CircularBufferImpl18is_on_logical_coreERKNS_7xy_pairE(void) {}

/* Their presence tells how dataflow buffers lie in memory. */
void _ZN2tt8tt_metal12experimental3dfb6detail18DataflowBufferImpl11update_sizeESt8optionalIjES6_(
    void) {}
void _ZN2tt8tt_metal6detail11ProgramImpl24reserve_program_local_l1EPKNS0_7IDeviceERKNS0_12CoreRangeSetE(
    void) {}
