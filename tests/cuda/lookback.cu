// shows: vector accesses: CUB's look-back (value and status published as one vector) gives the host's result, again and
//   again: select, run-length encode, scan-by-key, reduce-by-key of 4- and 8-byte types
//
// lookback [REPETITIONS [LARGEST]]: each algorithm, type and size so many times (default 3), sizes up to LARGEST
// (default 70000).
#include "check.h"
#include "../lib/dice.h"
#include <cub/cub.cuh>
#include <algorithm>
#include <vector>

static int repetitions = 3;

struct sum {
    template <class T> __host__ __device__ T operator()(const T &a, const T &b) const { return a + b; }
};

template <class T> struct buffer {
    T *at = nullptr;
    explicit buffer(size_t n) { MUST(cudaMalloc((void **)&at, n * sizeof(T) + 1)); }
    ~buffer() { cudaFree(at); }
    void put(const std::vector<T> &v) { MUST(cudaMemcpy(at, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice)); }
    std::vector<T> get(size_t n) const
    {
        std::vector<T> v(n);
        MUST(cudaMemcpy(v.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
};

static unsigned long long state = 1;
/* Runs f(temporary, bytes) so many times; each time `agrees` looks at the results. */
template <class F, class A> void repeat(const char *name, size_t element, int n, F f, A agrees)
{
    size_t bytes = 0;
    MUST(f(nullptr, bytes));
    buffer<char> temporary(bytes);
    int wrong = 0;
    for (int r = 0; r < repetitions; r++) {
        MUST(f(temporary.at, bytes));
        wrong += !agrees();
    }
    if (wrong)
        fprintf(stderr, "%s of %d elements of %zu bytes: wrong in %d of %d runs\n", name, n, element, wrong,
                repetitions);
    HOLDS(wrong == 0);
}

template <class T> void algorithms(int n)
{
    std::vector<T> in(n), keys(n), unique, sums, selected, before(n);
    std::vector<char> flags(n);
    std::vector<int> lengths;
    T key = 0, run = 0;
    for (int i = 0; i < n; i++) {
        in[i] = (T)dice(&state, 1000) + ((T)dice(&state, 1000) << (sizeof(T) * 8 - 20));
        flags[i] = dice(&state, 3) == 0;
        if (flags[i])
            selected.push_back(in[i]);
        bool fresh = !i || dice(&state, 5) == 0;
        if (fresh) {
            key += 1 + (T)dice(&state, 3);
            unique.push_back(key);
            sums.push_back(0);
            lengths.push_back(0);
            run = 0;
        }
        keys[i] = key;
        before[i] = run;
        run += in[i];
        sums.back() += in[i];
        lengths.back()++;
    }
    buffer<T> din(n), dkeys(n), dout(n), dunique(n);
    buffer<char> dflags(n);
    buffer<int> dcount(1), dlengths(n);
    din.put(in);
    dkeys.put(keys);
    dflags.put(flags);
    auto count = [&] { return (size_t)dcount.get(1)[0]; };
    auto clear = [&] {
        MUST(cudaMemset(dout.at, 0xee, n * sizeof(T)));
        MUST(cudaMemset(dunique.at, 0xee, n * sizeof(T)));
    };

    repeat("DeviceSelect::Flagged", sizeof(T), n, [&](void *t, size_t &bytes) {
        clear();
        return cub::DeviceSelect::Flagged(t, bytes, din.at, dflags.at, dout.at, dcount.at, n);
    }, [&] { return count() == selected.size() && dout.get(selected.size()) == selected; });

    repeat(
        "DeviceRunLengthEncode::Encode", sizeof(T), n,
        [&](void *t, size_t &bytes) {
            clear();
            return cub::DeviceRunLengthEncode::Encode(t, bytes, dkeys.at, dunique.at, dlengths.at, dcount.at, n);
        },
        [&] {
            return count() == unique.size() && dunique.get(unique.size()) == unique &&
                   dlengths.get(unique.size()) == lengths;
        });

    repeat("DeviceScan::ExclusiveSumByKey", sizeof(T), n, [&](void *t, size_t &bytes) {
        clear();
        return cub::DeviceScan::ExclusiveSumByKey(t, bytes, dkeys.at, din.at, dout.at, n);
    }, [&] { return dout.get(n) == before; });

    repeat(
        "DeviceReduce::ReduceByKey", sizeof(T), n,
        [&](void *t, size_t &bytes) {
            clear();
            return cub::DeviceReduce::ReduceByKey(t, bytes, dkeys.at, dunique.at, din.at, dout.at, dcount.at, sum(), n);
        },
        [&] {
            return count() == unique.size() && dunique.get(unique.size()) == unique && dout.get(unique.size()) == sums;
        });
}

int main(int argc, char **argv)
{
    repetitions = argc > 1 ? atoi(argv[1]) : repetitions;
    int largest = argc > 2 ? atoi(argv[2]) : 70000;
    for (int n : { 1, 31, 1000, 5000, 20011, 50000, 65536, 131072, 300007 })
        if (n <= largest) {
            algorithms<unsigned>(n);
            algorithms<unsigned long long>(n);
        }
    return check_result("lookback");
}
