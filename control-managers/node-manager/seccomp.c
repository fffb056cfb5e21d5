/*
 * seccomp.c: system calls that a GPU server has no need of, and with which it could look into other tenants' processes
 * or change the machine: they fail with EPERM. A list of what is forbidden, not of what is allowed: drivers and
 * libraries of NVIDIA call what they like, and change.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "control-managers/node-manager/node.h"

#if defined __x86_64__
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define FORBID(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), ANSWER(SECCOMP_RET_ERRNO | EPERM)

#define NEW_NAMESPACES \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

#if defined __SANITIZE_ADDRESS__
#define LOOKS_INTO_ITSELF 1             /* LeakSanitizer attaches to its own threads */
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define LOOKS_INTO_ITSELF 1
#endif
#endif

int seccomp_restrict(void)
{
#ifdef OWN_ARCH
    static struct sock_filter filter[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
#if defined __x86_64__
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), /* the x32 numbers of the same calls */
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        FORBID(iopl),
        FORBID(ioperm),
#endif
#ifndef LOOKS_INTO_ITSELF
        FORBID(ptrace),
#endif
        FORBID(process_vm_readv),
        FORBID(process_vm_writev),
        FORBID(kcmp),
        FORBID(pidfd_getfd),
        FORBID(bpf),
        FORBID(perf_event_open),
        FORBID(userfaultfd),
        FORBID(mount),
        FORBID(umount2),
        FORBID(pivot_root),
        FORBID(move_mount),
        FORBID(open_tree),
        FORBID(fsopen),
        FORBID(fsconfig),
        FORBID(fsmount),
        FORBID(mount_setattr),
        FORBID(unshare),
        FORBID(setns),
        FORBID(chroot),
        FORBID(add_key),
        FORBID(keyctl),
        FORBID(request_key),
        FORBID(open_by_handle_at),
        FORBID(acct),
        FORBID(quotactl),
        FORBID(init_module),
        FORBID(finit_module),
        FORBID(delete_module),
        FORBID(kexec_load),
        FORBID(kexec_file_load),
        FORBID(reboot),
        FORBID(swapon),
        FORBID(swapoff),
        FORBID(settimeofday),
        FORBID(clock_settime),
        FORBID(sethostname),
        FORBID(setdomainname),
        FORBID(syslog),
        /* Flags of clone3 are in memory, out of a filter's sight; libraries fall back to clone. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | EPERM),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    static const struct sock_fprog program = { .len = sizeof filter / sizeof *filter, .filter = filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0 : -errno;
#else
    return -ENOSYS;
#endif
}
