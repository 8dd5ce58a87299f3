/* A stand-in for the runtime's library: the functions that the attach library takes the place of
 * and the accessors that it asks, each as small as it can be. What is left of a run is the cost of
 * tracking. The names are those of the real library; in C they are names like any other. */

#include <stdbool.h>
#include <stdint.h>

#define GRAPH_TRACKER_INSTANCE _ZN2tt8tt_metal12GraphTracker8instanceEv
#define TRACK_ALLOCATE _ZN2tt8tt_metal12GraphTracker14track_allocateEPKNS0_6BufferE
#define TRACK_DEALLOCATE _ZN2tt8tt_metal12GraphTracker16track_deallocateEPNS0_6BufferE
#define TRACK_PROGRAM                                                                            \
    _ZN2tt8tt_metal12GraphTracker13track_programEPNS0_7ProgramEPKNS0_7IDeviceE
#define HOOK_PROGRAM _ZN2tt8tt_metal12GraphTracker12hook_programEPNS0_7ProgramE
#define ENQUEUE_MESH_WORKLOAD                                                                    \
    _ZN2tt8tt_metal11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb
#define ALLOCATE_BUFFER _ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE
#define DEALLOCATE_BUFFER _ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE
#define ALLOCATE_IN_BANKS                                                                        \
    _ZN2tt8tt_metal11BankManager15allocate_bufferEmmbRKNS0_12CoreRangeSetESt8optionalIjEN4ttsl10StrongTypeIjNS0_14AllocatorIDTagEEERKSt6vectorISt4pairImmESaISD_EERKS5_ISt13unordered_setIjSt4hashIjESt8equal_toIjESaIjEEE
#define INITIALIZE_MESH                                                                          \
    _ZN2tt8tt_metal11distributed14MeshDeviceImpl15initialize_implEPNS1_10MeshDeviceEhmmmSt4spanIKjLm18446744073709551615EEb
#define MAKE_QUEUE                                                                               \
    _ZN2tt8tt_metal11distributed18FDMeshCommandQueueC1EPNS1_10MeshDeviceEjRSt10shared_ptrINS0_10ThreadPoolEES8_RS5_INS0_13CQSharedStateEESt8functionIFSt10lock_guardISt5mutexEvEES5_INS1_9multihost18DistributedContextEE
#define RESET_RINGS                                                                              \
    _ZN2tt8tt_metal16program_dispatch42reset_config_buf_mgrs_and_expected_workersERKNS0_3HalERSt5arrayINS0_21WorkerConfigBufferMgrELm8EERS5_IjLm8EEjj
#define ADD_RING _ZN2tt8tt_metal21WorkerConfigBufferMgr15init_add_bufferEjj
#define RESERVE_IN_RINGS _ZN2tt8tt_metal21WorkerConfigBufferMgr7reserveERKSt6vectorIjSaIjEE
#define FREE_IN_RINGS _ZN2tt8tt_metal21WorkerConfigBufferMgr4freeEj
#define TAKE_IN_RINGS _ZN2tt8tt_metal21WorkerConfigBufferMgr5allocEj
#define VALIDATE_DATAFLOW_BUFFERS                                                                \
    _ZN2tt8tt_metal6detail11ProgramImpl31validate_dataflow_buffer_regionEPKNS0_7IDeviceE

/* std::vector. */
struct vector {
    const void *begin, *end, *limit;
};

struct allocator {
    uint64_t allocated;
};

/* A mesh or a chip. */
struct device {
    const void *const *table;
    struct allocator *allocator;
    const struct device *chip;
};

struct buffer {
    const struct device *device;
    uint64_t unique_id, size, page_size, size_per_bank;
    uint32_t address, type, layout;
    bool allocated;
};

/* std::shared_ptr. */
struct shared {
    const void *object, *count;
};

struct program_implementation {
    uint64_t runtime_id;
    struct vector dataflow_buffers;
};

struct program {
    struct program_implementation *implementation;
    void *count;
};

/* Kinds of cores that have a config ring, and two rings of launch messages. */
#define RINGS 5

/* A manager of config rings, with the newest room that it found. */
struct rings {
    uint32_t entries[RINGS][3];
    struct vector found;
};

/* A command queue: no more than its rings. */
struct queue {
    struct rings rings;
    uint32_t completions;
};

/* What devices point to: their virtual tables, behind the offset and the type. */
const void *const *mesh_table(void);
const void *const *chip_table(void);

void TRACK_ALLOCATE(void *tracker, const struct buffer *buffer);
void TRACK_DEALLOCATE(void *tracker, struct buffer *buffer);
void TRACK_PROGRAM(void *tracker, struct program *program, const struct device *device);
bool HOOK_PROGRAM(void *tracker, struct program *program);
void ENQUEUE_MESH_WORKLOAD(struct queue *queue, void *workload, bool blocking);
uint64_t ALLOCATE_BUFFER(struct allocator *allocator, struct buffer *buffer);
void DEALLOCATE_BUFFER(struct allocator *allocator, struct buffer *buffer);
bool INITIALIZE_MESH(void *implementation, struct device *mesh, uint8_t queues, uint64_t l1_small,
                     uint64_t trace, uint64_t l1, const void *begin, uint64_t count, bool minimal);
void MAKE_QUEUE(struct queue *queue, struct device *mesh, uint32_t number, void *dispatch,
                void *reader, void *state, void *lock, void *context);
void VALIDATE_DATAFLOW_BUFFERS(struct program_implementation *program,
                               const struct device *device);
