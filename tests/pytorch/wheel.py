"""wheel.py STEPS: trains a small model for so many steps on whatever device is there; one line `name value` per
fact."""

import sys

import torch
import torch.nn as nn

STEPS = int(sys.argv[1])
print("version", torch.__version__, flush=True)
print("available", torch.cuda.is_available(), flush=True)
print("device", torch.cuda.get_device_name(0), flush=True)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16 * 16, 64), nn.GELU(),
    nn.LayerNorm(64), nn.Dropout(0.1), nn.Linear(64, 10),
).cuda()
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = torch.randn(32, 3, 16, 16).pin_memory(), torch.randint(0, 10, (32,)).pin_memory()
for _ in range(STEPS):
    optimiser.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(x.to("cuda", non_blocking=True)), y.to("cuda", non_blocking=True))
    loss.backward()
    optimiser.step()
    loss.item()
print("steps", STEPS, flush=True)
