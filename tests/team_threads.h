/* team_threads.h - a pu_team whose processes are threads: for tests of the logic where no MPI is. Needs _POSIX_C_SOURCE. */
#ifndef TEAM_THREADS_H
#define TEAM_THREADS_H
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { TEAM_MOST = 12 };

/* A letter from one thread to another lies where its sender put it until the other has copied it. */
typedef struct {
    const void *letter[TEAM_MOST][TEAM_MOST];
    size_t bytes[TEAM_MOST][TEAM_MOST];
    int gone[TEAM_MOST];
    int wait_seconds;     /* for one that has not come */
    double sent;          /* bytes */
    size_t longest;       /* of a letter */
    pthread_mutex_t lock;
    pthread_cond_t change[TEAM_MOST]; /* something that this one waits for */
} team_office;

typedef struct {
    team_office *office;
    int rank;
    long swaps, leave_at; /* this one goes away before that swap; 0 = never */
} team_seat;

static void team_office_open(team_office *office)
{
    memset(office, 0, sizeof *office);
    office->wait_seconds = 20;
    pthread_mutex_init(&office->lock, NULL);
    for (int r = 0; r < TEAM_MOST; r++) pthread_cond_init(&office->change[r], NULL);
}

/* Waits for a change; 0: for too long, or the peer has gone. */
static int team_wait(team_office *office, int me, int peer, const struct timespec *limit)
{
    return !office->gone[peer] && !pthread_cond_timedwait(&office->change[me], &office->lock, limit);
}

/* This one does not answer any more: whoever waits for it need not. The office is locked. */
static void team_leave(team_office *office, int me)
{
    office->gone[me] = 1;
    for (int r = 0; r < TEAM_MOST; r++) pthread_cond_signal(&office->change[r]);
}

static pu_status team_threads_swap(void *user, int peer, const void *out, void *in, size_t bytes)
{
    team_seat *seat = (team_seat *)user;
    team_office *office = seat->office;
    int me = seat->rank, ok = 1;
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += office->wait_seconds;
    pthread_mutex_lock(&office->lock);
    if (seat->leave_at && ++seat->swaps >= seat->leave_at) ok = 0;
    if (ok) {
        office->letter[me][peer] = out;
        office->bytes[me][peer] = bytes;
        office->sent += (double)bytes;
        if (bytes > office->longest) office->longest = bytes;
        pthread_cond_signal(&office->change[peer]);
    }
    while (ok && !office->letter[peer][me]) ok = team_wait(office, me, peer, &limit);
    if (ok && office->bytes[peer][me] != bytes) ok = 0;
    if (ok) {
        memcpy(in, office->letter[peer][me], bytes);
        office->letter[peer][me] = NULL;
        pthread_cond_signal(&office->change[peer]);
    }
    while (ok && office->letter[me][peer]) ok = team_wait(office, me, peer, &limit);
    office->letter[me][peer] = NULL;
    if (!ok) team_leave(office, me);
    pthread_mutex_unlock(&office->lock);
    return ok ? PU_OK : PU_E_TEAM;
}

/* Runs work(seat) on `ranks` threads; seats[r] are filled in but for leave_at. */
static int team_run(team_office *office, team_seat *seats, int ranks, void *(*work)(void *), char *jobs, size_t each)
{
    pthread_t thread[TEAM_MOST];
    int ok = 1;
    for (int r = 0; r < ranks; r++) {
        seats[r].office = office;
        seats[r].rank = r;
    }
    for (int r = 0; r < ranks; r++) ok &= !pthread_create(&thread[r], NULL, work, jobs + (size_t)r * each);
    for (int r = 0; r < ranks; r++) ok &= !pthread_join(thread[r], NULL);
    return ok;
}

#endif
