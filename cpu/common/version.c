/* version.c: the version of this build, see version.h. Whatever is put into bin/ is linked with it. */
#include "cpu/common/version.h"

const char flyt_version[VERSION_MOST] = FLYT_BUILD_VERSION;
