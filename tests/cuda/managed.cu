// shows: managed memory: one pointer for both sides; what one side writes, the other reads after a synchronisation: by
//   kernels, copies, sets, graphs and host functions; variables, lists, containers; attributes, advice, prefetching
#include <vector>

#include "managed.h"
#include "software.h"

struct node { node *next; int value; };
struct table { int count; float *values; };

__managed__ int counter = 7;
__managed__ int numbers[3000];
__managed__ table described;
__device__ int plain;

__global__ void add(int *a, int n, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] += by;
}

__global__ void double_values(node *n)
{
    for (; n; n = n->next)
        n->value *= 2;
}

__global__ void variables(int by)
{
    if (threadIdx.x == 0) {
        counter += by;
        plain = by;
    }
    for (int i = threadIdx.x; i < 3000; i += blockDim.x)
        numbers[i] += by;
    for (int i = threadIdx.x; i < described.count; i += blockDim.x)
        described.values[i] *= 2;
}

static void add_on(int *a, int n, int by, cudaStream_t s = 0)
{
    cudaGetLastError();                       // of calls that were refused
    add<<<(n + 255) / 256, 256, 0, s>>>(a, n, by);
    MUST(cudaGetLastError());
}

static bool all(const int *a, int n, int value)
{
    for (int i = 0; i < n; i++)
        if (a[i] != value) {
            fprintf(stderr, "[%d] is %d, not %d\n", i, a[i], value);
            return false;
        }
    return true;
}

static void simple()
{
    enum { N = 100000 };
    int *a = managed<int>(N), value = 0;
    for (int i = 0; i < N; i++)
        a[i] = 1;
    add_on(a, N, 1);
    MUST(cudaDeviceSynchronize());
    HOLDS(all(a, N, 2));
    a[N - 1] = 5;                             // one page goes, the others stay
    add_on(a, N, 1);
    add_on(a, N, 1);
    MUST(cudaDeviceSynchronize());
    HOLDS(all(a, N - 1, 4) && a[N - 1] == 7);

    cudaPointerAttributes attributes;
    MUST(cudaPointerGetAttributes(&attributes, a + 3));
    HOLDS(attributes.type == cudaMemoryTypeManaged && attributes.hostPointer == a + 3 &&
          attributes.devicePointer == a + 3 && attributes.device == 0);
    MUST(cudaDeviceGetAttribute(&value, cudaDevAttrManagedMemory, 0));
    HOLDS(value == 1);
    MUST(cudaDeviceGetAttribute(&value, cudaDevAttrConcurrentManagedAccess, 0));
    HOLDS(value == 0 || !on_software_gpu());
    MUST(cudaDeviceGetAttribute(&value, cudaDevAttrDirectManagedMemAccessFromHost, 0));
    HOLDS(value == 0);
    MUST(cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccess, 0));
    HOLDS(value == 0);

    void *nothing;
    GIVES(cudaSuccess, cudaMallocManaged(&nothing, 0));
    HOLDS(nothing == NULL);
    GIVES(cudaErrorInvalidValue, cudaMallocManaged(&nothing, 8, 0));
    GIVES(cudaErrorInvalidValue, cudaMallocManaged(&nothing, 8, cudaMemAttachSingle));
    GIVES(cudaErrorInvalidValue, cudaMallocManaged((void **)NULL, 8));
    GIVES(cudaErrorMemoryAllocation, cudaMallocManaged(&nothing, (size_t)1 << 50));
    GIVES(cudaErrorInvalidValue, cudaFree(a + 1));
    MUST(cudaFree(a));
    MUST(cudaPointerGetAttributes(&attributes, a));
    HOLDS(attributes.type == cudaMemoryTypeUnregistered);
}

