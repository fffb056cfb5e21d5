/* library.h: the functions of libucp.so.0 that links use. */
#ifndef FLYT_COMM_UCX_LIBRARY_H
#define FLYT_COMM_UCX_LIBRARY_H

#include <ucp/api/ucp.h>

/* clang-format off */
#define UCX_FUNCTIONS(each) \
    each(ucp_am_data_release)      each(ucp_am_recv_data_nbx)           each(ucp_am_send_nbx) \
    each(ucp_cleanup)              each(ucp_config_modify)              each(ucp_config_read) \
    each(ucp_config_release)       each(ucp_ep_close_nbx)               each(ucp_ep_create) \
    each(ucp_get_version)          each(ucp_init_version)               each(ucp_request_free) \
    each(ucp_worker_arm)           each(ucp_worker_create)              each(ucp_worker_destroy) \
    each(ucp_worker_get_address)   each(ucp_worker_get_efd)             each(ucp_worker_progress) \
    each(ucp_worker_release_address)  each(ucp_worker_set_am_recv_handler)  each(ucp_worker_signal) \
    each(ucs_status_string)
/* clang-format on */

struct ucx_library {
#define ONE(name) __typeof__(&name) name;
    UCX_FUNCTIONS(ONE)
#undef ONE
};

/* Opened once, never closed. NULL with *error: it is not here. Any thread. */
const struct ucx_library *ucx_library(char *error);

#endif
