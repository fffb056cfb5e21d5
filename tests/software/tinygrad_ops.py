"""tinygrad: tensors whose kernels it writes as CUDA C and compiles with NVRTC, against NumPy."""

import os

os.environ["DEV"] = "CUDA"

from ops import close, need, op, run, same  # noqa: E402

tinygrad, numpy = need("tinygrad", "numpy")
from tinygrad import Device, Tensor, TinyJit, dtypes, nn  # noqa: E402

assert Device.DEFAULT == "CUDA", Device.DEFAULT
r = numpy.random.default_rng(1)
a, b = (r.random((64, 48), dtype=numpy.float32) for _ in range(2))


@op
def elementwise():
    close((Tensor(a) * 2 + Tensor(b).exp()).numpy(), a * 2 + numpy.exp(b))


@op
def product():
    close((Tensor(a) @ Tensor(b).T).numpy(), a @ b.T, 1e-4)


@op
def product_half():
    got = (Tensor(a).cast(dtypes.half) @ Tensor(b).cast(dtypes.half).T).float().numpy()
    close(got, a @ b.T, 2e-2)


@op
def reductions():
    t = Tensor(a)
    close([t.sum().item(), t.mean().item(), t.max().item(), t.std().item()],
          [a.sum(), a.mean(), a.max(), a.std(ddof=1)], 1e-4)
    close(t.sum(axis=0).numpy(), a.sum(axis=0), 1e-4)


@op
def softmax():
    e = numpy.exp(a - a.max(axis=1, keepdims=True))
    close(Tensor(a).softmax().numpy(), e / e.sum(axis=1, keepdims=True))


@op
def indices():
    i = r.integers(0, 64, 20).astype(numpy.int32)
    close(Tensor(a)[Tensor(i)].numpy(), a[i])
    same(Tensor(a).argmax(axis=1).numpy(), a.argmax(axis=1))


@op
def sorting():
    values, order = Tensor(a[:, 0].copy()).sort()
    close(values.numpy(), numpy.sort(a[:, 0]))
    same(order.numpy(), numpy.argsort(a[:, 0], kind="stable"))


@op
def integers():
    x = r.integers(-1000, 1000, 500).astype(numpy.int32)
    same((Tensor(x) * 3 - Tensor(x) // 7).numpy(), x * 3 - x // 7)
    same((Tensor(x) ^ 5).numpy(), x ^ 5)


@op
def sums_so_far():
    close(Tensor(a[:, 0].copy()).cumsum().numpy(), numpy.cumsum(a[:, 0]), 1e-4)


@op
def convolution():
    image, kernel = r.random((1, 2, 9, 9), dtype=numpy.float32), r.random((3, 2, 3, 3), dtype=numpy.float32)
    want = numpy.zeros((1, 3, 7, 7), dtype=numpy.float32)
    for y in range(7):
        for x in range(7):
            want[0, :, y, x] = (kernel * image[0, None, :, y : y + 3, x : x + 3]).sum(axis=(1, 2, 3))
    close(Tensor(image).conv2d(Tensor(kernel)).numpy(), want, 1e-4)


@op
def gradients():
    x, w = Tensor(a), Tensor(b)
    of_x, of_w = (x * w).square().sum().gradient(x, w)
    close(of_x.numpy(), 2 * a * b * b, 1e-4)
    close(of_w.numpy(), 2 * a * a * b, 1e-4)


@op
def training():
    want = Tensor(a @ r.random((48, 1), dtype=numpy.float32))
    layer = nn.Linear(48, 1)
    losses = []
    for _ in range(30):
        loss = (layer(Tensor(a)) - want).square().mean()
        of_weight, of_bias = loss.gradient(layer.weight, layer.bias)
        losses.append(loss.item())
        layer.weight = (layer.weight - 0.02 * of_weight).realize()
        layer.bias = (layer.bias - 0.02 * of_bias).realize()
    assert losses[-1] < losses[0] / 10, losses


@op
def the_same_kernels_again():
    @TinyJit
    def step(x):
        return (x * 3 + 1).realize()

    for i in range(6):
        close(step(Tensor(a + i).realize()).numpy(), (a + i) * 3 + 1)


run()
