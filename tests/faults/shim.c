/* Stands between a program and the C library's file-system calls (LD_PRELOAD, Linux).
 *
 * Every call about a path below one folder, or a descriptor of such a file, is a point. Points are
 * counted from zero after each fault_arm; at the chosen one the call fails, is cut short, meets a
 * signal, or ends the process. Calls about anything else pass through untouched. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum fault { NONE, IO_ERROR, DISK_FULL, SHORT_WRITE, SIGNAL_BEFORE, SIGNAL_AFTER, KILL, TORN_KILL };
enum { MOST_POINTS = 1 << 16 };

static char below[PATH_MAX];
static size_t below_length;
static atomic_int chosen_fault, chosen_point = -1, n_points, disk_is_full;
static const char *names[MOST_POINTS];

void fault_arm(const char *folder, int fault, int point) {
    below_length = strlen(folder);
    memcpy(below, folder, below_length + 1);
    n_points = 0;
    disk_is_full = 0;
    chosen_fault = fault;
    chosen_point = point;
}

int fault_disarm(void) {
    below_length = 0;
    return n_points;
}

const char *fault_name(int point) { return names[point]; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_path(const char *path) {
    return below_length && path && strncmp(path, below, below_length) == 0;
}

static int is_descriptor(int descriptor) {
    char link[64], path[PATH_MAX];
    if (!below_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_path(path);
}

static int is_at(int folder, const char *path) {
    return path && path[0] != '/' && folder != AT_FDCWD ? is_descriptor(folder) : is_path(path);
}

static int is_read_only(int descriptor) {
    return (fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

/* Count a point; the fault that is due here. */
static enum fault due(const char *name) {
    int point = atomic_fetch_add(&n_points, 1);
    if (point < MOST_POINTS) names[point] = name;
    if (point != chosen_point) return NONE;
    if (chosen_fault == DISK_FULL) disk_is_full = 1;
    if (chosen_fault == KILL) kill(getpid(), SIGKILL);
    return chosen_fault;
}

static int failed(int number) {
    errno = number;
    return -1;
}

static void interrupt(void) { kill(getpid(), SIGINT); }

/* A call that takes effect as a whole; `can_wait` says whether a signal may come before it does. */
#define WHOLE(type, name, is_point, can_wait, needs_room, call, failure)                           \
    do {                                                                                           \
        if (!(is_point)) return call;                                                              \
        enum fault fault = due(name);                                                              \
        if (fault == IO_ERROR) { errno = EIO; return failure; }                                    \
        if (disk_is_full && (needs_room)) { errno = ENOSPC; return failure; }                      \
        if (fault == SIGNAL_BEFORE && (can_wait)) { interrupt(); errno = EINTR; return failure; }  \
        type result = call;                                                                        \
        if (fault == SIGNAL_BEFORE || fault == SIGNAL_AFTER) {                                     \
            int number = errno;                                                                    \
            interrupt();                                                                           \
            errno = number;                                                                        \
        }                                                                                          \
        return result;                                                                             \
    } while (0)

