// shows: managed memory: the program's own SIGSEGV handlers get their own faults; threads touch pages at once; system
//   calls; memory attached to a stream or to the host is used while the GPU works; few pages of a large allocation
//   move; a forked child has a copy
#include <atomic>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "managed.h"
#include "software.h"

__global__ void fill(int *a, size_t n, int value)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] = value + (int)(i / 1024);
}

__global__ void add(int *a, size_t n, int by)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] += by;
}

// ---- handlers ----

static sigjmp_buf away;
static int handled, handled_at_number;
static void *handled_at;
static bool on_own_stack;
static char own_stack[64 * 1024];

static void with_information(int number, siginfo_t *info, void *)
{
    char here;
    handled++;
    handled_at_number = number;
    handled_at = info->si_addr;
    on_own_stack = &here >= own_stack && &here < own_stack + sizeof own_stack;
    siglongjmp(away, 1);
}

static void plain(int number)
{
    handled++;
    handled_at_number = number;
    siglongjmp(away, 1);
}

static void touch_bad(volatile int *at)
{
    if (sigsetjmp(away, 1) == 0)
        *at = 1;
}

static void set(void (*plain_one)(int), void (*full)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (full)
        action.sa_sigaction = full;
    else
        action.sa_handler = plain_one;
    action.sa_flags = flags;
    MUST(sigaction(SIGSEGV, &action, NULL) ? cudaErrorUnknown : cudaSuccess);
}

static void use(int *a, int n)
{
    fill<<<4, 128>>>(a, n, 5);
    MUST(cudaDeviceSynchronize());
    HOLDS(a[0] == 5 && a[n - 1] == 5 + (n - 1) / 1024);
    a[0] = 1;
}

