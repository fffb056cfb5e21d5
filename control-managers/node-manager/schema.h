/* schema.h: the configuration of flyt-node-manager. The keys are described in schema.c. */
#ifndef FLYT_NODE_SCHEMA_H
#define FLYT_NODE_SCHEMA_H

#include <stdint.h>

#include "control-managers/common/config.h"

enum node_gpu_kind { NODE_GPU_AUTO, NODE_GPU_NVIDIA, NODE_GPU_SOFTWARE };
enum node_tls { NODE_TLS_AUTO, NODE_TLS_ON, NODE_TLS_OFF };
enum node_sandbox { NODE_SANDBOX_BEST, NODE_SANDBOX_REQUIRED, NODE_SANDBOX_OFF };

struct node_config {
    char *manager_address;
    int64_t manager_port;
    char *name;
    char *secret;
    struct config_strings addresses;
    char *state;
    int gpu; /* node_gpu_kind */
    unsigned sharing;
    int sandbox; /* node_sandbox */
    struct config_strings sandbox_paths;
    int64_t first_user;
    double report_period;
    int64_t logs_kept;
    uint64_t log_size;
    int log_level; /* of node_log_words */
    char *program;
    int thread_mode;
    struct config_strings arguments;
    char *listen;
    char *advertise;
    int server_tls; /* node_tls */
    int clear;      /* of node_clear_words */
    int64_t workers;
    int64_t processes;
    int64_t files;
    uint64_t disk;
    uint64_t host_memory;
    int64_t restarts;
    double start_timeout, stop_timeout;
    struct config_strings shared_memory;
    char *shared_memory_folder, *shared_memory_group;
    char *mps_directory;
    char *tls_ca, *tls_certificate, *tls_key;
};

extern const struct config_schema node_schema;
extern const char *const node_clear_words[], *const node_log_words[];

/* An item of virt-server.shared-memory, "VM=SIZE" or "VM=SIZE:PROGRAMS": the length of the VM's name, bytes, and how
   many programs may share them. False: it is something else. */
bool node_memory_read(const char *text, size_t *name, uint64_t *size, unsigned *programs);

#endif
