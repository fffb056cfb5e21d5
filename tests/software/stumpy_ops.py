"""stumpy: matrix profiles of time series by Numba's kernels, against its own computation on the CPU."""

from ops import close, need, op, run, same

stumpy, numpy = need("stumpy", "numpy")

r = numpy.random.default_rng(1)
x, y = r.random(300), numpy.cumsum(r.normal(size=250))


def both(got, want):
    """Distances, and where the nearest neighbour is."""
    close(got[:, 0].astype(float), want[:, 0].astype(float), 1e-6)
    same(got[:, 1].astype(int), want[:, 1].astype(int))


@op
def noise():
    both(stumpy.gpu_stump(x, 20), stumpy.stump(x, 20))


@op
def a_walk():
    both(stumpy.gpu_stump(y, 16), stumpy.stump(y, 16))


@op
def two_series():
    both(stumpy.gpu_stump(x, 20, y, ignore_trivial=False), stumpy.stump(x, 20, y, ignore_trivial=False))


@op
def a_planted_motif():
    z = r.random(400)
    z[300:330] = z[50:80]
    found = stumpy.gpu_stump(z, 30)
    assert found[:, 0].argmin() in (50, 300) and found[50, 1] == 300 and found[300, 1] == 50, found[50]


@op
def missing_values():
    z = x.copy()
    z[100] = numpy.nan
    both(stumpy.gpu_stump(z, 20), stumpy.stump(z, 20))


@op
def without_normalising():
    both(stumpy.gpu_stump(x, 20, normalize=False), stumpy.stump(x, 20, normalize=False))


@op
def the_three_nearest():
    got, want = stumpy.gpu_stump(x, 20, k=3), stumpy.stump(x, 20, k=3)
    close(got[:, :3].astype(float), want[:, :3].astype(float), 1e-6)


@op
def all_lengths():
    got, want = stumpy.gpu_stimp(y, 8, 14), stumpy.stimp(y, 8, 14, percentage=1.0)
    for _ in range(3):
        got.update()
        want.update()
    plain = {"normalize": False, "contrast": False, "binary": False, "clip": False}
    close(got.pan(**plain), want.pan(**plain), 1e-6)


run()
