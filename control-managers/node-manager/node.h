/*
 * node.h: what the files of flyt-node-manager share.
 *
 *   main.c     command line, configuration, signals
 *   node.c     the connection to the cluster manager: registering, orders
 *   reports.c  what is sent to the cluster manager
 *   server.c   the life of one GPU server: starting, being ready, crashing, starting again, stopping
 *   start.c    its process: command line and environment
 *   users.c    the user id that it runs as
 *   listen.c   the sockets that it listens on
 *   cgroup.c   its bounds on memory and processes
 *   launch.c   its process in a sandbox (sandbox.h)
 *   files.c    what it is given and what it says, in files of its folder
 *   logs.c     pieces of its log, for administrators
 *   state.c    what lies on disk about it, so that a restarted node manager takes it over
 *   own.c      the folder that it can write
 *   sweep.c    removes what it leaves behind, in a thread of its own
 *   bounds.c   how many files it may have
 *   shares.c   what it may have of its GPU, while it runs: the connection to its control socket
 *   bridges.c  connects the workers of a program that moves from one server to another
 *   dial.c     the same, where the other server is on another node; connections of links to other servers
 *   workers.c  who of its worker processes serves which program
 *   served.c   until when a program was served, for the cluster manager
 *   gpu*.c     the GPUs of this machine; card.c: faults that take a whole one; mps.c: NVIDIA MPS
 *
 * All of it runs in the loop's thread, but for the sweeper. No tenant may hold that thread up: nothing in it removes,
 * cuts or counts what a GPU server has written, and nothing waits until it is on the disk. A struct node_server is
 * there from the order to start it until its end was reported; its folder STATE/servers/<id> as long.
 */
#ifndef FLYT_NODE_NODE_H
#define FLYT_NODE_NODE_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "control-managers/common/link.h"
#include "control-managers/common/loop.h"
#include "control-managers/common/process.h"
#include "control-managers/common/protocol.h"
#include "control-managers/common/tls.h"
#include "control-managers/node-manager/schema.h"
#include "cpu/common/secret.h"

enum { SERVED_LEFT = 64 };
enum { BRIDGE_ENDS = 16 }; /* of one server, at a time */
enum { SERVER_GPUS_SIZE = CTL_MAX_SERVER_GPUS * (CTL_MAX_NAME + 1) };
enum { DIAL_MOST = CTL_MAX_LINK_CONNECTIONS }; /* connections to another server, that a server is given at once */
enum { NODE_PATH_SIZE = PATH_MAX, NODE_MAX_REPORTS = 4096, NODE_OVERFULL = 16 };

/* ---- GPUs ---- */

struct node_gpu {
    char id[CTL_MAX_NAME + 1];
    char product[CTL_MAX_LABEL + 1];
    char card[64]; /* software: name of its fault domain */
    bool software;
    uint32_t index, sms, clock_mhz, sharing, sm_limits;
    int minor; /* of its device file /dev/nvidia<minor>; -1: not known */
    uint64_t memory;
    ctl_gpu_state state;
    char text[CTL_MAX_TEXT + 1];
};

/* ---- servers ---- */

struct node_manager;
struct share; /* shares.c: the connection over which its share is changed */

