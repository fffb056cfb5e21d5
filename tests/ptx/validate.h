/* validate.h: checks that a module keeps what ptx.h promises: indices in range, pointers where counts say so. */
#ifndef TESTS_PTX_VALIDATE_H
#define TESTS_PTX_VALIDATE_H

#include "softgpu/ptx/ptx.h"

const char *ptx_validate(const struct ptx_module *);   /* NULL, or what is wrong */

#endif
