// C++ around the library: exceptions pass through frames that report, and destructors of all kinds
// report when the thread or the program is already ending.
#include "story.h"

#include <stdexcept>
#include <string>
#include <thread>

namespace {

ttmem_mesh_id_t mesh;

// Holds a buffer and gives it back when it goes, as an owner of device memory does.
class Owner {
public:
    Owner() : buffer_(hold(mesh)) {}
    ~Owner() { ttmem_buffer_freed(mesh, buffer_); }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

private:
    ttmem_buffer_id_t buffer_;
};

// Reports one more buffer when it goes.
struct Last {
    bool armed = false;
    ~Last() {
        if (armed) {
            hold(mesh);
        }
    }
};

Last at_static_destruction;
thread_local Last at_thread_end;

void fail_at_depth(int depth) {
    const Owner owner;
    if (depth == 0) {
        throw std::runtime_error("from the depths");
    }
    fail_at_depth(depth - 1);
}

std::string what_comes_out() {
    try {
        fail_at_depth(20);
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "nothing";
}

}  // namespace

int main() {
    mesh = open_chip();
    for (int round = 0; round < 1000; round++) {
        EXPECT(what_comes_out() == "from the depths");
    }
    hold(mesh);
    std::thread([] {
        at_thread_end.armed = true;
        hold(mesh);
    }).join();
    settle();
    reach("thrown");  // One of main's, two of the thread's.
    at_thread_end.armed = true;
    at_static_destruction.armed = true;
    std::atexit([] { hold(mesh); });
    return 4;  // Three more on the way out.
}
