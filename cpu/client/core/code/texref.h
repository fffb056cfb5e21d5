/*
 * texref.h: texture and surface references: variables of a module that the program binds to memory. What they are bound
 * to counts for a launch as it is when the launch is called.
 *
 * This side keeps the state of each. A change is sent before the next launch, in a message that nobody waits for.
 * A reference belongs to an image in a context and ends with either. A handle that has ended is found out and never
 * followed.
 */
#ifndef FLYT_CLIENT_CORE_TEXREF_H
#define FLYT_CLIENT_CORE_TEXREF_H

#include "cpu/client/core/api_code.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/common/texref.h"

typedef struct core_texref core_texref;

/* A name has one handle. Loads the image into the context. Waits, the first time. 500: the image has none of
   that name and kind; 801: the driver behind the server knows no references. */
CORE_API int core_texref_find(core_context *, core_image *, const char *name, bool surface, core_texref **);
/* One that is no image's: it keeps a state, and no kernel reads it. 1: it is an image's. */
CORE_API int core_texref_create(core_context *, core_texref **);
CORE_API int core_texref_destroy(core_texref *);

/* The state of such a reference, and its context; NULL: there is none. Other threads wait until core_texref_close,
   which says whether it was changed. */
CORE_API struct texref_state *core_texref_open(core_texref *, bool surface, core_context **);
CORE_API void core_texref_close(core_texref *, bool changed);

/* Bind it, as the functions of cpu/common/texref.h do, to what must be the program's. 1: there is no such reference. */
CORE_API int core_texref_set_array(core_texref *, enum texref_resource, core_array, unsigned flags);
CORE_API int core_texref_set_surface(core_texref *, core_array, unsigned flags);
CORE_API int core_texref_set_address(core_texref *, uint64_t address, uint64_t bytes, size_t *offset);
CORE_API int core_texref_set_address_2d(core_texref *, uint64_t address, int format, unsigned channels, uint64_t width,
                                        uint64_t height, uint64_t pitch);
CORE_API int core_texref_set_format(core_texref *, int format, unsigned channels);
/* From which multiple of bytes a texture can begin. */
CORE_API uint64_t core_texref_alignment(core_context *);

/* While it is bound, each launch has `refresh` bring the state up to date first: the Runtime API reads it from a
   variable of the program, which lasts as long as the image. */
typedef void core_texref_refresh(const void *user, struct texref_state *);
CORE_API void core_texref_follow(core_texref *, core_texref_refresh *, const void *user);

/* ---- of the core ---- */

int texrefs_before_launch(void); /* while launch_heed has HEED_TEXREFS */
void texrefs_forget_image(const core_image *);
void texrefs_forget_context(core_context *);
uint64_t texrefs_count(void);
struct move;
void texrefs_moved(struct move *, bool moved);

#endif
