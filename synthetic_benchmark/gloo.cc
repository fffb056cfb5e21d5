/*
 * gloo.cc RANKS FOLDER [BYTES]: all-reduce of 8 bytes and of BYTES (64 MiB) by Gloo, over TCP, with ranks that are
 * processes of this machine: what `flyt-comm-perf --ranks` measures of ours. One JSON object on a line.
 */
#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double median(const std::shared_ptr<gloo::Context> &context, size_t numbers, int repeat)
{
    std::vector<float> in(numbers, 1), out(numbers);
    std::vector<double> times;
    for (int i = 0; i <= repeat; i++) {
        gloo::AllreduceOptions options(context);
        options.setInput(in.data(), numbers);
        options.setOutput(out.data(), numbers);
        options.setReduceFunction([](void *to, const void *a, const void *b, size_t n) {
            for (size_t k = 0; k < n; k++)
                static_cast<float *>(to)[k] = static_cast<const float *>(a)[k] + static_cast<const float *>(b)[k];
        });
        double begin = now();
        gloo::allreduce(options);
        if (i)
            times.push_back(now() - begin);
    }
    std::sort(times.begin(), times.end());
    return times.empty() ? 0 : times[times.size() / 2];
}

static void rank(int number, int ranks, const char *folder, size_t bytes)
{
    gloo::transport::tcp::attr attr;
    attr.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(folder);
    double begin = now();
    auto context = std::make_shared<gloo::rendezvous::Context>(number, ranks);
    context->connectFullMesh(store, device);
    double made = now() - begin, small = median(context, 2, 1000), large = median(context, bytes / 4, 5);
    if (number == 0)
        printf("{\"ranks\": %d, \"made_ms\": %.2f, \"small_us\": %.1f, \"bytes\": %zu, \"large_ms\": %.2f}\n", ranks,
               made * 1e3, small * 1e6, bytes, large * 1e3);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int ranks = atoi(argv[1]);
    size_t bytes = argc > 3 ? strtoull(argv[3], nullptr, 10) : size_t(64) << 20;
    for (int r = 1; r < ranks; r++)
        if (fork() == 0) {
            rank(r, ranks, argv[2], bytes);
            return 0;
        }
    rank(0, ranks, argv[2], bytes);
    while (wait(nullptr) > 0)
        ;
    return 0;
}
