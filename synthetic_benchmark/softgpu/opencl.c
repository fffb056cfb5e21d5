/* opencl.c: the kernels of kernels.h as OpenCL C on a CPU device, for `make bench-softgpu`. Exit status 77: there is no
   such device. Arguments: the path of kernels.h, and the case if only one is wanted. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "cases.h"

static cl_context context;
static cl_command_queue queue;
static cl_program program;
static cl_kernel kernel;
static cl_mem memory[BENCH_BUFFERS];

static int form_prepare(const struct bench_case *c)
{
    cl_int error;
    for (unsigned k = 0; k < BENCH_BUFFERS; k++)
        if (memory[k]) {
            clReleaseMemObject(memory[k]);
            memory[k] = NULL;
        }
    if (kernel)
        clReleaseKernel(kernel);
    kernel = clCreateKernel(program, c->name, &error);
    unsigned n = 0;
    for (; !error && n < bench_buffers(c); n++) {
        memory[n] = clCreateBuffer(context, CL_MEM_READ_WRITE, bench_size(&c->buffers[n]), NULL, &error);
        error = error ? error : clSetKernelArg(kernel, n, sizeof memory[n], &memory[n]);
    }
    for (unsigned k = 0; !error && k < c->number_count; k++)
        error = clSetKernelArg(kernel, n + k, sizeof c->numbers[k], &c->numbers[k]);
    return error;
}
static int form_write(const struct bench_case *c, unsigned buffer, const void *from, size_t bytes)
{
    (void)c;
    return clEnqueueWriteBuffer(queue, memory[buffer], CL_TRUE, 0, bytes, from, 0, NULL, NULL);
}
static int form_read(const struct bench_case *c, unsigned buffer, void *to, size_t bytes)
{
    (void)c;
    return clEnqueueReadBuffer(queue, memory[buffer], CL_TRUE, 0, bytes, to, 0, NULL, NULL);
}
static int form_run(const struct bench_case *c)
{
    const size_t local[2] = { c->block[0], c->block[1] },
                 global[2] = { (size_t)c->grid[0] * local[0], (size_t)c->grid[1] * local[1] };
    const cl_int error = clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL);
    return error ? error : clFinish(queue);
}

static char *read_text(const char *path)
{
    enum { MOST = 1 << 16 };
    FILE *f = fopen(path, "r");
    char *text = f ? (char *)calloc(1, MOST) : NULL;
    if (text && !fread(text, 1, MOST - 1, f)) {
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

int main(int argc, char **argv)
{
    enum { NO_DEVICE = 77, PLATFORMS = 8 };
    cl_platform_id platforms[PLATFORMS];
    cl_device_id device = NULL;
    cl_uint count = 0;
    cl_int error = clGetPlatformIDs(PLATFORMS, platforms, &count);
    count = error ? 0 : count < PLATFORMS ? count : PLATFORMS;
    for (cl_uint k = 0; k < count && !device; k++)
        if (clGetDeviceIDs(platforms[k], CL_DEVICE_TYPE_CPU, 1, &device, NULL))
            device = NULL;
    if (!device)
        return NO_DEVICE;
    char *text = argc > 1 ? read_text(argv[1]) : NULL;
    if (!text) {
        fprintf(stderr, "opencl: the path of kernels.h is wanted\n");
        return 1;
    }
    const char *source = text;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    queue = error ? NULL : clCreateCommandQueue(context, device, 0, &error);
    program = error ? NULL : clCreateProgramWithSource(context, 1, &source, NULL, &error);
    error = error ? error : clBuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL);
    free(text);
    if (error) {
        static char log[4096];
        if (program)
            clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        fprintf(stderr, "opencl: error %d\n%s\n", error, log);
        return 1;
    }
    return bench_all(argc > 2 ? argv[2] : NULL);
}
