"""training_steps.py DEVICE MODEL WARM LONG: trains a small network; training.py runs it and reads what it prints.

Lines on stdout: `first SECONDS` after the first step, `warm STEPS` after WARM seconds more, and, LONG seconds later,
`end STEPS SHORTEST MEDIAN LOSS`, in seconds of a step. The loss is that of the tenth step, so that it can be compared
between devices.
"""
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

COMPARED = 10


class Transformer(nn.Module):
    def __init__(self, words, width, heads, length):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0, batch_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, words)

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1], device=text.device)
        return self.out(self.layers(self.words(text) + self.places, mask=mask, is_causal=True)).flatten(0, 1)


def cnn(channels, batch, side):
    """Two convolutions, as in tests/pytorch/training.py, which has 8 channels and four pictures of 12 × 12."""
    left = side // 2 - 2
    model = nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 3 * channels // 2, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3 * channels // 2 * left * left, 5),
    )
    return model, torch.randn(batch, 3, side, side), torch.randint(0, 5, (batch,))


def transformer(words, width, heads, batch, length):
    text = torch.randint(0, words, (batch, length + 1))
    return Transformer(words, width, heads, length), text[:, :-1].contiguous(), text[:, 1:].flatten()


MODELS = {
    "cnn-tiny": lambda: cnn(8, 4, 12),
    "transformer-tiny": lambda: transformer(20, 32, 4, 3, 10),
    "cnn": lambda: cnn(16, 32, 32),
    "transformer": lambda: transformer(1000, 128, 4, 8, 64),
}


def main():
    device, name, warm, long = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    torch.manual_seed(0)
    model, x, y = MODELS[name]()
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        return loss.item()

    began, losses = time.monotonic(), [step()]
    print(f"first {time.monotonic() - began}", flush=True)
    began = time.monotonic()
    while len(losses) < COMPARED or time.monotonic() - began < warm:
        losses.append(step())
    print(f"warm {len(losses)}", flush=True)
    # `training.py` may have more to warm up, or waits for a quiet machine: it says when to go on.
    sys.stdin.readline()
    began, times = time.monotonic(), []
    while len(times) < 5 or time.monotonic() - began < long:
        before = time.monotonic()
        losses.append(step())
        times.append(time.monotonic() - before)
    print(f"end {len(times)} {min(times)} {statistics.median(times)} {losses[COMPARED - 1]}", flush=True)


if __name__ == "__main__":
    main()
