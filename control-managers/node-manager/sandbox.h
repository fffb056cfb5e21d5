/*
 * sandbox.h: what a GPU server is put into before it begins (docs/security.md lists all of it).
 *
 *   launch.c   the process: namespaces, user id, capabilities; what this kernel offers
 *   root.c     the root folder: what of the machine's files the server sees
 *   seccomp.c  the system calls that it may make
 *
 * Between clone and exec a child makes system calls only: another thread of the node manager may hold a lock of the C
 * library. So all of this is prepared by the parent.
 */
#ifndef FLYT_NODE_SANDBOX_H
#define FLYT_NODE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "control-managers/common/process.h"
#include "control-managers/node-manager/schema.h"

/* ---- root.c ---- */

enum root_kind {
    ROOT_FOLDER,   /* an empty one */
    ROOT_LINK,     /* a symbolic link to `source` */
    ROOT_SHOWN,    /* the machine's file or folder `source`, read-only, without device files */
    ROOT_DEVICE,   /* a device file */
    ROOT_WRITABLE, /* a file or folder that the server may write, not execute from */
    ROOT_PROC,     /* /proc of its own process-id namespace, read-only */
    ROOT_PROC_WRITTEN, /* the same, but files of its processes can be written */
    ROOT_MEMORY,   /* a small file system in memory, of the server's user */
};
struct root_entry {
    enum root_kind kind;
    char *source, *target;
};

enum { ROOT_MOST = 128 };
struct root {
    char *base; /* an empty folder of the node manager, on which the root is put together */
    struct root_entry entries[ROOT_MOST];
    size_t count;
    bool bad; /* no memory, or too many entries */
};

/* What every server sees: /usr, the libraries, parts of /etc, /dev, /proc and /sys. user: whom /dev/shm belongs to. */
void root_begin(struct root *, const char *base, uid_t user);
/* Adds what is at `path`, at the same place. What does not exist is left out. */
void root_show(struct root *, enum root_kind, const char *path);
/* The program, if it is not below /usr, and the libraries beside it. */
void root_show_program(struct root *, const char *program);
/* The device files, /proc and /sys entries of NVIDIA's driver, but for those of GPUs. */
void root_show_nvidia(struct root *);
void root_show_nvidia_gpu(struct root *, int minor); /* /dev/nvidia<minor>; -1: those of all GPUs */
void root_end(struct root *); /* frees */

/* In a child with a mount namespace of its own: makes it and enters it. 0; ROOT_NO_PROC: it stands, but /proc is the
   machine's, read-only; -1 and errno: it could not be made. */
enum { ROOT_NO_PROC = 1 };
int root_enter(const struct root *);

/* ---- seccomp.c ---- */

/* 0, or -errno with *error. */
int seccomp_prepare(char *error);
/* NVIDIA: bind and listen are among the calls. MPS: connect, too. SOFTWARE: no memory is writable and executable at
   once. */
enum sandbox_calls { CALLS_NVIDIA, CALLS_MPS, CALLS_SOFTWARE, CALLS_COUNT };
/* From then on this process and its children make the prepared calls only. 0 or -errno. */
int seccomp_restrict(enum sandbox_calls);

/* ---- ports.c ---- */

/* From then on no TCP socket of this process and its children is bound or connected. 0; -errno: this kernel's Landlock
   does not know the network (before Linux 6.7), or is off. */
int ports_shut(void);

/* ---- launch.c ---- */

/* Where a server finds the sockets that it listens on: of the network, of this machine, and for our own orders. */
enum { LAUNCH_LISTEN = 3, LAUNCH_LISTEN_UNIX, LAUNCH_CONTROL, LAUNCH_FIRST_CLOSED };
enum { LAUNCH_GROUPS = 4 };

struct sandbox_launch {
    const char *program;
    char *const *arguments, *const *environment;
    int output, log, listen, listen_unix, control, cgroup; /* the last four: -1: none */
    const char *own;                                       /* its folder */
    const struct root *root;
    enum node_sandbox sandbox;
    uid_t user;                  /* of launch_user; 0: that of the node manager */
    gid_t groups[LAUNCH_GROUPS]; /* further ones */
    size_t group_count;
    enum sandbox_calls calls;
    unsigned processes; /* at most, with a user of its own */
};

/* Finds out what this kernel offers, and logs what it does not. base: of the root (struct root); users: the first of
   the user ids for servers. -EPERM where `required` cannot be met. */
int launch_probe(const char *base, uid_t users, enum node_sandbox, char *error);
/* Who a server without a user id of its own is in its sandbox: the node manager's user, or `users` in place of root. */
uid_t launch_inner_user(uid_t users);
/* Whether servers get user ids of their own. */
bool launch_has_users(void);
int launch_process(const struct sandbox_launch *, struct process *, char *error);

#endif
