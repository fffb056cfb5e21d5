"""TensorFlow: operations on the GPU against the same on the CPU."""

import ctypes
import glob
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
from ops import close, need, op, run  # noqa: E402

# The library of the package that opens cuSOLVER does not name its folder, so that TensorFlow sees no GPU of any kind.
# What is loaded already is found.
for library in ("cublas/lib/libcublas.so.12", "nvjitlink/lib/libnvJitLink.so.12", "cusparse/lib/libcusparse.so.12",
                "cusolver/lib/libcusolver.so.11"):
    for path in glob.glob(f"{sys.prefix}/lib/python3*/site-packages/nvidia/{library}"):
        ctypes.CDLL(path)

tf, numpy = need("tensorflow", "numpy")
assert tf.config.list_physical_devices("GPU"), "TensorFlow sees no GPU"
for device in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(device, True)

r = numpy.random.default_rng(1)
x, y = r.random((64, 64), numpy.float32), r.random((64, 64), numpy.float32)
image = r.random((2, 16, 16, 3), numpy.float32)
filters = r.random((3, 3, 3, 8), numpy.float32)
whole = r.integers(0, 100, (64, 64)).astype(numpy.int32)


def both(name, function, tolerance=1e-4):
    def test():
        with tf.device("/GPU:0"):
            got = function()
        with tf.device("/CPU:0"):
            want = function()
        for g, w in zip(tf.nest.flatten(got), tf.nest.flatten(want)):
            close(g, w, tolerance)

    test.__name__ = name
    op(test)


both("add", lambda: tf.constant(x) + y)
both("multiply", lambda: tf.constant(x) * y)
both("power", lambda: tf.pow(x, 2.5))
both("exponential", lambda: tf.exp(x))
both("logarithm", lambda: tf.math.log(x + 1))
both("tanh", lambda: tf.tanh(x))
both("erf", lambda: tf.math.erf(x))
both("matmul", lambda: tf.matmul(x, y), 1e-2)
both("batched_matmul", lambda: tf.matmul(x.reshape(4, 16, 64), y.reshape(4, 64, 16)), 1e-2)
both("matmul_half", lambda: tf.cast(tf.matmul(tf.cast(x, tf.float16), tf.cast(y, tf.float16)), tf.float32), 0.1)
both("einsum", lambda: tf.einsum("ij,kj->ik", x, y), 1e-2)
both("sum", lambda: tf.reduce_sum(x))
both("sum_rows", lambda: tf.reduce_sum(x, 1))
both("mean", lambda: tf.reduce_mean(x, 0))
both("maximum", lambda: tf.reduce_max(x, 1))
both("argmax", lambda: tf.argmax(x, 1))
both("softmax", lambda: tf.nn.softmax(x))
both("relu", lambda: tf.nn.relu(tf.constant(x) - 0.5))
both("gelu", lambda: tf.nn.gelu(x))
both("cumsum", lambda: tf.cumsum(x, 1))
both("sort", lambda: tf.sort(x, 1))
both("top_k", lambda: tf.math.top_k(x, 5))
both("transpose", lambda: tf.transpose(x))
both("concat", lambda: tf.concat([x, y], 1))
both("gather", lambda: tf.gather(x, [3, 1, 60]))
both("scatter", lambda: tf.scatter_nd([[1], [3]], x[:2], [8, 64]))
both("one_hot", lambda: tf.one_hot([1, 2, 3], 5))
both("where", lambda: tf.where(x > 0.5, x, y))
both("segment_sum", lambda: tf.math.unsorted_segment_sum(x, whole[:, 0] % 7, 7), 1e-3)
both("convolution", lambda: tf.nn.conv2d(image, filters, 1, "SAME"), 1e-2)
both("max_pool", lambda: tf.nn.max_pool2d(image, 2, 2, "VALID"))
both("average_pool", lambda: tf.nn.avg_pool2d(image, 2, 2, "VALID"))
both("fft", lambda: tf.abs(tf.signal.fft(tf.cast(x, tf.complex64))), 1e-2)
both("cholesky", lambda: tf.linalg.cholesky(x @ x.T + 64 * numpy.eye(64, dtype=numpy.float32)), 1e-2)
both("solve", lambda: tf.linalg.solve(x + 64 * numpy.eye(64, dtype=numpy.float32), y), 1e-3)
both("integers", lambda: tf.constant(whole) // 7 + tf.constant(whole) % 5)
both("layer_norm", lambda: tf.keras.layers.LayerNormalization()(x), 1e-3)


@op
def gradient():
    with tf.device("/GPU:0"):
        v = tf.Variable(x)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(v) * v)
        got = tape.gradient(loss, v)
    close(got, numpy.cos(x) * x + numpy.sin(x), 1e-4)


@op
def graph_function():
    @tf.function
    def f(v):
        for _ in range(3):
            v = v * 0.5 + tf.sin(v)
        return v

    with tf.device("/GPU:0"):
        got = f(tf.constant(x))
    want = x
    for _ in range(3):
        want = want * 0.5 + numpy.sin(want)
    close(got, want, 1e-4)


@op
def training():
    tf.random.set_seed(1)
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    loss = model.fit(x, x.sum(1), epochs=10, batch_size=16, verbose=0).history["loss"]
    assert loss[-1] < loss[0], loss


run()
