"""JAX: operations compiled by XLA for the GPU, against NumPy, SciPy or JAX on the CPU."""

from ops import close, need, op, run, same

jax, numpy = need("jax", "numpy")
import jax.numpy as jnp  # noqa: E402

assert jax.default_backend() == "gpu", f"JAX computes on: {jax.default_backend()}"
r = numpy.random.default_rng(1)
x, y = r.random((64, 64), numpy.float32), r.random((64, 64), numpy.float32)
cpu = jax.devices("cpu")[0]


def on_cpu(function, *arguments):
    with jax.default_device(cpu):
        return function(*[jax.device_put(a, cpu) for a in arguments])


@op
def element_wise():
    close(jnp.tanh(x) + jnp.exp(y) * x, numpy.tanh(x) + numpy.exp(y) * x)


@op
def sums():
    close(jax.jit(lambda a: (a.sum(0), a.max(1), a.mean()))(x)[0], x.sum(0), 1e-4)


@op
def matmul():
    close(jnp.matmul(x, y, precision="highest"), x @ y, 1e-3)


@op
def matmul_bf16():
    got = jnp.matmul(jnp.asarray(x, jnp.bfloat16), jnp.asarray(y, jnp.bfloat16))
    close(numpy.asarray(got, numpy.float32), x @ y, 0.05)


@op
def matmul_batched():
    a, b = r.random((4, 16, 8), numpy.float32), r.random((4, 8, 12), numpy.float32)
    close(jnp.einsum("bij,bjk->bik", a, b, precision="highest"), a @ b, 1e-3)


@op
def fft():
    close(jnp.fft.fft(x[0]), numpy.fft.fft(x[0]), 1e-3)
    close(jnp.fft.rfft2(x), numpy.fft.rfft2(x), 1e-2)


@op
def sort():
    a = r.permutation(1000).astype(numpy.float32)
    same(jnp.sort(a), numpy.sort(a))
    same(jnp.argsort(a), numpy.argsort(a))


@op
def top_k():
    values, where = jax.lax.top_k(jnp.asarray(x[0]), 5)
    same(values, numpy.sort(x[0])[::-1][:5])
    same(where, numpy.argsort(-x[0])[:5])


@op
def cumulative_sum():
    close(jnp.cumsum(x, 1), numpy.cumsum(x, 1), 1e-4)


def network(w, a):
    return jnp.mean((jnp.tanh(a @ w[0] + w[1]) @ w[2] - 1.0) ** 2)


WEIGHTS = [r.standard_normal(s).astype(numpy.float32) for s in ((64, 32), (32,), (32, 8))]


@op
def gradient_of_a_network():
    with jax.default_matmul_precision("highest"):
        got = jax.jit(jax.grad(network))(WEIGHTS, x)
        want = on_cpu(lambda *a: jax.grad(network)(list(a[:3]), a[3]), *WEIGHTS, x)
    for g, w in zip(got, want):
        close(g, w, 1e-3)


@op
def training():
    step = jax.jit(lambda w, a: [v - 0.05 * g for v, g in zip(w, jax.grad(network)(w, a))])
    weights = WEIGHTS
    for _ in range(10):
        weights = step(weights, x)
    assert network(weights, x) < 0.7 * network(WEIGHTS, x)


@op
def scan():
    def step(carry, row):
        carry = 0.9 * carry + row
        return carry, carry.sum()

    got = jax.jit(lambda a: jax.lax.scan(step, jnp.zeros(64), a))(x)
    want = on_cpu(lambda a: jax.lax.scan(step, jnp.zeros(64), a), x)
    close(got[0], want[0], 1e-4)
    close(got[1], want[1], 1e-3)


@op
def while_loop():
    got = jax.jit(lambda n: jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.5), (0, 1.0)))(10)
    close(got[1], 1.5**10)


@op
def conditional():
    f = jax.jit(lambda p, a: jax.lax.cond(p, jnp.sin, jnp.cos, a))
    close(f(True, x), numpy.sin(x))
    close(f(False, x), numpy.cos(x))


@op
def vectorised():
    close(jax.vmap(lambda a, b: a @ b)(x, y), (x * y).sum(1), 1e-2)


@op
def convolution():
    a, k = r.random((1, 3, 12, 12), numpy.float32), r.random((4, 3, 3, 3), numpy.float32)
    with jax.default_matmul_precision("highest"):
        got = jax.lax.conv(jnp.asarray(a), jnp.asarray(k), (1, 1), "SAME")
        close(got, on_cpu(lambda p, q: jax.lax.conv(p, q, (1, 1), "SAME"), a, k), 1e-2)


@op
def cholesky_and_solve():
    a = (x @ x.T + 64 * numpy.eye(64)).astype(numpy.float32)
    close(jnp.linalg.cholesky(a), numpy.linalg.cholesky(a), 1e-3)
    close(jnp.linalg.solve(a, y), numpy.linalg.solve(a, y), 1e-3)


@op
def eigenvalues_and_svd():
    a = (x + x.T)[:16, :16]
    close(jnp.linalg.eigvalsh(a), numpy.linalg.eigvalsh(a), 1e-3)
    close(jnp.linalg.svd(x[:16, :8], compute_uv=False), numpy.linalg.svd(x[:16, :8], compute_uv=False), 1e-3)


@op
def random_numbers():
    draw = jax.jit(lambda: jax.random.normal(jax.random.key(7), (1000,)))
    close(draw(), on_cpu(lambda: jax.random.normal(jax.random.key(7), (1000,))), 1e-4)


@op
def scatter_and_gather():
    where = numpy.array([3, 5, 3, 9])
    want = numpy.zeros(12, numpy.float32)
    numpy.add.at(want, where, [1, 2, 3, 4])
    same(jnp.zeros(12).at[where].add(jnp.asarray([1.0, 2, 3, 4])), want)
    same(jnp.asarray(x)[where], x[where])


@op
def a_callback():
    got = jax.jit(lambda a: jax.pure_callback(numpy.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a))(x)
    close(got, numpy.sin(x))


run()
