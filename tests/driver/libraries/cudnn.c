/* cudnn.c: a convolution by each algorithm that cuDNN offers, largest of four, softmax, batch normalisation. */
#include "library.h"

#include <cudnn.h>

enum { C = 4, H = 12, W = 12, K = 8, IN = C * H * W, OUT = K * H * W };
static const float one = 1, zero;
static float x[IN], w[K * C * 9], y[OUT];

static float convolved(int k, int a, int b)
{
    float sum = 0;
    for (int c = 0; c < C; c++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                int u = a + i - 1, v = b + j - 1;
                if (u >= 0 && u < H && v >= 0 && v < W)
                    sum += x[(c * H + u) * W + v] * w[((k * C + c) * 3 + i) * 3 + j];
            }
    return sum;
}

static cudnnTensorDescriptor_t tensor(int channels, int height, int width)
{
    cudnnTensorDescriptor_t d;
    GOOD(cudnnCreateTensorDescriptor(&d));
    GOOD(cudnnSetTensor4dDescriptor(d, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, channels, height, width));
    return d;
}

static void convolution(cudnnHandle_t h)
{
    cudnnTensorDescriptor_t dx = tensor(C, H, W), dy = tensor(K, H, W);
    cudnnFilterDescriptor_t dw;
    cudnnConvolutionDescriptor_t dc;
    void *px = to_device(x, sizeof x), *pw = to_device(w, sizeof w), *py = to_device(NULL, sizeof y);
    int offered = 0;
    GOOD(cudnnCreateFilterDescriptor(&dw));
    GOOD(cudnnSetFilter4dDescriptor(dw, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, 3, 3));
    GOOD(cudnnCreateConvolutionDescriptor(&dc));
    GOOD(cudnnSetConvolution2dDescriptor(dc, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    for (int algorithm = 0; algorithm < CUDNN_CONVOLUTION_FWD_ALGO_COUNT; algorithm++) {
        cudnnConvolutionFwdAlgo_t how = (cudnnConvolutionFwdAlgo_t)algorithm;
        size_t size;
        char name[64];
        if (cudnnGetConvolutionForwardWorkspaceSize(h, dx, dw, dc, dy, how, &size))
            continue;
        void *work = to_device(NULL, size + 16);
        double error = 0;
        GOOD(cudnnConvolutionForward(h, &one, dx, px, dw, pw, dc, how, work, size, &zero, dy, py));
        from_device(y, py, sizeof y);
        for (int i = 0; i < OUT; i++)
            error = worse(error, fabs(y[i] - convolved(i / (H * W), i / W % H, i % W)));
        snprintf(name, sizeof name, "convolution, algorithm %d", algorithm);
        near(name, error, 0, 2e-3);
        offered++;
    }
    near("algorithms missing", offered < 3, 0, 0);
}

static void layers(cudnnHandle_t h)
{
    cudnnTensorDescriptor_t dx = tensor(C, H, W), dp = tensor(C, H / 2, W / 2), dn;
    cudnnPoolingDescriptor_t pooling;
    float p[IN / 4], z[IN], ones[C] = { 1, 1, 1, 1 };
    void *px = to_device(x, sizeof x), *pp = to_device(NULL, sizeof p), *pz = to_device(NULL, sizeof z);
    double error = 0, sum = 0, squares = 0;
    GOOD(cudnnCreatePoolingDescriptor(&pooling));
    GOOD(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    GOOD(cudnnPoolingForward(h, pooling, &one, dx, px, &zero, dp, pp));
    from_device(p, pp, sizeof p);
    for (int i = 0; i < IN / 4; i++) {
        int c = i / 36, a = i / 6 % 6, b = i % 6;
        const float *q = &x[(c * H + 2 * a) * W + 2 * b];
        error = worse(error, fabs(p[i] - fmaxf(fmaxf(q[0], q[1]), fmaxf(q[W], q[W + 1]))));
    }
    near("pooling", error, 0, 0);
    GOOD(cudnnSoftmaxForward(h, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, dx, px, &zero, dx, pz));
    from_device(z, pz, sizeof z);
    error = 0;
    for (int i = 0; i < H * W; i++) {
        double all = 0;
        for (int c = 0; c < C; c++)
            all += exp(x[c * H * W + i]);
        for (int c = 0; c < C; c++)
            error = worse(error, fabs(z[c * H * W + i] - exp(x[c * H * W + i]) / all));
    }
    near("softmax", error, 0, 1e-6);
    GOOD(cudnnCreateTensorDescriptor(&dn));
    GOOD(cudnnDeriveBNTensorDescriptor(dn, dx, CUDNN_BATCHNORM_SPATIAL));
    void *scale = to_device(ones, sizeof ones), *other[5];
    for (int i = 0; i < 5; i++)
        other[i] = to_device(NULL, sizeof ones);
    GOOD(cudnnBatchNormalizationForwardTraining(h, CUDNN_BATCHNORM_SPATIAL, &one, &zero, dx, px, dx, pz, dn, scale,
                                                other[0], 1.0, other[1], other[2], 1e-5, other[3], other[4]));
    from_device(z, pz, sizeof z);
    for (int i = 0; i < H * W; i++)
        sum += z[i], squares += z[i] * z[i];
    near("batch normalisation", fabs(sum / (H * W)) + fabs(squares / (H * W) - 1), 0, 1e-3);
}

int main(void)
{
    cudnnHandle_t h;
    for (int i = 0; i < IN; i++)
        x[i] = (float)(i % 7 - 3);
    for (int i = 0; i < K * C * 9; i++)
        w[i] = (float)(i % 5 - 2);
    GOOD(cudnnCreate(&h));
    convolution(h);
    layers(h);
    return result("cudnn");
}
