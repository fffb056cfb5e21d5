/* schema.c: the keys of flyt-node-manager's configuration, and the rules between them. */
#include "control-managers/node-manager/schema.h"

#include <stdlib.h>
#include <string.h>

static const char *const gpu_kinds[] = { "auto", "nvidia", "software", NULL };
static const char *const sandboxes[] = { "best-effort", "required", "off", NULL };
static const char *const tls_words[] = { "auto", "on", "off", NULL };
const char *const node_log_words[] = { "error", "warning", "info", "debug", NULL };
const char *const node_clear_words[] = { "auto", "always", "never", NULL };
static const char *const thread_modes[] = { "process-per-client", NULL };

#define AT(member) offsetof(struct node_config, member)
static const struct config_key keys[] = {
    { .path = "resource-manager.address",
      .kind = CONFIG_STRING,
      .offset = AT(manager_address),
      .initial = "127.0.0.1",
      .help = "Host name or address of the machine that runs flyt-cluster-manager." },
    { .path = "resource-manager.port",
      .kind = CONFIG_PORT,
      .offset = AT(manager_port),
      .initial = "12401",
      .help = "Its port for node managers." },
    { .path = "node.name",
      .kind = CONFIG_NAME,
      .offset = AT(name),
      .initial = "",
      .help = "Name of this node in the cluster; the host's name unless given." },
    { .path = "node.secret",
      .kind = CONFIG_SECRET,
      .offset = AT(secret),
      .initial = "",
      .help =
          "The secret that flytctl node add printed: file:/path or env:NAME. Not needed where certificates are used." },
    { .path = "node.addresses",
      .kind = CONFIG_STRINGS,
      .offset = AT(addresses),
      .initial = "",
      .help = "Addresses of this machine as entitlements name it (host_ip); those of its interfaces unless given." },
    { .path = "node.state-directory",
      .kind = CONFIG_PATH,
      .offset = AT(state),
      .initial = "/var/lib/flyt/node",
      .help = "Where the daemon keeps what it must know after a restart, and the logs of the GPU servers." },
    { .path = "node.gpu",
      .kind = CONFIG_CHOICE,
      .offset = AT(gpu),
      .initial = "auto",
      .choices = gpu_kinds,
      .help = "auto takes NVIDIA GPUs where NVML finds some, else the software GPU (FLYT_SOFTGPU_DEVICES, _SMS, "
              "_MEMORY)." },
    { .path = "node.sharing",
      .kind = CONFIG_SHARING,
      .offset = AT(sharing),
      .initial = "exclusive,mig,time-slice,mps",
      .help = "Kinds of sharing that may be offered; what the GPUs do not support is left out." },
    { .path = "node.sandbox",
      .kind = CONFIG_CHOICE,
      .offset = AT(sandbox),
      .initial = "best-effort",
      .choices = sandboxes,
      .help = "What GPU servers are put into (docs/security.md): best-effort says in the log what this kernel lacks, "
              "required starts none then." },
    { .path = "node.sandbox-paths",
      .kind = CONFIG_STRINGS,
      .offset = AT(sandbox_paths),
      .initial = "",
      .help = "Further files and folders that GPU servers see, read-only, such as a driver outside /usr." },
    { .path = "node.first-user-id",
      .kind = CONFIG_INT,
      .offset = AT(first_user),
      .initial = "70000",
      .min = 1,
      .max = 2000000000,
      .help = "GPU servers run as users of their own, from this number on; nobody else may have these (run as root)." },
    { .path = "node.report-period",
      .kind = CONFIG_SECONDS,
      .offset = AT(report_period),
      .initial = "10",
      .min = 0.1,
      .max = 3600,
      .reload = true,
      .help = "How often the figures of GPU servers (memory, programs) are reported; their states are at once." },
    { .path = "node.logs-kept",
      .kind = CONFIG_INT,
      .offset = AT(logs_kept),
      .initial = "100",
      .min = 0,
      .max = 10000,
      .reload = true,
      .help = "Of so many GPU servers that have ended the logs are kept (flytctl server logs)." },
    { .path = "node.log-size",
      .kind = CONFIG_SIZE,
      .offset = AT(log_size),
      .initial = "256K",
      .min = 4096,
      .max = 1 << 20,
      .reload = true,
      .help = "How much of the end of each such log is kept, at most 1M." },
    { .path = "node.log-level",
      .kind = CONFIG_CHOICE,
      .offset = AT(log_level),
      .initial = "info",
      .choices = node_log_words,
      .reload = true,
      .help = "Which messages GPU servers write into their logs, from their next start on; $FLYT_LOG of the daemon has "
              "precedence." },
    { .path = "virt-server.program-path",
      .kind = CONFIG_PATH,
      .offset = AT(program),
      .initial = "",
      .help = "cricket-rpc-server; the one beside flyt-node-manager unless given." },
    { .path = "virt-server.thread-mode",
      .kind = CONFIG_CHOICE,
      .offset = AT(thread_mode),
      .initial = "process-per-client",
      .choices = thread_modes,
      .help = "Every program has a worker process of its own, so that a fault stays in it." },
    { .path = "virt-server.program-args",
      .kind = CONFIG_STRINGS,
      .offset = AT(arguments),
      .initial = "",
      .help = "Further arguments of every GPU server." },
    { .path = "virt-server.listen-address",
      .kind = CONFIG_STRING,
      .offset = AT(listen),
      .initial = "127.0.0.1",
      .help = "Address on which GPU servers accept TCP connections; \"\" for unix sockets only." },
    { .path = "virt-server.advertise-address",
      .kind = CONFIG_STRING,
      .offset = AT(advertise),
      .initial = "",
      .help = "Address that VMs are told; the one from which the cluster manager is reached unless given." },
    { .path = "virt-server.tls",
      .kind = CONFIG_CHOICE,
      .offset = AT(server_tls),
      .initial = "auto",
      .choices = tls_words,
      .help = "Whether programs reach GPU servers by TLS only: auto: when this node has certificates (tls); on; off. "
              "Every server makes a "
              "key of its own, whose fingerprint VMs get with its address." },
    { .path = "virt-server.workers",
      .kind = CONFIG_INT,
      .offset = AT(workers),
      .initial = "1",
      .min = 1,
      .max = 256,
      .help = "Processes that each GPU server keeps ready for the next program." },
    { .path = "virt-server.clear-memory",
      .kind = CONFIG_CHOICE,
      .offset = AT(clear),
      .initial = "auto",
      .choices = node_clear_words,
      .help = "Whether GPU servers set fresh device memory to zero before a program gets it: auto: unless the driver "
              "is known to do that, which NVIDIA's is not; always; never." },
    { .path = "virt-server.max-processes",
      .kind = CONFIG_INT,
      .offset = AT(processes),
      .initial = "16384",
      .min = 64,
      .max = 4000000,
      .help = "Processes and threads that one GPU server may have." },
    { .path = "virt-server.max-files",
      .kind = CONFIG_INT,
      .offset = AT(files),
      .initial = "100000",
      .min = 100,
      .max = 1000000000,
      .help = "Files and folders that one GPU server may have in its folder; one that makes more is ended." },
    { .path = "virt-server.max-disk",
      .kind = CONFIG_SIZE,
      .offset = AT(disk),
      .initial = "0",
      .min = 0,
      .max = 1e15,
      .help =
          "Bytes that the files in one GPU server's folder may take of the disk; one that writes more is ended. Half "
          "of the file system's unless given." },
    { .path = "virt-server.host-memory",
      .kind = CONFIG_SIZE,
      .offset = AT(host_memory),
      .initial = "0",
      .min = 0,
      .max = 1e15,
      .help = "Memory of this machine that one GPU server with its programs may use, beside that of a software GPU; "
              "half of the "
              "machine's unless given." },
    { .path = "virt-server.max-restarts",
      .kind = CONFIG_INT,
      .offset = AT(restarts),
      .initial = "5",
      .min = 0,
      .max = 1000,
      .reload = true,
      .help = "How often a GPU server that crashes is started again; ten quiet minutes clear the count." },
    { .path = "virt-server.start-timeout",
      .kind = CONFIG_SECONDS,
      .offset = AT(start_timeout),
      .initial = "60",
      .min = 1,
      .max = 3600,
      .reload = true,
      .help = "Seconds in which a GPU server must be ready, else it is killed." },
    { .path = "virt-server.stop-timeout",
      .kind = CONFIG_SECONDS,
      .offset = AT(stop_timeout),
      .initial = "5",
      .min = 0.1,
      .max = 3600,
      .reload = true,
      .help = "Seconds after which one that was asked to stop is killed." },
    { .path = "virt-server.shared-memory",
      .kind = CONFIG_STRINGS,
      .offset = AT(shared_memory),
      .initial = "",
      .help =
          "Virtual machines of this host that share memory with it (ivshmem), each \"VM=SIZE\" or "
          "\"VM=SIZE:PROGRAMS\", such as \"vm1=512M:8\": the file flyt-vm-VM is made for QEMU, and VM's GPU servers "
          "use it." },
    { .path = "virt-server.shared-memory-folder",
      .kind = CONFIG_PATH,
      .offset = AT(shared_memory_folder),
      .initial = "/dev/shm",
      .help = "Where these files lie; a file system in memory." },
    { .path = "virt-server.shared-memory-group",
      .kind = CONFIG_STRING,
      .offset = AT(shared_memory_group),
      .initial = "",
      .help = "Group that may open them too, that of QEMU; only their owner unless given." },
    { .path = "mps.pipe-directory",
      .kind = CONFIG_PATH,
      .offset = AT(mps_directory),
      .initial = "/tmp/nvidia-mps",
      .help = "CUDA_MPS_PIPE_DIRECTORY of the MPS daemon that mps/start_mps.sh has started." },
    { .path = "tls.ca",
      .kind = CONFIG_PATH,
      .offset = AT(tls_ca),
      .initial = "",
      .help = "Certificate of the cluster's CA (flytctl ca); TLS is used when ca, certificate and key exist." },
    { .path = "tls.certificate",
      .kind = CONFIG_PATH,
      .offset = AT(tls_certificate),
      .initial = "",
      .help = "Certificate of this node." },
    { .path = "tls.key", .kind = CONFIG_PATH, .offset = AT(tls_key), .initial = "", .help = "Its private key." },
};

