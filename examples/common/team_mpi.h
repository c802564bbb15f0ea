/* team_mpi.h - a fit by several processes: pu_team over MPI. Without -DPU_MPI there is one process, and all of this does nothing.

       team_open(&argc, &argv);                  before options are read
       fit.team = team_of(total, PU_TEAM_DATA);  NULL: alone
       data = team_data(data);                   this process's share of all data
       pu_fit(..)                                on every process
       if (team_rank() > 0) return team_close(); the first one tells what came out

   mpicc -O3 -march=native -DPU_MPI -I. examples/ratings.c -o ratings_mpi -lm;  mpirun -n 4 ./ratings_mpi --data ratings.csv

   A process that is not heard of for PU_TEAM_SECONDS (an environment variable, 300 if it is not set) is taken for gone: the fit
   ends with PU_E_TEAM on all others. It must be longer than the longest gradient of one process takes.
   Include after program.h. */
#ifndef EXAMPLES_TEAM_MPI_H
#define EXAMPLES_TEAM_MPI_H

static long team_parts_asked = 8; /* of the flag --parts */

#ifdef PU_MPI
#include <mpi.h>
#include <time.h>

static pu_team team_here;
static double team_patience = 300;

/* Sends and receives until both are done; between looks this process sleeps longer and longer, up to a tenth of a millisecond. */
static pu_status team_mpi_swap(void *user, int peer, const void *out, void *in, size_t bytes)
{
    const double began = MPI_Wtime();
    MPI_Request both[2];
    long looks = 0;
    int done = 0;
    (void)user;
    if (MPI_Irecv(in, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &both[0])) return PU_E_TEAM;
    if (MPI_Isend(out, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &both[1])) return PU_E_TEAM;
    for (;; looks++) {
        const struct timespec moment = {0, looks < 20000 ? 10000 : 100000};
        if (MPI_Testall(2, both, &done, MPI_STATUSES_IGNORE)) return PU_E_TEAM;
        if (done) return PU_OK;
        if (looks > 1000) nanosleep(&moment, NULL);
        if (looks % 100 == 0 && MPI_Wtime() - began > team_patience) return PU_E_TEAM;
    }
}

static inline void team_open(int *argc, char ***argv)
{
    const char *patience = getenv("PU_TEAM_SECONDS");
    if (MPI_Init(argc, argv)) fail(1, "MPI_Init", "failed");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &team_here.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &team_here.ranks);
    team_here.swap = team_mpi_swap;
    if (patience && atof(patience) > 0) team_patience = atof(patience);
}

static inline const pu_team *team_of(pu_int total, pu_team_split split)
{
    team_here.total = total, team_here.split = split, team_here.parts = (pu_int)team_parts_asked;
    return &team_here;
}

static inline int team_rank(void) { return team_here.rank; }
static inline int team_ranks(void) { return team_here.ranks; }

/* Returns 0 for main. */
static inline int team_close(void)
{
    MPI_Finalize();
    return 0;
}

#else

static inline void team_open(int *argc, char ***argv) { (void)argc, (void)argv; }
static inline const pu_team *team_of(pu_int total, pu_team_split split)
{
    (void)total, (void)split;
    return NULL;
}
static inline int team_rank(void) { return 0; }
static inline int team_ranks(void) { return 1; }
static inline int team_close(void) { return 0; }

#endif

/* The flag that the bits depend on; the other processes say nothing and write nothing. */
static inline option team_option(void)
{
    return opt_number("parts", "of a step, shared out among processes (MPI); other parts, other bits", &team_parts_asked, 1, 65536);
}

static inline void team_quiet(int *quiet, const char **report)
{
    if (team_rank() > 0) *quiet = 1, *report = NULL;
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

/* "theta_hash" and "ranks". */
static inline void team_json(json *j, pu_int n, const pu_real *theta)
{
    json_key(j, "theta_hash");
    if (j->file) fprintf(j->file, "\"%016llx\"", (unsigned long long)team_hash(n, theta));
    json_number(j, "ranks", (double)team_ranks());
}

#endif
