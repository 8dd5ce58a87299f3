// The old AllocationClient of instrumented TT-Metal trees, on top of libttmem.
//
// Such a tree switches by changing an include: the class, its namespace and its static methods are
// the old ones, and so is the variable that turns it on, TT_ALLOC_TRACKING_ENABLED=1. What changes
// is underneath: a report is one event in shared memory, tens of nanoseconds instead of a blocking
// send under a lock; nothing is lost while the server is away; and what a process held is given
// back when it dies.
//
// The link line stays as it is: libttmem is looked up at the first report, and only when tracking
// is turned on. It is taken from what the process has loaded already, else from the path in
// TTMEM_LIBRARY, else as libttmem.so.0 or libttmem.so from where the loader looks. If there is
// none, one line on stderr says so, and tracking is off. Before glibc 2.34, dlopen itself is in
// libdl. Define TTMEM_STATIC to link with libttmem directly instead.
//
// C++17. Nothing here throws. While tracking is off, a report costs one relaxed load.

#ifndef TTMEM_ALLOCATION_CLIENT_HPP
#define TTMEM_ALLOCATION_CLIENT_HPP

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef TTMEM_STATIC
#include "ttmem.h"
#else
#include <dlfcn.h>
#endif

namespace tt::tt_metal {

// Hidden: each shared object that includes this decides for itself. Variables that the loader has
// to make the same in all of them would keep such an object from ever being unloaded.
namespace ttmem_detail __attribute__((visibility("hidden"))) {

// The functions of libttmem, as ttmem.h declares them.
struct Calls {
    std::int32_t (*allocation)(std::int32_t, std::uint64_t, std::uint8_t, std::uint64_t) = nullptr;
    std::int32_t (*deallocation)(std::int32_t, std::uint64_t) = nullptr;
    std::int32_t (*cb_allocation)(std::int32_t, std::uint64_t, std::uint64_t) = nullptr;
    std::int32_t (*cb_deallocation)(std::int32_t, std::uint64_t, std::uint64_t) = nullptr;
    std::int32_t (*kernel_load)(std::int32_t, std::uint64_t, std::uint64_t, std::uint8_t) = nullptr;
    std::int32_t (*kernel_unload)(std::int32_t, std::uint64_t) = nullptr;

    bool complete() const noexcept {
        return allocation != nullptr && deallocation != nullptr && cb_allocation != nullptr &&
               cb_deallocation != nullptr && kernel_load != nullptr && kernel_unload != nullptr;
    }
};

inline bool is_asked_for() noexcept {
    const char* value = std::getenv("TT_ALLOC_TRACKING_ENABLED");
    return value != nullptr && std::strcmp(value, "1") == 0;
}

#ifdef TTMEM_STATIC

inline Calls find_calls() noexcept {
    Calls calls;
    if (is_asked_for()) {
        calls.allocation = &ttmem_legacy_report_allocation;
        calls.deallocation = &ttmem_legacy_report_deallocation;
        calls.cb_allocation = &ttmem_legacy_report_cb_allocation;
        calls.cb_deallocation = &ttmem_legacy_report_cb_deallocation;
        calls.kernel_load = &ttmem_legacy_report_kernel_load;
        calls.kernel_unload = &ttmem_legacy_report_kernel_unload;
    }
    return calls;
}

#else

template <typename Function>
inline void find(void* library, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(dlsym(library, name));
}

inline Calls find_calls_in(void* library) noexcept {
    Calls calls;
    find(library, "ttmem_legacy_report_allocation", calls.allocation);
    find(library, "ttmem_legacy_report_deallocation", calls.deallocation);
    find(library, "ttmem_legacy_report_cb_allocation", calls.cb_allocation);
    find(library, "ttmem_legacy_report_cb_deallocation", calls.cb_deallocation);
    find(library, "ttmem_legacy_report_kernel_load", calls.kernel_load);
    find(library, "ttmem_legacy_report_kernel_unload", calls.kernel_unload);
    return calls;
}

inline void* open_library() noexcept {
    constexpr int how = RTLD_NOW | RTLD_LOCAL;
    // A program with more rights than its user must not load what that user names.
    if (const char* path = secure_getenv("TTMEM_LIBRARY"); path != nullptr && *path != '\0') {
        return dlopen(path, how);
    }
    void* library = dlopen("libttmem.so.0", how);
    return library != nullptr ? library : dlopen("libttmem.so", how);
}

inline Calls find_calls() noexcept {
    if (!is_asked_for()) {
        return {};
    }
    if (Calls calls = find_calls_in(RTLD_DEFAULT); calls.complete()) {
        return calls;
    }
    void* library = open_library();
    if (library == nullptr) {
        const char* why = dlerror();
        std::fprintf(stderr, "ttmem: allocation tracking is off: %s\n",
                     why != nullptr ? why : "libttmem cannot be loaded");
        return {};
    }
    Calls calls = find_calls_in(library);
    if (!calls.complete()) {
        std::fprintf(stderr, "ttmem: allocation tracking is off: this libttmem is too old\n");
        return {};
    }
    return calls;
}

#endif  // TTMEM_STATIC

enum class State : int { undecided, off, on };

inline std::atomic<State> state{State::undecided};

// Looks for the library once, however many threads come here first; the others wait for it, so
// that no report is lost.
inline const Calls& found_calls() noexcept {
    static const Calls calls = find_calls();
    return calls;
}

// The functions, or null while tracking is off.
inline const Calls* calls() noexcept {
    const State now = state.load(std::memory_order_relaxed);
    if (now == State::off) {
        return nullptr;
    }
    const Calls& calls = found_calls();
    if (now == State::undecided) {
        state.store(calls.complete() ? State::on : State::off, std::memory_order_relaxed);
    }
    return calls.complete() ? &calls : nullptr;
}

}  // namespace ttmem_detail

// Reports of the old kind: a device is a logical id, a buffer is an address.
class AllocationClient {
public:
    // A buffer was placed. Types: 0 DRAM, 1 L1, 2 SYSTEM_MEMORY, 3 L1_SMALL, 4 TRACE.
    static void report_allocation(
        int device_id, std::uint64_t size, std::uint8_t buffer_type, std::uint64_t buffer_id) noexcept {
        if (const auto* calls = ttmem_detail::calls()) {
            calls->allocation(device_id, size, buffer_type, buffer_id);
        }
    }