/* 4 MiB is what the calls of one program need (cricket-rpc-server --bar). */
enum { PROGRAMS_USUAL = 4, PROGRAMS_MOST = 256, LEAST_EACH = 4 << 20 };

bool node_memory_read(const char *text, size_t *name, uint64_t *size, unsigned *programs)
{
    static const char units[] = "KMG";
    const char *equal = strchr(text, '=');
    char *end;
    if (!equal || equal == text || equal[1] < '0' || equal[1] > '9' || memchr(text, '/', (size_t)(equal - text)))
        return false;
    unsigned long long value = strtoull(equal + 1, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    unsigned long count = PROGRAMS_USUAL;
    end += unit != NULL;
    if (*end == ':' && end[1] >= '0' && end[1] <= '9')
        count = strtoul(end + 1, &end, 10);
    *name = (size_t)(equal - text);
    *size = value << shift;
    *programs = (unsigned)count;
    return !*end && count >= 1 && count <= PROGRAMS_MOST && value <= UINT64_MAX >> 24 >> shift &&
           *size >= (uint64_t)count * LEAST_EACH;
}

static bool check(const void *values, struct config *config)
{
    const struct node_config *c = values;
    bool good = true;
    if (strlen(c->name) > 40) {
        config_complain(config, "node.name",
                        "the name is longer than 40 characters, and names of GPUs are made from it");
        good = false;
    }
    for (size_t i = 0; i < c->shared_memory.count; i++) {
        size_t name;
        uint64_t size;
        unsigned programs;
        if (node_memory_read(c->shared_memory.items[i], &name, &size, &programs))
            continue;
        config_complain(config, "virt-server.shared-memory",
                        "\"%s\" is not VM=SIZE or VM=SIZE:PROGRAMS, such as vm1=512M:8, with 4 MiB at least for each "
                        "program",
                        c->shared_memory.items[i]);
        good = false;
    }
    return config_check_tls(config, c->tls_ca, c->tls_certificate, c->tls_key) && good;
}

static const struct config_absent absent[] = {
    { "ipc", "GPU servers are watched through files of the state folder, there is no socket" },
    { NULL, NULL },
};

const struct config_schema node_schema = {
    .daemon = "flyt-node-manager",
    .keys = keys,
    .count = sizeof keys / sizeof *keys,
    .size = sizeof(struct node_config),
    .check = check,
    .absent = absent,
};
