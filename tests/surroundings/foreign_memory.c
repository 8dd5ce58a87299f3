/*
 * Memory of the program's own that looks like the library's, and a library that says it is one.
 *
 *   wild HASH     a mapping named as the rings are, with their header, and an address that is none
 *   table HASH    the same, and the address is that of functions that end the program
 *   empty HASH    a mapping of a file without bytes: reading it is a SIGBUS
 *   closed HASH   a mapping that nobody may read
 *   note FILE     a loaded library with notes that lead out of it
 *
 * HASH is the hash of the event layout.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "story.h"

enum { BYTES = 1 << 16, TABLE_AT = 8192, ADDRESS_AT = 40 };

static void called(void) {
    dprintf(2, "a function of foreign memory was called\n");
    _exit(42);
}

static void put(char *memory, size_t at, const void *value, size_t bytes) {
    memcpy(memory + at, value, bytes);
}

static void map_like_rings(char **arguments) {
    const int file = memfd_create("ttmem-rings", MFD_CLOEXEC);
    EXPECT(file >= 0);
    EXPECT(is_mode(arguments, "empty") || ftruncate(file, BYTES) == 0);
    const int permissions = is_mode(arguments, "closed") ? PROT_NONE : PROT_READ | PROT_WRITE;
    char *memory = mmap(NULL, BYTES, permissions, MAP_SHARED, file, 0);
    EXPECT(memory != MAP_FAILED);
    const int has_table = is_mode(arguments, "table");
    if (!has_table && !is_mode(arguments, "wild")) {
        return;
    }
    const uint64_t hash = strtoull(arguments[2], NULL, 10);
    const uint32_t version = 1;
    const uintptr_t address = has_table ? (uintptr_t)memory + TABLE_AT : 0x4141414141;
    put(memory, 0, "TTMEMRNG", 8);
    put(memory, 8, &hash, sizeof hash);
    put(memory, 16, &version, sizeof version);
    put(memory, ADDRESS_AT, &address, sizeof address);
    put(memory, TABLE_AT, &version, sizeof version);
    void (*function)(void) = called;
    for (size_t entry = 1; entry <= 5; entry++) {
        put(memory, TABLE_AT + entry * sizeof function, &function, sizeof function);
    }
}

int main(int count, char **arguments) {
    EXPECT(count == 3);
    if (is_mode(arguments, "note")) {
        EXPECT(dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL) != NULL);
    } else {
        map_like_rings(arguments);
    }
    hold_many(open_chip(), 3);
    settle();
    reach("settled");
    return 9;
}
