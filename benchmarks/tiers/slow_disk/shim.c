/* A hard disk in front of one folder, for programs that preload this: reads and writes of files under
 * TRIGGERLOG_SLOW_FOLDER take the time that the head of one disk would take, whichever process asks.
 *
 * A read that does not go on where the one before it ended costs 1 / IOPS s; every byte costs 1 / READ_BYTES or
 * 1 / WRITE_BYTES s. The clock of the disk is shared through the file TRIGGERLOG_SLOW_CLOCK: each request takes the next
 * stretch of it, and sleeps until that has passed. What the page cache holds is no faster.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SPINS 100000

struct disk {
    atomic_flag held;
    int64_t free_ns;  /* until then it is busy (CLOCK_MONOTONIC) */
    uint64_t file;    /* where the head is */
    int64_t offset;
};

static struct disk *disk;
static char folder[PATH_MAX];
static size_t folder_length;

__attribute__((constructor)) static void begin(void)
{
    const char *clock = getenv("TRIGGERLOG_SLOW_CLOCK"), *named = getenv("TRIGGERLOG_SLOW_FOLDER");
    if (clock == NULL || named == NULL || strlen(named) >= sizeof folder)
        return;
    /* A copy: PostgreSQL writes the titles of its processes where the environment was. */
    folder_length = strlen(strcpy(folder, named));
    int file = open(clock, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof(struct disk), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        disk = found;
}

static int is_slow(int file)
{
    char link[64], path[PATH_MAX];
    if (disk == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    return length > (ssize_t)folder_length && path[folder_length] == '/' && memcmp(path, folder, folder_length) == 0;
}

static void wait_for(int file, ssize_t bytes, off_t offset, int is_read)
{
    struct timespec now;
    struct stat found;
    if (bytes <= 0 || fstat(file, &found) != 0)
        return;
    uint64_t number = (uint64_t)found.st_ino;
    /* Whoever was killed while it held the disk, a few instructions long, keeps nobody waiting. */
    for (int spins = 0; atomic_flag_test_and_set(&disk->held) && spins < SPINS; spins++)
        ;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t free_ns = now.tv_sec * SECOND + now.tv_nsec;
    if (disk->free_ns > free_ns)
        free_ns = disk->free_ns;
    free_ns += bytes * SECOND / (is_read ? READ_BYTES : WRITE_BYTES);
    if (is_read && (disk->file != number || disk->offset != offset))
        free_ns += SECOND / IOPS;
    disk->free_ns = free_ns;
    if (is_read) {
        disk->file = number;
        disk->offset = offset + bytes;
    }
    atomic_flag_clear(&disk->held);
    struct timespec until = {free_ns / SECOND, free_ns % SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

#define SLOW(NAME, ARGUMENTS, GIVEN, IS_READ)                                                                          \
    ssize_t NAME ARGUMENTS                                                                                             \
    {                                                                                                                  \
        static ssize_t(*real) ARGUMENTS;                                                                               \
        if (real == NULL)                                                                                              \
            real = dlsym(RTLD_NEXT, #NAME);                                                                            \
        ssize_t done = real GIVEN;                                                                                     \
        if (done > 0) {                                                                                                \
            int error = errno;                                                                                         \
            if (is_slow(file))                                                                                         \
                wait_for(file, done, offset, IS_READ);                                                                 \
            errno = error;                                                                                             \
        }                                                                                                              \
        return done;                                                                                                   \
    }

SLOW(pread, (int file, void *buffer, size_t size, off_t offset), (file, buffer, size, offset), 1)
SLOW(pread64, (int file, void *buffer, size_t size, off64_t offset), (file, buffer, size, offset), 1)
SLOW(preadv, (int file, const struct iovec *parts, int count, off_t offset), (file, parts, count, offset), 1)
SLOW(preadv64, (int file, const struct iovec *parts, int count, off64_t offset), (file, parts, count, offset), 1)
SLOW(pwrite, (int file, const void *buffer, size_t size, off_t offset), (file, buffer, size, offset), 0)
SLOW(pwrite64, (int file, const void *buffer, size_t size, off64_t offset), (file, buffer, size, offset), 0)
SLOW(pwritev, (int file, const struct iovec *parts, int count, off_t offset), (file, parts, count, offset), 0)
SLOW(pwritev64, (int file, const struct iovec *parts, int count, off64_t offset), (file, parts, count, offset), 0)
