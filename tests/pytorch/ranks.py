"""ranks.py: torch.distributed with the nccl backend; torchrun starts it once for each rank. Rank 0 prints."""

import datetime
import os
import signal
import sys
import time
import traceback

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# With a server for each process all of them have one GPU, number 0.
GPU = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
BEFORE, BEHIND = (RANK - 1) % RANKS, (RANK + 1) % RANKS
STEPS = 4
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8)
items = []


def item(function):
    items.append(function)
    return function


def say(word, text):
    print(word, text, flush=True)


def numbers(rank, count=1000, kind=torch.float32):
    """What a rank has: small whole numbers, so that sums are exact in every type and order."""
    return (torch.arange(count) % 7 + rank).to(kind)


def same(got, wanted, what=""):
    assert torch.equal(got.cpu(), wanted), f"{what}: {got.flatten()[:5].tolist()}, not {wanted.flatten()[:5].tolist()}"


def stacked(count=1000, kind=torch.float32):
    return torch.stack([numbers(rank, count, kind) for rank in range(RANKS)])


@item
def all_reduce():
    for count in (1, 1000, 300_000):
        for kind in TYPES:
            x = numbers(RANK, count, kind).to(GPU)
            dist.all_reduce(x)
            same(x, stacked(count, torch.int64).sum(0).to(kind), f"{count} {kind}")
    for op, wanted in ((dist.ReduceOp.MAX, stacked().max(0).values), (dist.ReduceOp.MIN, stacked().min(0).values),
                       (dist.ReduceOp.PRODUCT, stacked().prod(0)), (dist.ReduceOp.AVG, stacked().mean(0))):
        x = numbers(RANK).to(GPU)
        dist.all_reduce(x, op)
        same(x, wanted, str(op))
    x = torch.tensor([RANK == 0, True, False], device=GPU)
    dist.all_reduce(x)
    same(x, torch.tensor([True, True, False]), "bool")
    x = numbers(RANK).to(GPU)
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    same(x, stacked().sum(0) / 2, "a pre-multiplied sum")
    return "7 types, 6 operations"


@item
def broadcast_and_reduce():
    for root in range(RANKS):
        x = numbers(RANK).to(GPU)
        dist.broadcast(x, root)
        same(x, numbers(root), "broadcast")
        dist.reduce(x, root)
        if RANK == root:
            same(x, numbers(root) * RANKS, "reduce")
    return f"{RANKS} roots"


@item
def all_gather():
    parts = [torch.empty(1000, device=GPU) for _ in range(RANKS)]
    dist.all_gather(parts, numbers(RANK).to(GPU))
    same(torch.stack(parts), stacked())
    whole = torch.empty(RANKS * 1000, device=GPU)
    dist.all_gather_into_tensor(whole, numbers(RANK).to(GPU))
    same(whole, stacked().flatten())
    own = whole.zero_()[RANK * 1000:(RANK + 1) * 1000]
    own.copy_(numbers(RANK))
    dist.all_gather_into_tensor(whole, own)
    same(whole, stacked().flatten(), "in place")
    uneven = [torch.empty(rank + 1, device=GPU) for rank in range(RANKS)]
    dist.all_gather(uneven, torch.full((RANK + 1,), float(RANK), device=GPU))
    assert all((part == rank).all() for rank, part in enumerate(uneven))
    return "lists, one tensor, in place, different sizes"


@item
def reduce_scatter():
    whole = torch.cat([numbers(RANK) + 10 * rank for rank in range(RANKS)]).to(GPU)
    wanted = stacked().sum(0) + 10 * RANK * RANKS
    out = torch.empty(1000, device=GPU)
    dist.reduce_scatter_tensor(out, whole)
    same(out, wanted)
    dist.reduce_scatter(out, list(whole.chunk(RANKS)))
    same(out, wanted, "a list")
    dist.reduce_scatter_tensor(out, whole, dist.ReduceOp.AVG)
    same(out, wanted / RANKS, "average")
    return "one tensor, lists"


