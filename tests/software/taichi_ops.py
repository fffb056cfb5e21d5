"""Taichi: kernels on the GPU, against NumPy."""

from ops import close, need, op, run, same

ti, numpy = need("taichi", "numpy")
ti.init(arch=ti.cuda, log_level=ti.ERROR, device_memory_GB=0.5)
assert ti.cfg.arch == ti.cuda, "Taichi uses the CPU"

r = numpy.random.default_rng(1)
N = 1000
x, y = r.random(N, numpy.float32), r.random(N, numpy.float32)


@op
def add():
    @ti.kernel
    def f(a: ti.types.ndarray(), b: ti.types.ndarray(), c: ti.types.ndarray()):
        for i in range(N):
            c[i] = a[i] + b[i]

    out = numpy.zeros(N, numpy.float32)
    f(x, y, out)
    close(out, x + y)


@op
def functions():
    @ti.kernel
    def f(a: ti.types.ndarray(), c: ti.types.ndarray()):
        for i in range(N):
            c[i] = ti.sin(a[i]) + ti.exp(a[i]) * ti.sqrt(a[i]) + ti.tanh(a[i]) + ti.atan2(a[i], 2.0)

    out = numpy.zeros(N, numpy.float32)
    f(x, out)
    close(out, numpy.sin(x) + numpy.exp(x) * numpy.sqrt(x) + numpy.tanh(x) + numpy.arctan2(x, 2), 1e-4)


@op
def sum_of_all():
    @ti.kernel
    def f(a: ti.types.ndarray()) -> ti.f32:
        total = 0.0
        for i in range(N):
            total += a[i]
        return total

    close(f(x), x.sum(), 1e-3)


@op
def atomics():
    bins = ti.field(ti.i32, 16)

    @ti.kernel
    def f(a: ti.types.ndarray()):
        for i in range(N):
            bins[int(a[i] * 16)] += 1

    f(x)
    same(bins.to_numpy(), numpy.histogram(x, 16, (0, 1))[0])


@op
def fields():
    a = ti.field(ti.f32, (32, 32))

    @ti.kernel
    def f():
        for i, j in a:
            a[i, j] = i * 100 + j

    f()
    close(a.to_numpy(), numpy.add.outer(numpy.arange(32) * 100, numpy.arange(32)))


@op
def vectors():
    v = ti.Vector.field(3, ti.f32, N)
    length = ti.field(ti.f32, N)

    @ti.kernel
    def f():
        for i in v:
            length[i] = v[i].norm()

    data = r.random((N, 3), numpy.float32)
    v.from_numpy(data)
    f()
    close(length.to_numpy(), numpy.linalg.norm(data, axis=1), 1e-4)


@op
def matrices():
    m = ti.Matrix.field(3, 3, ti.f32, 50)

    @ti.kernel
    def f():
        for i in m:
            m[i] = m[i].inverse()

    data = r.random((50, 3, 3), numpy.float32) + 3 * numpy.eye(3, dtype=numpy.float32)
    m.from_numpy(data)
    f()
    close(m.to_numpy(), numpy.linalg.inv(data), 1e-3)


@op
def sparse_fields():
    a = ti.field(ti.i32)
    block = ti.root.pointer(ti.i, 16)
    block.dense(ti.i, 16).place(a)
    count = ti.field(ti.i32, ())

    @ti.kernel
    def fill():
        for i in range(3):
            a[i * 64] = i + 1

    @ti.kernel
    def visit():
        for i in a:
            count[None] += a[i]

    fill()
    visit()
    assert count[None] == 6


@op
def gradients():
    a, loss = ti.field(ti.f32, N, needs_grad=True), ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def f():
        for i in a:
            loss[None] += a[i] * a[i]

    a.from_numpy(x)
    with ti.ad.Tape(loss):
        f()
    close(a.grad.to_numpy(), 2 * x, 1e-4)


@op
def random_numbers():
    a = ti.field(ti.f32, N)

    @ti.kernel
    def f():
        for i in a:
            a[i] = ti.random()

    f()
    assert 0.4 < a.to_numpy().mean() < 0.6


@op
def prefix_sum():
    a = ti.field(ti.i32, 1024)
    data = r.integers(0, 10, 1024).astype(numpy.int32)
    a.from_numpy(data)
    ti.algorithms.PrefixSumExecutor(1024).run(a)
    same(a.to_numpy(), numpy.cumsum(data))


@op
def sort():
    keys = ti.field(ti.i32, 512)
    data = r.integers(0, 10000, 512).astype(numpy.int32)
    keys.from_numpy(data)
    ti.algorithms.parallel_sort(keys)
    same(keys.to_numpy(), numpy.sort(data))


@op
def double_precision():
    @ti.kernel
    def f(a: ti.types.ndarray(), c: ti.types.ndarray()):
        for i in range(N):
            c[i] = ti.log(a[i] + 1) ** 2

    z, out = x.astype(numpy.float64), numpy.zeros(N)
    f(z, out)
    close(out, numpy.log(z + 1) ** 2, 1e-12)


run()
