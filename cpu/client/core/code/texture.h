/* texture.h: the objects that texture.c keeps, for the table of kinds. */
#ifndef FLYT_CLIENT_CORE_TEXTURE_H
#define FLYT_CLIENT_CORE_TEXTURE_H

#include "cpu/client/core/api_stream.h"

void textures_forget_context(core_context *); /* after its end; surfaces too */
uint64_t textures_count(void);
uint64_t surfaces_count(void);

#endif