struct node_server {
    struct node_manager *node;
    struct node_server *next;
    /* As ordered. */
    uint64_t id, program, memory; /* memory, sms: of each of its GPUs */
    char vm[CTL_MAX_NAME + 1], vm_address[CTL_MAX_HOST + 1];
    char gpus[CTL_MAX_SERVER_GPUS][CTL_MAX_NAME + 1]; /* ids, in the order in which its programs see them */
    unsigned gpu_count;
    uint32_t sharing, sms;
    bool same_host;
    /* As it is. */
    ctl_server_state state;
    struct process process;
    bool child;    /* of this process: to be reaped */
    bool killed;   /* SIGKILL was sent because it did not stop in time */
    bool fresh;    /* never ready so far: a failure is final */
    bool own;      /* it writes in a folder within its folder (own.c); earlier versions had one for both */
    uid_t user;    /* that it runs as (users.c); 0: as the node manager */
    unsigned port; /* of the socket that we made for it; 0: none */
    char addresses[CTL_MAX_ADDRESSES][CTL_MAX_URI + 1];
    unsigned address_count, restarts, workers;
    uint32_t shown_sms; /* as its driver shows them; 0: not known */
    uint64_t used;      /* bytes of device memory that its programs hold */
    uint64_t epoch;     /* figures.c: which process of it the figures are of; 0: none was looked at */
    ctl_figures figures;
    uint64_t deadline;  /* of starting, loop_now */
    uint64_t ready_since;
    uint64_t start_order, stop_order; /* numbers to be reported as done; 0: none */
    /* shares.c: what it has been ordered to have, while that is not settled, 0: nothing; the order and its number. */
    uint32_t ordered_sms, wanted_sms;
    uint64_t ordered_memory, wanted_memory, share_order, share_until; /* share_until: loop_now */
    /* shares.c: ends of bridges, and connections to other servers, on their way to it. number: of the message; 0: it
       waits until the server is known to take it. order: to be answered when it has taken it; 0: none. count 0: sent.
       address: where the connections lead, malloced; NULL: it is a bridge. links: they are for links. */
    struct bridge_end {
        int fds[DIAL_MOST];
        unsigned count;
        bool departs, links;
        uint64_t program, number, order;
        char *address;
    } bridges[BRIDGE_ENDS];
    unsigned bridge_count;
    /* served.c: programs that its workers serve, as seen last, in rising order; those whose end is asked for. */
    uint64_t *served, *asked;
    struct program_work {
        uint64_t program, memory;
        ctl_figures figures;
    } * works; /* works.c: of each program that is served, as seen last */
    size_t work_count;
    size_t served_count, asked_count, asked_room;
    struct served_left {
        uint64_t program;
        int64_t when;   /* 0: it is not known */
        uint32_t fault; /* a CUDA error that took a session of it along; 0: none */
    } left[SERVED_LEFT]; /* the last ones that left, a ring: a cluster manager that began anew asks again */
    unsigned lefts;
    unsigned served_pause; /* ms */
    struct loop_timer served_timer;
    bool controlled; /* it has a control socket */
    struct share *share;
    struct loop_timer share_timer;
    ctl_code why;                     /* of stopping, for the reports */
    char why_text[CTL_MAX_TEXT + 1];
    struct loop_timer timer; /* STARTING: looks for readiness, or waits to start again; STOPPING: kills */
};

struct node_report {
    struct node_report *next;
    node_report_body body;
};

struct node_manager {
    struct loop *loop;
    const struct node_config *config;
    struct link *link;
    struct secret secret;
    struct tls_context *tls;
    char name[CTL_MAX_NAME + 1], host[CTL_MAX_HOST + 1];
    char addresses[CTL_MAX_ADDRESSES][CTL_MAX_HOST + 1];
    unsigned address_count;
    char advertise[CTL_MAX_HOST + 1];
    char program[NODE_PATH_SIZE], servers_path[NODE_PATH_SIZE];
    char root_path[NODE_PATH_SIZE]; /* an empty folder (sandbox.h) */
    struct node_gpu gpus[CTL_MAX_GPUS];
    unsigned gpu_count;
    struct node_server *servers;
    uint8_t keys[CTL_MAX_KEY];
    size_t keys_size;
    uint64_t incarnation, manager_incarnation, last_order;
    uint32_t manager_minor; /* of its protocol */
    bool registered, reporting;
    struct node_report *reports, **reports_end; /* not yet taken by the cluster manager, oldest first */
    size_t report_count, reports_sent;
    struct loop_timer figures, cards, folders;
    struct sweep *sweep; /* sweep.c */
    struct dial *dials;  /* dial.c: under way */
    struct log_read *log_reads; /* logs.c: under way */
    struct overfull {
        char vm[CTL_MAX_NAME + 1];
        uint64_t until;        /* loop_now */
    } overfull[NODE_OVERFULL]; /* bounds.c: VMs that get no server for a while */
    unsigned next_overfull;
};

