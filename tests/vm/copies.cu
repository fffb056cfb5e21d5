// What the tests in virtual machines run beside the end-to-end programs. The argument says what:
//   fill     fills 24 MiB of pinned memory with a pattern, copies it to the device and back, and ends
//   look     allocates as much pinned memory, and counts the bytes that are not 0 in it
//   loop     copies for ever, and checks every copy
//   measure  copies and calls, against memcpy and a ping-pong between two threads of the same machine
#include "../cuda/check.h"
#include "../lib/now.h"
#include <pthread.h>
#include <sched.h>
#include <atomic>
#include <stdint.h>
#include <time.h>

enum { MIB = 1 << 20, PINNED = 24 * MIB };

static void fill(void)
{
    unsigned char *host, *device;
    MUST(cudaMallocHost((void **)&host, PINNED));
    MUST(cudaMalloc((void **)&device, PINNED));
    memset(host, 0xa5, PINNED);
    MUST(cudaMemcpy(device, host, PINNED, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(host, device, PINNED, cudaMemcpyDeviceToHost));
    printf("filled\n");
}

static void look(void)
{
    unsigned char *host;
    size_t others = 0;
    MUST(cudaMallocHost((void **)&host, PINNED));
    for (size_t i = 0; i < PINNED; i++)
        others += host[i] != 0;
    printf("%zu bytes of another program\n", others);
    HOLDS(others == 0);
}

static void loop(void)
{
    enum { SIZE = 8 * MIB };
    unsigned char *device, *host = (unsigned char *)malloc(SIZE), *back = (unsigned char *)malloc(SIZE);
    MUST(cudaMalloc((void **)&device, SIZE));
    for (unsigned round = 0;; round++) {
        memset(host, (int)(round % 251), SIZE);
        MUST(cudaMemcpy(device, host, SIZE, cudaMemcpyHostToDevice));
        MUST(cudaMemcpy(back, device, SIZE, cudaMemcpyDeviceToHost));
        HOLDS(memcmp(host, back, SIZE) == 0);
        if (round == 0) {
            printf("copying\n");
            fflush(stdout);
        }
    }
}

// GB/s of the fastest of five, and what it is divided by memcpy's.
static double said(const char *what, double size, double fastest, double of)
{
    double speed = size / fastest / 1e9;
    if (of > 0)
        printf("%s_gbs %.3f\n%s_ratio %.3f\n", what, speed, what, speed / of);
    else
        printf("%s_gbs %.3f\n", what, speed);
    return speed;
}

template <typename Copy> static double fastest_of_five(Copy copy)
{
    double fastest = 1e9;
    copy();
    for (int i = 0; i < 5; i++) {
        double start = now_s();
        copy();
        double took = now_s() - start;
        fastest = took < fastest ? took : fastest;
    }
    return fastest;
}

static std::atomic<int> ball;
enum { ROUNDS = 2000 };

static void *player(void *)
{
    for (int i = 0; i < ROUNDS; i++) {
        while (ball.load(std::memory_order_acquire) != 2 * i + 1)
            sched_yield();
        ball.store(2 * i + 2, std::memory_order_release);
    }
    return NULL;
}

// Seconds of one round between two threads that give way while they wait.
static double ping_pong(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, player, NULL);
    double start = now_s();
    for (int i = 0; i < ROUNDS; i++) {
        ball.store(2 * i + 1, std::memory_order_release);
        while (ball.load(std::memory_order_acquire) != 2 * i + 2)
            sched_yield();
    }
    double took = (now_s() - start) / ROUNDS;
    pthread_join(thread, NULL);
    return took;
}

static void measure(void)
{
    enum { SIZE = 16 * MIB };
    unsigned char *device, *pinned, *host = (unsigned char *)malloc(SIZE), *other = (unsigned char *)malloc(SIZE);
    memset(host, 1, SIZE);
    MUST(cudaMalloc((void **)&device, SIZE));
    MUST(cudaMallocHost((void **)&pinned, SIZE));
    double local = said("memcpy", SIZE, fastest_of_five([&] { memcpy(other, host, SIZE); }), 0);
    auto to_device = [&] { MUST(cudaMemcpy(device, host, SIZE, cudaMemcpyHostToDevice)); };
    auto from_device = [&] { MUST(cudaMemcpy(host, device, SIZE, cudaMemcpyDeviceToHost)); };
    said("to_device", SIZE, fastest_of_five(to_device), local);
    said("from_device", SIZE, fastest_of_five(from_device), local);
    said("pinned_to_device", SIZE, fastest_of_five([&] {
             MUST(cudaMemcpyAsync(device, pinned, SIZE, cudaMemcpyHostToDevice));
             MUST(cudaDeviceSynchronize());
         }), local);
    double round = ping_pong(), calls = 1e9;
    char byte = 1;
    for (int i = 0; i < 500; i++) {
        double start = now_s();
        MUST(cudaMemcpy(&byte, device, 1, cudaMemcpyDeviceToHost));
        double took = now_s() - start;
        calls = took < calls ? took : calls;
    }
    printf("ping_pong_us %.2f\ncall_us %.2f\ncall_ratio %.2f\n", round * 1e6, calls * 1e6, calls / round);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "fill") == 0)
        fill();
    else if (strcmp(what, "look") == 0)
        look();
    else if (strcmp(what, "loop") == 0)
        loop();
    else if (strcmp(what, "measure") == 0)
        measure();
    else
        HOLDS(!"an argument");
    return check_result("copies");
}
