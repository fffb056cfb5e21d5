"""Triton: kernels after its tutorials, against PyTorch on the CPU. Tensors on the GPU only carry memory."""

import math

from ops import close, need, op, run, same

torch, triton = need("torch", "triton")
import triton.language as tl  # noqa: E402

torch.manual_seed(1)


def gpu(x):
    return x.cuda()


def empty(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="cuda")


@triton.jit
def _add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@op
def add():
    x, y, out = torch.rand(5000), torch.rand(5000), empty(5000)
    _add[(5,)](gpu(x), gpu(y), out, 5000, BLOCK=1024)
    close(out.cpu(), x + y)


@triton.jit
def _softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


@op
def softmax():
    x, out = torch.randn(37, 781), empty(37, 781)
    _softmax[(37,)](gpu(x), out, 781, BLOCK=1024)
    close(out.cpu(), torch.softmax(x, 1))


@triton.jit
def _product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        x = tl.load(a + m[:, None] * K + (k + step * BK)[None, :])
        y = tl.load(b + (k + step * BK)[:, None] * N + n[None, :])
        total = tl.dot(x, y, total, input_precision=PRECISION)
    tl.store(c + m[:, None] * N + n[None, :], total)


def product(dtype, precision, tolerance, stages=3):
    x, y, out = torch.randn(128, 128).to(dtype), torch.randn(128, 128).to(dtype), empty(128, 128)
    _product[(2, 2)](gpu(x), gpu(y), out, 128, 128, 128, BM=64, BN=64, BK=32, PRECISION=precision, num_stages=stages)
    close(out.cpu(), x.float() @ y.float(), tolerance)


@op
def product_f16():
    product(torch.float16, "ieee", 1e-2)


@op
def product_bf16():
    product(torch.bfloat16, "ieee", 1e-2)


@op
def product_tf32():
    product(torch.float32, "tf32", 5e-2)


@op
def product_f32():
    product(torch.float32, "ieee", 1e-3)


@op
def product_one_stage():
    product(torch.float16, "ieee", 1e-2, 1)


@triton.jit
def _norm(x, w, b, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
    mean = tl.sum(v, 0) / columns
    d = tl.where(i < columns, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / columns + 1e-5)
    y = d * scale * tl.load(w + i, mask=i < columns) + tl.load(b + i, mask=i < columns)
    tl.store(out + row * columns + i, y, mask=i < columns)


@op
def layer_norm():
    x, w, b, out = torch.randn(16, 300), torch.rand(300), torch.rand(300), empty(16, 300)
    _norm[(16,)](gpu(x), gpu(w), gpu(b), out, 300, BLOCK=512)
    close(out.cpu(), torch.layer_norm(x, (300,), w, b), 1e-4)


@triton.jit
def _bins(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@op
def atomics():
    x, out = torch.randint(0, 32, (4000,), dtype=torch.int32), gpu(torch.zeros(32, dtype=torch.int32))
    _bins[(8,)](gpu(x), out, 4000, BLOCK=512)
    same(out.cpu(), torch.bincount(x, minlength=32))


@triton.jit
def _scan(x, out, s, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.cumsum(v, 0))
    tl.store(s + i, tl.sort(v))


@op
def scan_and_sort():
    x = torch.randint(0, 1000, (256,), dtype=torch.int32)
    out, s = empty(256, dtype=torch.int32), empty(256, dtype=torch.int32)
    _scan[(1,)](gpu(x), out, s, N=256)
    same(out.cpu(), torch.cumsum(x, 0))
    same(s.cpu(), torch.sort(x)[0])


@triton.jit
def _attention(q, k, v, out, scale, N: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + d[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        s = tl.dot(x, tl.trans(tl.load(k + n[:, None] * D + d[None, :]))) * scale
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        old = tl.exp(top - new)
        total = total * old + tl.sum(p, 1)
        acc = acc * old[:, None]
        acc = tl.dot(p.to(tl.float16), tl.load(v + n[:, None] * D + d[None, :]), acc)
        top = new
    tl.store(out + m[:, None] * D + d[None, :], acc / total[:, None])


@op
def attention():
    q, k, v = (torch.randn(128, 64, dtype=torch.float16) for _ in range(3))
    out = empty(128, 64)
    _attention[(2,)](gpu(q), gpu(k), gpu(v), out, 1 / math.sqrt(64), N=128, D=64, BM=64, BN=32)
    close(out.cpu(), torch.softmax(q.float() @ k.float().T / 8, 1) @ v.float(), 1e-2)


@triton.jit
def _convert(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.float8e4nv).to(tl.float32))


@op
def convert_f8():
    x, out = torch.randn(256), empty(256)
    _convert[(1,)](gpu(x), out, N=256)
    same(out.cpu(), x.to(torch.float8_e4m3fn).float())


@triton.jit
def _tiles(a, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(a, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([m, n], source.load([m, n]) * 2)


@op
def tensor_maps():
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    x, out = torch.randn(128, 128), empty(128, 128)
    _tiles[(4, 4)](gpu(x), out, 128, 128, BM=32, BN=32)
    close(out.cpu(), x * 2)


run()