/* node.c */
int node_open(struct node_manager *, char *error);
void node_close(struct node_manager *);
void node_gpu_fill(struct node_gpu *, ctl_gpu *);
struct node_gpu *node_gpu(struct node_manager *, const char *id);
/* Of a server: whether the GPU is one of its, and their ids with commas between them. */
bool server_has_gpu(const struct node_server *, const struct node_gpu *);
const char *server_gpus(const struct node_server *, char out[SERVER_GPUS_SIZE]);
bool server_is_software(const struct node_server *); /* its GPUs are software GPUs */

/* reports.c: each of these queues a report, and sends it when it can */
void node_report_server(struct node_manager *, const struct node_server *);
void node_report_order(struct node_manager *, uint64_t number, ctl_code, const char *text);
void node_report_gpu(struct node_manager *, const struct node_gpu *);
void node_report_share(struct node_manager *, const struct node_server *);
void node_report_usage(struct node_manager *, const struct node_server *); /* as figures_look found it */
void node_report_works(struct node_manager *, const struct node_server *); /* as workers_look found them */
/* No worker serves the program any more. ended: since then; 0: it is not known; negative: a worker serves it. */
void node_report_left(const struct node_server *, uint64_t program, int64_t ended, uint32_t fault);
void reports_fit(struct node_manager *); /* drops those that a cluster manager of manager_minor does not know */
void reports_add(struct node_manager *, const node_report_body *); /* copies it */
void reports_send(struct node_manager *);                          /* what waits; after registering */
void reports_drop_all(struct node_manager *);
void server_fill(struct node_server *, ctl_server_report *); /* pointers into *server; addresses are malloced */

/* server.c */
struct node_server *server_find(struct node_manager *, uint64_t id);
/* Begins to start it, on these GPUs. 0, or -errno with *error: then nothing is left of it. */
int server_create(struct node_manager *, const ctl_server_spec *, char *const *gpus, size_t count, uint64_t order,
                  char *error);
void server_stop(struct node_server *, unsigned grace_ms, ctl_code why, const char *text);
/* Ends it at once, and for good, because of a fault of its GPU. */
void server_fault(struct node_server *, ctl_code why, const char *text);
void server_adopt(struct node_server *);       /* of state_load: takes it over, or starts it again */
void server_forget_all(struct node_manager *); /* at the end: frees, leaves the processes alone */

/* start.c */
/* Whether GPU servers take TLS only, of what comes over TCP. */
bool node_servers_tls(const struct node_manager *);
int server_make_process(struct node_server *, char *error);

/* region.c: memory that virtual machines of this host share with their GPU servers */
void regions_make(const struct node_manager *);
void regions_remove(const struct node_manager *); /* those that no virtual machine has open */
/* What --bar is to say, and the group that may open the file; false: there is none. */
bool region_argument(const struct node_manager *, const char *vm, char *out, size_t size, gid_t *group);
/* The file of what region_argument gave. */
void region_file(const char *argument, char path[NODE_PATH_SIZE]);

/* users.c */
/* Before it begins: gives it a user id, if servers get their own, and its folder to that user. False: own_give. */
bool users_take(struct node_server *);
/* That of servers which share more than a GPU's memory with each other: the files of MPS. */
uid_t users_shared(const struct node_manager *);

/* cgroup.c */
void cgroup_close(void); /* removes the folder of the groups, unless a server is still in one */
void cgroup_open(void);  /* says what is missing */
/* Makes that of a server, with its bounds. A descriptor to which a process writes "0" to enter it; -1: none. */
int cgroup_make(const struct node_server *, bool software);
void cgroup_limit(const struct node_server *, bool software); /* its bound on memory, as its share is now */
void cgroup_remove(const struct node_server *);
/* What a tenant's programs may have of the host's memory, bytes. */
uint64_t node_host_memory(const struct node_config *);

/* listen.c */
#define LISTEN_NAME "s" /* of the unix socket, in the folder that the server can write */
/* A socket that listens on virt-server.listen-address, at any port; -1 with *error. *port: which. */
int listen_make(const struct node_manager *, unsigned *port, char *error);
/* One for programs of this machine; -1: its path is longer than a socket's name may be, or it has been said why. */
int listen_make_unix(const struct node_server *);

