/*
 * bar_device.h: the memory that a virtual machine shares with its host, as the machine sees it: which ivshmem devices
 * and dax devices there are, and whether reading one is as fast as reading memory should be.
 */
#ifndef FLYT_RPC_BAR_DEVICE_H
#define FLYT_RPC_BAR_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { BAR_DEVICES_MOST = 8, BAR_PATH_SIZE = 96 };

/* Writes the names of the files that may be memory shared with the host: this machine's ivshmem devices (PCI
   1af4:1110), in the order of their addresses, then its dax devices; at most `most`. Returns how many there are.
   Whether they can be opened is not looked at. */
size_t bar_devices(char (*paths)[BAR_PATH_SIZE], size_t most);

/* The size of the dax device (device_dax of the kernel) with this number, in bytes, and the alignment that mapping it
   takes. 0; or -ENODEV: it is another device. */
int bar_dax(dev_t number, uint64_t *size, uint64_t *align);

/* 0: mapped memory of `size` bytes can be read fast enough. -EOPNOTSUPP: it cannot; `why` (RPC_ERROR_SIZE bytes) says
   how fast it is, what the cause may be and what to do. The memory is only read. path: for that text. Takes some 20 ms
   at most where the memory is slow, and far below one otherwise. */
int bar_check_speed(const void *memory, size_t size, const char *path, char *why);

#endif
