/* own.h: the NCCL that the program would use without Flyt's. */
#ifndef FLYT_CLIENT_NCCL_OWN_H
#define FLYT_CLIENT_NCCL_OWN_H

#include <limits.h>

/* Its handle for dlsym, and its file; it stays loaded. NULL: there is none. caller: an address in the code that calls
   NCCL, in whose folders the loader would search. Searched are, in this order: FLYT_NCCL_PROGRAM, and nothing else if
   that is set; libraries that are loaded already; the folders of the caller (dlinfo(3), RTLD_DI_SERINFO); the
   loader's cache (ldconfig(8)). */
void *nccl_own_find(const void *caller, char path[PATH_MAX]);

#endif