/* shares.c */
#define SHARE_NAME "c" /* of the control socket, in the folder that only the node manager sees */
/* The socket on which a server that is about to begin takes orders; -1: it has been said why not. */
int share_listen(const struct node_server *);
void share_begin(struct node_server *);                /* it runs: asks what it has */
void share_end(struct node_server *, const char *why); /* its process has ended */
void share_forget(struct node_server *);               /* before it is freed */
void share_change(struct node_server *, uint64_t order, const node_resize *);
/* Gives the server an end of a bridge, as soon as it answers; takes fd over. order: of the cluster manager, which is
   answered; 0: none. */
void share_bridge(struct node_server *, uint64_t program, bool departs, int fd, uint64_t order);
/* Gives it connections to `address`, where the program may leave to, or `links`: for links of the program; takes them
   over. Else as share_bridge. */
struct share_gift {
    uint64_t program, order;
    const char *address;
    const int *fds;
    unsigned count;
    bool links;
};
void share_connections(struct node_server *, const struct share_gift *);
/* The share that a server has; while a change is not settled, the larger of the old and the new one. */
uint32_t share_bound_sms(const struct node_server *);
uint64_t share_bound_memory(const struct node_server *); /* of each of its GPUs */

/* bridges.c */
void bridge_begin(struct node_manager *, uint64_t order, const node_bridge *);

/* dial.c */
void dial_begin(struct node_manager *, uint64_t order, const node_dial *);
void dial_begin_link(struct node_manager *, uint64_t order, const node_link *);
void dial_forget_all(struct node_manager *); /* at the end: what comes of them is of no consequence */

/* logs.c */
void log_begin(struct node_manager *, uint64_t order, const ctl_log_wish *);
void logs_forget_all(struct node_manager *); /* at the end: nobody waits for them */

/* files.c */
/* What its process writes, and what the process before this one wrote; in its folder that only the node manager
   sees. */
#define LOG_NAME     "log"
#define LOG_PREVIOUS "log.1"
#define COMM_BOOK_NAME "comms"
void server_write_keys(struct node_server *);
/* One for the server to write; anew: an empty one. A descriptor; -1 and errno. */
int files_open(const struct node_server *, const char *name, bool anew);
/* Cuts what a server has written into its log and output, where it is too much. For the sweeper. */
void files_bound(const struct node_server *);
/* Before its process is made: what the one before wrote becomes the previous log. */
void files_turn_log(const struct node_server *);
/* Keeps the ends of its logs when the server has gone, as STATE/logs/<id>-<vm>.log, which kept_as gets, and
   <id>-<vm>.log.1. False: it said nothing, or there is no room. */
bool files_keep_log(const struct node_server *, char kept_as[NODE_PATH_SIZE]);
/* The folder of kept logs; false: its path is too long. */
bool files_kept_folder(const struct node_manager *, char path[NODE_PATH_SIZE]);
/* Of a file there: the server whose log, or previous log, it is; 0: it is another one. */
uint64_t files_kept_id(const char *name, bool previous);
/* Of the end of its log, for messages: the last line about an error, else the last line. */
void files_last_words(const struct node_server *, char *out, size_t size);
/* Whether it has said where it listens, and what its driver shows; it says all at once, when its first worker is
 * ready. */
bool files_read_addresses(struct node_server *);

/* state.c */
int state_save(const struct node_server *, char *error);
void state_load(struct node_manager *); /* fills node->servers with what lies in the state folder */
/* Ends every server in the state folder, and waits for that: what does not end when asked is killed. For a node that
 * has no loop. */
int state_end_servers(struct node_manager *, char *error);
int state_folder(const struct node_server *, const char *name, char path[NODE_PATH_SIZE]); /* -ENAMETOOLONG */
int state_make_folder(const char *path, mode_t, char *error);

/* own.c: -1 and errno on failure */
int own_folder(const struct node_server *, const char *name, char path[NODE_PATH_SIZE]); /* -ENAMETOOLONG */
int own_open_folder(const struct node_server *);
int own_open_file(const struct node_server *, const char *name);     /* a regular one, for reading */
DIR *own_open_entries(const struct node_server *, const char *name); /* NULL: there is none */
/* Moves it out of the folder, or the folder itself (""); the sweeper removes it. */
void own_discard(const struct node_server *, const char *name);
int own_write(const struct node_server *, const char *name, const void *, size_t,
              char *error); /* replaced atomically */
