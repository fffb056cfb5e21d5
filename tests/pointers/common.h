/*
 * common.h: what the random programs of tests/pointers share with main.cu, which runs them.
 *
 * The functions of a program are compiled for the device and for the host. On the host they are called by pointer and
 * by virtual method, too: what the host computes is the model.
 */
#ifndef FLYT_TESTS_POINTERS_COMMON_H
#define FLYT_TESTS_POINTERS_COMMON_H

#include <new>

#define BOTH __host__ __device__

typedef unsigned long long wide;
struct Big { unsigned v[5]; };
struct __align__(16) Quad { unsigned v[4]; };
struct Tiny { unsigned char a, b, c; };

typedef unsigned (*Plain)(unsigned, int);
typedef wide (*Wide)(wide, unsigned, int);
typedef Big (*Large)(Big, int);
typedef struct Quad (*QuadFunction)(struct Quad, int);
typedef struct Tiny (*TinyFunction)(struct Tiny, unsigned, int);
typedef long long (*Many)(signed char, short, wide, double, unsigned char, unsigned, int);
typedef float (*Real)(float, short, unsigned char, int);
typedef void (*Into)(unsigned *, int);
typedef unsigned (*Callback)(unsigned, Plain, int);
/* Exchanges values between the threads of a block: device only. The model is the number of the other thread and what is
   done with both values. */
typedef unsigned (*Exchange)(unsigned);

BOTH inline unsigned mix(unsigned a, unsigned b) { return (a ^ (b << 7 | b >> 25)) * 2654435761u + b; }
BOTH inline unsigned fold(wide x) { return (unsigned)(x ^ x >> 32); }
BOTH inline wide spread(unsigned x) { return (wide)x << 21 ^ x; }
BOTH inline Big grow(unsigned x)
{
    Big b;
    for (unsigned i = 0; i < 5; i++)
        b.v[i] = x + i * 77;
    return b;
}
BOTH inline unsigned shrink(const Big &b)
{
    unsigned x = 0;
    for (unsigned i = 0; i < 5; i++)
        x = x * 31 + b.v[i];
    return x;
}
BOTH inline Quad quad(unsigned x)
{
    Quad q = { { x, x * 3, x ^ 0x5a5a5a5au, ~x } };
    return q;
}
BOTH inline unsigned four(const Quad &q) { return q.v[0] + (q.v[1] ^ q.v[2]) * 3 + q.v[3]; }
/* Whole numbers of up to 4095: sums and products of two of them are exact. */
BOTH inline float real(unsigned x) { return (float)(x & 4095); }
BOTH inline unsigned whole(double f) { return (unsigned)(int)f; }

enum { TAKEN = 2 };

struct Program {
    unsigned seed, blocks, threads;
    /* On the device: objects are made, addresses of functions are stored, the program is run. */
    void (*make)();
    void (*take)(Plain *to);
    void (*run)(unsigned blocks, unsigned threads, const unsigned *in, unsigned *out, const Plain *taken,
                const Plain *foreign);
    /* On the host: the same for all threads of a block. */
    const Plain *taken;
    void (*model)(unsigned threads, const unsigned *in, unsigned *out, const Plain *taken, const Plain *foreign);
};
struct Unit { const char *name; const Program *programs; unsigned count; };

#endif
