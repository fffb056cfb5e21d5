"""Numba's compiler for GPUs: kernels, reductions, atomics, shared memory, libdevice, linking."""

import math

from ops import close, need, op, run, same

cuda, numpy = need("numba.cuda", "numpy")
import numba  # noqa: E402
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32  # noqa: E402

a = numpy.random.default_rng(1).random(4096).astype(numpy.float32)
b = numpy.random.default_rng(2).random(4096).astype(numpy.float32)


@op
def add():
    @cuda.jit
    def kernel(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    out = numpy.zeros_like(a)
    kernel[16, 256](a, b, out)
    close(out, a + b)


@op
def libdevice():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = math.sin(x[i]) + math.exp(x[i]) * math.log(x[i] + 1) + math.pow(x[i], 1.5)

    out = numpy.zeros(a.size)
    kernel[16, 256](a.astype(numpy.float64), out)
    x = a.astype(numpy.float64)
    close(out, numpy.sin(x) + numpy.exp(x) * numpy.log(x + 1) + x**1.5, 1e-12)


@op
def shared_product():
    @cuda.jit
    def kernel(x, y, out):
        s = cuda.shared.array((16, 16), numba.float32)
        t = cuda.shared.array((16, 16), numba.float32)
        i, j = cuda.grid(2)
        u, v = cuda.threadIdx.x, cuda.threadIdx.y
        total = numba.float32(0)
        for k in range(4):
            s[u, v] = x[i, k * 16 + v]
            t[u, v] = y[k * 16 + u, j]
            cuda.syncthreads()
            for n in range(16):
                total += s[u, n] * t[n, v]
            cuda.syncthreads()
        out[i, j] = total

    x, y = a.reshape(64, 64), b.reshape(64, 64)
    out = numpy.zeros_like(x)
    kernel[(4, 4), (16, 16)](x, y, out)
    close(out, x @ y, 1e-4)


@op
def reduction():
    total = cuda.reduce(lambda x, y: x + y)
    close(total(a.astype(numpy.float64)), a.astype(numpy.float64).sum(), 1e-9)


@op
def atomics():
    @cuda.jit
    def kernel(x, bins):
        i = cuda.grid(1)
        cuda.atomic.add(bins, int(x[i] * 16), 1)

    bins = numpy.zeros(16, numpy.int32)
    kernel[16, 256](a, bins)
    same(bins, numpy.histogram(a, 16, (0, 1))[0])


@op
def ufunc():
    @numba.vectorize(["float32(float32, float32)"], target="cuda")
    def mix(x, y):
        return x * y + math.sqrt(x)

    close(mix(a, b), a * b + numpy.sqrt(a))


@op
def gufunc():
    @numba.guvectorize(["void(float32[:], float32[:])"], "(n)->(n)", target="cuda")
    def prefix(x, out):
        total = 0.0
        for i in range(x.size):
            total += x[i]
            out[i] = total

    close(prefix(a.reshape(64, 64)), numpy.cumsum(a.reshape(64, 64), 1), 1e-4)


@op
def warp_shuffle():
    @cuda.jit
    def kernel(out):
        lane = cuda.laneid
        value = lane
        for d in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, d)
        out[cuda.threadIdx.x] = cuda.shfl_sync(0xFFFFFFFF, value, 0)

    out = numpy.zeros(32, numpy.int32)
    kernel[1, 32](out)
    same(out, numpy.full(32, 496))


@op
def random_numbers():
    @cuda.jit
    def kernel(states, out):
        i = cuda.grid(1)
        out[i] = xoroshiro128p_uniform_float32(states, i)

    out = numpy.zeros(4096, numpy.float32)
    kernel[16, 256](create_xoroshiro128p_states(4096, seed=1), out)
    assert 0.45 < out.mean() < 0.55 and out.std() > 0.25


@op
def records():
    kind = numpy.dtype([("x", numpy.float32), ("n", numpy.int32)])

    @cuda.jit
    def kernel(r):
        i = cuda.grid(1)
        r[i].n = int(r[i].x * 100)

    r = numpy.zeros(4096, kind)
    r["x"] = a
    kernel[16, 256](r)
    close(r["n"], (a * numpy.float32(100)).astype(int))


@op
def cooperative():
    @cuda.jit
    def kernel(x):
        g = cuda.cg.this_grid()
        i = cuda.grid(1)
        for _ in range(4):
            other = x[(i + 1) % x.size]
            g.sync()
            x[i] = other
            g.sync()

    x = numpy.arange(128, dtype=numpy.int32)
    kernel[4, 32](x)
    same(x, numpy.roll(numpy.arange(128), -4))


@op
def complex_numbers():
    @cuda.jit
    def kernel(z, out):
        i = cuda.grid(1)
        w = z[i]
        for _ in range(5):
            w = w * w + z[i]
        out[i] = abs(w)

    z = (a * 0.5 + 0.3j * b).astype(numpy.complex128)
    w = z.copy()
    for _ in range(5):
        w = w * w + z
    out = numpy.zeros(4096)
    kernel[16, 256](z, out)
    close(out, abs(w), 1e-9)


@op
def streams():
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        x[i] *= 2

    streams = [cuda.stream() for _ in range(4)]
    parts = [cuda.to_device(a, s) for s in streams]
    for s, p in zip(streams, parts):
        kernel[16, 256, s](p)
        kernel[16, 256, s](p)
    for s, p in zip(streams, parts):
        close(p.copy_to_host(stream=s), a * 4)


@op
def pinned():
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        x[i] += 1

    x = cuda.pinned_array(4096, numpy.float32)
    x[:] = a
    d = cuda.to_device(x)
    kernel[16, 256](d)
    d.copy_to_host(x)
    close(x, a + 1)


@op
def mapped():
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        x[i] += 1

    x = cuda.mapped_array(4096, numpy.float32)
    x[:] = a
    kernel[16, 256](x)
    cuda.synchronize()
    close(x, a + 1)


@op
def local_arrays():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        t = cuda.local.array(8, numba.float32)
        for k in range(8):
            t[k] = x[(i + k) % x.size]
        for k in range(7):
            for m in range(7 - k):
                if t[m] > t[m + 1]:
                    t[m], t[m + 1] = t[m + 1], t[m]
        out[i] = t[3]

    out = numpy.zeros_like(a)
    kernel[16, 256](a, out)
    close(out, numpy.sort(numpy.stack([numpy.roll(a, -k) for k in range(8)]), 0)[3])


@op
def exceptions():
    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        if x[cuda.grid(1)] < 0:
            raise ValueError("negative")

    try:
        kernel[1, 1](numpy.array([-1.0]))
    except ValueError:
        return
    raise AssertionError("no exception")


run()
