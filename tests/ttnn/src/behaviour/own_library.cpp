// A library of the user's: it answers, and replaces how C++ objects are allocated.
//
// What it allocates nobody else can give back: `free` refuses an address behind a header.
#include <cstdlib>
#include <new>

namespace {
constexpr std::size_t header_bytes = 64;
}

extern "C" int users_own_answer() { return 42; }

void* operator new(std::size_t size) {
    void* block = std::malloc(size + header_bytes);
    if (block == nullptr) {
        throw std::bad_alloc();
    }
    return static_cast<char*>(block) + header_bytes;
}

void operator delete(void* object) noexcept {
    if (object != nullptr) {
        std::free(static_cast<char*>(object) - header_bytes);
    }
}

void operator delete(void* object, std::size_t) noexcept { operator delete(object); }
