// managed_launches.cu: so many launches on 4 MiB of managed memory. "left": the program leaves it alone. "read": it
// reads one page behind each; "written": it writes one. For tests/cuda/managed_calls.py.
#include "managed.h"

__global__ void count(int *a)
{
    a[0]++;
    a[50000]++;
}

int main(int arguments, char **argument)
{
    enum { N = 1 << 20 };
    const char *kind = arguments > 1 ? argument[1] : "left";
    int launches = arguments > 2 ? atoi(argument[2]) : 10, written = 0;
    int *a = managed<int>(N);
    for (int i = 0; i < N; i++)
        a[i] = 0;
    for (int i = 1; i <= launches; i++) {
        count<<<1, 1>>>(a);
        if (strcmp(kind, "left") != 0) {
            MUST(cudaDeviceSynchronize());
            HOLDS(a[0] == i);
        }
        if (strcmp(kind, "written") == 0)
            a[1] = written = i;
    }
    MUST(cudaDeviceSynchronize());
    HOLDS(a[0] == launches && a[50000] == launches && a[1] == written);
    return check_result("managed_launches");
}
