"""cupy_moved.py: CuPy computes in rounds, and prints what it got; tests/software/moved moves it meanwhile."""
import cupy
import numpy

ROUNDS = 30
RAW = cupy.RawKernel("""
extern "C" __global__ void steps(const float *in, float *out, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = i < n ? in[i] : 0;
    for (int s = 0; s < k; s++)
        x = x * 0.5f + (float)s;
    if (i < n)
        out[i] = x;
}""", "steps")


def say(round_number, name, array):
    """Whole numbers, or values whose last bits do not matter."""
    values = cupy.asnumpy(array).astype(numpy.float64).ravel()
    print(f"{round_number} {name} {values.size} {values.sum():.6g} {numpy.abs(values).max():.6g}", flush=True)


def main():
    rng = numpy.random.default_rng(1)
    host = rng.standard_normal((96, 96)).astype(numpy.float32)
    kept = cupy.asarray(host)
    total = cupy.zeros((96, 96), cupy.float64)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    pinned = cupy.cuda.alloc_pinned_memory(host.nbytes)
    staged = numpy.frombuffer(pinned, numpy.float32, host.size).reshape(host.shape)
    for r in range(ROUNDS):
        say(r, "elementwise", cupy.sin(kept) * 2 + r)
        say(r, "sum", kept.sum(axis=0))
        say(r, "matmul", kept @ kept.T)
        say(r, "sort", cupy.sort(kept, axis=1)[:, ::7])
        say(r, "fft", cupy.abs(cupy.fft.rfft(kept[0])))
        out = cupy.empty_like(kept)
        RAW(((kept.size + 127) // 128,), (128,), (kept, out, numpy.int32(kept.size), numpy.int32(20 + r)))
        say(r, "raw", out)
        for stream in streams:
            with stream:
                total += cupy.abs(kept).astype(cupy.float64)
            stream.synchronize()
        staged[:] = host + r
        kept.set(staged)
        say(r, "total", total)
        say(r, "take", cupy.take(kept, cupy.arange(0, kept.size, 5)))
    print(f"end {cupy.get_default_memory_pool().used_bytes() > 0}")


main()
