"""operations.py: operations of PyTorch, forward and backward, on the GPU and on the CPU."""

import sys

import torch
import torch.nn.functional as F

from compare import compare, item, items, main


def normal(*shape, kind=torch.float32, grad=True):
    return torch.randn(*shape).to(kind).requires_grad_(grad and kind.is_floating_point)


def positive(*shape):
    return (torch.rand(*shape) + 0.1).requires_grad_()


def numbers(limit, *shape):
    return torch.randint(0, limit, shape)


HALF, BFLOAT, DOUBLE = torch.float16, torch.bfloat16, torch.float64
# name: (function, inputs[, tolerance])
TABLE = {
    "add_mul_div": lambda: (lambda a, b: a * 2 + b / 3 - a * b, normal(33, 100), normal(100)),
    "exp_log_sqrt": lambda: (lambda a: a.exp() + a.log() + a.sqrt() + a.rsqrt(), positive(1000)),
    "sin_cos_tan": lambda: (lambda a: a.sin() * a.cos() + a.atan() + a.sinh(), normal(1000)),
    "tanh_sigmoid": lambda: (lambda a: a.tanh() + a.sigmoid(), normal(1000)),
    "erf_lgamma": lambda: (lambda a: a.erf() + a.lgamma() + a.digamma(), positive(500), 1e-4),
    "pow_abs_clamp": lambda: (lambda a: a.abs().pow(2.5) + a.clamp(-0.5, 0.5), normal(1000)),
    "relu_family": lambda: (
        lambda a: (F.relu(a), F.leaky_relu(a), F.elu(a), F.gelu(a), F.silu(a), F.softplus(a)),
        normal(1000),
    ),
    "half_arithmetic": lambda: (lambda a: a.exp() + 1, normal(1000, kind=HALF), 4e-3),
    "bfloat_arithmetic": lambda: (lambda a: a.exp() + 1, normal(1000, kind=BFLOAT), 3e-2),
    "double_arithmetic": lambda: (lambda a: a.exp() / 3, normal(1000, kind=DOUBLE), 1e-13),
    "integers": lambda: (lambda a: (a * 3 + 1, a // 7, a % 5, a << 2, a & 12, a.char(), a > 40), numbers(100, 999), 0),
    "complex": lambda: (lambda a: (a * a.conj(), a.exp(), a.abs()), torch.randn(300, dtype=torch.complex64)),
    "sum_mean_std": lambda: (lambda a: (a.sum(), a.sum(0), a.mean(1), a.std(), a.var(0)), normal(100, 300)),
    "max_min_argmax": lambda: (lambda a: (a.max(1)[0], a.min(0)[0], a.argmax(1), a.amax((0, 1))), normal(100, 300)),
    "prod_norm": lambda: (lambda a: (a.prod(1), a.norm(), a.norm(1, 0)), positive(50, 20), 1e-4),
    "logsumexp": lambda: (lambda a: a.logsumexp(1), normal(50, 200)),
    "any_all_count": lambda: (
        lambda a: ((a > 2).any(0), (a > -4).all(1), (a > 0).sum(), a.count_nonzero()),
        normal(60, 70, grad=False),
    ),
    "cumsum_cumprod": lambda: (lambda a: (a.cumsum(0), a.cumsum(1), a[:, :9].cumprod(1)), positive(100, 300), 1e-4),
    "sort": lambda: (lambda a: a.sort(1)[0], normal(5, 1000)),
    "sort_large": lambda: (lambda a: a.sort()[0], normal(50000, grad=False)),
    "topk_kthvalue": lambda: (lambda a: (a.topk(5)[0], a.kthvalue(3)[0], a.median(1)[0]), normal(10, 500)),
    "unique_bincount": lambda: (
        lambda a: (a.unique(), a.bincount(), *a.unique(return_counts=True)),
        numbers(50, 3000),
        0,
    ),
    "histogram_searchsorted": lambda: (
        lambda a: (a.histc(10, -3, 3), torch.searchsorted(a.sort()[0], a)),
        normal(500, grad=False),
        0,
    ),
    "softmax": lambda: (lambda a: (a.softmax(-1), a.log_softmax(0)), normal(32, 500)),
    "layer_norm": lambda: (lambda a, w, b: F.layer_norm(a, (64,), w, b), normal(32, 64), normal(64), normal(64), 1e-4),
    "group_norm": lambda: (lambda a: F.group_norm(a, 4), normal(2, 8, 5, 5), 1e-4),
    "batch_norm": lambda: (
        lambda a, w, b: F.batch_norm(a, None, None, w, b, training=True),
        normal(8, 4, 6, 6),
        normal(4),
        normal(4),
        1e-4,
    ),
    "indexing": lambda: (
        lambda a, i: (a[i], a[i, i % 50], a.index_select(0, i), a[2:9:3, -5:]),
        normal(100, 50),
        numbers(100, 30),
    ),
    "boolean_mask": lambda: (
        lambda a: (a[a > 0], torch.where(a > 0, a, -a), a.masked_fill(a > 1, 0.5)),
        normal(100, 50),
    ),
    "gather_scatter": lambda: (
        lambda a, i: (a.gather(1, i), torch.zeros_like(a).scatter_add(1, i, a)),
        normal(30, 50),
        numbers(50, 30, 50),
        1e-4,
    ),
    "index_add_put": lambda: (
        lambda a, i: (
            torch.zeros_like(a).index_add(0, i, a[:30]),
            torch.zeros(20, device=a.device).index_put((i % 20,), a[:30, 0], accumulate=True),
        ),
        normal(100, 50),
        numbers(100, 30),
        1e-4,
    ),
    "nonzero": lambda: (lambda a: (a > 1).nonzero(), normal(70, 30, grad=False)),
    "cat_stack_split": lambda: (
        lambda a, b: (torch.cat([a, b]), torch.stack([a, b], 1), a.chunk(3)[1], b.split(4)[0]),
        normal(9, 11),
        normal(9, 11),
    ),
    "permute_flip_roll": lambda: (
        lambda a: (a.permute(2, 0, 1).contiguous(), a.flip(1), a.roll(3, 0), a.transpose(0, 2) * 2),
        normal(5, 6, 7),
    ),
    "expand_repeat_pad": lambda: (
        lambda a: (a.expand(4, 5, 6) * 2, a.repeat(2, 3), F.pad(a, (1, 2), value=3.0)),
        normal(5, 6),
    ),
    "tril_diag_eye": lambda: (lambda a: (a.tril(), a.triu(1), a.diag(), a.diagonal(1).sum()), normal(20, 20)),
    "reflection_pad": lambda: (
        lambda a: (F.pad(a, (2, 1, 1, 2), "reflect"), F.pad(a, (1, 1, 1, 1), "replicate")),
        normal(2, 3, 8, 8),
    ),
    "matmul_f32": lambda: (torch.matmul, normal(64, 80), normal(80, 48), 1e-4),
    "matmul_f16": lambda: (torch.matmul, normal(64, 80, kind=HALF), normal(80, 48, kind=HALF), 5e-3),
    "matmul_bf16": lambda: (torch.matmul, normal(64, 80, kind=BFLOAT), normal(80, 48, kind=BFLOAT), 3e-2),
    "matmul_f64": lambda: (torch.matmul, normal(64, 80, kind=DOUBLE), normal(80, 48, kind=DOUBLE), 1e-12),
    "matrix_vector_dot": lambda: (lambda a, b: (a @ b, b.dot(b), torch.outer(b, b)), normal(30, 40), normal(40), 1e-4),
    "batched_matmul": lambda: (torch.bmm, normal(4, 20, 30), normal(4, 30, 10), 1e-4),
    "addmm_einsum": lambda: (
        lambda a, b, c: (torch.addmm(c, a, b), torch.einsum("ij,jk->ki", a, b)),
        normal(12, 15),
        normal(15, 18),
        normal(18),
        1e-4,
    ),
    "linear": lambda: (F.linear, normal(16, 32), normal(24, 32), normal(24), 1e-4),
    "linear_f16": lambda: (
        F.linear,
        normal(16, 32, kind=HALF),
        normal(24, 32, kind=HALF),
        normal(24, kind=HALF),
        5e-3,
    ),
    "conv1d": lambda: (lambda a, w: F.conv1d(a, w, padding=1), normal(2, 3, 30), normal(5, 3, 3), 1e-4),
    "conv2d": lambda: (
        lambda a, w, b: F.conv2d(a, w, b, padding=1),
        normal(2, 3, 12, 12),
        normal(6, 3, 3, 3),
        normal(6),
        1e-4,
    ),
    "conv2d_strided_grouped": lambda: (
        lambda a, w: F.conv2d(a, w, stride=2, dilation=2, groups=4),
        normal(2, 4, 12, 12),
        normal(4, 1, 3, 3),
        1e-4,
    ),
    "conv3d": lambda: (F.conv3d, normal(1, 2, 5, 6, 6), normal(3, 2, 3, 3, 3), 1e-4),
    "conv_transpose2d": lambda: (
        lambda a, w: F.conv_transpose2d(a, w, stride=2),
        normal(2, 4, 6, 6),
        normal(4, 3, 3, 3),
        1e-4,
    ),
    "conv2d_f16": lambda: (
        lambda a, w: F.conv2d(a, w, padding=1),
        normal(2, 8, 10, 10, kind=HALF),
        normal(8, 8, 3, 3, kind=HALF),
        1e-2,
    ),
    "max_avg_pool": lambda: (
        lambda a: (F.max_pool2d(a, 2), F.avg_pool2d(a, 3, 2), F.adaptive_avg_pool2d(a, 4)),
        normal(2, 3, 16, 16),
    ),
    "interpolate": lambda: (
        lambda a: (F.interpolate(a, scale_factor=2), F.interpolate(a, size=(9, 7), mode="bilinear")),
        normal(2, 3, 8, 8),
        1e-4,
    ),
    "grid_sample": lambda: (
        lambda a, g: F.grid_sample(a, g.tanh(), align_corners=False),
        normal(1, 2, 8, 8),
        normal(1, 5, 5, 2),
        1e-4,
    ),
    "embedding": lambda: (F.embedding, numbers(20, 3, 7), normal(20, 6)),
    "cross_entropy": lambda: (
        lambda a, t: F.cross_entropy(a, t, label_smoothing=0.1),
        normal(16, 10),
        numbers(10, 16),
    ),
    "other_losses": lambda: (
        lambda a, b: (
            F.mse_loss(a, b),
            F.l1_loss(a, b),
            F.smooth_l1_loss(a, b),
            F.binary_cross_entropy_with_logits(a, b.sigmoid()),
        ),
        normal(20, 5),
        normal(20, 5),
    ),
    "attention": lambda: (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        normal(1, 2, 16, 32),
        normal(1, 2, 16, 32),
        normal(1, 2, 16, 32),
        1e-4,
    ),
    "cdist_cosine": lambda: (
        lambda a, b: (torch.cdist(a, b), F.cosine_similarity(a, a * 2 + 1)),
        normal(10, 12),
        normal(9, 12),
        1e-3,
    ),
    "fft": lambda: (lambda a: (torch.fft.rfft(a).abs(), torch.fft.ifft(torch.fft.fft(a)).real), normal(4, 64), 1e-4),
    "solve_inverse": lambda: (
        lambda a, b: (
            torch.linalg.solve(a + 8 * torch.eye(8, device=a.device), b),
            (a + 8 * torch.eye(8, device=a.device)).inverse(),
        ),
        normal(8, 8),
        normal(8, 3),
        1e-4,
    ),
    "cholesky_qr": lambda: (
        lambda a: (torch.linalg.cholesky(a @ a.T + torch.eye(8, device=a.device)), torch.linalg.qr(a)[1].abs()),
        normal(8, 8),
        1e-3,
    ),
    "svd_eigenvalues": lambda: (
        lambda a: (torch.linalg.svdvals(a), torch.linalg.eigvalsh(a + a.T)),
        normal(8, 8),
        1e-3,
    ),
    "sparse_product": lambda: (
        lambda a, b: torch.sparse.mm(a.to_sparse_csr(), b),
        torch.eye(20) * 3,
        normal(20, 4, grad=False),
    ),
}


def add(name, make):
    def run():
        function, *inputs = make()
        tolerance = inputs.pop() if isinstance(inputs[-1], (int, float)) else 2e-5
        return compare(function, *inputs, tolerance=tolerance)

    run.__name__ = name
    item(run)


for name, make in TABLE.items():
    add(name, make)


if __name__ == "__main__":
    assert len(items) >= 60
    sys.exit(main())
