"""CuTe's Python language (nvidia-cutlass-dsl): kernels compiled by its own compiler, on PyTorch's memory."""

from ops import close, need, op, run

torch, cutlass = need("torch", "cutlass")
import cutlass.cute as cute  # noqa: E402
from cutlass.cute.runtime import from_dlpack  # noqa: E402

torch.manual_seed(1)


@cute.kernel
def _add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    b_, _, _ = cute.arch.block_idx()
    d, _, _ = cute.arch.block_dim()
    i = b_ * d + t
    n = a.shape[1]
    c[i // n, i % n] = a[i // n, i % n] + b[i // n, i % n]


@cute.jit
def _run_add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    _add(a, b, c).launch(grid=[a.shape[0] * a.shape[1] // 256, 1, 1], block=[256, 1, 1])


def add(dtype):
    x, y = torch.randn(64, 256).to(dtype), torch.randn(64, 256).to(dtype)
    out = torch.empty(64, 256, dtype=dtype, device="cuda")
    _run_add(from_dlpack(x.cuda()), from_dlpack(y.cuda()), from_dlpack(out))
    torch.cuda.synchronize()
    close(out.cpu().float(), (x + y).float(), 1e-2 if dtype != torch.float32 else 1e-6)


@op
def add_f32():
    add(torch.float32)


@op
def add_f16():
    add(torch.float16)


@op
def add_bf16():
    add(torch.bfloat16)


@cute.kernel
def _tiled(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, layout: cute.Layout):
    t, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    here = ((None, None), block)
    x, y, z = a[here], b[here], c[here]
    p = cute.composition(x, layout)
    q = cute.composition(y, layout)
    r = cute.composition(z, layout)
    mine = (t, (None, None)) if cutlass.const_expr(cute.rank(layout) == 2) else (t, None)
    r[mine] = p[mine].load() * q[mine].load()


@cute.jit
def _run_tiled(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    threads = cute.make_layout((4, 32), stride=(32, 1))
    values = cute.make_layout((4, 4), stride=(4, 1))
    tiler, layout = cute.make_layout_tv(threads, values)
    x, y, z = (cute.zipped_divide(m, tiler) for m in (a, b, c))
    _tiled(x, y, z, layout).launch(grid=[cute.size(z, mode=[1]), 1, 1], block=[cute.size(layout, mode=[0]), 1, 1])


@op
def tiled_product():
    x, y, out = torch.randn(64, 256), torch.randn(64, 256), torch.empty(64, 256, device="cuda")
    _run_tiled(from_dlpack(x.cuda()), from_dlpack(y.cuda()), from_dlpack(out))
    torch.cuda.synchronize()
    close(out.cpu(), x * y)


@cute.kernel
def _sum(a: cute.Tensor, c: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    b, _, _ = cute.arch.block_idx()
    value = a[b, t]
    for d in cutlass.range_constexpr(5):
        value = value + cute.arch.shuffle_sync_bfly(value, offset=1 << d)
    if t == 0:
        c[b] = value


@cute.jit
def _run_sum(a: cute.Tensor, c: cute.Tensor):
    _sum(a, c).launch(grid=[a.shape[0], 1, 1], block=[32, 1, 1])


@op
def warp_sum():
    x, out = torch.randn(16, 32), torch.empty(16, device="cuda")
    _run_sum(from_dlpack(x.cuda()), from_dlpack(out))
    torch.cuda.synchronize()
    close(out.cpu(), x.sum(1), 1e-4)


@cute.kernel
def _turn(a: cute.Tensor, c: cute.Tensor):
    x, y, _ = cute.arch.thread_idx()
    s = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((32, 33)), 16)
    s[y, x] = a[y, x]
    cute.arch.sync_threads()
    c[y, x] = s[x, y]


@cute.jit
def _run_turn(a: cute.Tensor, c: cute.Tensor):
    _turn(a, c).launch(grid=[1, 1, 1], block=[32, 32, 1])


@op
def transposition_in_shared_memory():
    x, out = torch.randn(32, 32), torch.empty(32, 32, device="cuda")
    _run_turn(from_dlpack(x.cuda()), from_dlpack(out))
    torch.cuda.synchronize()
    close(out.cpu(), x.T)


run()