@item
def all_to_all():
    whole = torch.cat([numbers(RANK, 100) + 10 * rank for rank in range(RANKS)]).to(GPU)
    out = torch.empty_like(whole)
    dist.all_to_all_single(out, whole)
    same(out, torch.cat([numbers(rank, 100) + 10 * RANK for rank in range(RANKS)]))
    gives, gets = [rank + 1 for rank in range(RANKS)], [RANK + 1] * RANKS
    out = torch.empty(sum(gets), device=GPU)
    dist.all_to_all_single(out, torch.full((sum(gives),), float(RANK), device=GPU), gets, gives)
    same(out, torch.arange(RANKS).float().repeat_interleave(RANK + 1), "different sizes")
    parts = [torch.empty(100, device=GPU) for _ in range(RANKS)]
    dist.all_to_all(parts, list(whole.chunk(RANKS)))
    same(torch.cat(parts), torch.cat([numbers(rank, 100) + 10 * RANK for rank in range(RANKS)]), "lists")
    return "one tensor, different sizes, lists"


@item
def gather_and_scatter():
    parts = [torch.empty(1000, device=GPU) for _ in range(RANKS)] if RANK == 0 else None
    dist.gather(numbers(RANK).to(GPU), parts)
    if RANK == 0:
        same(torch.stack(parts), stacked())
    out = torch.empty(1000, device=GPU)
    dist.scatter(out, list(stacked().to(GPU)) if RANK == 0 else None)
    same(out, numbers(RANK))
    return "to and from rank 0"


@item
def send_and_receive():
    got = torch.empty(1000, device=GPU)
    if RANK % 2 == 0 and RANK + 1 < RANKS:
        dist.send(numbers(RANK).to(GPU), RANK + 1)
        dist.recv(got, RANK + 1)
        same(got, numbers(RANK + 1))
    elif RANK % 2:
        dist.recv(got, RANK - 1)
        same(got, numbers(RANK - 1))
        dist.send(numbers(RANK).to(GPU), RANK - 1)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, numbers(RANK).to(GPU), BEHIND),
                                    dist.P2POp(dist.irecv, got, BEFORE)])
    for work in works:
        work.wait()
    same(got, numbers(BEFORE), "around")
    return "in pairs, around"


@item
def asynchronous():
    works, all_ = [], [numbers(RANK, count).to(GPU) for count in (1, 10, 1000, 100_000)]
    for x in all_:
        works.append(dist.all_reduce(x, async_op=True))
    for work, x in zip(works, all_):
        work.wait()
        same(x, stacked(x.numel()).sum(0))
    with dist._coalescing_manager(device=GPU, async_ops=True) as together:
        for x in all_:
            dist.all_reduce(x)
    together.wait()
    same(all_[2], stacked().sum(0) * RANKS, "coalesced")
    stream = torch.cuda.Stream(GPU)
    with torch.cuda.stream(stream):
        x = numbers(RANK).to(GPU)
        dist.all_reduce(x)
        x *= 2
    stream.synchronize()
    same(x, stacked().sum(0) * 2, "another stream")
    return "4 at a time, coalesced, another stream"


@item
def objects():
    all_ = [None] * RANKS
    dist.all_gather_object(all_, {"rank": RANK})
    assert all_ == [{"rank": rank} for rank in range(RANKS)], all_
    sent = ["word", {"number": 5}] if RANK == 0 else [None, None]
    dist.broadcast_object_list(sent, 0, device=GPU)
    assert sent == ["word", {"number": 5}], sent
    return "gathered, broadcast"


