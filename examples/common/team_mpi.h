/* team_mpi.h - a fit by several processes: pu_team over MPI. Without -DPU_MPI there is one process.

       team_open(&argc, &argv);                  before options are read
       fit.team = team_of(total, PU_TEAM_DATA);  NULL: alone, without --parts
       data = team_data(data, fit.team);         this process's share of all data
       pu_fit(..)                                on every process
       if (team_rank() > 0) return team_close(); the first one tells what came out

   mpicc -O3 -march=native -DPU_MPI -I. examples/ratings.c -o ratings_mpi -lm;  mpirun -n 4 ./ratings_mpi --data ratings.csv

   MPI does not say that a process has gone. One that is not heard of for PU_TEAM_SECONDS (an environment variable, 300 if it is not
   set) is taken for gone: the fit ends with PU_E_TEAM on all others, at most that long after they have met the gap. It must be
   longer than what one process does between two messages: a gradient, a validation, the choice of K and I. mpirun and srun
   --kill-on-bad-exit end the others sooner.
   Include after program.h. */
#ifndef EXAMPLES_TEAM_MPI_H
#define EXAMPLES_TEAM_MPI_H

static pu_team team_here = {0, 1, 0, PU_TEAM_DATA, 1, NULL, NULL};
static double team_sent, team_messages; /* by this process */

#ifdef PU_MPI
#include <mpi.h>
#include <time.h>

static long team_parts_asked = 8; /* of the flag --parts */
static double team_patience = 300;
static int team_gone; /* a process did not answer: nothing is sent any more */

/* Sends and receives until both are done; between looks this process sleeps longer and longer, up to a tenth of a millisecond.
   0: the other one does not answer. */
static int team_mpi_wait(MPI_Request *both)
{
    const double began = MPI_Wtime();
    long looks = 0;
    int done = 0;
    for (;; looks++) {
        const struct timespec moment = {0, looks < 20000 ? 10000 : 100000};
        if (MPI_Testall(2, both, &done, MPI_STATUSES_IGNORE)) return 0;
        if (done) return 1;
        if (looks > 1000) nanosleep(&moment, NULL);
        if (looks % 100 == 0 && MPI_Wtime() - began > team_patience) return 0;
    }
}

static pu_status team_mpi_swap(void *user, int peer, const void *out, void *in, size_t bytes)
{
    MPI_Request both[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int i;
    (void)user;
    if (team_gone) return PU_E_TEAM;
    team_sent += (double)bytes, team_messages++;
    team_gone = MPI_Irecv(in, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &both[0]) ||
                MPI_Isend(out, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &both[1]) || !team_mpi_wait(both);
    /* nothing comes into memory that is given back */
    for (i = 0; i < 2 && team_gone; i++)
        if (both[i] != MPI_REQUEST_NULL) MPI_Cancel(&both[i]), MPI_Request_free(&both[i]);
    return team_gone ? PU_E_TEAM : PU_OK;
}

static inline void team_open(int *argc, char ***argv)
{
    const char *patience = getenv("PU_TEAM_SECONDS");
    int threads;
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &threads)) fail(1, "MPI_Init_thread", "failed");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &team_here.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &team_here.ranks);
    team_here.swap = team_mpi_swap;
    if (patience && atof(patience) > 0) team_patience = atof(patience);
}

/* Returns 0 for main. MPI_Finalize would wait for one that has gone. */
static inline int team_close(void)
{
    if (!team_gone) MPI_Finalize();
    return team_gone;
}

#else

static long team_parts_asked = 0;

static inline void team_open(int *argc, char ***argv) { (void)argc, (void)argv; }
static inline int team_close(void) { return 0; }

#endif

static inline const pu_team *team_of(pu_int total, pu_team_split split)
{
    team_here.total = total, team_here.split = split, team_here.parts = (pu_int)team_parts_asked;
    return team_parts_asked ? &team_here : NULL;
}

static inline int team_rank(void) { return team_here.rank; }
static inline int team_ranks(void) { return team_here.ranks; }

/* The flag that the bits depend on. */
static inline option team_option(void)
{
    return opt_number("parts", "of a step, shared out among processes (MPI); other parts, other bits; 0 = none, without MPI",
                      &team_parts_asked, team_parts_asked > 0, 65536);
}

/* After options are read: the other processes say nothing but what goes wrong, with their number, and write nothing. */
static inline void team_quiet(int *quiet, const char **report)
{
    static char name[80];
    if (team_rank() == 0) return;
    *quiet = 1, *report = NULL;
    snprintf(name, sizeof name, "%s, process %d of %d", program_name, team_rank(), team_ranks());
    program_name = name;
}

/* The share of all data that the team's parts of this process have. */
static inline pu_data team_data(pu_data all, const pu_team *team)
{
    pu_int first = 0, count = all.n, width = all.ldy ? all.ldy : all.m;
    if (!team || pu_team_share(team, &first, &count)) return all;
    if (all.kind == PU_DATA_LISTS) all.start += first;
    else all.y += first * width;
    if (all.mask) all.mask += first * width;
    if (all.id) all.id += first;
    all.n = count;
    return all;
}

/* A number of the bits of theta, the same for the same bits (FNV). */
static inline uint64_t team_hash(pu_int n, const pu_real *theta)
{
    const unsigned char *byte = (const unsigned char *)theta;
    uint64_t h = 14695981039346656037u;
    size_t i;
    for (i = 0; i < (size_t)n * sizeof *theta; i++) h = (h ^ byte[i]) * 1099511628211u;
    return h;
}

/* "theta_hash" and "ranks"; what the first process sent, and in how many messages. */
static inline void team_json(json *j, pu_int n, const pu_real *theta)
{
    json_key(j, "theta_hash");
    if (j->file) fprintf(j->file, "\"%016llx\"", (unsigned long long)team_hash(n, theta));
    json_number(j, "ranks", (double)team_ranks());
    json_number(j, "sent_bytes", team_sent);
    json_number(j, "messages", team_messages);
}

#endif
