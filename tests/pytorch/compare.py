"""compare.py: what the programs of tests/pytorch share. An item is a function; it returns what to print, or raises."""

import sys
import time
import traceback
import warnings

import torch

DEVICE = "cuda"
items = []


def item(function):
    items.append((function.__name__.rstrip("_"), function))
    return function


def moved(value, device):
    if torch.is_tensor(value):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(one, device) for one in value)
    return value


def tensors(value):
    if torch.is_tensor(value):
        return [value]
    return [one for part in value for one in tensors(part)] if isinstance(value, (list, tuple)) else []


def difference(here, there, tolerance, what):
    """The largest difference, as a part of the largest value (or of 1); raises where it is above the tolerance."""
    assert len(here) == len(there), f"{what}: {len(here)} tensors on the CPU, {len(there)} on the GPU"
    worst = 0.0
    for a, b in zip(here, there):
        b = b.cpu()
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{what}: {a.shape} {a.dtype}, on the GPU {b.shape} {b.dtype}"
        if not a.numel():
            continue
        if a.is_complex():
            a, b = torch.view_as_real(a), torch.view_as_real(b)
        a, b = a.detach().double(), b.detach().double()
        assert torch.equal(a.isfinite(), b.isfinite()), f"{what}: not finite at different places"
        a, b = a[a.isfinite()], b[b.isfinite()]
        if a.numel():
            worst = max(worst, ((a - b).abs().max() / max(1.0, a.abs().max().item())).item())
    assert worst <= tolerance, f"{what} differs by {worst:.2g}"
    return worst


def compare(function, *inputs, tolerance=2e-5):
    """The function's results on both devices, and the gradients with respect to the inputs that want them."""
    results, gradients = [], []
    for device in ("cpu", DEVICE):
        arguments = moved(inputs, device)
        out = tensors(function(*arguments))
        results.append(out)
        wanted = [one for one in tensors(arguments) if one.requires_grad]
        if wanted:
            generator = torch.Generator().manual_seed(7)
            loss = sum(
                (one * torch.randn(one.shape, generator=generator).to(device=device, dtype=one.dtype)).sum()
                for one in out
                if one.requires_grad
            )
            gradients.append(torch.autograd.grad(loss, wanted))
    text = f"{difference(*results, tolerance, 'the result'):.1e}"
    if gradients:
        text += f", backward {difference(*gradients, 4 * tolerance, 'the gradient'):.1e}"
    return text


def main():
    wanted = sys.argv[1:]
    chosen = [one for one in items if not wanted or one[0] in wanted]
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    for name, function in chosen:
        started = time.monotonic()
        torch.manual_seed(0)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                text = function()
            assert not any("not compatible" in str(one.message) for one in said), said[0].message
            word = "ok"
        except Exception as error:
            word, failed = "not ok", failed + 1
            text = f"{type(error).__name__}: {error}".strip().replace("\n", " | ")[:400]
            traceback.print_exc(file=sys.stderr)
        print(f"{word} {name} ({time.monotonic() - started:.1f} s) {text or ''}", flush=True)
    return failed != 0