    // A buffer was given back.
    static void report_deallocation(int device_id, std::uint64_t buffer_id) noexcept {
        if (const auto* calls = ttmem_detail::calls()) {
            calls->deallocation(device_id, buffer_id);
        }
    }

    // A circular buffer was placed.
    static void report_cb_allocation(int device_id, std::uint64_t size, std::uint64_t cb_id) noexcept {
        if (const auto* calls = ttmem_detail::calls()) {
            calls->cb_allocation(device_id, size, cb_id);
        }
    }

    // A circular buffer was given back; the size tells several at one address apart.
    static void report_cb_deallocation(int device_id, std::uint64_t size, std::uint64_t cb_id) noexcept {
        if (const auto* calls = ttmem_detail::calls()) {
            calls->cb_deallocation(device_id, size, cb_id);
        }
    }

    // The older form: the newest circular buffer at that address.
    static void report_cb_deallocation(int device_id, std::uint64_t cb_id) noexcept {
        report_cb_deallocation(device_id, 0, cb_id);
    }

    // A kernel was loaded, with its bytes over all cores. Types: 0 application, 1 fabric, 2 dispatch.
    static void report_kernel_load(
        int device_id, std::uint64_t size, std::uint64_t kernel_id, std::uint8_t kernel_type = 0) noexcept {
        if (const auto* calls = ttmem_detail::calls()) {
            calls->kernel_load(device_id, size, kernel_id, kernel_type);
        }
    }

    // The form with the bytes of one core, and how many cores there are.
    static void report_kernel_load(
        int device_id,
        std::uint64_t size_per_core,
        std::uint64_t kernel_id,
        std::uint8_t kernel_type,
        std::uint32_t num_cores) noexcept {
        const bool too_large = num_cores != 0 && size_per_core > UINT64_MAX / num_cores;
        const std::uint64_t size = too_large ? UINT64_MAX : size_per_core * num_cores;
        report_kernel_load(device_id, size, kernel_id, kernel_type);
    }

    // A kernel is gone. What was booked for it is given back, whatever size is named.
    static void report_kernel_unload(
        int device_id, [[maybe_unused]] std::uint64_t size, std::uint64_t kernel_id) noexcept {
        report_kernel_unload(device_id, kernel_id);
    }

    // The older form.
    static void report_kernel_unload(int device_id, std::uint64_t kernel_id) noexcept {
        if (const auto* calls = ttmem_detail::calls()) {
            calls->kernel_unload(device_id, kernel_id);
        }
    }

    // Whether reports go anywhere.
    static bool is_enabled() noexcept { return ttmem_detail::calls() != nullptr; }
};

}  // namespace tt::tt_metal

#endif  // TTMEM_ALLOCATION_CLIENT_HPP
