"""cuda-cccl: the algorithms of CUB from Python (cuda.compute), compiled on the machine; against NumPy."""

from ops import close, need, op, run, same

compute, numba_cuda, numpy = need("cuda.compute", "numba.cuda", "numpy")

r = numpy.random.default_rng(1)
whole = r.integers(0, 1000, 3000).astype(numpy.int32)
real = r.random(3000).astype(numpy.float32)


def add(a, b):
    return a + b


def gpu(x):
    return numba_cuda.to_device(x)


@op
def reduction():
    out = gpu(numpy.zeros(1, numpy.int32))
    compute.reduce_into(d_in=gpu(whole), d_out=out, num_items=whole.size, op=add, h_init=numpy.zeros(1, numpy.int32))
    same(out.copy_to_host()[0], whole.sum())


@op
def reduction_well_known():
    out = gpu(numpy.zeros(1, numpy.float32))
    compute.reduce_into(
        d_in=gpu(real), d_out=out, num_items=real.size, op=compute.OpKind.PLUS, h_init=numpy.zeros(1, numpy.float32)
    )
    close(out.copy_to_host()[0], real.sum(), 1e-4)


@op
def maximum():
    out = gpu(numpy.zeros(1, numpy.int32))
    compute.reduce_into(
        d_in=gpu(whole),
        d_out=out,
        num_items=whole.size,
        op=lambda a, b: a if a > b else b,
        h_init=numpy.zeros(1, numpy.int32),
    )
    same(out.copy_to_host()[0], whole.max())


@op
def exclusive_scan():
    out = gpu(numpy.zeros_like(whole))
    compute.exclusive_scan(
        d_in=gpu(whole), d_out=out, op=add, init_value=numpy.zeros(1, numpy.int32), num_items=whole.size
    )
    same(out.copy_to_host(), numpy.concatenate([[0], numpy.cumsum(whole)[:-1]]))


@op
def inclusive_scan():
    out = gpu(numpy.zeros_like(whole))
    compute.inclusive_scan(
        d_in=gpu(whole), d_out=out, op=add, init_value=numpy.zeros(1, numpy.int32), num_items=whole.size
    )
    same(out.copy_to_host(), numpy.cumsum(whole))


@op
def unary_transform():
    out = gpu(numpy.zeros_like(real))
    compute.unary_transform(d_in=gpu(real), d_out=out, op=lambda a: a * a + 1, num_items=real.size)
    close(out.copy_to_host(), real * real + 1)


@op
def binary_transform():
    out = gpu(numpy.zeros_like(whole))
    compute.binary_transform(d_in1=gpu(whole), d_in2=gpu(whole[::-1].copy()), d_out=out, op=add, num_items=whole.size)
    same(out.copy_to_host(), whole + whole[::-1])


@op
def merge_sort():
    keys = gpu(whole)
    compute.merge_sort(
        d_in_keys=keys,
        d_in_values=None,
        d_out_keys=keys,
        d_out_values=None,
        num_items=whole.size,
        op=lambda a, b: a < b,
    )
    same(keys.copy_to_host(), numpy.sort(whole))


@op
def radix_sort():
    out = gpu(numpy.zeros_like(whole))
    compute.radix_sort(
        d_in_keys=gpu(whole),
        d_out_keys=out,
        d_in_values=None,
        d_out_values=None,
        num_items=whole.size,
        order=compute.SortOrder.ASCENDING,
    )
    same(out.copy_to_host(), numpy.sort(whole))


@op
def segmented_reduction():
    starts = numpy.arange(0, 3000, 100)
    out = gpu(numpy.zeros(30, numpy.int32))
    compute.segmented_reduce(
        d_in=gpu(whole),
        d_out=out,
        num_segments=30,
        start_offsets_in=gpu(starts),
        end_offsets_in=gpu(starts + 100),
        op=add,
        h_init=numpy.zeros(1, numpy.int32),
    )
    same(out.copy_to_host(), whole.reshape(30, 100).sum(1))


@op
def unique_by_key():
    keys = numpy.sort(whole % 50).astype(numpy.int32)
    out, values, count = (gpu(numpy.zeros_like(keys)) for _ in range(3))
    compute.unique_by_key(
        d_in_keys=gpu(keys),
        d_in_items=gpu(whole),
        d_out_keys=out,
        d_out_items=values,
        d_out_num_selected=count,
        op=lambda a, b: a == b,
        num_items=keys.size,
    )
    same(out.copy_to_host()[: count.copy_to_host()[0]], numpy.unique(keys))


@op
def histogram():
    out = gpu(numpy.zeros(10, numpy.int32))
    compute.histogram_even(
        d_samples=gpu(real),
        d_histogram=out,
        num_output_levels=numpy.int32(11),
        lower_level=numpy.float32(0),
        upper_level=numpy.float32(1),
        num_samples=real.size,
    )
    close(out.copy_to_host(), numpy.histogram(real, 10, (0, 1))[0], 1)


@op
def counting_iterator():
    out = gpu(numpy.zeros(1, numpy.int32))
    numbers = compute.CountingIterator(numpy.int32(1))
    compute.reduce_into(d_in=numbers, d_out=out, num_items=100, op=add, h_init=numpy.zeros(1, numpy.int32))
    same(out.copy_to_host()[0], 5050)


run()