// Both sides of copies, in every direction that native accepts, and sets; whole pages and parts of them.
static void copies()
{
    enum { N = 5000, BYTES = N * sizeof(int) };
    int *a = managed<int>(N), *b = managed<int>(N), *device;
    std::vector<int> host(N, 9);
    MUST(cudaMalloc(&device, BYTES));
    for (cudaMemcpyKind kind : { cudaMemcpyHostToDevice, cudaMemcpyDefault, cudaMemcpyHostToHost }) {
        for (int i = 0; i < N; i++)
            a[i] = kind;
        std::fill(host.begin(), host.end(), 9);
        MUST(cudaMemcpy(a + 100, host.data() + 100, 4000 * sizeof(int), kind));
        HOLDS(all(a, 100, kind) && all(a + 100, 4000, 9) && all(a + 4100, 900, kind));
        if (kind != cudaMemcpyHostToHost)
            MUST(cudaMemcpy(device, a, BYTES, kind));
        else
            MUST(cudaMemcpy(host.data(), a, BYTES, kind));
    }
    MUST(cudaMemcpy(b, device, BYTES, cudaMemcpyDeviceToDevice));
    HOLDS(all(b, 100, cudaMemcpyDefault) && all(b + 100, 4000, 9));
    b[0] = 77;
    MUST(cudaMemcpy(host.data(), b, BYTES, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 77 && host[100] == 9);
    b[1] = 78;
    MUST(cudaMemcpy(a, b, BYTES, cudaMemcpyDefault));
    HOLDS(a[1] == 78 && a[0] == 77 && a[200] == 9);
    a[1]++;
    MUST(cudaMemset(a + 2, 0, 3 * sizeof(int)));
    HOLDS(a[0] == 77 && a[1] == 79 && a[2] == 0 && a[4] == 0 && a[5] == cudaMemcpyDefault);
    MUST(cudaMemset2D(a, 1024, 1, 4, 10));    // gaps keep what the program wrote just now
    HOLDS(a[0] == 0x01010101 && a[1] == 79 && a[256] == 0x01010101 && a[257] == 9);
    MUST(cudaMemcpyAsync(a, device, BYTES, cudaMemcpyDefault, 0));
    MUST(cudaStreamSynchronize(0));
    HOLDS(a[0] == cudaMemcpyDefault && a[257] == 9);
    a[3] = 5;
    MUST(cudaMemcpyToSymbol(plain, a + 3, sizeof(int), 0, cudaMemcpyDefault));
    MUST(cudaMemcpyFromSymbol(b + 3, plain, sizeof(int), 0, cudaMemcpyDefault));
    HOLDS(b[3] == 5);
    MUST(cudaFree(a));
    MUST(cudaFree(b));
    MUST(cudaFree(device));
}

static void module_variables()
{
    for (int i = 0; i < 3000; i++)
        numbers[i] = i;
    HOLDS(counter == 7);
    MUST(cudaMallocManaged(&described.values, 100 * sizeof(float)));    // the result goes into managed memory
    described.count = 100;
    for (int i = 0; i < 100; i++)
        described.values[i] = i;
    variables<<<1, 128>>>(3);
    MUST(cudaDeviceSynchronize());
    HOLDS(counter == 10 && numbers[0] == 3 && numbers[2999] == 3002 && described.values[99] == 198);
    counter++;
    variables<<<1, 128>>>(1);
    variables<<<1, 128>>>(1);
    MUST(cudaDeviceSynchronize());
    HOLDS(counter == 13 && numbers[1] == 6 && described.values[1] == 8);

    void *address;
    size_t size;
    int value = 100, more[2] = { 1, 2 };
    MUST(cudaGetSymbolAddress(&address, numbers));
    MUST(cudaGetSymbolSize(&size, numbers));
    HOLDS(address == numbers && size == sizeof numbers);
    MUST(cudaMemcpyToSymbol(counter, &value, sizeof value));
    HOLDS(counter == 100);
    MUST(cudaMemcpyToSymbol(numbers, more, sizeof more, 4));
    HOLDS(numbers[1] == 1 && numbers[2] == 2 && numbers[0] == 5);
    cudaPointerAttributes attributes;
    MUST(cudaPointerGetAttributes(&attributes, &counter));
    HOLDS(attributes.type == cudaMemoryTypeManaged);
    GIVES(cudaErrorInvalidValue, cudaFree(&counter));
    MUST(cudaFree(described.values));
}

// Many small allocations, linked with each other.
static void lists()
{
    node *first = NULL;
    for (int i = 0; i < 500; i++) {
        node *n = managed<node>(1);
        n->next = first;
        n->value = i;
        first = n;
    }
    double_values<<<1, 1>>>(first);
    MUST(cudaDeviceSynchronize());
    int expected = 499, wrong = 0;
    while (first) {
        node *next = first->next;
        wrong += first->value != 2 * expected--;
        MUST(cudaFree(first));
        first = next;
    }
    HOLDS(wrong == 0 && expected == -1);
}

template <typename T> struct allocator {
    typedef T value_type;
    allocator() {}
    template <typename U> allocator(const allocator<U> &) {}
    T *allocate(size_t n) { return managed<T>(n); }
    void deallocate(T *p, size_t) { MUST(cudaFree(p)); }
    template <typename U> bool operator==(const allocator<U> &) const { return true; }
    template <typename U> bool operator!=(const allocator<U> &) const { return false; }
};

static void containers()
{
    std::vector<int, allocator<int>> v;
    for (int i = 0; i < 20000; i++)
        v.push_back(i);                       // grows, and copies itself, while the device has other memory
    add_on(v.data(), 20000, 1);
    MUST(cudaDeviceSynchronize());
    long sum = 0;
    for (int x : v)
        sum += x;
    HOLDS(sum == 200010000L);
    v.resize(30000, 4);
    add_on(v.data(), 30000, 1);
    MUST(cudaDeviceSynchronize());
    HOLDS(v[19999] == 20001 && v[29999] == 5);
}

static void graphs()
{
    enum { N = 3000 };
    int *a = managed<int>(N), *b = managed<int>(N);
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    add_on(a, N, 1, s);
    MUST(cudaMemcpyAsync(b, a, N * sizeof(int), cudaMemcpyDefault, s));
    add_on(b, N, 1, s);
    MUST(cudaMemsetAsync(a, 0, 4, s));
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&executable, graph, NULL, NULL, 0));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < N; i++)
            a[i] = round;
        MUST(cudaGraphLaunch(executable, s));
        MUST(cudaStreamSynchronize(s));
        HOLDS(a[0] == 0 && all(a + 1, N - 1, round + 1) && all(b, N, round + 2));
    }
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(s));
    MUST(cudaFree(a));
    MUST(cudaFree(b));
}

