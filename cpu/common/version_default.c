/*
 * version_default.c: the version in programs that are linked without version.c: tests. They need not be linked again
 * after each commit. version.c replaces it where both are linked.
 */
#include "cpu/common/version.h"

__attribute__((weak)) const char flyt_version[VERSION_MOST] = FLYT_RELEASE;
