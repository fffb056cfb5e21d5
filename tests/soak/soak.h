/*
 * soak.h: what the files of the soak share: dice, device memory, comparison, and the list of algorithms.
 *
 * An algorithm is a function that draws sizes, types and values from its dice, computes on the device and on the
 * host, and compares. Whatever it does follows from the seed of its dice alone, so that a wrong run can be repeated
 * by itself.
 */
#ifndef TESTS_SOAK_SOAK_H
#define TESTS_SOAK_SOAK_H

#include "tests/cuda/check.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace soak
{

class dice
{
    uint64_t state;

public:
    explicit dice(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u + 1)
    {
        below(2);
        below(2);
    }
    uint64_t bits()
    {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t x = (state ^ state >> 33) * 0xFF51AFD7ED558CCDu;
        return x ^ x >> 29;
    }
    unsigned below(unsigned n) { return (unsigned)((bits() >> 32) * n >> 32); }
    bool one_in(unsigned n) { return below(n) == 0; }
    // From 1 to `most`, of all orders of magnitude; now and then just at or beside a round number, where tiles end.
    int size(int most)
    {
        int n = (int)below(2u << below(32 - (unsigned)__builtin_clz((unsigned)most)));
        if (one_in(4))
            n = n / 128 * 128 + (int)below(3) - 1;
        return n < 1 ? 1 : n > most ? most - n % 5 : n;
    }
};

// Sixteen bytes of which every one counts.
struct quad {
    unsigned v[4];
    __host__ __device__ bool operator==(const quad &o) const
    {
        return v[0] == o.v[0] && v[1] == o.v[1] && v[2] == o.v[2] && v[3] == o.v[3];
    }
    __host__ __device__ bool operator!=(const quad &o) const { return !(*this == o); }
    __host__ __device__ bool operator<(const quad &o) const
    {
        for (int i = 0; i < 3; i++)
            if (v[i] != o.v[i])
                return v[i] < o.v[i];
        return v[3] < o.v[3];
    }
    __host__ __device__ quad operator+(const quad &o) const
    {
        return {{v[0] + o.v[0], v[1] + o.v[1], v[2] ^ o.v[2], v[3] + o.v[3]}};
    }
};

struct plus {
    template <class T> __host__ __device__ T operator()(const T &a, const T &b) const { return (T)(a + b); }
};
struct larger {
    template <class T> __host__ __device__ T operator()(const T &a, const T &b) const { return a < b ? b : a; }
};
struct less {
    template <class T> __host__ __device__ bool operator()(const T &a, const T &b) const { return a < b; }
};
struct equal {
    template <class T> __host__ __device__ bool operator()(const T &a, const T &b) const { return a == b; }
};

// Values of which sums are exact in any order: floats hold small whole numbers. few: many equal ones.
template <class T> T value(dice &d, bool few = false)
{
    unsigned x = few ? d.below(5) : d.below(1000);
    if constexpr (std::is_floating_point<T>::value)
        return (T)x - (few ? 2 : 500);
    else if constexpr (std::is_same<T, quad>::value)
        return few ? quad{{x, x, x, x}} : quad{{x, (unsigned)d.bits(), (unsigned)d.bits(), x * 7}};
    else
        return few ? (T)x : (T)d.bits();
}

template <class T> std::vector<T> values(dice &d, int n, bool few = false)
{
    std::vector<T> v(n);
    for (T &x : v)
        x = value<T>(d, few);
    return v;
}

// Device memory with a margin behind it, which must stay as it is.
template <class T> class memory
{
    enum { MARGIN = 64 };
    T *at = nullptr;
    size_t count;

public:
    explicit memory(size_t n) : count(n)
    {
        MUST(cudaMalloc((void **)&at, n * sizeof(T) + MARGIN));
        MUST(cudaMemset(at, 0xee, n * sizeof(T) + MARGIN));
    }
    explicit memory(const std::vector<T> &v) : memory(v.size())
    {
        MUST(cudaMemcpy(at, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    memory(const memory &) = delete;
    ~memory()
    {
        unsigned char margin[MARGIN];
        MUST(cudaMemcpy(margin, at + count, MARGIN, cudaMemcpyDeviceToHost));
        for (unsigned char byte : margin)
            HOLDS(byte == 0xee);
        MUST(cudaFree(at));
    }
    operator T *() const { return at; }
    std::vector<T> get(size_t n) const
    {
        std::vector<T> v(n);
        MUST(cudaMemcpy(v.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
    T first() const { return get(1)[0]; }
};

// The algorithm that runs; and what it has found wrong.
void now(const std::string &what, long long size);
void wrong(const std::string &why);

template <class T> void same(const std::vector<T> &want, const std::vector<T> &got, const char *what = "result")
{
    if (want.size() != got.size())
        return wrong(std::string(what) + ": " + std::to_string(got.size()) + " elements, not " +
                     std::to_string(want.size()));
    for (size_t i = 0; i < want.size(); i++)
        if (!(want[i] == got[i]))
            return wrong(std::string(what) + ": the first difference is at element " + std::to_string(i));
}
template <class T> void same_one(const T &want, const T &got, const char *what = "result")
{
    same(std::vector<T>{want}, std::vector<T>{got}, what);
}

// Runs a function of CUB: once for the size of its temporary memory, then in earnest.
template <class F> void cub_run(F f)
{
    size_t bytes = 0;
    MUST(f((void *)nullptr, bytes));
    memory<char> temporary(bytes);
    MUST(f((void *)(char *)temporary, bytes));
    MUST(cudaGetLastError());
}

struct algorithm {
    const char *name;
    void (*run)(dice &);
    algorithm *next;
    algorithm(const char *name, void (*run)(dice &)); // joins the list
};
#define SOAK(name)                                                                                                     \
    static void name(soak::dice &);                                                                                    \
    static soak::algorithm name##_entry(#name, name);                                                                  \
    static void name(soak::dice &d)

}

#endif
