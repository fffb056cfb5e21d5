/*
 * smi.c: flyt-smi: what nvidia-smi shows, of the GPUs and programs that this machine reaches through Flyt.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cpu/client/nvml/smi.h"
#include "cpu/common/text.h"
#include "cpu/common/version.h"

/* ---- libnvidia-ml.so.1 ---- */

typedef struct nvml_device *device_t;
struct smi_memory {
    unsigned long long total, free, used;
};
struct utilisation { unsigned gpu, memory; };
struct pci { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };
struct nvml_process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
const char *nvmlErrorString(int);
int nvmlSystemGetDriverVersion(char *, unsigned);
int nvmlSystemGetCudaDriverVersion_v2(int *);
int nvmlSystemGetProcessName(unsigned, char *, unsigned);
int nvmlDeviceGetCount_v2(unsigned *);
int nvmlDeviceGetHandleByIndex_v2(unsigned, device_t *);
int nvmlDeviceGetName(device_t, char *, unsigned);
int nvmlDeviceGetUUID(device_t, char *, unsigned);
int nvmlDeviceGetPciInfo_v3(device_t, struct pci *);
int nvmlDeviceGetCudaComputeCapability(device_t, int *, int *);
int nvmlDeviceGetMemoryInfo(device_t, struct smi_memory *);
int nvmlDeviceGetUtilizationRates(device_t, struct utilisation *);
int nvmlDeviceGetMaxClockInfo(device_t, unsigned, unsigned *);
int nvmlDeviceGetComputeRunningProcesses_v3(device_t, unsigned *, struct nvml_process *);
struct sample { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(device_t, struct sample *, unsigned *, unsigned long long since);
int nvmlDeviceGetTopologyCommonAncestor(device_t, device_t, unsigned *);

enum { EXIT_WRONG = 2, EXIT_NO_DRIVER = 9, CLOCK_SM = 1, CLOCK_MEMORY = 2 };

/* A program chooses its name: nothing of it may speak to a terminal, and it need not be UTF-8. */
void smi_clean(char *text)
{
    for (size_t length; *text; text += length ? length : 1)
        if ((length = text_shown_length(text)) == 0)
            *text = '?';
}

static void read_processes(device_t device, struct smi_gpu *gpu)
{
    unsigned count = SMI_PROCESSES;
    struct nvml_process *found = calloc(count, sizeof *found);
    if (!found || nvmlDeviceGetComputeRunningProcesses_v3(device, &count, found) != 0)
        count = 0;
    gpu->processes = calloc(count ? count : 1, sizeof *gpu->processes);
    gpu->process_count = gpu->processes ? count : 0;
    for (unsigned i = 0; i < gpu->process_count; i++) {
        gpu->processes[i].pid = found[i].pid;
        gpu->processes[i].used = found[i].used;
        if (nvmlSystemGetProcessName(found[i].pid, gpu->processes[i].name, SMI_TEXT) != 0)
            snprintf(gpu->processes[i].name, SMI_TEXT, "[Not Found]");
        smi_clean(gpu->processes[i].name);
    }
    free(found);
}

static void read_busy(device_t device, struct smi_gpu *gpu)
{
    unsigned count = SMI_PROCESSES;
    struct sample *samples = calloc(count, sizeof *samples);
    if (!samples || nvmlDeviceGetProcessUtilization(device, samples, &count, 0) != 0)
        count = 0;
    for (unsigned i = 0; i < gpu->process_count; i++)
        for (unsigned s = 0; s < count && !gpu->processes[i].busy_known; s++)
            if (samples[s].pid == gpu->processes[i].pid) {
                gpu->processes[i].busy_known = true;
                gpu->processes[i].busy = samples[s].sm;
            }
    free(samples);
}

unsigned smi_path(const struct smi_gpu *gpu, const struct smi_gpu *other)
{
    unsigned level = 0;
    return nvmlDeviceGetTopologyCommonAncestor(gpu->device, other->device, &level) == 0 ? level : 0;
}

static void read_gpu(unsigned index, struct smi_gpu *gpu)
{
    device_t device;
    struct smi_memory memory;
    struct utilisation utilisation;
    struct pci pci;
    *gpu = (struct smi_gpu){ .index = index };
    if (nvmlDeviceGetHandleByIndex_v2(index, &device) != 0)
        return;
    nvmlDeviceGetName(device, gpu->name, sizeof gpu->name);
    nvmlDeviceGetUUID(device, gpu->uuid, sizeof gpu->uuid);
    if (nvmlDeviceGetPciInfo_v3(device, &pci) == 0)
        snprintf(gpu->bus, sizeof gpu->bus, "%s", pci.bus_id);
    nvmlDeviceGetCudaComputeCapability(device, &gpu->major, &gpu->minor);
    nvmlDeviceGetMaxClockInfo(device, CLOCK_SM, &gpu->clock);
    nvmlDeviceGetMaxClockInfo(device, CLOCK_MEMORY, &gpu->memory_clock);
    gpu->memory_known = nvmlDeviceGetMemoryInfo(device, &memory) == 0;
    if (gpu->memory_known) {
        gpu->total = memory.total;
        gpu->used = memory.used;
        gpu->free = memory.free;
    }
    gpu->busy_known = nvmlDeviceGetUtilizationRates(device, &utilisation) == 0;
    gpu->busy = gpu->busy_known ? utilisation.gpu : 0;
    gpu->device = device;
    read_processes(device, gpu);
    read_busy(device, gpu);
}

/* only: a list of indices, UUIDs and bus ids with commas; NULL: all. False: one of them is no GPU here. */
static bool is_wanted(const struct smi_gpu *gpu, const char *only)
{
    for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',') {
        size_t length = strcspn(at, ",");
        char number[16];
        snprintf(number, sizeof number, "%u", gpu->index);
        const char *names[] = { number, gpu->uuid, gpu->bus };
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == length && strncasecmp(names[i], at, length) == 0)
                return true;
    }
    return !only;
}