@item
def groups():
    halves = [dist.new_group(list(range(RANKS // 2))), dist.new_group(list(range(RANKS // 2, RANKS)))]
    mine = RANK >= RANKS // 2
    x = torch.ones(5, device=GPU)
    dist.all_reduce(x, group=halves[mine])
    same(x, torch.full((5,), float(RANKS // 2 if not mine else RANKS - RANKS // 2)))
    dist.barrier(halves[mine])
    dist.destroy_process_group(halves[mine])
    reversed_ = dist.new_group(list(range(RANKS)), backend="nccl")
    x = numbers(RANK).to(GPU)
    dist.all_reduce(x, group=reversed_)
    same(x, stacked().sum(0))
    return "two halves, and all again"


@item
def barrier():
    began = time.monotonic()
    if RANK == RANKS - 1:
        time.sleep(0.5)
    dist.barrier(device_ids=[GPU.index])
    torch.cuda.synchronize()
    assert RANK == RANKS - 1 or time.monotonic() - began > 0.3
    return "waits for the last"


@item
def captured():
    x, y = torch.zeros(1000, device=GPU), torch.zeros(RANKS * 1000, device=GPU)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = x * 2
        dist.all_reduce(z)
        dist.all_gather_into_tensor(y, z)
        w = z + 1
    for turn in range(3):
        x.copy_(numbers(RANK) + turn)
        graph.replay()
        wanted = (stacked() + turn).sum(0) * 2
        same(w, wanted + 1, f"turn {turn}")
        same(y, wanted.repeat(RANKS), f"turn {turn}, gathered")
    del graph
    return "3 replays of two collectives"


# ---- training ----


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(12, 32), nn.LayerNorm(32)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(2)])
        self.last = nn.Linear(32, 5)

    def forward(self, x):
        x = self.norm(self.first(x))
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


def batch(rank):
    random = torch.Generator().manual_seed(rank)
    return torch.randn(16, 12, generator=random), torch.randint(0, 5, (16,), generator=random)


def train(wrap, device, group=None):
    """The losses, averaged over the ranks."""
    torch.manual_seed(0)
    model = wrap(Net().to(device))
    steps, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    x, y = (one.to(device) for one in batch(RANK))
    for _ in range(STEPS):
        steps.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        steps.step()
        total = loss.detach().clone()
        dist.all_reduce(total, group=group)
        losses.append(total.item() / RANKS)
    return losses


def losses_of_gloo():
    gloo = dist.new_group(backend="gloo")
    return train(lambda model: DistributedDataParallel(model, process_group=gloo), torch.device("cpu"), gloo)


def close(got, wanted):
    worst = max(abs(a - b) for a, b in zip(got, wanted))
    assert worst < 2e-5 and wanted[-1] < wanted[0], f"{got}, with gloo {wanted}"
    return f"{STEPS} losses as gloo's (differ by {worst:.1g})"


@item
def ddp():
    return close(train(lambda model: DistributedDataParallel(model, device_ids=[GPU.index]), GPU), losses_of_gloo())


@item
def fsdp():
    def wrap(model):
        return FullyShardedDataParallel(model, device_id=GPU, use_orig_params=True)

    return close(train(wrap, GPU), losses_of_gloo())


@item
def fsdp2():
    from torch.distributed._composable.fsdp import fully_shard

    def wrap(model):
        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)

    return close(train(wrap, GPU), losses_of_gloo())


# ---- a rank that is lost: alone, and the last one ----


def lost():
    """The last rank kills itself while the others wait for it. They get an error, and their GPUs work on."""
    store = dist.distributed_c10d._get_default_store()
    x = numbers(RANK).to(GPU)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if RANK == RANKS - 1:
        time.sleep(1)
        store.set("died", str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.all_reduce(x)
        torch.cuda.synchronize()
        said = "nothing"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    took = time.monotonic() - float(store.get("died"))
    assert "NCCL" in said and f"rank {RANKS - 1}" in said, said
    assert took < 3, f"after {took:.1f} s: {said}"
    try:
        torch.cuda.synchronize()  # the operation that was under way is error 46, once
    except RuntimeError:
        pass
    y = numbers(RANK).to(GPU) * 2
    same(y, numbers(RANK) * 2, "the GPU goes on")
    say("ok", f"lost: rank {RANK} has an error after {took:.1f} s")
    os._exit(0)  # the process group cannot be ended in good order


def main():
    torch.cuda.set_device(GPU)
    dist.init_process_group("nccl", os.environ.get("MEETING"), world_size=RANKS, rank=RANK,
                            timeout=datetime.timedelta(seconds=300))
    wanted = sys.argv[1:]
    if wanted == ["lost"]:
        lost()
    chosen = [function for function in items if not wanted or function.__name__ in wanted]
    if RANK == 0:
        print(f"1..{len(chosen)}", flush=True)
    for function in chosen:
        began = time.monotonic()
        try:
            said = function()
        except Exception:  # the other ranks wait for this one: nothing goes on
            traceback.print_exc()
            say("not ok", f"{function.__name__} (rank {RANK} of {RANKS})")
            os._exit(1)
        if RANK == 0:
            say("ok", f"{function.__name__}: {said} ({time.monotonic() - began:.1f} s)")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
