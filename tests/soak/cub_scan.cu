// cub_scan.cu: CUB's scans, selections and run lengths: what publishes a value together with its status (decoupled
// look-back).
#include "tests/soak/soak.h"
#include <cub/cub.cuh>

using soak::memory;

template <class T> static void scans(soak::dice &d)
{
    int n = d.size(200000);
    soak::now("scan of " + std::to_string(sizeof(T)) + " bytes", n);
    std::vector<T> in = soak::values<T>(d, n), sums(n), before(n);
    T first = soak::value<T>(d, true), run = first, sum = T{};
    for (int i = 0; i < n; i++) {
        before[i] = run;
        run = (T)(run + in[i]);
        sums[i] = sum = i ? (T)(sum + in[i]) : in[0];
    }
    memory<T> din(in), dout(n);
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceScan::InclusiveScan(t, bytes, (T *)din, (T *)dout, soak::plus(), n);
    });
    soak::same(sums, dout.get(n), "inclusive");
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceScan::ExclusiveScan(t, bytes, (T *)din, (T *)dout, soak::plus(), first, n);
    });
    soak::same(before, dout.get(n), "exclusive");
}

// Keys in runs of some average length.
template <class K> static std::vector<K> runs(soak::dice &d, int n)
{
    std::vector<K> keys(n);
    unsigned length = 1u << d.below(12);
    K key = K{};
    for (int i = 0; i < n; i++) {
        if (d.one_in(length))
            key = soak::value<K>(d);
        keys[i] = key;
    }
    return keys;
}

template <class K, class V> static void by_key(soak::dice &d)
{
    int n = d.size(100000);
    soak::now("by key, " + std::to_string(sizeof(K)) + " and " + std::to_string(sizeof(V)) + " bytes", n);
    std::vector<K> keys = runs<K>(d, n), unique;
    std::vector<V> in = soak::values<V>(d, n), sums, before(n);
    std::vector<int> lengths;
    for (int i = 0; i < n; i++) {
        if (!i || !(keys[i] == keys[i - 1])) {
            unique.push_back(keys[i]);
            sums.push_back(in[i]);
            lengths.push_back(1);
            before[i] = V{};
        } else {
            before[i] = (V)(before[i - 1] + in[i - 1]);
            sums.back() = (V)(sums.back() + in[i]);
            lengths.back()++;
        }
    }
    memory<K> dkeys(keys), dunique(n);
    memory<V> din(in), dout(n);
    memory<int> dlengths(n), dcount(1);
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceReduce::ReduceByKey(t, bytes, (K *)dkeys, (K *)dunique, (V *)din, (V *)dout, (int *)dcount,
                                              soak::plus(), n);
    });
    soak::same_one((int)unique.size(), dcount.first(), "reduce by key: keys");
    soak::same(unique, dunique.get(unique.size()), "reduce by key: keys");
    soak::same(sums, dout.get(unique.size()), "reduce by key: sums");
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceRunLengthEncode::Encode(t, bytes, (K *)dkeys, (K *)dunique, (int *)dlengths, (int *)dcount,
                                                  n);
    });
    soak::same_one((int)unique.size(), dcount.first(), "run lengths: runs");
    soak::same(unique, dunique.get(unique.size()), "run lengths: keys");
    soak::same(lengths, dlengths.get(unique.size()), "run lengths");
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceScan::ExclusiveScanByKey(t, bytes, (K *)dkeys, (V *)din, (V *)dout, soak::plus(), V{}, n);
    });
    soak::same(before, dout.get(n), "scan by key");
}

struct odd {
    template <class T> __host__ __device__ bool operator()(const T &x) const
    {
        return ((unsigned long long)x & 1) != 0;
    }
    __host__ __device__ bool operator()(const soak::quad &x) const { return (x.v[1] & 1) != 0; }
};

template <class T> static void selects(soak::dice &d)
{
    int n = d.size(150000);
    soak::now("select of " + std::to_string(sizeof(T)) + " bytes", n);
    std::vector<T> in = soak::values<T>(d, n, d.one_in(3)), flagged, chosen, rest, unique;
    std::vector<char> flags(n);
    unsigned share = 1 + d.below(9);
    for (int i = 0; i < n; i++) {
        flags[i] = d.one_in(share);
        if (flags[i])
            flagged.push_back(in[i]);
        (odd()(in[i]) ? chosen : rest).push_back(in[i]);
        if (!i || !(in[i] == in[i - 1]))
            unique.push_back(in[i]);
    }
    memory<T> din(in), dout(n);
    memory<char> dflags(flags);
    memory<int> dcount(1);
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceSelect::Flagged(t, bytes, (T *)din, (char *)dflags, (T *)dout, (int *)dcount, n);
    });
    soak::same_one((int)flagged.size(), dcount.first(), "flagged");
    soak::same(flagged, dout.get(flagged.size()), "flagged");
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceSelect::If(t, bytes, (T *)din, (T *)dout, (int *)dcount, n, odd());
    });
    soak::same_one((int)chosen.size(), dcount.first(), "if");
    soak::same(chosen, dout.get(chosen.size()), "if");
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DeviceSelect::Unique(t, bytes, (T *)din, (T *)dout, (int *)dcount, n);
    });
    soak::same_one((int)unique.size(), dcount.first(), "unique");
    soak::same(unique, dout.get(unique.size()), "unique");
    soak::cub_run([&](void *t, size_t &bytes) {
        return cub::DevicePartition::If(t, bytes, (T *)din, (T *)dout, (int *)dcount, n, odd());
    });
    soak::same_one((int)chosen.size(), dcount.first(), "partition");
    std::vector<T> parted = chosen;
    parted.insert(parted.end(), rest.rbegin(), rest.rend()); // the rest comes backward
    soak::same(parted, dout.get(n), "partition");
}

SOAK(cub_scan)
{
    switch (d.below(4)) {
    case 0: return scans<unsigned char>(d);
    case 1: return scans<int>(d);
    case 2: return scans<double>(d);
    default: return scans<soak::quad>(d);
    }
}

SOAK(cub_by_key)
{
    switch (d.below(4)) {
    case 0: return by_key<int, int>(d);
    case 1: return by_key<int, long long>(d);
    case 2: return by_key<long long, float>(d);
    default: return by_key<unsigned char, soak::quad>(d);
    }
}

SOAK(cub_select)
{
    switch (d.below(3)) {
    case 0: return selects<unsigned>(d);
    case 1: return selects<unsigned long long>(d);
    default: return selects<soak::quad>(d);
    }
}
