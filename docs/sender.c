/* Sends readings to a triggerlog daemon over TCP, in a session: whatever is cut off, each is stored once.
 * cc -std=c99 -Wall -Wextra -Werror -o sender sender.c && ./sender 127.0.0.1 8122 bpm 1000 17
 * Wire protocol v1; POSIX, little-endian. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
struct reading { /* the daemon's answer must describe just this */
    int64_t trigger, time_ns;
    uint32_t instrument, epoch;
    double top_in, bot_in, bot_out, top_out;
};
static const char FIELDS[] = " fields=trigger:i8@0,time_ns:i8@8,instrument:u4@16,epoch:u4@20,"
                             "top_in:f8@24,bot_in:f8@32,bot_out:f8@40,top_out:f8@48\n";
#define KEPT 65536                        /* readings that may wait for their acknowledgement, as in an outage */
static struct reading kept[KEPT];         /* reading n of the session is at n % KEPT */
static uint64_t session, made, done;      /* its number; its readings: taken, and acknowledged */
static uint64_t written;                  /* bytes of the session given to this connection, or to one before it */
static uint64_t refused, refused_before;  /* readings refused on this connection, and on those before */
static unsigned long instruments;
static uint8_t frame[16]; /* an acknowledgement, which may come in pieces */
static size_t have;
static int fd = -1;

static void fail(const char *what) { fprintf(stderr, "sender: %s\n", what); exit(1); }

static int hang_up(void) {
    if (fd >= 0) close(fd);
    fd = -1, have = 0, refused_before += refused, refused = 0;
    return 0;
}

static void set(int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

static void notice_vanishing(void) { /* the daemon's host says no goodbye when it loses power: 30 s */
#ifdef TCP_KEEPIDLE
    set(IPPROTO_TCP, TCP_KEEPIDLE, 15), set(IPPROTO_TCP, TCP_KEEPINTVL, 5), set(IPPROTO_TCP, TCP_KEEPCNT, 3);
#endif
#ifdef TCP_USER_TIMEOUT
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30000); /* ms; the kernel sends no probes while data is under way */
#endif
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

static int dial(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list, *a;
    struct timeval patience = {5, 0}; /* for the answer */
    if (getaddrinfo(host, port, &hints, &list)) return 0;
    for (a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0) notice_vanishing();
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) hang_up();
    }
    freeaddrinfo(list);
    return fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static int read_line(char *line, size_t size) { /* byte by byte: acknowledgements may follow at once */
    for (size_t n = 0; n + 1 < size; n++) {
        if (read(fd, line + n, 1) != 1) return 0;
        line[n + 1] = 0;
        if (line[n] == '\n') return 1;
    }
    return 0;
}

static int join_session(char **argv) { /* 0 when it may be tried again */
    char line[16384];
    int n = snprintf(line, sizeof line, "TRIGGERLOG/1 group=%s sender=example-in-c ack=committed", argv[3]);
    n += snprintf(line + n, sizeof line - (size_t)n, " session=%llu first=%llu next=%llu\n",
                  (unsigned long long)session, (unsigned long long)done, (unsigned long long)made);
    if (!dial(argv[1], argv[2]) || send(fd, line, (size_t)n, MSG_NOSIGNAL) != n || !read_line(line, sizeof line) ||
        !strncmp(line, "ERROR timeout ", 14) || !strncmp(line, "ERROR stopping ", 15) ||
        !strncmp(line, "ERROR too-many-connections ", 27) ||
        !strncmp(line, "ERROR configuration ", 20)) return hang_up();
    if (strncmp(line, "OK ", 3)) fail(line); /* ERROR <code> <what to do> */
    const char *fields = strstr(line, " fields="), *count = strstr(line, " instruments=");
    const char *resume = strstr(line, " resume=");
    if (!fields || strcmp(fields, FIELDS)) fail("the group has other channels than struct reading");
    if (!count || !resume) fail("the daemon is older than sessions");
    instruments = strtoul(count + 13, NULL, 10);
    uint64_t next = strtoull(resume + 8, NULL, 10);
    if (next < done || next > made) fail("the daemon goes on with a reading that is not kept");
    written = next * sizeof *kept;
    return 1;
}

static uint64_t number(const uint8_t *byte) { /* little-endian, on any machine */
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | byte[i];
    return value;
}

static int read_acknowledgements(void) {
    ssize_t n = read(fd, frame + have, sizeof frame - have);
    if (n <= 0) return hang_up();
    have += (size_t)n;
    if (have < sizeof frame) return 1;
    if (number(frame) < done || number(frame) > written / sizeof *kept)
        fail("the daemon acknowledges fewer readings than before, or more than were sent to it");
    done = number(frame), refused = number(frame + 8), have = 0;
    return 1;
}

static void exchange(char **argv, int wait_ms) { /* send what is ready, read acknowledgements; connect again for that */
    for (long ms = 50; fd < 0 && !join_session(argv); ms = ms < 500 ? 2 * ms : 1000)
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    uint64_t end = made * sizeof *kept;
    struct pollfd on = {fd, written < end ? POLLIN | POLLOUT : POLLIN, 0};
    if (poll(&on, 1, wait_ms) <= 0) return;
    if (on.revents & ~POLLOUT && !read_acknowledgements()) return;
    if (on.revents & POLLOUT) {
        size_t at = written % sizeof kept, left = end - written < sizeof kept - at ? end - written : sizeof kept - at;
        ssize_t n = send(fd, (char *)kept + at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) written += (uint64_t)n;
        else if (errno != EAGAIN && errno != EINTR) hang_up();
    }
}

int main(int argc, char **argv) {
    if (argc != 6) fail("usage: sender HOST PORT GROUP TRIGGERS EPOCH");
    FILE *random = fopen("/dev/urandom", "rb");
    if (!random || fread(&session, sizeof session, 1, random) != 1) fail("cannot read /dev/urandom");
    fclose(random), session >>= 1; /* 63 bits */
    if (sizeof *kept != 56) fail("this compiler pads differently");
    if (!join_session(argv)) fail("cannot connect; is the daemon running?");
    long triggers = strtol(argv[4], NULL, 10);
    uint32_t epoch = (uint32_t)strtoul(argv[5], NULL, 10); /* how often the timing system was restarted */
    for (long trigger = 1; trigger <= triggers; trigger++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t time_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
        for (uint32_t i = 0; i < instruments; i++) {
            while (made - done == KEPT) exchange(argv, -1);
            kept[made++ % KEPT] = (struct reading){trigger, time_ns, i, epoch, 0.1 * i, 1, 2, 3};
        }
        exchange(argv, 0);
    }
    while (done < made) exchange(argv, -1);
    send(fd, "goodbye\n", 8, MSG_NOSIGNAL); /* all is acknowledged; where this is lost, the session is forgotten later */
    close(fd);
    printf("sent %llu acknowledged %llu refused %llu\n", (unsigned long long)made, (unsigned long long)done,
           (unsigned long long)(refused_before + refused));
    return 0;
}
