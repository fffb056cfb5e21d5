// shows: scale: no operation on n objects takes more than O(log n): streams, events, allocations, pinned and registered
//   memory, host functions, modules, kernels, variables, waits, copies under way
//
// many [KIND [N [ORDER]]]: does what KIND says with N objects and prints the time of each phase in nanoseconds per
// object.
#include "check.h"
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <pthread.h>
#include <string>
#include <time.h>
#include <vector>

__global__ void held(volatile int *flag) { while (*flag == 0) __nanosleep(20000); }
__global__ void bump(int *p) { atomicAdd(p, 1); }

enum Order { IN_ORDER, REVERSE, RANDOM, ORDERS };
static const char *const order_names[ORDERS] = {"in order", "in reverse", "at random"};

struct Phase { std::string name; double ns; };
static std::vector<Phase> phases;
static int n;
static Order order;
static int *flag, *counter;
static cudaStream_t holding, releasing;

static double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static double began;
static void begin() { began = now(); }
static void end(const char *name, double objects = 0)
{
    phases.push_back({ name, (now() - began) / (objects ? objects : n) });
}

static std::vector<int> permutation()
{
    std::vector<int> list(n);
    uint64_t state = 88172645463325252ull;
    for (int i = 0; i < n; i++)
        list[i] = order == REVERSE ? n - 1 - i : i;
    for (int i = n - 1; order == RANDOM && i > 0; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        std::swap(list[i], list[state % (i + 1)]);
    }
    return list;
}

enum When { CALLED, DONE };

/* A phase: does it with each object, in the order that is asked for; DONE: and waits for the device. */
template <class What> static void each(const char *name, When when, What what, double objects = 0)
{
    begin();
    for (int i : permutation())
        what(i);
    if (when == DONE)
        MUST(cudaDeviceSynchronize());
    end(name, objects);
}

/* Likewise, in the order of their numbers. */
template <class What> static void all(const char *name, When when, What what)
{
    begin();
    for (int i = 0; i < n; i++)
        what(i);
    if (when == DONE)
        MUST(cudaDeviceSynchronize());
    end(name);
}

/* The stream stands still until release(). */
static void hold(cudaStream_t in)
{
    MUST(cudaMemsetAsync(flag, 0, sizeof *flag, releasing));
    MUST(cudaStreamSynchronize(releasing));
    held<<<1, 1, 0, in>>>(flag);
}

static void release()
{
    static const int one = 1;
    MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, releasing));
}

/* A phase: all that waits for release(). */
static void run(double objects = 0)
{
    begin();
    release();
    MUST(cudaDeviceSynchronize());
    end("run", objects);
}