#define OPENED(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT) ? "open to write" : "open to read")
#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                         \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode = va_arg(list, mode_t);                                                               \
        va_end(list);                                                                              \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    WHOLE(int, OPENED(flags), is_path(path), 1, flags & O_CREAT, REAL(open)(path, flags, mode), -1);
}
int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    WHOLE(int, OPENED(flags), is_path(path), 1, flags & O_CREAT, REAL(open64)(path, flags, mode), -1);
}
int openat(int at, const char *path, int flags, ...) {
    MODE_OF(flags)
    WHOLE(int, OPENED(flags), is_at(at, path), 1, flags & O_CREAT,
          REAL(openat)(at, path, flags, mode), -1);
}
int openat64(int at, const char *path, int flags, ...) {
    MODE_OF(flags)
    WHOLE(int, OPENED(flags), is_at(at, path), 1, flags & O_CREAT,
          REAL(openat64)(at, path, flags, mode), -1);
}
DIR *opendir(const char *path) {
    WHOLE(DIR *, "list", is_path(path), 0, 0, REAL(opendir)(path), NULL);
}
int mkdir(const char *path, mode_t mode) {
    WHOLE(int, "mkdir", is_path(path), 0, 1, REAL(mkdir)(path, mode), -1);
}
int rmdir(const char *path) { WHOLE(int, "rmdir", is_path(path), 0, 0, REAL(rmdir)(path), -1); }
int unlink(const char *path) { WHOLE(int, "unlink", is_path(path), 0, 0, REAL(unlink)(path), -1); }
int unlinkat(int at, const char *path, int flags) {
    WHOLE(int, "unlink", is_at(at, path), 0, 0, REAL(unlinkat)(at, path, flags), -1);
}
int rename(const char *from, const char *to) {
    WHOLE(int, "rename", is_path(to), 0, 0, REAL(rename)(from, to), -1);
}
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    WHOLE(int, "rename", is_at(to_at, to), 0, 0, REAL(renameat2)(from_at, from, to_at, to, flags), -1);
}
int link(const char *from, const char *to) {
    WHOLE(int, "link", is_path(to), 0, 1, REAL(link)(from, to), -1);
}
int ftruncate(int fd, off_t size) {
    WHOLE(int, "truncate", is_descriptor(fd), 1, 0, REAL(ftruncate)(fd, size), -1);
}
int ftruncate64(int fd, off64_t size) {
    WHOLE(int, "truncate", is_descriptor(fd), 1, 0, REAL(ftruncate64)(fd, size), -1);
}
int fsync(int fd) { WHOLE(int, "fsync", is_descriptor(fd), 1, 0, REAL(fsync)(fd), -1); }
int fdatasync(int fd) { WHOLE(int, "fsync", is_descriptor(fd), 1, 0, REAL(fdatasync)(fd), -1); }
int flock(int fd, int operation) {
    WHOLE(int, "lock", is_descriptor(fd), 0, 0, REAL(flock)(fd, operation), -1);
}
ssize_t read(int fd, void *to, size_t size) {
    WHOLE(ssize_t, "read", is_descriptor(fd), 1, 0, REAL(read)(fd, to, size), -1);
}
ssize_t pread(int fd, void *to, size_t size, off_t at) {
    WHOLE(ssize_t, "read", is_descriptor(fd), 1, 0, REAL(pread)(fd, to, size, at), -1);
}
ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
    WHOLE(ssize_t, "read", is_descriptor(fd), 1, 0, REAL(pread64)(fd, to, size, at), -1);
}

/* What was written is lost only now on some file systems; the descriptor is gone all the same. */
int close(int fd) {
    if (!is_descriptor(fd) || is_read_only(fd)) return REAL(close)(fd);
    enum fault fault = due("close");
    int result = REAL(close)(fd);
    if (fault == SIGNAL_BEFORE || fault == SIGNAL_AFTER) interrupt();
    return fault == IO_ERROR ? failed(EIO) : result;
}

/* A write, of which half may arrive. */
#define WRITE(type, name, is_point, whole, half, failure)                                          \
    do {                                                                                           \
        if (!(is_point)) return whole;                                                             \
        enum fault fault = due(name);                                                              \
        if (fault == IO_ERROR) { errno = EIO; return failure; }                                    \
        if (disk_is_full) { errno = ENOSPC; return failure; }                                      \
        if (fault == SIGNAL_BEFORE) { interrupt(); errno = EINTR; return failure; }                \
        if (fault == SHORT_WRITE) return half;                                                     \
        if (fault == TORN_KILL) { (void)!half; kill(getpid(), SIGKILL); }                          \
        type result = whole;                                                                       \
        if (fault == SIGNAL_AFTER) interrupt();                                                    \
        return result;                                                                             \
    } while (0)

ssize_t write(int fd, const void *from, size_t size) {
    WRITE(ssize_t, "write", is_descriptor(fd), REAL(write)(fd, from, size),
          REAL(write)(fd, from, (size + 1) / 2), -1);
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    WRITE(ssize_t, "write", is_descriptor(fd), REAL(pwrite)(fd, from, size, at),
          REAL(pwrite)(fd, from, (size + 1) / 2, at), -1);
}
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) {
    WRITE(ssize_t, "write", is_descriptor(fd), REAL(pwrite64)(fd, from, size, at),
          REAL(pwrite64)(fd, from, (size + 1) / 2, at), -1);
}
/* numpy writes arrays through a stream of the C library, whose own calls nobody can see */
size_t fwrite(const void *from, size_t size, size_t count, FILE *stream) {
    WRITE(size_t, "write to stream", is_descriptor(fileno(stream)), REAL(fwrite)(from, size, count, stream),
          REAL(fwrite)(from, size, count / 2, stream), 0);
}
