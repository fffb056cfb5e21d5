// cub_sort.cu: CUB's sorts, reductions, histograms and what works on segments.
#include "tests/soak/soak.h"
#include <cub/cub.cuh>

using soak::memory;

// The order in which `key` sorts, equal ones as they were.
template <class F> static std::vector<int> order(int n, F before)
{
    std::vector<int> at(n);
    for (int i = 0; i < n; i++)
        at[i] = i;
    std::stable_sort(at.begin(), at.end(), before);
    return at;
}

template <class K, class V> static void radix(soak::dice &d)
{
    int n = d.size(60000);
    bool down = d.one_in(2);
    soak::now("radix sort of " + std::to_string(sizeof(K)) + " and " + std::to_string(sizeof(V)) + " bytes", n);
    std::vector<K> keys = soak::values<K>(d, n, d.one_in(3)), sorted(n);
    std::vector<V> in = soak::values<V>(d, n), moved(n);
    std::vector<int> at = order(n, [&](int a, int b) { return down ? keys[b] < keys[a] : keys[a] < keys[b]; });
    for (int i = 0; i < n; i++) {
        sorted[i] = keys[at[i]];
        moved[i] = in[at[i]];
    }
    memory<K> dkeys(keys), dsorted(n);
    memory<V> din(in), dmoved(n);
    soak::cub_run([&](void *t, size_t &bytes) {
        return down ? cub::DeviceRadixSort::SortPairsDescending(t, bytes, (K *)dkeys, (K *)dsorted, (V *)din,
                                                                (V *)dmoved, n)
                    : cub::DeviceRadixSort::SortPairs(t, bytes, (K *)dkeys, (K *)dsorted, (V *)din, (V *)dmoved, n);
    });
    soak::same(sorted, dsorted.get(n), "keys");
    soak::same(moved, dmoved.get(n), "values");
}

template <class K> static void merge(soak::dice &d)
{
    int n = d.size(40000);
    soak::now("merge sort of " + std::to_string(sizeof(K)) + " bytes", n);
    std::vector<K> keys = soak::values<K>(d, n, d.one_in(3)), sorted(n);
    std::vector<int> at = order(n, [&](int a, int b) { return keys[a] < keys[b]; }), moved(n);
    for (int i = 0; i < n; i++) {
        sorted[i] = keys[at[i]];
        moved[i] = at[i];
    }
    std::vector<int> index(n);
    for (int i = 0; i < n; i++)
        index[i] = i;
    memory<K> dkeys(keys);
    memory<int> dindex(index);
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceMergeSort::StableSortPairs(t, bytes, (K *)dkeys, (int *)dindex, n, soak::less());
    });
    soak::same(sorted, dkeys.get(n), "keys");
    soak::same(moved, dindex.get(n), "values");
}

template <class T> static void reduces(soak::dice &d)
{
    int n = d.size(300000);
    soak::now("reduce of " + std::to_string(sizeof(T)) + " bytes", n);
    std::vector<T> in = soak::values<T>(d, n);
    T sum = in[0], most = in[0];
    for (int i = 1; i < n; i++) {
        sum = (T)(sum + in[i]);
        most = most < in[i] ? in[i] : most;
    }
    memory<T> din(in), dout(1);
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceReduce::Reduce(t, bytes, (T *)din, (T *)dout, n, soak::plus(), T{});
    });
    soak::same_one(sum, dout.first(), "sum");
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceReduce::Reduce(t, bytes, (T *)din, (T *)dout, n, soak::larger(), in[0]);
    });
    soak::same_one(most, dout.first(), "largest");

    // The same in segments, some of them empty.
    int segments = d.size(500);
    std::vector<int> begin(segments + 1, 0);
    for (int s = 1; s < segments; s++)
        begin[s] = (int)d.below((unsigned)n + 1);
    begin[segments] = n;
    std::sort(begin.begin(), begin.end());
    std::vector<T> sums(segments, T{});
    for (int s = 0; s < segments; s++)
        for (int i = begin[s]; i < begin[s + 1]; i++)
            sums[s] = (T)(sums[s] + in[i]);
    memory<int> dbegin(begin);
    memory<T> dsums(segments);
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceSegmentedReduce::Reduce(t, bytes, (T *)din, (T *)dsums, segments, (int *)dbegin,
                                                  (int *)dbegin + 1, soak::plus(), T{});
    });
    soak::same(sums, dsums.get(segments), "segments");
}

SOAK(cub_radix_sort)
{
    switch (d.below(3)) {
    case 0: return radix<unsigned char, int>(d);
    case 1: return radix<int, soak::quad>(d);
    default: return radix<double, short>(d);
    }
}

SOAK(cub_merge_sort)
{
    if (d.one_in(2))
        merge<float>(d);
    else
        merge<soak::quad>(d);
}

SOAK(cub_reduce)
{
    switch (d.below(3)) {
    case 0: return reduces<int>(d);
    case 1: return reduces<double>(d);
    default: return reduces<soak::quad>(d);
    }
}

SOAK(cub_histogram)
{
    int n = d.size(200000), bins = 1 + (int)d.below(600);
    float low = -100, high = 300;
    soak::now("histogram of " + std::to_string(bins) + " bins", n);
    std::vector<float> in = soak::values<float>(d, n);
    std::vector<int> want(bins, 0);
    float width = (high - low) / (float)bins;
    std::vector<float> levels(bins + 1);
    for (int b = 0; b <= bins; b++)
        levels[b] = low + width * (float)b;
    for (float x : in) {
        long b = std::upper_bound(levels.begin(), levels.end(), x) - levels.begin() - 1;
        if (b >= 0 && b < bins)
            want[b]++;
    }
    memory<float> din(in), dlevels(levels);
    memory<int> dout(bins);
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceHistogram::HistogramRange(t, bytes, (float *)din, (int *)dout, bins + 1, (float *)dlevels, n);
    });
    soak::same(want, dout.get(bins));
}
