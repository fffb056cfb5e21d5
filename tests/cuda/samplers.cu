// shows: textures and surfaces: PTX text with samplers of its own (.samplerref), loaded while the program runs, reads
//   a texture object and a texture reference as the samplers say; opaque kernel parameters; wrong texture modes are
//   refused
#include "check.h"
#include <cuda.h>
#include <cudaTypedefs.h>

#define INDEPENDENT ".version 8.0\n.target sm_70, texmode_independent\n.address_size 64\n"
#define KERNEL(name, texture)                                                                                          \
    ".visible .entry " name "(.param .u64 object, .param .texref unset, .param .u64 out)\n{\n"                         \
    "    .reg .b64 %rd<4>; .reg .f32 %f<12>;\n    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [out];\n"            \
    "    mov.f32 %f1, 0f3FE40000;\n"                                                                                   \
    "    tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [" texture ", wrapping, {%f1}]; st.global.f32 [%rd2], %f2;\n"         \
    "    tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [" texture ", mirrored, {%f1}]; st.global.f32 [%rd2+4], %f2;\n"       \
    "    tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [" texture ", texels, {%f1}]; st.global.f32 [%rd2+8], %f2;\n"         \
    "    tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [unset, texels, {%f1}]; st.global.f32 [%rd2+12], %f2;\n    ret;\n}\n"

static const char text[] = INDEPENDENT
    ".global .texref named = { normalized_coords = 1 };\n"
    ".global .samplerref wrapping = { addr_mode_0 = wrap, filter_mode = nearest };\n"
    ".global .samplerref mirrored = { addr_mode_0 = mirror, filter_mode = nearest };\n"
    ".global .samplerref texels = { filter_mode = linear, force_unnormalized_coords = 1 };\n"
    KERNEL("object", "%rd1") KERNEL("reference", "named");

template <class F> static F entry(const char *name, F, unsigned version)
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult known;
    MUST(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &known));
    return (F)found;
}
#define ENTRY(name, version) entry(#name, (PFN_##name##_v##version) nullptr, version)

// At 1.78125 of eight texels: wrapped 0.78125, mirrored 0.21875; in texels at a little more than a quarter from 1 to 2.
static void expect(const float *out)
{
    float found[4];
    MUST(cudaMemcpy(found, out, sizeof found, cudaMemcpyDeviceToHost));
    HOLDS(found[0] == 106);
    HOLDS(found[1] == 101);
    HOLDS(found[2] == 101.28125f);
    HOLDS(found[3] == 0);
}

int main()
{
    float values[8], *out;
    for (int i = 0; i < 8; i++)
        values[i] = 100.0f + (float)i;
    cudaArray_t array;
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    MUST(cudaMalloc((void **)&out, 16));
    MUST(cudaMallocArray(&array, &format, 8));
    MUST(cudaMemcpy2DToArray(array, 0, 0, values, sizeof values, sizeof values, 1, cudaMemcpyHostToDevice));
    cudaResourceDesc from = {};
    cudaTextureDesc how = {};
    from.resType = cudaResourceTypeArray;
    from.res.array.array = array;
    how.addressMode[0] = cudaAddressModeBorder;
    how.normalizedCoords = 1;
    cudaTextureObject_t object;
    MUST(cudaCreateTextureObject(&object, &from, &how, nullptr));

    auto load = ENTRY(cuModuleLoadData, 2000);
    auto find = ENTRY(cuModuleGetFunction, 2000);
    auto launch = ENTRY(cuLaunchKernel, 4000);
    auto reference = ENTRY(cuModuleGetTexRef, 2000);
    auto bind = ENTRY(cuTexRefSetArray, 2000);
    auto unload = ENTRY(cuModuleUnload, 2000);
    CUmodule module, none;
    CUtexref named;
    HOLDS(load(&module, text) == CUDA_SUCCESS);
    HOLDS(reference(&named, module, "texels") == CUDA_ERROR_NOT_FOUND);
    HOLDS(reference(&named, module, "named") == CUDA_SUCCESS);
    HOLDS(bind(named, (CUarray)array, CU_TRSA_OVERRIDE_FORMAT) == CUDA_SUCCESS);
    auto flags = ENTRY(cuTexRefSetFlags, 2000);
    HOLDS(flags(named, CU_TRSF_NORMALIZED_COORDINATES) == CUDA_SUCCESS);
    for (const char *name : { "object", "reference" }) {
        CUfunction f;
        cudaTextureObject_t unset = 0;
        void *arguments[] = { &object, &unset, &out };
        MUST(cudaMemset(out, 0xff, 16));
        HOLDS(find(&f, module, name) == CUDA_SUCCESS);
        HOLDS(launch(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
        GIVES(cudaSuccess, cudaDeviceSynchronize());
        expect(out);
    }
    HOLDS(unload(module) == CUDA_SUCCESS);
    HOLDS(load(&none, ".version 8.0\n.target sm_70\n.address_size 64\n.global .samplerref s;\n") ==
          CUDA_ERROR_INVALID_PTX);
    MUST(cudaDestroyTextureObject(object));
    MUST(cudaFreeArray(array));
    MUST(cudaFree(out));
    return check_result("samplers");
}
