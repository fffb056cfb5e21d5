// thrust.cu: Thrust's algorithms on device vectors.
#include "tests/soak/soak.h"
#include <map>
#include <numeric>
#include <set>
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/gather.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

template <class T> using device = thrust::device_vector<T>;
template <class T> static device<T> put(const std::vector<T> &v) { return device<T>(v.begin(), v.end()); }
template <class T> static std::vector<T> get(const device<T> &v, size_t n)
{
    std::vector<T> out(n);
    thrust::copy(v.begin(), v.begin() + n, out.begin());
    return out;
}
template <class T> static std::vector<T> get(const device<T> &v) { return get(v, v.size()); }

struct mixed {
    __host__ __device__ unsigned long long operator()(long long x) const
    {
        return (unsigned long long)x * 0x9E3779B97F4A7C15u >> 7;
    }
};
struct small {
    template <class T> __host__ __device__ bool operator()(const T &x) const { return ((unsigned long long)x & 7) < 3; }
};

SOAK(thrust_sort)
{
    int n = d.size(40000);
    soak::now("sort", n);
    std::vector<long long> in = soak::values<long long>(d, n, d.one_in(3)), sorted = in;
    std::vector<int> index(n);
    std::iota(index.begin(), index.end(), 0);
    device<long long> din = put(in);
    device<int> dindex = put(index);
    std::stable_sort(index.begin(), index.end(), [&](int a, int b) { return in[a] < in[b]; });
    std::sort(sorted.begin(), sorted.end());
    thrust::stable_sort_by_key(din.begin(), din.end(), dindex.begin());
    soak::same(sorted, get(din), "keys");
    soak::same(index, get(dindex), "values");
    int wanted = d.size(1000);
    std::vector<long long> sought = soak::values<long long>(d, wanted, true);
    std::vector<int> found(wanted);
    device<long long> dsought = put(sought);
    device<int> dfound(wanted);
    for (int i = 0; i < wanted; i++)
        found[i] = (int)(std::lower_bound(sorted.begin(), sorted.end(), sought[i]) - sorted.begin());
    thrust::lower_bound(din.begin(), din.end(), dsought.begin(), dsought.end(), dfound.begin());
    soak::same(found, get(dfound), "lower bound");
}

SOAK(thrust_reduce)
{
    int n = d.size(200000);
    soak::now("reduce", n);
    std::vector<long long> in = soak::values<long long>(d, n), other = soak::values<long long>(d, n);
    device<long long> din = put(in), dother = put(other);
    unsigned long long sum = 0, product = 0;
    long long chosen = 0;
    for (int i = 0; i < n; i++) {
        sum += mixed()(in[i]);
        product += (unsigned long long)in[i] * (unsigned long long)other[i];
        chosen += small()(in[i]);
    }
    soak::same_one(sum, thrust::transform_reduce(din.begin(), din.end(), mixed(), 0ull, soak::plus()),
                   "transformed sum");
    soak::same_one((long long)product, thrust::inner_product(din.begin(), din.end(), dother.begin(), 0ll),
                   "inner product");
    soak::same_one(chosen, (long long)thrust::count_if(din.begin(), din.end(), small()), "count");
    soak::same_one((long long)(std::max_element(in.begin(), in.end()) - in.begin()),
                   (long long)(thrust::max_element(din.begin(), din.end()) - din.begin()), "largest");
}

SOAK(thrust_by_key)
{
    int n = d.size(60000);
    soak::now("by key", n);
    std::vector<int> keys(n), unique;
    std::vector<long long> in = soak::values<long long>(d, n), before(n), sums;
    unsigned length = 1u << d.below(10);
    for (int i = 0, key = 0; i < n; i++) {
        bool fresh = !i || d.one_in(length);
        key += fresh;
        keys[i] = key;
        if (fresh) {
            unique.push_back(key);
            sums.push_back(0);
        }
        before[i] = sums.back();
        sums.back() = (long long)((unsigned long long)sums.back() + (unsigned long long)in[i]);
    }
    device<int> dkeys = put(keys), dunique(n);
    device<long long> din = put(in), dout(n);
    thrust::exclusive_scan_by_key(dkeys.begin(), dkeys.end(), din.begin(), dout.begin());
    soak::same(before, get(dout), "exclusive scan");
    auto ends = thrust::reduce_by_key(dkeys.begin(), dkeys.end(), din.begin(), dunique.begin(), dout.begin());
    soak::same_one((int)unique.size(), (int)(ends.first - dunique.begin()), "keys");
    soak::same(unique, get(dunique, unique.size()), "keys");
    soak::same(sums, get(dout, unique.size()), "sums");
}

SOAK(thrust_filter)
{
    int n = d.size(100000);
    soak::now("filter", n);
    std::vector<int> in = soak::values<int>(d, n, d.one_in(2)), kept, parted, unique;
    device<int> din = put(in), dout(n);
    for (int x : in)
        if (!small()(x))
            kept.push_back(x);
        else
            parted.push_back(x);
    parted.insert(parted.end(), kept.begin(), kept.end());
    unique = in;
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    size_t left = thrust::remove_copy_if(din.begin(), din.end(), dout.begin(), small()) - dout.begin();
    soak::same(kept, get(dout, left), "remove");
    left = thrust::unique_copy(din.begin(), din.end(), dout.begin()) - dout.begin();
    soak::same(unique, get(dout, left), "unique");
    thrust::stable_partition(din.begin(), din.end(), small());
    soak::same(parted, get(din), "partition");
}

SOAK(thrust_sets)
{
    int n = d.size(30000), m = d.size(30000);
    soak::now("sets with " + std::to_string(m), n);
    std::vector<unsigned> a(n), b(m), want;
    for (unsigned &x : a)
        x = d.below((unsigned)n * 2);
    for (unsigned &x : b)
        x = d.below((unsigned)n * 2);
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    device<unsigned> da = put(a), db = put(b), dout(n + m);
    std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(want));
    thrust::merge(da.begin(), da.end(), db.begin(), db.end(), dout.begin());
    soak::same(want, get(dout), "merge");
    want.clear();
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(want));
    size_t left = thrust::set_intersection(da.begin(), da.end(), db.begin(), db.end(), dout.begin()) - dout.begin();
    soak::same(want, get(dout, left), "intersection");
    want.clear();
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(want));
    left = thrust::set_difference(da.begin(), da.end(), db.begin(), db.end(), dout.begin()) - dout.begin();
    soak::same(want, get(dout, left), "difference");
}

SOAK(thrust_move)
{
    int n = d.size(150000);
    soak::now("gather and scatter", n);
    std::vector<float> in = soak::values<float>(d, n), gathered(n), scattered(n), steps(n);
    std::vector<int> map(n);
    std::iota(map.begin(), map.end(), 0);
    for (int i = n - 1; i > 0; i--)
        std::swap(map[i], map[d.below((unsigned)i + 1)]);
    for (int i = 0; i < n; i++) {
        gathered[i] = in[map[i]];
        scattered[map[i]] = in[i];
        steps[i] = i ? in[i] - in[i - 1] : in[i];
    }
    device<float> din = put(in), dout(n);
    device<int> dmap = put(map);
    thrust::gather(dmap.begin(), dmap.end(), din.begin(), dout.begin());
    soak::same(gathered, get(dout), "gather");
    thrust::scatter(din.begin(), din.end(), dmap.begin(), dout.begin());
    soak::same(scattered, get(dout), "scatter");
    thrust::adjacent_difference(din.begin(), din.end(), dout.begin());
    soak::same(steps, get(dout), "adjacent difference");
}