int smi_read(struct smi *smi, const char *only)
{
    unsigned count = 0;
    memset(smi, 0, sizeof *smi);
    int r = nvmlSystemGetDriverVersion(smi->driver, sizeof smi->driver);
    if (r == 0)
        r = nvmlSystemGetCudaDriverVersion_v2(&smi->cuda);
    if (r == 0)
        r = nvmlDeviceGetCount_v2(&count);
    for (unsigned i = 0; i < count && r == 0 && smi->gpu_count < SMI_GPUS; i++) {
        read_gpu(i, &smi->gpus[smi->gpu_count]);
        if (is_wanted(&smi->gpus[smi->gpu_count], only))
            smi->gpu_count++;
        else
            free(smi->gpus[smi->gpu_count].processes);
    }
    return r;
}

void smi_free(struct smi *smi)
{
    for (unsigned i = 0; i < smi->gpu_count; i++)
        free(smi->gpus[i].processes);
}

/* ---- command line ---- */

static const char help[] =
    "NAME\n"
    "    flyt-smi - show the GPUs that this machine uses through Flyt\n"
    "\n"
    "SYNOPSIS\n"
    "    flyt-smi [-i GPU,...] [-l SECONDS] [-L | -q [-x] | --query-gpu=FIELDS | --query-compute-apps=FIELDS]\n"
    "             [--format=csv[,noheader][,nounits]]\n"
    "    flyt-smi dmon | pmon [-i GPU,...] [-d SECONDS] [-c COUNT]\n"
    "    flyt-smi topo -m\n"
    "    flyt-smi status [--json]\n"
    "    flyt-smi --help | --help-query-gpu | --version\n"
    "\n"
    "DESCRIPTION\n"
    "    Prints what nvidia-smi prints: the GPUs, the part of their memory that this VM may use and uses, and the\n"
    "    programs of this VM on them. What Flyt does not know (temperature, power, fan) is N/A. The GPU server is the\n"
    "    one that a CUDA program would get: FLYT_SERVER, or what the client manager gives. Programs that flyt-run\n"
    "    starts find it as nvidia-smi, too.\n"
    "\n"
    "COMMANDS\n"
    "    dmon                     a line for each GPU, again and again\n"
    "    pmon                     a line for each program, again and again\n"
    "    topo -m                  what lies between the GPUs\n"
    "    status                   what the cluster gives this VM, its GPU servers, and your programs: which GPU, how\n"
    "                             much memory, how busy, or why they wait and at which place in the queue\n"
    "\n"
    "OPTIONS\n"
    "    -L, --list-gpus          one line for each GPU\n"
    "    -q, --query              all that is known, one line for each value\n"
    "    -x, --xml-format         with -q: as XML, in the form of nvidia-smi\n"
    "    --query-gpu=FIELDS       these fields of each GPU, with commas between (--help-query-gpu lists them)\n"
    "    --query-compute-apps=FIELDS\n"
    "                             of each program: timestamp, gpu_name, gpu_uuid, gpu_bus_id, pid, process_name (or\n"
    "                             name), used_gpu_memory (or used_memory)\n"
    "    --format=csv             the form of these two queries, which need it; noheader and nounits leave these out\n"
    "    -i, --id=GPU,...         only these GPUs: index, UUID, or PCI address\n"
    "    -l, --loop=SECONDS       again and again (5 s unless given)\n"
    "    -d, --delay=SECONDS      of dmon and pmon: the time between two looks (1 s unless given)\n"
    "    -c, --count=COUNT        of dmon and pmon: end after so many looks\n"
    "    --help-query-gpu         list the fields\n"
    "    --json                   of status: as JSON\n"
    "    -h, --help               this text\n"
    "    -V, --version            the version\n"
    "\n"
    "EXIT STATUS\n"
    "    0 all went well; 2 the command line is wrong; 6 there is no such GPU; 9 no GPU server can be reached; 15 the\n"
    "    connection to the GPU server is lost. Of status: 1 only a part is known; 9 no client manager answers\n";

