"""system.py: what programs use beside operations: workers, files, memory, streams, events, graphs, errors."""

import io
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from compare import DEVICE, compare, item, main


@item
def device():
    properties = torch.cuda.get_device_properties(0)
    assert torch.cuda.is_available() and torch.cuda.device_count() >= 1
    return f"{properties.name}, {properties.major}.{properties.minor}, {properties.total_memory >> 20} MiB"


def loaded(method):
    data = TensorDataset(torch.arange(60.0).reshape(20, 3))
    loader = DataLoader(data, 4, num_workers=2, pin_memory=True, multiprocessing_context=method)
    total = torch.zeros(3, device=DEVICE)
    for (batch,) in loader:
        assert batch.is_pinned()
        total += batch.to(DEVICE, non_blocking=True).sum(0)
    assert total.tolist() == [570.0, 590.0, 610.0], total
    return "2 workers, pinned"


@item
def workers_fork():
    torch.ones(1, device=DEVICE)
    return loaded("fork")


@item
def workers_spawn():
    torch.ones(1, device=DEVICE)
    return loaded("spawn")


@item
def fork_after_cuda():
    """PyTorch's own words: a child of fork cannot use CUDA."""
    torch.ones(1, device=DEVICE)
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1, device=DEVICE)
            os._exit(1)
        except RuntimeError as error:
            os._exit(0 if "re-initialize CUDA" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.ones(3, device=DEVICE).sum().item() == 3
    return "refused in the child, works in the parent"


@item
def save_load():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).to(DEVICE)
    model(torch.randn(8, 4, device=DEVICE))
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/model")
        on_gpu, on_cpu = (
            torch.load(f"{folder}/model", weights_only=True, map_location=where) for where in (None, "cpu")
        )
    other = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).to(DEVICE)
    other.load_state_dict(on_gpu)
    for name, value in model.state_dict().items():
        assert on_gpu[name].device.type == "cuda" and on_cpu[name].device.type == "cpu"
        assert torch.equal(value, on_gpu[name]) and torch.equal(value.cpu(), on_cpu[name]), name
    stream = io.BytesIO()
    torch.save(torch.arange(5, device=DEVICE), stream)
    stream.seek(0)
    assert torch.load(stream, weights_only=True).tolist() == [0, 1, 2, 3, 4]


@item
def memory_summary():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before, (free, total) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
    block = torch.ones(8 << 20, device=DEVICE)
    assert torch.cuda.memory_allocated() - before == 32 << 20
    assert torch.cuda.max_memory_allocated() >= 32 << 20
    taken = free - torch.cuda.mem_get_info()[0]
    assert 30 << 20 <= taken <= 64 << 20, f"{taken} bytes less are free"
    summary = torch.cuda.memory_summary()
    assert "Allocated memory" in summary and "32" in summary
    del block
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == before
    return f"{free >> 20} of {total >> 20} MiB free"


@item
def out_of_memory():
    free, _ = torch.cuda.mem_get_info()
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device=DEVICE)
        raise AssertionError("1 TiB was allocated")
    except torch.cuda.OutOfMemoryError as error:
        text = str(error)
    assert "out of memory" in text, text
    held = []
    try:
        while True:
            held.append(torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE))
            assert len(held) * (256 << 20) <= free + (256 << 20)
    except torch.OutOfMemoryError:
        count = len(held)
    held.clear()
    torch.cuda.empty_cache()
    assert torch.full((1 << 20,), 2.0, device=DEVICE).sum().item() == 2 << 20
    return f"caught after {count} blocks of 256 MiB"


@item
def streams_events():
    side, other = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    a = torch.ones(100000, device=DEVICE)
    torch.cuda.synchronize()
    start.record()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        b = a * 3
        b.record_stream(side)
        done = side.record_event()
    other.wait_event(done)
    with torch.cuda.stream(other):
        c = b + a
    torch.cuda.current_stream().wait_stream(other)
    end.record()
    end.synchronize()
    assert done.query() and side.query() and end.query()
    assert c.sum().item() == 400000
    elapsed = start.elapsed_time(end)
    assert elapsed > 0
    return f"{elapsed:.2f} ms"


