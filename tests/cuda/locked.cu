// shows: a guest in the program: mlockall before and after the first call locks what is used, not the addresses that
//   are reserved
//
// With an argument: "before", "after", "addresses" (a limit on them), or "pages" (a limit on those that are locked).
#include "check.h"
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void bump(int *p) { ++*p; }

static const size_t PINNED = 64 << 20, MOST = 400 << 20;      // bytes; the reserved windows are many GiB

static size_t status(const char *key)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)))
            kib = strtoull(line + strlen(key) + 1, NULL, 10);
    fclose(file);
    return kib << 10;
}

static void use()
{
    int *d, h = 0;
    char *pinned, *room;
    MUST(cudaMalloc((void **)&d, sizeof *d));
    MUST(cudaMemset(d, 0, sizeof *d));
    bump<<<1, 1>>>(d);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 1);
    MUST(cudaMallocHost((void **)&pinned, PINNED));
    MUST(cudaMalloc((void **)&room, PINNED));
    MUST(cudaMemset(room, 7, PINNED));
    MUST(cudaMemcpy(pinned, room, PINNED, cudaMemcpyDeviceToHost));
    HOLDS(pinned[0] == 7 && pinned[PINNED - 1] == 7);
    MUST(cudaFreeHost(pinned));
    MUST(cudaFree(room));
    MUST(cudaFree(d));
}

static void check_growth(const char *when, size_t before)
{
    size_t now = status("VmRSS:"), locked = status("VmLck:");
    if (now > before + MOST)
        fprintf(stderr, "%s: %zu MiB are resident, %zu before; %zu MiB are locked\n", when, now >> 20, before >> 20,
                locked >> 20);
    HOLDS(now <= before + MOST);
}

static bool lock_all()
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) == 0)
        return true;
    printf("mlockall needs CAP_IPC_LOCK or a higher RLIMIT_MEMLOCK\n");
    return false;
}

/* The program cannot use CUDA, is told so, and goes on. In process it is the driver that finds no room. */
static void refused()
{
    int *d;
    cudaError_t error = cudaMalloc((void **)&d, sizeof *d);
    HOLDS(error == cudaErrorMemoryAllocation || error == cudaErrorSystemNotReady);
    GIVES(error, cudaDeviceSynchronize());
}

/* So that the limit holds for root too. */
static void drop_the_right_to_lock()
{
    __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct caps[2] = {};
    if (syscall(SYS_capget, &head, caps) == 0) {
        caps[CAP_IPC_LOCK / 32].effective &= ~(1u << CAP_IPC_LOCK % 32);
        syscall(SYS_capset, &head, caps);
    }
}

static int run(const char *when)
{
    size_t before = status("VmRSS:");
    if (!strcmp(when, "before")) {
        if (!lock_all())
            return 77;
        use();
    } else if (!strcmp(when, "after")) {
        use();
        before = status("VmRSS:");
        if (!lock_all())
            return 77;
        check_growth("mlockall after the first call", before);
        use();
    } else if (!strcmp(when, "addresses")) {
        rlimit limit = {2ul << 30, 2ul << 30};
        setrlimit(RLIMIT_AS, &limit);
        refused();
        return check_failures;
    } else {
        rlimit limit = {64ul << 20, 64ul << 20};
        drop_the_right_to_lock();
        setrlimit(RLIMIT_MEMLOCK, &limit);
        HOLDS(mlockall(MCL_FUTURE) == 0);
        refused();
        return check_failures;
    }
    check_growth(when, before);
    return check_failures;
}

int main(int argc, char **argv)
{
    static const char *const cases[] = {"before", "after", "addresses", "pages"};
    if (argc > 1)
        return run(argv[1]);
    int skipped = 0;
    for (const char *when : cases) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", "locked", when, (char *)NULL);
            _exit(101);
        }
        int ended = -1;
        waitpid(child, &ended, 0);
        skipped += ended == 77 << 8;
        if (ended && ended != 77 << 8)
            fprintf(stderr, "locked %s: status %#x\n", when, ended);
        HOLDS(ended == 0 || ended == 77 << 8);
    }
    return check_failures ? 1 : skipped ? 77 : check_result("locked");
}