enum { OPTION_QUERY_GPU = 256, OPTION_QUERY_APPS, OPTION_FORMAT, OPTION_HELP_FIELDS };

struct smi_command {
    const char *only, *gpus, *programs, *format;
    const char *name;                   /* dmon, pmon, topo; NULL: none of them */
    unsigned loop, count;               /* count 0: without end, where there is a loop */
    bool list, all, xml, matrix;
};

static const struct option options[] = {
    { "list-gpus", no_argument, NULL, 'L' },
    { "query", no_argument, NULL, 'q' },
    { "xml-format", no_argument, NULL, 'x' },
    { "delay", required_argument, NULL, 'd' },
    { "count", required_argument, NULL, 'c' },
    { "matrix", no_argument, NULL, 'm' },
    { "query-gpu", required_argument, NULL, OPTION_QUERY_GPU },
    { "query-compute-apps", required_argument, NULL, OPTION_QUERY_APPS },
    { "format", required_argument, NULL, OPTION_FORMAT },
    { "id", required_argument, NULL, 'i' },
    { "loop", optional_argument, NULL, 'l' },
    { "help-query-gpu", no_argument, NULL, OPTION_HELP_FIELDS },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { 0 },
};

static int wrong(const char *what)
{
    fprintf(stderr, "flyt-smi: %s (see flyt-smi --help)\n", what);
    return EXIT_WRONG;
}

/* What goes together with which command. NULL, or what is wrong. */
static const char *command_wrong(const struct smi_command *command, bool pace)
{
    bool monitor = command->name && strcmp(command->name, "topo") != 0;
    int forms = command->list + command->all + !!command->gpus + !!command->programs + !!command->name;
    if (forms > 1)
        return "one of -L, -q, --query-gpu, --query-compute-apps, dmon, pmon and topo";
    if (command->xml && !command->all)
        return "-x goes with -q";
    if (pace && !monitor)
        return "-d and -c go with dmon and pmon, and want a number above 0";
    if (command->matrix != (command->name && !monitor))
        return "topo -m is the one form of topo, and of -m";
    if ((command->gpus || command->programs) && !command->format)
        return "--format=csv is needed";
    if (command->format && !command->gpus && !command->programs)
        return "--format goes with --query-gpu or --query-compute-apps";
    return NULL;
}

/* dmon, pmon and topo come before the options. */
static void take_name(int *argc, char ***argv, struct smi_command *command)
{
    static const char *const names[] = { "dmon", "pmon", "topo" };
    for (size_t i = 0; *argc > 1 && i < sizeof names / sizeof *names; i++)
        if (strcmp((*argv)[1], names[i]) == 0) {
            command->name = names[i];
            command->loop = strcmp(names[i], "topo") != 0;
            (*argv)[1] = (*argv)[0];
            ++*argv;
            --*argc;
            return;
        }
}

