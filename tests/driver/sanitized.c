/*
 * sanitized.c: a program that opens libcuda.so.1 itself, makes a context, copies there and back, and starts a kernel.
 * It is compiled with a sanitizer; or with -DTAKER, for functions of its own that have the names of functions which
 * Flyt's libraries use, and end the program.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef TAKER
#define TAKEN(name)                                  \
    void name(void);                                 \
    void name(void)                                  \
    {                                                \
        static const char text[] = #name " taken\n"; \
        _exit(write(2, text, sizeof text - 1) ? 3 : 4); \
    }
/* Of libtirpc, zstd, lz4, libb2 and OpenSSL, … */
TAKEN(xdr_u_int) TAKEN(xdr_int) TAKEN(xdr_enum) TAKEN(xdr_bytes) TAKEN(xdr_string) TAKEN(xdr_array) TAKEN(xdr_opaque)
TAKEN(xdr_free) TAKEN(xdr_vector) TAKEN(xdr_pointer) TAKEN(xdr_sizeof) TAKEN(xdr_u_quad_t) TAKEN(xdrmem_create)
TAKEN(ZSTD_decompress) TAKEN(ZSTD_isError) TAKEN(ZSTD_getFrameContentSize) TAKEN(ZSTD_trace_decompress_begin)
TAKEN(LZ4_decompress_safe) TAKEN(blake2b_init) TAKEN(blake2b_init_key) TAKEN(blake2b_update) TAKEN(blake2b_final)
TAKEN(SSL_new) TAKEN(SSL_CTX_new) TAKEN(SSL_read) TAKEN(SSL_write) TAKEN(X509_free) TAKEN(EVP_DigestInit_ex)
TAKEN(CRYPTO_free) TAKEN(ERR_clear_error)
/* … and of Flyt. */
TAKEN(core_attach) TAKEN(core_copy) TAKEN(core_launch) TAKEN(graph_create) TAKEN(graph_add) TAKEN(capture_record)
TAKEN(registry_set) TAKEN(trace_enabled) TAKEN(trace_enter) TAKEN(issue_copy) TAKEN(log_message) TAKEN(clock_now)
TAKEN(env_get) TAKEN(rpc_connect) TAKEN(rpc_channel_tls_connect) TAKEN(cuda_launch)
#endif

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                          ".visible .entry add(.param .u64 p)\n{\n"
                          ".reg .b32 %r<3>;\n.reg .b64 %rd<2>;\n"
                          "ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nadd.s32 %r2, %r1, 40;\n"
                          "st.global.u32 [%rd1], %r2;\nret;\n}\n";

static void *driver;

static void *find(const char *name)
{
    void *function = dlsym(driver, name);
    if (!function) {
        printf("%s: %s\n", name, dlerror());
        exit(2);
    }
    return function;
}

static void good(const char *what, int code)
{
    if (!code)
        return;
    printf("%s: %d\n", what, code);
    exit(1);
}

int main(void)
{
    void *context, *module, *function;
    unsigned long memory;
    int number = 2;
    if (!(driver = dlopen("libcuda.so.1", RTLD_NOW))) {
        puts(dlerror());
        return 2;
    }
    good("init", ((int (*)(unsigned))find("cuInit"))(0));
    good("retain", ((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&context, 0));
    good("current", ((int (*)(void *))find("cuCtxSetCurrent"))(context));
    good("allocate", ((int (*)(unsigned long *, size_t))find("cuMemAlloc_v2"))(&memory, sizeof number));
    good("copy in",
         ((int (*)(unsigned long, const void *, size_t))find("cuMemcpyHtoD_v2"))(memory, &number, sizeof number));
    good("load", ((int (*)(void **, const void *))find("cuModuleLoadData"))(&module, ptx));
    good("get", ((int (*)(void **, void *, const char *))find("cuModuleGetFunction"))(&function, module, "add"));
    void *arguments[] = { &memory };
    typedef int launch_function(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                                void **, void **);
    launch_function *launch = (launch_function *)find("cuLaunchKernel");
    good("launch", launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    good("copy out", ((int (*)(void *, unsigned long, size_t))find("cuMemcpyDtoH_v2"))(&number, memory, sizeof number));
    printf("result %d\n", number);
    return number != 42;
}
