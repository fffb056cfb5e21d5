"""bitsandbytes: quantisation and optimisers, against its results on the CPU."""

from ops import close, need, op, run

torch, bnb = need("torch", "bitsandbytes")
import bitsandbytes.functional as F  # noqa: E402

torch.manual_seed(1)


def blockwise(dtype):
    x = torch.randn(64, 256).to(dtype)
    code, state = F.quantize_blockwise(x.cuda(), blocksize=256)
    expected, _ = F.quantize_blockwise(x.float(), blocksize=256)
    # Values near zero lie between codes; the CPU's choice is not always the nearest one.
    assert ((code.cpu().int() - expected.int()).abs() <= 1).float().mean() > 0.999
    back = F.dequantize_blockwise(code, state)
    close(back.cpu().float(), x.float(), 0.1)


@op
def blockwise_f32():
    blockwise(torch.float32)


@op
def blockwise_f16():
    blockwise(torch.float16)


@op
def blockwise_bf16():
    blockwise(torch.bfloat16)


def four_bits(kind, dtype):
    x = torch.randn(64, 256).to(dtype)
    code, state = F.quantize_4bit(x.cuda(), blocksize=64, quant_type=kind)
    back = F.dequantize_4bit(code, state).cpu().float()
    assert (back - x.float()).abs().mean() < 0.12, (back - x.float()).abs().mean()
    again, expected_state = F.quantize_4bit(x, blocksize=64, quant_type=kind)
    expected = F.dequantize_4bit(again, expected_state).float()
    assert ((back - expected).abs() < 1e-2).float().mean() > 0.99


@op
def nf4_f16():
    four_bits("nf4", torch.float16)


@op
def nf4_f32():
    four_bits("nf4", torch.float32)


@op
def fp4_bf16():
    four_bits("fp4", torch.bfloat16)


def adam(kind, tolerance):
    weight, gradient = torch.randn(4096), torch.randn(4096)
    p = torch.nn.Parameter(weight.clone().cuda())
    q = torch.nn.Parameter(weight.clone())
    p.grad, q.grad = gradient.cuda(), gradient.clone()
    kind([p], lr=1e-2).step()
    torch.optim.Adam([q], lr=1e-2).step()
    close(p.detach().cpu(), q.detach(), tolerance)


@op
def adam_32_bits():
    adam(lambda p, lr: bnb.optim.Adam(p, lr=lr, optim_bits=32), 1e-4)


@op
def adam_8_bits():
    adam(lambda p, lr: bnb.optim.Adam8bit(p, lr=lr, min_8bit_size=16), 1e-3)


@op
def int8_vectors():
    x = torch.randn(32, 64, dtype=torch.float16)
    code, scale, _ = F.int8_vectorwise_quant(x.cuda())
    close(code.cpu().float() * scale.cpu()[:, None] / 127, x.float(), 3e-2)


@op
def product_4bit_vector():
    w, x = torch.randn(256, 256, dtype=torch.float16), torch.randn(1, 256, dtype=torch.float16)
    code, state = F.quantize_4bit(w.cuda(), blocksize=64, quant_type="nf4")
    got = bnb.matmul_4bit(x.cuda(), code.t(), quant_state=state).cpu().float()
    back = F.dequantize_4bit(code, state).cpu().float()
    close(got, x.float() @ back.t(), 0.3)


@op
def product_int8():
    x = torch.randint(-127, 127, (32, 64), dtype=torch.int8)
    y = torch.randint(-127, 127, (48, 64), dtype=torch.int8)
    close(F.int8_linear_matmul(x.cuda(), y.cuda()).cpu(), x.int() @ y.int().T)


run()