struct step { int *memory, seen; };

static void CUDART_CB in_between(void *data)
{
    step *s = (step *)data;
    s->seen = s->memory[10];
    s->memory[10] = 100;
}

// A function between two kernels sees what the first one wrote, and the second one what it wrote.
static void host_functions()
{
    enum { N = 2000 };
    int *a = managed<int>(N);
    cudaStream_t s;
    step between = { a, -1 };
    MUST(cudaStreamCreate(&s));
    for (int i = 0; i < N; i++)
        a[i] = 1;
    add_on(a, N, 1, s);
    MUST(cudaLaunchHostFunc(s, in_between, &between));
    add_on(a, N, 1, s);
    MUST(cudaStreamSynchronize(s));
    HOLDS(between.seen == 2 && a[10] == 101 && a[11] == 3);
    MUST(cudaStreamDestroy(s));
    MUST(cudaFree(a));
}

static void attributes()
{
    enum { SIZE = 4 * 4096 };
    char *a = managed<char>(SIZE);
    cudaStream_t s;
    int value, devices[3];
    MUST(cudaStreamCreate(&s));
    MUST(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, a, SIZE));
    HOLDS(value == 0);
    MUST(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributePreferredLocation, a, SIZE));
    HOLDS(value == cudaInvalidDeviceId);
    a[0] = 1;
#if CUDART_VERSION >= 13000
    const cudaMemLocation gpu = { cudaMemLocationTypeDevice, 0 }, host = { cudaMemLocationTypeHost, 0 },
                          none = { cudaMemLocationTypeDevice, 99 };
#define TO(place) place, 0
#else
    const int gpu = 0, host = cudaCpuDeviceId, none = 99;