// A handler set before the first managed memory, and others later, between launches: each gets the faults that are the
// program's, and none of ours.
static void handlers()
{
    enum { N = 10000 };
    int *bad = (int *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *device;
    set(NULL, with_information, SA_SIGINFO);
    touch_bad(bad);
    HOLDS(handled == 1);
    int *a = managed<int>(N);
    use(a, N);
    HOLDS(handled == 1);
    touch_bad(bad + 1);
    HOLDS(handled == 2 && handled_at == bad + 1 && handled_at_number == SIGSEGV);
    use(a, N);

    stack_t stack;
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = own_stack;
    stack.ss_size = sizeof own_stack;
    sigaltstack(&stack, NULL);
    set(NULL, with_information, SA_SIGINFO | SA_ONSTACK);
    use(a, N);
    HOLDS(handled == 2);
    touch_bad(bad + 2);
    HOLDS(handled == 3 && handled_at == bad + 2 && on_own_stack);
    set(plain, NULL, 0);
    use(a, N);
    touch_bad(bad);
    HOLDS(handled == 4);
    use(a, N);
    if (!in_process()) {                      // where it is memory of this process
        MUST(cudaMalloc(&device, 4096));
        touch_bad(device);                    // the program may not touch device memory, as natively
        HOLDS(handled == 5);
        MUST(cudaFree(device));
        MUST(cudaFree(a));
        touch_bad(a);
        HOLDS(handled == 6);
        a = managed<int>(N);
    }
    // Without a handler a fault ends the program as ever.
    signal(SIGSEGV, SIG_DFL);
    use(a, N);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        *(volatile int *)bad = 1;
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    HOLDS(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    MUST(cudaFree(a));
}

// ---- threads ----

static void threads()
{
    enum { THREADS = 8, N = 1 << 20, ROUNDS = 3 };
    int *a = managed<int>(N);
    std::atomic<int> wrong(0);
    for (int round = 0; round < ROUNDS; round++) {
        fill<<<8, 256>>>(a, N, round);
        MUST(cudaDeviceSynchronize());
        std::vector<std::thread> all;
        for (int t = 0; t < THREADS; t++)
            all.emplace_back([=, &wrong] {
                // all in the same pages: each reads what the others write beside
                for (int i = t; i < N; i += THREADS) {
                    if (a[i] != round + i / 1024)
                        wrong++;
                    a[i] = i;
                }
            });
        for (std::thread &t : all)
            t.join();
        add<<<8, 256>>>(a, N, 1);
        MUST(cudaDeviceSynchronize());
        for (int i = 0; i < N; i += 511)
            wrong += a[i] != i + 1;
    }
    HOLDS(wrong == 0);
    MUST(cudaFree(a));
}

// ---- system calls ----

static bool kernel_waits_for_pages()
{
    int setting = open("/proc/sys/vm/unprivileged_userfaultfd", O_RDONLY);
    char value = '0';
    if (setting >= 0 && read(setting, &value, 1) != 1)
        value = '0';
    close(setting);
    return in_process() || (!by_signal() && (geteuid() == 0 || value == '1'));
}

static void system_calls()
{
    enum { N = 20000, BYTES = N * sizeof(int) };
    int *a = managed<int>(N), *b = managed<int>(N), pipe_ends[2];
    FILE *file = tmpfile();
    int fd = fileno(file);
    fill<<<8, 256>>>(a, N, 3);
    fill<<<8, 256>>>(b, N, 4);
    MUST(cudaDeviceSynchronize());
    if (!kernel_waits_for_pages()) {          // docs/managed-memory.md: then it is an error, and nothing else
        ssize_t written = write(fd, a, BYTES);
        HOLDS(written == BYTES || (written < 0 && errno == EFAULT));
        HOLDS(a[0] == 3);
    } else {
        HOLDS(write(fd, a, BYTES) == BYTES);                // from pages of the device
        HOLDS(pread(fd, b, BYTES, 0) == BYTES);             // into pages of the device
        HOLDS(b[0] == 3 && b[N - 1] == a[N - 1]);
        add<<<8, 256>>>(b, N, 1);
        MUST(cudaDeviceSynchronize());
        HOLDS(fwrite(b, 1, BYTES, file) == BYTES && fflush(file) == 0);
        rewind(file);
        HOLDS(fread(a, 1, BYTES, file) == BYTES && a[1024] == 4);
        HOLDS(fread(a, 1, BYTES, file) == BYTES && a[1024] == 5);
        HOLDS(pipe(pipe_ends) == 0);
        add<<<8, 256>>>(a, N, 1);
        MUST(cudaDeviceSynchronize());
        HOLDS(write(pipe_ends[1], a, 64) == 64 && read(pipe_ends[0], b + 100, 64) == 64 && b[100] == 5);
        add<<<8, 256>>>(b, N, 1);
        MUST(cudaDeviceSynchronize());
        HOLDS(b[100] == 6);
    }
    fclose(file);
    MUST(cudaFree(a));
    MUST(cudaFree(b));
}

// ---- attached memory ----

static void CUDART_CB hold(void *flag)
{
    while (!((std::atomic<int> *)flag)->load())
        usleep(100);
}

// While a stream stands, the program uses what is attached to another one, and to itself.
static void attached()
{
    enum { N = 5000 };
    int *mine = managed<int>(N, cudaMemAttachHost), *first = managed<int>(N), *second = managed<int>(N);
    std::atomic<int> go(0);
    cudaStream_t s, t;
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamCreate(&t));
    MUST(cudaStreamAttachMemAsync(s, first, 0, cudaMemAttachSingle));
    MUST(cudaStreamAttachMemAsync(t, second, N * sizeof(int), cudaMemAttachSingle));
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < N; i++)
        mine[i] = first[i] = second[i] = i;
    add<<<4, 128, 0, t>>>(second, N, 1);
    MUST(cudaStreamSynchronize(t));
    MUST(cudaLaunchHostFunc(s, hold, &go));
    add<<<4, 128, 0, s>>>(first, N, 1);       // stands behind the function
    for (int i = 0; i < N; i++) {
        HOLDS(second[i] == i + 1);
        mine[i]++;
        second[i]++;
    }
    add<<<4, 128, 0, t>>>(second, N, 1);
    MUST(cudaStreamSynchronize(t));
    HOLDS(second[9] == 12 && mine[9] == 10);
    go = 1;
    MUST(cudaStreamSynchronize(s));
    HOLDS(first[9] == 10);
    // From the host to the device, and to every stream.
    MUST(cudaStreamAttachMemAsync(s, mine, 0, cudaMemAttachSingle));
    MUST(cudaStreamSynchronize(s));
    add<<<4, 128, 0, s>>>(mine, N, 1);
    MUST(cudaStreamSynchronize(s));
    HOLDS(mine[9] == 11);
    MUST(cudaStreamAttachMemAsync(s, first, 0, cudaMemAttachGlobal));
    first[9] = 1;
    add<<<4, 128, 0, t>>>(first, N, 1);
    MUST(cudaDeviceSynchronize());
    HOLDS(first[9] == 2);
    MUST(cudaStreamDestroy(t));               // with its stream gone, memory is everybody's
    second[9] = 1;
    add<<<4, 128, 0, s>>>(second, N, 1);
    MUST(cudaDeviceSynchronize());
    HOLDS(second[9] == 2);
    MUST(cudaStreamDestroy(s));
    MUST(cudaFree(mine));
    MUST(cudaFree(first));
    MUST(cudaFree(second));
}

