/* check.h: what the tests of the PTX reader share. Everything read is freed by ptx_check_free, a cmocka teardown. */
#ifndef TESTS_PTX_CHECK_H
#define TESTS_PTX_CHECK_H

#include "softgpu/ptx/ptx.h"
#include "tests/lib/unit.h"

#define PTX_HEAD ".version 8.5\n.target sm_90\n.address_size 64\n"

/* as it stands; fails the test when it is not readable */
const struct ptx_module *ptx_check_text(const char *text);
const struct ptx_module *ptx_check_read(const char *definitions);      /* PTX_HEAD before it */
const struct ptx_module *ptx_check_link(const char *const *definitions, size_t count);
/* of a kernel with some registers */
const struct ptx_function *ptx_check_body(const char *definitions, const char *statements);
/* not readable, and the log holds that message */
void ptx_check_refused(const char *definitions, const char *message);
void ptx_check_link_refused(const char *const *definitions, size_t count, const char *message);
void ptx_check_body_refused(const char *statements, const char *message);
const struct ptx_variable *ptx_check_variable(const struct ptx_module *, const char *name);
const struct ptx_function *ptx_check_function(const struct ptx_module *, const char *name);
int ptx_check_free(void **state);

#endif
