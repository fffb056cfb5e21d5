#ifndef TESTS_PTX_SAME_H
#define TESTS_PTX_SAME_H

#include "softgpu/ptx/ptx.h"

/* How two readings of one text differ in a function's body; NULL: they do not. */
const char *ptx_same_body(const struct ptx_function *, const struct ptx_function *);
/* The same for all that modules hold. Reads the bodies that `later` has not read. */
const char *ptx_same_module(const struct ptx_module *whole, struct ptx_module *later);

#endif
