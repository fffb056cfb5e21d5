// shows: a guest in the program: descriptors of ours are 3 and above and close-on-exec, also where the program has
//   closed 0, 1 and 2
//
// With an argument that is a number: the program that exec starts. It counts the descriptors that it has inherited.
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

__global__ void bump(int *p) { ++*p; }

static int report = -1;                       // where stderr was, out of the way

static std::vector<int> open_descriptors()
{
    std::vector<int> found;
    DIR *list = opendir("/proc/self/fd");
    while (dirent *entry = list ? readdir(list) : NULL)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(list))
            found.push_back(atoi(entry->d_name));
    closedir(list);
    return found;
}

static void check_descriptors(const char *when, const std::vector<int> &own)
{
    for (int fd : open_descriptors()) {
        bool mine = false;
        for (int one : own)
            mine |= one == fd;
        char target[256] = "";
        std::string link = "/proc/self/fd/" + std::to_string(fd);
        ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
        (void)length;
        if (!mine && (fd < 3 || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))) {
            dprintf(report, "%s: descriptor %d (%s) is %s\n", when, fd, target,
                    fd < 3 ? "below 3" : "not close-on-exec");
            check_failures++;
        }
    }
}

static void use(int *d, int expected)
{
    int h = 0, *pinned = NULL;
    cudaStream_t stream;
    std::vector<char> big(8 << 20, 1);
    void *room;
    bump<<<1, 1>>>(d);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == expected);
    MUST(cudaStreamCreate(&stream));
    MUST(cudaMallocHost((void **)&pinned, 4 << 20));
    MUST(cudaMalloc(&room, big.size()));
    MUST(cudaMemcpy(room, big.data(), big.size(), cudaMemcpyHostToDevice));     // may open lanes
    MUST(cudaMemcpyAsync(pinned, room, 4 << 20, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(*(char *)pinned == 1);
    MUST(cudaFree(room));
    MUST(cudaFreeHost(pinned));
    MUST(cudaStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        int extra = (int)open_descriptors().size() - atoi(argv[1]);
        return extra < 0 ? 0 : extra;
    }
    std::vector<int> own = open_descriptors();      // before the first call, hence none of them ours
    int output = dup(1);
    own.push_back(output);
    report = dup(2);
    own.push_back(report);
    dup2(report, 200);                        // MUST writes to stderr: it gets that one back at the end
    own.push_back(200);
    for (int fd = 0; fd < 3; fd++) {
        close(fd);
        for (size_t i = 0; i < own.size(); i++)
            if (own[i] == fd)
                own.erase(own.begin() + i--);
    }

    int *d;
    if (cudaMalloc((void **)&d, sizeof *d) != cudaSuccess || cudaMemset(d, 0, sizeof *d) != cudaSuccess) {
        dprintf(report, "the program cannot use CUDA without descriptors 0, 1 and 2\n");
        return 1;
    }
    use(d, 1);
    check_descriptors("0, 1 and 2 closed", own);

    // What the program opens now gets those numbers, and what it prints goes there and nowhere else.
    char name[] = "/tmp/flyt-descriptors.XXXXXX", text[64] = "";
    HOLDS(open("/dev/null", O_RDWR) == 0);
    int file = mkstemp(name);
    HOLDS(file == 1);
    unlink(name);
    HOLDS(dup2(report, 2) == 2);
    for (int i = 0; i < 3; i++) {
        printf("line %d\n", i);
        fflush(stdout);
        use(d, 2 + i);
    }
    HOLDS(pread(1, text, sizeof text - 1, 0) == 21 && !strcmp(text, "line 0\nline 1\nline 2\n"));
    for (int fd = 0; fd < 3; fd++)
        own.push_back(fd);
    check_descriptors("opened again", own);

    // A program that is started from here inherits what this program has opened, and nothing of ours.
    std::string inherited = std::to_string(own.size());
    pid_t child = fork();
    if (child == 0) {
        check_descriptors("in the child of a fork", own);
        if (check_failures)
            _exit(100);
        execl("/proc/self/exe", "descriptors", inherited.c_str(), (char *)NULL);
        _exit(101);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status)
        dprintf(report, "the started program ends with %#x: so many descriptors are too many\n", status);
    HOLDS(status == 0);
    use(d, 5);
    dup2(output, 1);
    return check_result("descriptors");
}
