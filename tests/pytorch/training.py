"""training.py: networks that are trained for some steps on both devices; their loss curves are compared."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from compare import DEVICE, item, main

STEPS = 6


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12 * 16, 5),
    )


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 32), nn.Parameter(torch.randn(10, 32) * 0.1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0, batch_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 20)

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1], device=text.device)
        return self.out(self.layers(self.words(text) + self.places, mask=mask, is_causal=True)).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(6, 12, 2, batch_first=True), nn.Linear(12, 5)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


def train(make, inputs, targets, optimiser, kind=None):
    """The losses on each device. kind: mixed precision, on the GPU only; f16 with a scaler."""
    curves = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        model = make().to(device)
        steps = optimiser(model.parameters())
        mixed = kind is not None and device == DEVICE
        scaler = torch.amp.GradScaler("cuda", enabled=mixed and kind == torch.float16, init_scale=256.0)
        x, y, losses = inputs.to(device), targets.to(device), []
        for _ in range(STEPS):
            steps.zero_grad()
            with torch.autocast("cuda", dtype=kind, enabled=mixed):
                out = model(x)
                assert not mixed or out.dtype == kind, out.dtype
                loss = F.cross_entropy(out.float(), y)
            scaler.scale(loss).backward()
            scaler.step(steps)
            scaler.update()
            losses.append(loss.item())
        curves.append(losses)
    return curves


def close(curves, tolerance):
    here, there = curves
    text = f"loss {there[0]:.4f} to {there[-1]:.4f}"
    worst = max(abs(a - b) for a, b in zip(here, there))
    assert worst <= tolerance, f"{text}; the CPU's {here}, the GPU's {there}"
    assert there[-1] < there[0], f"{text}: it does not learn"
    return f"{text}, at most {worst:.1e} from the CPU's"


def pictures():
    return torch.randn(4, 3, 12, 12), torch.randint(0, 5, (4,))


def text():
    words = torch.randint(0, 20, (3, 11))
    return words[:, :-1], words[:, 1:].flatten()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=3e-3)


@item
def train_cnn():
    return close(train(cnn, *pictures(), sgd), 1e-3)


@item
def train_cnn_without_cudnn():
    with torch.backends.cudnn.flags(enabled=False):
        return close(train(cnn, *pictures(), sgd), 1e-3)


@item
def train_transformer():
    return close(train(Transformer, *text(), adam), 1e-3)


@item
def train_lstm():
    return close(train(Recurrent, torch.randn(4, 7, 6), torch.randint(0, 5, (4,)), adam), 1e-3)


@item
def amp_f16():
    return close(train(cnn, *pictures(), sgd, torch.float16), 3e-2)


@item
def amp_bf16():
    return close(train(Transformer, *text(), adam, torch.bfloat16), 6e-2)


@item
def optimisers():
    made = (torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam)
    worst = 0.0
    for kind in made:
        here, there = train(
            lambda: nn.Linear(6, 5), torch.randn(8, 6), torch.randint(0, 5, (8,)), lambda p: kind(p, lr=1e-2)
        )
        worst = max(worst, *(abs(a - b) for a, b in zip(here, there)))
        assert worst < 1e-4, (kind.__name__, here, there)
    return f"at most {worst:.1e} from the CPU's"


if __name__ == "__main__":
    sys.exit(main())