/* An empty file FOLDER/NAME in it, written now. 0 or -errno. */
int own_mark(const struct node_server *, const char *folder, const char *name);
/* Makes all in it the user's; 0: our own. False: there is too much in it, or it cannot be. */
bool own_give(const struct node_server *, uid_t user);
/* All that lies on disk about it, state too. */
void own_discard_all(const struct node_server *);

/* sweep.c */
/* One server, as the sweeper sees it. over: what it found. */
struct sweep_seen {
    uint64_t id;
    uid_t user;
    bool own, over;
};
typedef void sweep_look_at(const struct node_manager *, struct sweep_seen *);
int sweep_open(struct node_manager *, sweep_look_at *, char *error); /* also for a node that has no loop */
void sweep_close(struct node_manager *);
/* Moves an entry of a folder to where the sweeper removes it, whatever it is and has in it. 0 or -errno. */
int sweep_aside(const struct node_manager *, int folder, const char *name);
/* What it has found, once; room for CTL_MAX_NODE_SERVERS. False: it is still looking. */
bool sweep_answers(struct node_manager *, struct sweep_seen *, size_t *count);
void sweep_look(struct node_manager *, const struct sweep_seen *, size_t count);

/* bounds.c */
int bounds_open(struct node_manager *, char *error); /* starts the sweeper */
void bounds_begin(struct node_manager *);            /* looks once a second from now on */
/* CTL_OK, or why the VM gets no server now, with *text (CTL_MAX_TEXT + 1). */
ctl_code bounds_check(const struct node_manager *, const char *vm, char *text);

/* workers.c */
/* figures.c: what its programs have done since its process began. While its folder is there. */
void figures_look(struct node_server *);
/* How many serve a program, and what of the tenant's memory they hold. */
void workers_look(struct node_server *);
/* Before it is started (again): who served whom, and what they held, said process ids that mean others from then on. */
void workers_forget(const struct node_server *);
/* What a look at the workers has found: programs that they serve, and workers that have ended. */
struct served_now {
    bool known;               /* else it could not be looked */
    uint64_t *ids;            /* malloced; NULL: none */
    int *pids;                /* of the workers that serve them, in their own namespace; likewise */
    struct served_left *left; /* likewise */
    size_t count, left_count;
};
/* served.c */
void served_seen(struct node_server *, struct served_now *); /* takes it over */
void served_end(struct node_server *);                       /* its process has ended */
/* works.c: what those that were found have done. */
void works_look(struct node_server *, const struct served_now *);
/* The cluster manager wants to know when no worker serves this program. */
void served_ask(struct node_server *, uint64_t program);
void served_forget(struct node_server *); /* before it is freed */

/* workers.c */
/* Kills the workers that serve the program; how many there were. */
unsigned workers_end(const struct node_server *, uint64_t program);

/* gpu.c */
int gpu_discover(struct node_manager *, char *error);
int gpu_nvidia_discover(struct node_manager *, char *error); /* how many; -ENOENT: there is no NVML */
int gpu_software_discover(struct node_manager *, char *error);
/* Whether the server can be started on the GPU of this id: CTL_OK, or a code and *text (CTL_MAX_TEXT + 1) saying why
   not. */
ctl_code gpu_check(struct node_manager *, const char *id, const ctl_server_spec *, char *text);

/* card.c */
void card_watch(struct node_manager *);
void card_remove(const struct node_manager *, const struct node_gpu *); /* its file, when no server is on it any more */
/* Where a server reads what happened to its card, and where it reports its own faults. False: it need not. */
bool card_files(const struct node_server *, const struct node_gpu *, char word[NODE_PATH_SIZE],
                char report[NODE_PATH_SIZE]);
void card_begin(const struct node_server *); /* before it begins: forgets what an earlier process reported */

/* mps.c: whether NVIDIA MPS runs as Flyt needs it; *text says what is wrong, and what to do. */
bool mps_ready(const char *pipe_directory, char *text);

#endif