@item
def pinned_copies():
    x = torch.randn(100000).pin_memory()
    there = x.to(DEVICE, non_blocking=True)
    back = torch.empty_like(x, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    assert x.is_pinned() and torch.equal(x, back)


@item
def random_numbers():
    torch.cuda.manual_seed(5)
    a, b = torch.randn(20000, device=DEVICE), torch.rand(20000, device=DEVICE)
    torch.cuda.manual_seed(5)
    assert torch.equal(a, torch.randn(20000, device=DEVICE))
    assert abs(a.mean().item()) < 0.03 and abs(a.std().item() - 1) < 0.03 and abs(b.mean().item() - 0.5) < 0.02
    assert torch.equal(torch.randperm(1000, device=DEVICE).sort()[0].cpu(), torch.arange(1000))
    dropped = F.dropout(torch.ones(20000, device=DEVICE), 0.25).eq(0).float().mean().item()
    assert abs(dropped - 0.25) < 0.03, dropped


@item
def graph_inference():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4)).to(DEVICE)
    x = torch.randn(8, 16, device=DEVICE)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = model(x)
    for _ in range(3):
        x.copy_(torch.randn(8, 16))
        graph.replay()
        with torch.no_grad():
            wanted = model(x)
        assert torch.allclose(y, wanted, atol=1e-5), (y - wanted).abs().max()


@item
def graph_training():
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5)).to(DEVICE)
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    x, y = torch.randn(8, 16, device=DEVICE), torch.randint(0, 5, (8,), device=DEVICE)

    def step(model, optimiser):
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        return loss

    model, optimiser = make()
    plain = [step(model, optimiser).item() for _ in range(6)]
    model, optimiser = make()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        captured = [step(model, optimiser).item() for _ in range(3)]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, optimiser)
    for _ in range(3):
        graph.replay()
        captured.append(loss.item())
    assert all(abs(a - b) < 1e-5 for a, b in zip(plain, captured)), (plain, captured)
    return f"loss {captured[0]:.4f} to {captured[-1]:.4f}, as without a graph"


@item
def compiled_at_run_time():
    """PyTorch's jiterator: NVRTC at run time."""
    function = torch.cuda.jiterator._create_jit_fn("template <typename T> T my(T x) { return x * x + 1; }")
    assert function(torch.ones(10, device=DEVICE) * 3).sum().item() == 100
    return compare(torch.special.i1, torch.rand(100))


@item
def threads():
    from concurrent.futures import ThreadPoolExecutor

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            return (torch.full((300,), float(i), device=DEVICE) @ torch.ones(300, device=DEVICE)).item()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [300.0 * i for i in range(8)]


@item
def profiler():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        torch.ones(10, device=DEVICE).add(1).sum().item()
    assert any("aten::add" in one.key for one in profiled.key_averages())


def in_a_process(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", "import torch\n" + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-300:]
    return done.stdout.strip()


@item
def launch_blocking():
    assert (
        in_a_process("x = torch.ones(99, 99, device='cuda'); print((x @ x).sum().item())", CUDA_LAUNCH_BLOCKING="1")
        == "970299.0"
    )


@item
def device_assert():
    text = in_a_process(
        "try: torch.ones(5, device='cuda')[torch.tensor([9], device='cuda')].cpu()\n"
        "except RuntimeError as error: print(str(error).splitlines()[0])"
    )
    assert "device-side assert" in text, text
    return text


@item
def expandable_segments():
    code = "print(torch.ones(1 << 22, device='cuda').sum().item())"
    assert in_a_process(code, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True") == "4194304.0"


@item
def malloc_async():
    code = "print(torch.ones(9, device='cuda').sum().item(), torch.cuda.get_allocator_backend())"
    assert in_a_process(code, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync") == "9.0 cudaMallocAsync"


def add_one(tensors, sums):
    tensor = tensors.get()
    sums.put(tensor.sum().item())
    tensor += 1
    torch.cuda.synchronize()
    del tensor
    sums.put("done")


@item
def shared_between_processes():
    import torch.multiprocessing as multiprocessing

    context = multiprocessing.get_context("spawn")
    tensors, sums = context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target=add_one, args=(tensors, sums))
    child.start()
    x = torch.ones(5, device=DEVICE)
    tensors.put(x)
    assert (sums.get(), sums.get()) == (5, "done")
    child.join()
    assert child.exitcode == 0 and x.sum().item() == 10


@item
def collective_of_one():
    import torch.distributed as distributed

    with tempfile.NamedTemporaryFile() as file:
        distributed.init_process_group("nccl", init_method=f"file://{file.name}.1", rank=0, world_size=1)
        x = torch.ones(5, device=DEVICE)
        distributed.all_reduce(x)
        assert x.sum().item() == 5
        distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
