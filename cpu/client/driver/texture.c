/* texture.c: of chapter "Texture Object Management" what is not only handed on. */
#include "cpu/client/driver/driver.h"

CUresult driver_cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *from, const CUDA_TEXTURE_DESC *how,
                                  const CUDA_RESOURCE_VIEW_DESC *view)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_waited(error ? error : core_texture_create(context, out, from, how, view));
}