/* `status` has options of its own. */
static int status_command(int argc, char **argv)
{
    bool json = argc == 3 && strcmp(argv[2], "--json") == 0;
    return argc == 2 || json ? smi_status(json) : wrong("status has the option --json only");
}

/* -1: go on; else the exit status. */
static int read_command(int argc, char **argv, struct smi_command *command)
{
    int option;
    bool pace = false;
    if (argc > 1 && strcmp(argv[1], "status") == 0)
        return status_command(argc, argv);
    take_name(&argc, &argv, command);
    while ((option = getopt_long(argc, argv, "Lqxmi:l::d:c:hV", options, NULL)) != -1) {
        switch (option) {
        case 'x': command->xml = true; break;
        case 'm': command->matrix = true; break;
        case 'd':
        case 'c':
            pace = true;
            *(option == 'd' ? &command->loop : &command->count) = (unsigned)strtoul(optarg, NULL, 10);
            if (!strtoul(optarg, NULL, 10))
                return wrong("-d and -c want a number above 0");
            break;
        case 'L': command->list = true; break;
        case 'q': command->all = true; break;
        case OPTION_QUERY_GPU: command->gpus = optarg; break;
        case OPTION_QUERY_APPS: command->programs = optarg; break;
        case OPTION_FORMAT: command->format = optarg; break;
        case 'i': command->only = optarg; break;
        case 'l':
            if (!optarg && optind < argc && argv[optind][0] != '-')
                optarg = argv[optind++];
            command->loop = optarg ? (unsigned)strtoul(optarg, NULL, 10) : 5;
            if (!command->loop)
                return wrong("--loop wants a number of seconds above 0");
            break;
        case 'h': fputs(help, stdout); return 0;
        case 'V': printf("flyt-smi %s\n", flyt_version); return 0;
        case OPTION_HELP_FIELDS: smi_help_fields(); return 0;
        default: return EXIT_WRONG;
        }
    }
    if (optind < argc)
        return wrong("there are no arguments beside the options");
    const char *problem = command_wrong(command, pace);
    return problem ? wrong(problem) : -1;
}

static int show(const struct smi *smi, const struct smi_command *command, const struct smi_format *format,
                unsigned look)
{
    int r = 0;
    bool first = look == 0;
    if (command->matrix)
        smi_topology(smi);
    else if (command->name)
        (strcmp(command->name, "dmon") == 0 ? smi_dmon : smi_pmon)(smi, look);
    else if (command->list)
        smi_list(smi);
    else if (command->all)
        (command->xml ? smi_xml : smi_all)(smi);
    else if (command->gpus)
        r = smi_query_gpus(smi, command->gpus, format, first);
    else if (command->programs)
        r = smi_query_processes(smi, command->programs, format, first);
    else
        smi_table(smi);
    fflush(stdout);
    return r;
}

int main(int argc, char **argv)
{
    enum { NO_SUCH_GPU = 6 };
    static struct smi smi;
    struct smi_command command = { 0 };
    struct smi_format format = { 0 };
    int r = read_command(argc, argv, &command);
    if (r >= 0)
        return r;
    if (command.format && !smi_format_read(command.format, &format))
        return wrong("--format is csv, perhaps with noheader and nounits behind commas");
    setenv("FLYT_LOG", "warning", 0);           /* why no GPU server can be reached */
    r = nvmlInit_v2();
    for (unsigned look = 0; r == 0; look++) {
        r = smi_read(&smi, command.only);
        if (r == 0 && !smi.gpu_count) {
            fprintf(stderr, "flyt-smi: %s\n", command.only ? "there is no such GPU" : "no devices were found");
            r = NO_SUCH_GPU;
            break;
        }
        if (r == 0 && (r = show(&smi, &command, &format, look)) != 0)
            return r;
        smi_free(&smi);
        if (!command.loop || ferror(stdout) || look + 1 == command.count)
            break;
        sleep(command.loop);
    }
    if (r != 0 && r != NO_SUCH_GPU)
        fprintf(stderr,
                "flyt-smi: no GPU server answers: %s. In a cluster `flyt-smi status` shows what this machine has\n",
                nvmlErrorString(r));
    nvmlShutdown();
    return r;
}
