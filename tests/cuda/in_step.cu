// shows: lanes that part: a warp whose lanes look for the smallest elements of a row, and exchange them through memory
//   without __syncwarp, finds them, as on hardware, where lanes meet behind each branch
//
// CUDA promises nothing to such a program. CuPy's argpartition is one. Compilers put blocks of its loops in front of
// the blocks that lead to them. FLYT_SOFTGPU_CHAOS may run the lanes in another order: the test is not for it.
#include "check.h"

enum { ROWS = 12, LENGTH = 640, KEPT = 32, QUEUE = 4, LANES = 32 };

// One step of a bitonic sort of places[0 … count - 1] by what lies there.
template <typename T> __device__ void step(const T *values, int *places, long count, int lane, long run, long gap)
{
    for (long pair = lane; pair < count / 2; pair += LANES) {
        const long low = pair + (pair & -gap), high = low + gap;
        const T a = values[places[low]], b = values[places[high]];
        if (low & run ? a < b : a > b) {
            const int place = places[low];
            places[low] = places[high];
            places[high] = place;
        }
    }
}

template <typename T> __device__ void sort(const T *values, int *places, long count, int lane)
{
    for (long run = 2; run <= count; run *= 2)
        for (long gap = run / 2; gap >= 1; gap /= 2)
            step(values, places, count, lane, run, gap);
}

// Both lists are sorted. The smaller halves of both end up in `kept`, sorted again.
template <typename T> __device__ void take_over(const T *values, int *kept, long count, int *queued, int lane)
{
    for (long k = lane; k < count; k += LANES) {
        const int place = kept[count - 1 - k];
        if (values[place] > values[queued[k]]) {
            kept[count - 1 - k] = queued[k];
            queued[k] = place;
        }
    }
    for (long gap = count / 2; gap >= 1; gap /= 2)
        step(values, kept, count, lane, count, gap);
}

// A warp a row. places: first those that are kept, then a queue with `queue` places for each lane.
template <typename T> __global__ void smallest(const T *rows, int *all_places, int length, long count, int queue)
{
    const T *values = rows + (long)blockIdx.x * length;
    int *kept = all_places + (long)blockIdx.x * length, *queued = kept + count, lane = threadIdx.x, mine = 0;
    sort(values, kept, count, lane);
    for (long k = count + lane; k < length; k += LANES) {
        if (values[kept[k]] < values[kept[count - 1]]) {
            const int place = queued[LANES * mine + lane];
            queued[LANES * mine + lane] = kept[k];
            kept[k] = place;
            mine++;
        }
        if (__any_sync(0xffffffff, mine >= queue)) {
            sort(values, queued, (long)queue * LANES, lane);
            take_over(values, kept, count, queued, lane);
            mine = 0;
        }
    }
    sort(values, queued, (long)queue * LANES, lane);
    take_over(values, kept, count, queued, lane);
}

template <typename T> static int compare(const void *a, const void *b)
{
    return (*(const T *)a > *(const T *)b) - (*(const T *)a < *(const T *)b);
}

template <typename T> static void try_type(const char *name)
{
    static T rows[ROWS * LENGTH], sorted[LENGTH];
    static int places[ROWS * LENGTH];
    static bool seen[LENGTH];
    T *device_rows;
    int *device_places, wrong = 0;
    unsigned state = 12345;
    for (int i = 0; i < ROWS * LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        rows[i] = (T)(state >> 16);
        places[i] = i % LENGTH;
    }
    MUST(cudaMalloc((void **)&device_rows, sizeof rows));
    MUST(cudaMalloc((void **)&device_places, sizeof places));
    MUST(cudaMemcpy(device_rows, rows, sizeof rows, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(device_places, places, sizeof places, cudaMemcpyHostToDevice));
    smallest<T><<<ROWS, LANES>>>(device_rows, device_places, LENGTH, KEPT, QUEUE);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(places, device_places, sizeof places, cudaMemcpyDeviceToHost));
    for (int r = 0; r < ROWS; r++) {
        const T *row = rows + r * LENGTH;
        const int *found = places + r * LENGTH;
        memcpy(sorted, row, sizeof sorted);
        qsort(sorted, LENGTH, sizeof *sorted, compare<T>);
        memset(seen, 0, sizeof seen);
        for (int k = 0; k < LENGTH; k++)
            if (found[k] < 0 || found[k] >= LENGTH || seen[found[k]])
                wrong++;
            else
                seen[found[k]] = true;
        for (int k = 0; k < KEPT; k++)
            wrong += found[k] < 0 || found[k] >= LENGTH || row[found[k]] != sorted[k];
    }
    if (wrong)
        fprintf(stderr, "%s: %d places wrong\n", name, wrong);
    HOLDS(wrong == 0);
    MUST(cudaFree(device_rows));
    MUST(cudaFree(device_places));
}

int main()
{
    if (getenv("FLYT_SOFTGPU_CHAOS")) {
        printf("chaos runs lanes in any order\n");
        return 77;
    }
    try_type<int>("int");
    try_type<long long>("long long");
    try_type<float>("float");
    try_type<double>("double");
    return check_result("in_step");
}