#define TO(place) place
#endif
    MUST(cudaMemAdvise(a, SIZE, cudaMemAdviseSetReadMostly, gpu));
    MUST(cudaMemAdvise(a, SIZE, cudaMemAdviseSetPreferredLocation, gpu));
    MUST(cudaMemAdvise(a + 4096, 4096, cudaMemAdviseSetPreferredLocation, host));
    MUST(cudaMemAdvise(a, SIZE, cudaMemAdviseSetAccessedBy, gpu));
    MUST(cudaMemAdvise(a, 8192, cudaMemAdviseSetAccessedBy, host));
    MUST(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, a, SIZE));
    HOLDS(value == 1);
    MUST(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributePreferredLocation, a, SIZE));
    HOLDS(value == cudaInvalidDeviceId);
    MUST(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributePreferredLocation, a, 100));
    HOLDS(value == 0);
    MUST(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributePreferredLocation, a + 5000, 100));
    HOLDS(value == cudaCpuDeviceId);
    MUST(cudaMemRangeGetAttribute(devices, sizeof devices, cudaMemRangeAttributeAccessedBy, a, SIZE));
    HOLDS(devices[0] == 0 && devices[1] == cudaInvalidDeviceId && devices[2] == cudaInvalidDeviceId);
    MUST(cudaMemRangeGetAttribute(devices, sizeof devices, cudaMemRangeAttributeAccessedBy, a, 8192));
    HOLDS((devices[0] == 0) + (devices[1] == 0) == 1 && devices[2] == cudaInvalidDeviceId);
    MUST(cudaMemAdvise(a, SIZE, cudaMemAdviseUnsetReadMostly, gpu));
    void *both[2] = { &value, devices };
    size_t sizes[2] = { sizeof value, sizeof(int) };
    cudaMemRangeAttribute asked[2] = { cudaMemRangeAttributeReadMostly, cudaMemRangeAttributeLastPrefetchLocation };
    MUST(cudaMemPrefetchAsync(a, SIZE, TO(gpu), s));
    MUST(cudaMemRangeGetAttributes(both, sizes, asked, 2, a, SIZE));
    HOLDS(value == 0 && devices[0] == 0);
    MUST(cudaMemPrefetchAsync(a, SIZE, TO(host), s));
    MUST(cudaMemRangeGetAttributes(both, sizes, asked, 2, a, SIZE));
    HOLDS(devices[0] == cudaCpuDeviceId && a[0] == 1);

    int on_stack;
    GIVES(cudaErrorInvalidValue, cudaMemAdvise(&on_stack, 4, cudaMemAdviseSetReadMostly, gpu));
    GIVES(cudaErrorInvalidValue, cudaMemAdvise(a, SIZE + 1, cudaMemAdviseSetReadMostly, gpu));
    GIVES(cudaErrorInvalidValue, cudaMemAdvise(a, 0, cudaMemAdviseSetReadMostly, gpu));
    GIVES(cudaErrorInvalidValue, cudaMemAdvise(a, SIZE, (cudaMemoryAdvise)0, gpu));
    GIVES(cudaErrorInvalidValue, cudaMemAdvise(a, SIZE, cudaMemAdviseSetPreferredLocation, none));
    GIVES(cudaErrorInvalidDevice, cudaMemPrefetchAsync(a, SIZE, TO(none), s));
    GIVES(cudaErrorInvalidValue, cudaMemPrefetchAsync(&on_stack, 4, TO(gpu), s));
    GIVES(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&value, 2, cudaMemRangeAttributeReadMostly, a, SIZE));
    GIVES(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, &on_stack, 4));
    GIVES(cudaErrorInvalidValue, cudaStreamAttachMemAsync(s, &on_stack, 0, cudaMemAttachSingle));
    GIVES(cudaErrorInvalidValue, cudaStreamAttachMemAsync(s, a, 100, cudaMemAttachSingle));
    GIVES(cudaErrorInvalidValue, cudaStreamAttachMemAsync(s, a + 4096, 0, cudaMemAttachSingle));
    GIVES(cudaErrorInvalidValue, cudaStreamAttachMemAsync(s, a, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaStreamAttachMemAsync(0, a, 0, cudaMemAttachSingle));
    MUST(cudaStreamDestroy(s));
    MUST(cudaFree(a));
}

static void reset()
{
    int *a = managed<int>(1000);
    a[0] = 1;
    MUST(cudaDeviceReset());
    GIVES(cudaErrorInvalidValue, cudaFree(a));
    simple();
    variables<<<1, 128>>>(0);
    MUST(cudaDeviceSynchronize());
}

int main(int, char **arguments)
{
    module_variables();
    simple();
    copies();
    lists();
    containers();
    graphs();
    host_functions();
    attributes();
    reset();
    return check_result("managed") | run_by_signal(arguments);
}
