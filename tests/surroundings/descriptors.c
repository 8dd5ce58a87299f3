/*
 * A program that closes every descriptor, as daemons do, and uses the numbers for its own files and
 * sockets. Ours must not end up in them, and theirs must not be closed by us.
 *
 * Arguments: a file to write to.
 */
#include "story.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Beyond any number that the library takes for itself while the program has few. */
enum { BEYOND = 800, ROUNDS = 10 };

static atomic_bool enough;

static void *record_at_full_speed(void *mesh) {
    while (!enough) {
        ttmem_buffer_freed(*(ttmem_mesh_id_t *)mesh, hold(*(ttmem_mesh_id_t *)mesh));
    }
    return NULL;
}

static int is_socket_number(int number) { return number % 2 == 0; }

/* Takes every number: the odd ones are a file, the even ones a socket. */
static void take_all_numbers(const char *path, int *far_end) {
    closefrom(3);
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(file >= 0);
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    *far_end = fcntl(pair[1], F_DUPFD_CLOEXEC, BEYOND);
    EXPECT(*far_end >= BEYOND);
    const int kept_file = fcntl(file, F_DUPFD_CLOEXEC, BEYOND);
    const int kept_socket = fcntl(pair[0], F_DUPFD_CLOEXEC, BEYOND);
    for (int number = 3; number < BEYOND; number++) {
        int taken;
        do {
            taken = dup2(is_socket_number(number) ? kept_socket : kept_file, number);
            /* Another thread is just opening it. */
        } while (taken < 0 && errno == EBUSY);
        EXPECT(taken == number);
    }
}

static void expect_numbers_are_ours(void) {
    for (int number = 3; number < BEYOND; number++) {
        int type;
        socklen_t length = sizeof type;
        const int is_socket = getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
        EXPECT(fcntl(number, F_GETFD) >= 0);
        EXPECT(is_socket == is_socket_number(number));
    }
}

int main(int count, char **arguments) {
    EXPECT(count == 2);
    struct rlimit files;
    EXPECT(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
    EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);

    ttmem_mesh_id_t mesh = open_chip();
    hold(mesh);
    settle();
    pthread_t recorder;
    EXPECT(pthread_create(&recorder, NULL, record_at_full_speed, &mesh) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        int far_end;
        take_all_numbers(arguments[1], &far_end);
        EXPECT(write(3, "file\n", 5) == 5);
        EXPECT(write(4, "socket\n", 7) == 7);
        hold(mesh);
        settle();
        expect_numbers_are_ours();
        char received[64];
        EXPECT(recv(far_end, received, sizeof received, MSG_DONTWAIT) == 7);
        EXPECT(memcmp(received, "socket\n", 7) == 0);
        EXPECT(recv(far_end, received, sizeof received, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    }
    enough = 1;
    EXPECT(pthread_join(recorder, NULL) == 0);
    settle();
    reach("recovered");
    return 0;
}
