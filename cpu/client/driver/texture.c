/* texture.c: of the chapters "Texture Object Management" and "Surface Object Management" what is not only handed on. */
#include "cpu/client/driver/driver.h"

CUresult driver_cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *from, const CUDA_TEXTURE_DESC *how,
                                  const CUDA_RESOURCE_VIEW_DESC *view)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_waited(error ? error : core_texture_create(context, out, from, how, view));
}

CUresult driver_cuTexObjectDestroy(CUtexObject texture)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_waited(error ? error : core_texture_destroy(context, texture));
}

CUresult driver_cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *from)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_waited(error ? error : core_surface_create(context, out, from));
}

CUresult driver_cuSurfObjectDestroy(CUsurfObject surface)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_waited(error ? error : core_surface_destroy(context, surface));
}