static int counted()
{
    int value;
    MUST(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

/* ---- the kinds ---- */

static void streams()
{
    std::vector<cudaStream_t> s(n);
    all("create", DONE, [&](int i) {
        MUST(cudaStreamCreateWithFlags(&s[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
    });
    each("launch in each", DONE, [&](int i) { bump<<<1, 1, 0, s[i]>>>(counter); });
    each("synchronise each", CALLED, [&](int i) { MUST(cudaStreamSynchronize(s[i])); });
    begin();
    for (int i = 0; i < 1000; i++)
        bump<<<1, 1>>>(counter);
    MUST(cudaDeviceSynchronize());
    end("1000 launches in the NULL stream", 1000);
    begin();
    for (int i = 0; i < 1000; i++) {
        bump<<<1, 1>>>(counter);
        MUST(cudaStreamSynchronize(0));
        cudaStreamQuery(0);
    }
    end("1000 synchronisations of the NULL stream", 1000);
    begin();
    for (int i = 0; i < 1000; i++) {
        void *p;
        MUST(cudaMalloc(&p, 4096));
        MUST(cudaFree(p));
        MUST(cudaDeviceSynchronize());
    }
    end("1000 allocations beside them", 1000);
    each("destroy", DONE, [&](int i) { MUST(cudaStreamDestroy(s[i])); });
    HOLDS(counted() == n + 2000);
}

/* A turn: a copy and a launch in the NULL stream, which waits for all blocking streams, and whether it has ended. The
   fastest of several rounds, in ns. Where no round takes at most `enough`, there are more: on a busy machine few rounds
   have the processor for themselves, and what idle streams cost is in each of them. */
static int turns;
static double null_stream_turn(double enough)
{
    double best = 1e18;
    static const int value = 0;
    for (int round = 0; round < 8 || (best > enough && round < 100); round++) {
        double start = now();
        for (int i = 0; i < 100; i++, turns++) {
            MUST(cudaMemcpy(flag, &value, sizeof value, cudaMemcpyHostToDevice));
            bump<<<1, 1>>>(counter);
            MUST(cudaStreamSynchronize(0));
            MUST(cudaStreamQuery(0));
        }
        MUST(cudaDeviceSynchronize());
        best = std::min(best, (now() - start) / 100);
    }
    return best;
}

static double as_fast(double alone) { return 2 * alone + 100000; }

/* Streams that have had work and have none now cost the NULL stream nothing. Four times as many as elsewhere, so that
   it shows what they might cost; the order makes no difference. */
static void idle_streams()
{
    if (order != IN_ORDER)
        return;
    n = std::min(4 * n, 10000);
    std::vector<cudaStream_t> s(n);
    turns = 0;
    double alone = null_stream_turn(INFINITY);
    phases.push_back({"a turn in the NULL stream, alone", alone});
    for (auto &one : s)
        MUST(cudaStreamCreate(&one));
    for (int i : permutation())
        bump<<<1, 1, 0, s[i]>>>(counter);
    MUST(cudaDeviceSynchronize());
    double synchronised = null_stream_turn(as_fast(alone));
    phases.push_back({"beside streams that were synchronised", synchronised});
    for (int i : permutation())
        bump<<<1, 1, 0, s[i]>>>(counter);
    for (int i : permutation())
        while (cudaStreamQuery(s[i]) == cudaErrorNotReady)
            ;
    double queried = null_stream_turn(as_fast(alone));
    phases.push_back({"beside streams that were only queried", queried});
    for (int i : permutation())
        MUST(cudaStreamDestroy(s[i]));
    alone = std::max(alone, null_stream_turn(INFINITY));
    HOLDS(synchronised <= as_fast(alone));
    HOLDS(queried <= as_fast(alone));
    HOLDS(counted() == 2 * n + turns);
}

/* All have work when they are destroyed. */
static void busy_streams()
{
    std::vector<cudaStream_t> s(n);
    for (int i = 0; i < n; i++)
        MUST(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
    cudaEvent_t go;
    MUST(cudaEventCreateWithFlags(&go, cudaEventDisableTiming));
    hold(holding);
    MUST(cudaEventRecord(go, holding));
    each("wait and launch in each", CALLED, [&](int i) {
        MUST(cudaStreamWaitEvent(s[i], go, 0));
        bump<<<1, 1, 0, s[i]>>>(counter);
    });
    each("query each", CALLED, [&](int i) { GIVES(cudaErrorNotReady, cudaStreamQuery(s[i])); });
    each("destroy", CALLED, [&](int i) { MUST(cudaStreamDestroy(s[i])); });
    run();
    HOLDS(counted() == n);
    MUST(cudaEventDestroy(go));
}

static void events()
{
    std::vector<cudaEvent_t> e(n);
    all("create", DONE, [&](int i) { MUST(cudaEventCreateWithFlags(&e[i], i % 2 ? cudaEventDisableTiming : 0)); });
    each("record", DONE, [&](int i) { MUST(cudaEventRecord(e[i], holding)); });
    each("synchronise", CALLED, [&](int i) { MUST(cudaEventSynchronize(e[i])); });
    each("destroy", DONE, [&](int i) { MUST(cudaEventDestroy(e[i])); });
}

/* Recorded behind work that has not ended, asked about, waited for. */
static void pending_events()
{
    std::vector<cudaEvent_t> e(n);
    for (int i = 0; i < n; i++)
        MUST(cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming));
    hold(holding);
    all("launch and record", CALLED, [&](int i) {
        bump<<<1, 1, 0, holding>>>(counter);
        MUST(cudaEventRecord(e[i], holding));
    });
    each("query", CALLED, [&](int i) { GIVES(cudaErrorNotReady, cudaEventQuery(e[i])); });
    each("wait for each", CALLED, [&](int i) { MUST(cudaStreamWaitEvent(releasing, e[i], 0)); });
    begin();
    MUST(cudaEventDestroy(e[n / 2]));
    cudaStream_t other;
    static const int one = 1;
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, other));
    for (int i : permutation())
        if (i != n / 2)
            MUST(cudaEventSynchronize(e[i]));
    MUST(cudaDeviceSynchronize());
    end("run and synchronise each");
    each("destroy", DONE, [&](int i) {
        if (i != n / 2)
            MUST(cudaEventDestroy(e[i]));
    });
    MUST(cudaStreamDestroy(other));
    HOLDS(counted() == n);
}

static void allocations()
{
    std::vector<void *> p(n);
    size_t sizes[] = {1, 256, 300, 4096, 5000, 20000};
    all("allocate", CALLED, [&](int i) { MUST(cudaMalloc(&p[i], sizes[i % 6])); });
    each("set each", DONE, [&](int i) { MUST(cudaMemsetAsync(p[i], 1, 1, holding)); });
    begin();
    cudaPointerAttributes attributes;
    for (int i : permutation())
        MUST(cudaPointerGetAttributes(&attributes, p[i]));
    end("ask about each");
    each("free half", CALLED, [&](int i) {
        if (i % 2) {
            MUST(cudaFree(p[i]));
            p[i] = NULL;
        }
    }, n / 2);
    each("allocate again", CALLED, [&](int i) {
        if (!p[i])
            MUST(cudaMalloc(&p[i], sizes[(i + 3) % 6]));
    }, n / 2);
    each("free", DONE, [&](int i) { MUST(cudaFree(p[i])); });
}

static void pinned()
{
    std::vector<char *> p(n);
    all("allocate", CALLED, [&](int i) { MUST(cudaMallocHost((void **)&p[i], i % 8 ? 4096 : 9000)); });
    each("copy from each", DONE, [&](int i) {
        *p[i] = 1;
        MUST(cudaMemcpyAsync(counter, p[i], 4, cudaMemcpyHostToDevice, holding));
    });
    each("free half", CALLED, [&](int i) {
        if (i % 2) {
            MUST(cudaFreeHost(p[i]));
            p[i] = NULL;
        }
    }, n / 2);
    each("allocate again", CALLED, [&](int i) {
        if (!p[i])
            MUST(cudaMallocHost((void **)&p[i], 8192));
    }, n / 2);
    each("free", CALLED, [&](int i) { MUST(cudaFreeHost(p[i])); });
}

static void registered()
{
    const size_t SIZE = 4096;
    char *memory = (char *)aligned_alloc(SIZE, SIZE * n * 2);
    each("register", CALLED, [&](int i) { MUST(cudaHostRegister(memory + 2 * SIZE * i, SIZE, 0)); });
    each("copy from each", DONE, [&](int i) {
        memory[2 * SIZE * i] = 1;
        MUST(cudaMemcpyAsync(counter, memory + 2 * SIZE * i, 4, cudaMemcpyHostToDevice, holding));
    });
    each("unregister", CALLED, [&](int i) { MUST(cudaHostUnregister(memory + 2 * SIZE * i)); });
    free(memory);
}

static int called;
static void CUDART_CB host_function(void *) { called++; }

static void host_functions()
{
    called = 0;
    hold(holding);
    begin();
    for (int i = 0; i < n / 2; i++)
        MUST(cudaLaunchHostFunc(holding, host_function, NULL));
    end("queue", n / 2);
    run(n / 2);
    begin();
    for (int i = 0; i < n / 2; i++)
        MUST(cudaLaunchHostFunc(releasing, host_function, NULL));
    MUST(cudaStreamSynchronize(releasing));
    end("queue and run", n / 2);
    HOLDS(called == n / 2 * 2);
}

/* One function in each of many streams. */
static void host_functions_of_streams()
{
    int streams = std::min(n, 16000);
    std::vector<cudaStream_t> s(streams);
    for (auto &one : s)
        MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    cudaEvent_t go;
    MUST(cudaEventCreateWithFlags(&go, cudaEventDisableTiming));
    called = 0;
    hold(holding);
    MUST(cudaEventRecord(go, holding));
    begin();
    for (auto one : s) {
        MUST(cudaStreamWaitEvent(one, go, 0));
        MUST(cudaLaunchHostFunc(one, host_function, NULL));
    }
    end("queue", streams);
    run(streams);
    HOLDS(called == streams);
    for (auto one : s)
        MUST(cudaStreamDestroy(one));
    MUST(cudaEventDestroy(go));
}

/* ---- code, registered as the compiler's start-up code does ---- */

struct Wrapper { int magic, version; const void *data; void *extra; };
extern "C" void **__cudaRegisterFatBinary(void *);
extern "C" void __cudaRegisterFatBinaryEnd(void **);
extern "C" void __cudaUnregisterFatBinary(void **);
extern "C" void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *,
                                       dim3 *, int *);
extern "C" void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);

static const char ptx_head[] = ".version 7.0\n.target sm_75\n.address_size 64\n";

static std::string ptx_kernel(const std::string &name)
{
    return ".visible .entry " + name +
           "(.param .u64 p)\n{\n.reg .u64 %a;\n.reg .u32 %b;\nld.param.u64 %a, [p];\ncvta.to.global.u64 %a, %a;\n"
           "mov.u32 %b, 1;\nred.global.add.u32 [%a], %b;\nret;\n}\n";
}

static void launch(const void *key)
{
    void *arguments[] = {&counter};
    MUST(cudaLaunchKernel(key, dim3(1), dim3(1), arguments, 0, holding));
}

static void modules()
{
    std::vector<std::string> code(n);
    std::vector<void **> handles(n);
    std::vector<char> keys(n);
    for (int i = 0; i < n; i++)
        code[i] = ptx_head + (".global .u32 v" + std::to_string(i) + ";\n") + ptx_kernel("k");
    all("register", CALLED, [&](int i) {
        handles[i] = __cudaRegisterFatBinary((void *)code[i].c_str());
        __cudaRegisterFunction(handles[i], &keys[i], (char *)"k", "k", -1, NULL, NULL, NULL, NULL, NULL);
        __cudaRegisterFatBinaryEnd(handles[i]);
    });
    each("first use", DONE, [&](int i) { launch(&keys[i]); });
    each("second use", DONE, [&](int i) { launch(&keys[i]); });
    each("unregister", DONE, [&](int i) { __cudaUnregisterFatBinary(handles[i]); });
    HOLDS(counted() == 2 * n);
}

static void kernels()
{
    std::string code = ptx_head;
    std::vector<std::string> names(n);
    std::vector<char> keys(n);
    for (int i = 0; i < n; i++) {
        names[i] = "kernel_" + std::to_string(i);
        code += ptx_kernel(names[i]);
    }
    begin();
    void **handle = __cudaRegisterFatBinary((void *)code.c_str());
    for (int i = 0; i < n; i++)
        __cudaRegisterFunction(handle, &keys[i], &names[i][0], names[i].c_str(), -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    end("register");
    begin();
    launch(&keys[0]);
    MUST(cudaDeviceSynchronize());
    end("load");
    each("first use", DONE, [&](int i) { launch(&keys[i]); });
    begin();
    __cudaUnregisterFatBinary(handle);
    MUST(cudaDeviceSynchronize());
    end("unregister");
    HOLDS(counted() == n + 1);
}

static void variables()
{
    std::string code = ptx_head;
    std::vector<std::string> names(n);
    std::vector<char> keys(n);
    char key;
    for (int i = 0; i < n; i++) {
        names[i] = "variable_" + std::to_string(i);
        code += ".visible .global .align 4 .u32 " + names[i] + " = " + std::to_string(i) + ";\n";
    }
    code += ptx_kernel("k");
    begin();
    void **handle = __cudaRegisterFatBinary((void *)code.c_str());
    for (int i = 0; i < n; i++)
        __cudaRegisterVar(handle, &keys[i], &names[i][0], names[i].c_str(), 0, 4, 0, 0);
    __cudaRegisterFunction(handle, &key, (char *)"k", "k", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    end("register");
    begin();
    launch(&key);
    MUST(cudaDeviceSynchronize());
    end("load");
    each("address of each", CALLED, [&](int i) {
        void *address;
        MUST(cudaGetSymbolAddress(&address, (const void *)&keys[i]));
    });
    each("copy", CALLED, [&](int i) {
        if (i % 16 == 0) {
            int value = -1;
            MUST(cudaMemcpyFromSymbol(&value, (const void *)&keys[i], 4));
            HOLDS(value == i);
        }
    }, n / 16);
    begin();
    __cudaUnregisterFatBinary(handle);
    MUST(cudaDeviceSynchronize());
    end("unregister");
}

/* ---- work that waits for other work ---- */

/* Each stream waits for the one before it. */
static void chain()
{
    std::vector<cudaStream_t> s(n);
    std::vector<cudaEvent_t> e(n);
    for (int i = 0; i < n; i++) {
        MUST(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming));
    }
    hold(s[0]);
    all("queue", CALLED, [&](int i) {
        if (i)
            MUST(cudaStreamWaitEvent(s[i], e[i - 1], 0));
        bump<<<1, 1, 0, s[i]>>>(counter);
        MUST(cudaEventRecord(e[i], s[i]));
    });
    begin();
    release();
    MUST(cudaEventSynchronize(e[n - 1]));
    MUST(cudaDeviceSynchronize());
    end("run");
    HOLDS(counted() == n);
    for (int i = 0; i < n; i++) {
        MUST(cudaStreamDestroy(s[i]));
        MUST(cudaEventDestroy(e[i]));
    }
    MUST(cudaDeviceSynchronize());
}

/* Blocking streams and the NULL stream in turn. */
static void null_stream_in_turn()
{
    int streams = std::min(n, 20000);
    std::vector<cudaStream_t> s(streams);
    for (auto &one : s)
        MUST(cudaStreamCreate(&one));
    hold(holding);
    cudaEvent_t go;
    MUST(cudaEventCreateWithFlags(&go, cudaEventDisableTiming));
    MUST(cudaEventRecord(go, holding));
    begin();
    for (int i = 0; i < streams; i++) {
        MUST(cudaStreamWaitEvent(s[i], go, 0));
        bump<<<1, 1, 0, s[i]>>>(counter);
        if (i % 16 == 0)
            bump<<<1, 1>>>(counter);
    }
    end("queue", streams);
    run(streams);
    HOLDS(counted() == streams + (streams + 15) / 16);
    for (auto one : s)
        MUST(cudaStreamDestroy(one));
    MUST(cudaEventDestroy(go));
}

static void copies_under_way()
{
    char *host;
    MUST(cudaMallocHost((void **)&host, 64ul * n));
    char *device;
    MUST(cudaMalloc((void **)&device, 64ul * n));
    hold(holding);
    all("queue copies out", CALLED, [&](int i) {
        MUST(cudaMemcpyAsync(host + 64ul * i, device + 64ul * i, 64, cudaMemcpyDeviceToHost, holding));
    });
    run();
    hold(holding);
    all("queue copies in", CALLED, [&](int i) {
        MUST(cudaMemcpyAsync(device + 64ul * i, host + 64ul * i, 64, cudaMemcpyHostToDevice, holding));
    });
    run();
    std::vector<char> ordinary(64);
    hold(holding);
    all("queue copies in from ordinary memory", CALLED, [&](int i) {
        MUST(cudaMemcpyAsync(device + 64ul * i, ordinary.data(), 64, cudaMemcpyHostToDevice, holding));
    });
    run();
    MUST(cudaFreeHost(host));
    MUST(cudaFree(device));
}

static void launches()
{
    hold(holding);
    all("queue", CALLED, [&](int i) { bump<<<1, 1, 0, holding>>>(counter); });
    run();
    HOLDS(counted() == n);
}

/* Threads that come and go, each with a stream of its own. */
static void *thread(void *)
{
    bump<<<1, 1, 0, cudaStreamPerThread>>>(counter);
    MUST(cudaStreamSynchronize(cudaStreamPerThread));
    return NULL;
}

static void threads()
{
    int count = std::min(n, 4000);
    begin();
    for (int i = 0; i < count; i++) {
        pthread_t one;
        HOLDS(pthread_create(&one, NULL, thread, NULL) == 0);
        pthread_join(one, NULL);
    }
    end("threads", count);
    HOLDS(counted() == count);
}

struct Kind { const char *name; void (*run)(); int most; };
static const Kind kinds[] = {
    { "streams", streams, 100000 },
    { "idle_streams", idle_streams, 10000 },
    { "busy_streams", busy_streams, 100000 },
    { "events", events, 100000 },
    { "pending_events", pending_events, 100000 },
    { "allocations", allocations, 100000 },
    { "pinned", pinned, 100000 },
    { "registered", registered, 100000 },
    { "host_functions", host_functions, 100000 },
    { "host_functions_of_streams", host_functions_of_streams, 16000 },
    { "modules", modules, 20000 },
    { "kernels", kernels, 20000 },
    { "variables", variables, 100000 },
    { "chain", chain, 100000 },
    { "null_stream_in_turn", null_stream_in_turn, 20000 },
    { "copies_under_way", copies_under_way, 100000 },
    { "launches", launches, 100000 },
    { "threads", threads, 4000 },
};

static std::vector<Phase> measure(const Kind &kind, int objects, Order in)
{
    n = objects;
    order = in;
    phases.clear();
    MUST(cudaMemset(counter, 0, sizeof *counter));
    MUST(cudaDeviceSynchronize());
    kind.run();
    MUST(cudaDeviceSynchronize());
    return phases;
}

int main(int argc, char **argv)
{
    MUST(cudaStreamCreateWithFlags(&holding, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&releasing, cudaStreamNonBlocking));
    MUST(cudaMalloc(&flag, sizeof *flag));
    MUST(cudaMalloc(&counter, sizeof *counter));
    for (const Kind &kind : kinds) {
        if (argc > 1 && strcmp(argv[1], kind.name) && strcmp(argv[1], "all"))
            continue;
        int objects = argc > 2 ? std::min(atoi(argv[2]), kind.most) : 1000;
        for (int in = 0; in < ORDERS; in++) {
            if (argc > 3 && atoi(argv[3]) != in)
                continue;
            for (const Phase &phase : measure(kind, objects, (Order)in))
                printf("%-26s %-10s %7d  %-44s %10.0f ns\n", kind.name, order_names[in], objects, phase.name.c_str(),
                       phase.ns);
            fflush(stdout);
        }
    }
    return check_result("many");
}
