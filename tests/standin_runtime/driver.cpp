// Opens the library of stories as Python opens ttnn: at run time, with local symbols.
#include <cstdio>
#include <dlfcn.h>

int main(int count, char** arguments) {
    if (count != 3) {
        return 2;
    }
    void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    auto* play = reinterpret_cast<int (*)(const char*)>(dlsym(library, "play"));
    return play == nullptr ? 4 : play(arguments[2]);
}