// A program that breaks the rule, and touches memory while a kernel may use it, waits for the kernel.
static void touched_too_early()
{
    if (in_process())
        return;                               // nobody watches it
    enum { N = 1 << 20 };
    int *a = managed<int>(N);
    for (int round = 0; round < 5; round++) {
        fill<<<8, 256>>>(a, N, round);
        int seen = a[N - 1];
        if (seen != round + (N - 1) / 1024)
            fprintf(stderr, "round %d: %d\n", round, seen - (N - 1) / 1024);
        HOLDS(seen == round + (N - 1) / 1024);
    }
    MUST(cudaFree(a));
}

// ---- large allocations ----

static size_t resident()
{
    size_t pages = 0, total = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%zu %zu", &total, &pages) != 2)
        pages = 0;
    fclose(file);
    return pages * 4096;
}

static void sparse()
{
    const size_t size = (size_t)1 << 30, step = size / 16;
    char *a = managed<char>(size);
    for (size_t at = 0; at < size; at += step)
        a[at] = 1;
    size_t before = resident();
    for (int round = 0; round < 3; round++) {
        for (size_t at = 0; at < size; at += step) {
            add<<<1, 1>>>((int *)(a + at), 1, 1);
            MUST(cudaDeviceSynchronize());
            HOLDS(a[at] == 2 + round);
        }
    }
    if (!in_process())
        HOLDS(resident() < before + (32 << 20));
    MUST(cudaFree(a));
}

// ---- fork ----

static void forks()
{
    enum { N = 10000 };
    int *a = managed<int>(N);
    for (int i = 0; i < N; i++)
        a[i] = i;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool good = a[N - 1] == N - 1;
        for (int i = 0; i < N; i++)
            a[i] = -1;
        _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    HOLDS(status == 0);
    add<<<4, 128>>>(a, N, 1);
    MUST(cudaDeviceSynchronize());
    if ((child = fork()) == 0) {              // the device has the pages: the child must not crash
        for (int i = 0; i < N; i++)
            a[i]++;
        _exit(0);
    }
    waitpid(child, &status, 0);
    HOLDS(status == 0 && (in_process() || a[N - 1] == N));
    MUST(cudaFree(a));
}

int main(int, char **arguments)
{
    handlers();
    threads();
    system_calls();
    attached();
    if (with_flyt())
        touched_too_early();
    sparse();
    if (with_flyt()) // natively a child has no managed memory
        forks();
    return check_result("managed_access") | run_by_signal(arguments);
}
