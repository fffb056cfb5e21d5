// shows: fat binaries: kernels and variables of one name in two files of the program, a linked and a loaded library are
//   four
// shows: fat binaries: a library that is unloaded takes its code with it and leaves the others alone; loaded again it
//   begins anew
#include "../check.h"
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

typedef cudaError_t on_pointer(int *);
typedef cudaError_t on_value(int);
extern "C" {
on_pointer apply_two;
on_pointer apply_three;
on_pointer apply_five;
on_pointer touch_three;
on_value set_five;
}

static int apply(on_pointer *function, int *p, int to)
{
    MUST(cudaMemcpy(p, &to, sizeof to, cudaMemcpyHostToDevice));
    MUST(function(p));
    MUST(cudaMemcpy(&to, p, sizeof to, cudaMemcpyDeviceToHost));
    return to;
}

int main()
{
    char path[PATH_MAX] = "", *folder;
    int *p, hundred = 100;
    MUST(cudaMalloc((void **)&p, sizeof *p));
    HOLDS(apply(apply_two, p, 10) == 10 * 2 + 2);
    HOLDS(apply(apply_three, p, 10) == 10 * 3 + 3);
    HOLDS(apply(apply_five, p, 10) == 10 * 5 + 5);

    MUST(cudaMemcpy(p, &hundred, sizeof hundred, cudaMemcpyHostToDevice));
    MUST(touch_three(p));
    MUST(set_five(1));
    HOLDS(apply(apply_two, p, 10) == 22);
    HOLDS(apply(apply_three, p, 10) == 133);
    HOLDS(apply(apply_five, p, 10) == 51);

    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        return 1;
    folder = dirname(path);
    strncat(path, "/libraries-seven.so", sizeof path - strlen(path) - 1);
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(folder, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        on_pointer *apply_seven = (on_pointer *)dlsym(library, "apply_seven");
        on_value *set_seven = (on_value *)dlsym(library, "set_seven");
        HOLDS(apply(apply_seven, p, 10) == 77);
        MUST(set_seven(1000));
        HOLDS(apply(apply_seven, p, 10) == 1070);
        HOLDS(apply(apply_three, p, 10) == 133);
        HOLDS(dlclose(library) == 0);
        HOLDS(apply(apply_two, p, 10) == 22);
    }
    MUST(cudaFree(p));
    return check_result("libraries");
}
