/*
 * own_images.h: the code images in the program's executable (own_images.c).
 */
#ifndef FLYT_CLIENT_CORE_OWN_IMAGES_H
#define FLYT_CLIENT_CORE_OWN_IMAGES_H

#include "cpu/client/core/api_errors.h"

/* For a front end that hears of the program's images only when they are used: looks for those in its executable, so
   that they can be loaded with the first context. Once. */
CORE_API void core_find_own_images(void);

#endif
