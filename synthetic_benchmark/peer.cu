// peer.cu: how fast cudaMemcpyPeer is between the first and the last GPU that the program sees (comm.py). Prints one
// JSON object for each size: the median of the turns' MB/s, and microseconds, in both directions.
//
//   peer TURNS BYTES...
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define MUST(call)                                                                                    \
    do {                                                                                              \
        cudaError_t error_ = (call);                                                                  \
        if (error_) {                                                                                 \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

static double now()
{
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

static double median(std::vector<double> &seconds)
{
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

int main(int argc, char **argv)
{
    int devices = 0, turns = argc > 2 ? atoi(argv[1]) : 0;
    MUST(cudaGetDeviceCount(&devices));
    if (turns < 1 || devices < 2) {
        fprintf(stderr, "usage: peer TURNS BYTES...   (with two GPUs at least)\n");
        return 2;
    }
    const int last = devices - 1;
    for (int i = 2; i < argc; i++) {
        const size_t size = strtoull(argv[i], nullptr, 10);
        unsigned char *here, *there, at_end = 0;
        std::vector<double> to, from;
        MUST(cudaSetDevice(last));
        MUST(cudaMalloc(&there, size));
        MUST(cudaMemset(there, 0, size));
        MUST(cudaDeviceSynchronize());
        MUST(cudaSetDevice(0));
        MUST(cudaMalloc(&here, size));
        MUST(cudaMemset(here, 77, size));
        MUST(cudaMemcpyPeer(there, last, here, 0, size)); // makes the link, and touches the memory
        MUST(cudaMemcpy(&at_end, there + size - 1, 1, cudaMemcpyDefault));
        for (int turn = 0; turn < turns; turn++) {
            double begun = now();
            MUST(cudaMemcpyPeer(there, last, here, 0, size));
            to.push_back(now() - begun);
            begun = now();
            MUST(cudaMemcpyPeer(here, 0, there, last, size));
            from.push_back(now() - begun);
        }
        const double seconds = median(to), back = median(from);
        printf("{\"bytes\": %zu, \"copy_mb_s\": %.1f, \"back_mb_s\": %.1f, \"copy_us\": %.1f, \"right\": %s}\n", size,
               (double)size / seconds / 1e6, (double)size / back / 1e6, seconds * 1e6, at_end == 77 ? "true" : "false");
        MUST(cudaFree(here));
        MUST(cudaFree(there));
    }
    return 0;
}
