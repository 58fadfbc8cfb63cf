/*
 * Block devices as sysfs and the mount table describe them.
 */
#ifndef SERVER_STORE_BLOCK_H
#define SERVER_STORE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What is known about a block device, or about the one below a file system. */
struct block_info {
	dev_t disk;          /* the whole disk of a partition; the disk of a single-disk mapping */
	char name[64];       /* the disk's: "sda"; of a file system without a device: its type */
	bool rotational;
	uint32_t logical, physical, optimal; /* block sizes in bytes; 0: unknown */
	bool fast_zeroes;    /* the device writes zeroes without being sent them */
	bool can_discard;
};

/*
 * Fill *out for a block device, or for st_dev of a file. A partition belongs to its whole disk; a
 * device mapper target over a single device to that one's disk (of an LVM volume or an encrypted
 * one); everything else is a disk of its own. False: nothing is known, and out->disk is dev itself.
 * `sys` and `mounts` are "/sys" and "/proc/self/mountinfo", but for tests.
 */
bool block_describe_in(const char *sys, const char *mounts, dev_t dev, struct block_info *out);
bool block_describe(dev_t dev, struct block_info *out);

/*
 * Why opening the device exclusively failed: "it is mounted on /home", "its partition sda1 is
 * mounted on /", "it is used by dm-0", "something uses it".
 */
void block_describe_user_in(const char *sys, const char *mounts, dev_t dev, char *buf, size_t len);
void block_describe_user(dev_t dev, char *buf, size_t len);

#endif
