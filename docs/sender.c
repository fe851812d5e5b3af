/* Sends readings to a triggerlog daemon over TCP and waits until they are committed. Wire protocol v1.
 * cc -std=c99 -Wall -Wextra -Werror -o sender sender.c && ./sender 127.0.0.1 8122 bpm 1000
 * POSIX, little-endian. */
#define _POSIX_C_SOURCE 200809L
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
struct reading { /* the daemon's answer must describe just this */
    int64_t trigger, time_ns;
    uint32_t instrument, epoch;
    double top_in, bot_in, bot_out, top_out;
};
static const char FIELDS[] = " fields=trigger:i8@0,time_ns:i8@8,instrument:u4@16,epoch:u4@20,"
                             "top_in:f8@24,bot_in:f8@32,bot_out:f8@40,top_out:f8@48\n";
static uint64_t done, refused;

static void fail(const char *what) { fprintf(stderr, "sender: %s\n", what); exit(1); }

static int dial(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list, *a;
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &list)) fail("cannot resolve the host");
    for (a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) { close(fd); fd = -1; }
    }
    freeaddrinfo(list);
    if (fd < 0) fail("cannot connect; is the daemon running?");
    return fd;
}

static void send_all(int fd, const void *data, size_t left) {
    for (const char *at = data; left > 0;) {
        ssize_t n = send(fd, at, left, MSG_NOSIGNAL);
        if (n <= 0) fail("lost the connection; connect again and send what is not acknowledged");
        at += n, left -= (size_t)n;
    }
}

static void read_line(int fd, char *line, size_t size) { /* byte by byte: acknowledgements may follow at once */
    for (size_t n = 0; n + 1 < size; n++) {
        if (read(fd, line + n, 1) != 1) fail("the daemon closed without an answer");
        line[n + 1] = 0;
        if (line[n] == '\n') return;
    }
    fail("the answer is too long");
}

static uint64_t number(const uint8_t *byte) { /* little-endian, on any machine */
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | byte[i];
    return value;
}

static int read_acknowledgements(int fd) { /* 0 when the daemon has closed */
    static uint8_t frame[16];
    static size_t have; /* a frame may come in pieces */
    ssize_t n = read(fd, frame + have, sizeof frame - have);
    if (n <= 0) return 0;
    have += (size_t)n;
    if (have == sizeof frame) done = number(frame), refused = number(frame + 8), have = 0;
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 5) fail("usage: sender HOST PORT GROUP TRIGGERS");
    char line[16384];
    int fd = dial(argv[1], argv[2]);
    snprintf(line, sizeof line, "TRIGGERLOG/1 group=%s sender=example-in-c ack=committed\n", argv[3]);
    send_all(fd, line, strlen(line));
    read_line(fd, line, sizeof line);
    if (strncmp(line, "OK ", 3)) fail(line); /* ERROR <code> <what to do> */
    const char *fields = strstr(line, " fields="), *instruments = strstr(line, " instruments=");
    if (!fields || !instruments || strcmp(fields, FIELDS)) fail("the group has other channels than struct reading");
    uint32_t count = (uint32_t)strtoul(instruments + 13, NULL, 10);
    struct reading *block = calloc(count, sizeof *block);
    if (!block || sizeof *block != 56) fail("no memory, or a compiler that pads differently");
    long triggers = strtol(argv[4], NULL, 10);
    for (long trigger = 1; trigger <= triggers; trigger++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t time_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
        for (uint32_t i = 0; i < count; i++)
            block[i] = (struct reading){trigger, time_ns, i, 0, 0.1 * i, 1, 2, 3};
        send_all(fd, block, count * sizeof *block);
        for (struct pollfd in = {fd, POLLIN, 0}; poll(&in, 1, 0) > 0 && read_acknowledgements(fd);) {}
    }
    shutdown(fd, SHUT_WR); /* nothing more to send: the daemon closes when all is acknowledged */
    while (read_acknowledgements(fd)) {}
    printf("sent %llu acknowledged %llu refused %llu\n", (unsigned long long)triggers * count,
           (unsigned long long)done, (unsigned long long)refused);
    return done == (uint64_t)triggers * count ? 0 : 1;
}
