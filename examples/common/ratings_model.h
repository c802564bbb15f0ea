/* ratings_model.h - a model of ratings that outlives its process: the items that its rows are, kept as notes beside theta, and
   predictions of pairs of users and items.

       notes = ratings_notes(&r, fingerprint, step, steps);      pu_model_save(&model, theta, notes, file, &report);
       ratings_model_read(file, &model, &saved);                 the model and theta of a file, and whose items its rows are
       ratings_pairs_read(file, &pairs);                         user,item or user,item,rating ..

   The notes:

       ratings 1
       from 0.5 to 5
       training data 1a2b3c4d, step 200 of 200
       items: 1 2 3 5 ..          their numbers, increasing: row 0, 1, ..

   Include after ratings.h. */
#ifndef EXAMPLES_RATINGS_MODEL_H
#define EXAMPLES_RATINGS_MODEL_H

/* What a saved model is of. */
typedef struct {
    pu_real *theta;
    pu_int items, factors;
    int64_t *item_id; /* items, increasing */
    double low, high; /* smallest and largest rating */
    unsigned long data; /* fingerprint of its training ratings */
} ratings_model;

static inline char *ratings_notes(const ratings *r, uint32_t data, long step, long steps)
{
    const size_t room = 200 + 21 * (size_t)r->items;
    char *text = (char *)need_bytes(room);
    size_t used;
    pu_int i;
    used = (size_t)snprintf(text, room, "ratings 1\nfrom %.9g to %.9g\ntraining data %08lx, step %ld of %ld\nitems:", r->all.low,
                            r->all.high, (unsigned long)data, step, steps);
    for (i = 0; i < r->items; i++)
        used += (size_t)snprintf(text + used, room - used, " %lld", (long long)r->all.item_id[i]);
    return text;
}

/* The notes of a file; 0: they are not those of ratings. */
static inline int ratings_notes_parse(const char *text, ratings_model *m)
{
    const char *at = strstr(text, "\nitems:");
    long step, steps;
    pu_int i;
    if (sscanf(text, "ratings 1 from %lf to %lf training data %lx, step %ld of %ld", &m->low, &m->high, &m->data, &step, &steps) != 5 ||
        !at || !(m->low <= m->high))
        return 0;
    for (at += strlen("\nitems:"), i = 0; i < m->items; i++) {
        char *end;
        if (at[0] != ' ' || at[1] < '0' || at[1] > '9') return 0;
        m->item_id[i] = strtoll(at, &end, 10);
        if (i > 0 && m->item_id[i] <= m->item_id[i - 1]) return 0;
        at = end;
    }
    return *at == 0;
}

/* Ends the program where the file is not a model of ratings. */
static inline void ratings_model_read(const char *file, pu_model *model, ratings_model *m)
{
    pu_saved about;
    pu_report report;
    char *notes, text[700];
    if (pu_model_saved(file, &about, &report)) fail(1, file, pu_explain(&report, text, sizeof text));
    if (strcmp(about.name, "factor analysis") != 0 || about.rows < 1 || about.latent < 1)
        fail(1, file, "is a saved model, but not one of ratings (factor analysis)");
    memset(m, 0, sizeof *m);
    m->items = about.rows, m->factors = about.latent;
    need(pu_model_factors(model, m->items, m->factors, &report), &report);
    m->theta = need_reals(model->params), notes = (char *)need_bytes(about.notes);
    m->item_id = (int64_t *)need_bytes((size_t)m->items * sizeof *m->item_id);
    if (pu_model_load(model, file, m->theta, notes, about.notes, &report)) {
        pu_explain(&report, text, sizeof text);
        if (report.status != PU_INEXACT) fail(1, file, text);
        fprintf(stderr, "%s: %s: %s\n", program_name, file, text);
    }
    if (!ratings_notes_parse(notes, m)) fail(1, file, "is factor analysis, but has no notes of items: not written by --save");
    need(pu_model_set(model, m->theta, &report), &report);
    free(notes);
}

/* ---- pairs to predict ---- */

typedef struct {
    int64_t user, item;
    double rating;   /* NAN: none is given */
    double mean, sd, sd_rating; /* the prediction: expected rating, its standard deviation, that of a rating. NAN: item not known */
    long place;      /* in the file */
} ratings_pair;

typedef struct {
    long count, rated, unknown; /* lines; those with a rating; those whose item the model does not know */
    ratings_pair *pair;
} ratings_pairs;

/* One line of "user item [rating ..]" with separators ::, tab or comma; what is wrong with it, or NULL. */
static inline const char *ratings_pair_line(const char *at, ratings_pair *p)
{
    int64_t *const number[2] = {&p->user, &p->item};
    char *end;
    int i;
    p->rating = (double)NAN;
    for (i = 0; i < 2; i++) {
        if (*at < '0' || *at > '9') return "it does not begin with a user and an item, which are numbers";
        errno = 0;
        *number[i] = strtoll(at, &end, 10);
        if (errno) return "a number is too large";
        at = end + (strncmp(end, "::", 2) == 0 ? 2 : *end == '\t' || *end == ',' ? 1 : 0);
        if (at == end && *at) return "the fields are not separated by ::, tabs or commas";
        if (at == end && i == 0) return "there is a user without an item";
    }
    if (!*at) return NULL;
    p->rating = strtod(at, &end);
    if (end == at || !(p->rating >= 0 && p->rating <= 1000) || (*end && *end != ',' && *end != '\t' && *end != ':'))
        return "the rating is not a number from 0 to 1000";
    return NULL;
}

/* Ends the program where the file is not one of pairs. A first line that does not begin with a digit is a header. */
static inline void ratings_pairs_read(const char *path, ratings_pairs *all)
{
    FILE *file = fopen(path, "r");
    long line = 0, room = 0;
    char text[300], why[400];
    memset(all, 0, sizeof *all);
    if (!file) fail_errno("cannot read", path);
    while (fgets(text, sizeof text, file)) {
        const char *wrong = strlen(text) + 1 == sizeof text ? "the line is too long" : NULL;
        text[strcspn(text, "\r\n")] = 0;
        if (line++ == 0 && (text[0] < '0' || text[0] > '9') && text[0]) continue;
        if (all->count == room) {
            room = 2 * room + 1000;
            all->pair = (ratings_pair *)realloc(all->pair, (size_t)room * sizeof *all->pair);
            if (!all->pair) fail(1, "memory", "there is not enough");
        }
        if (!wrong) wrong = ratings_pair_line(text, &all->pair[all->count]);
        if (wrong) {
            snprintf(why, sizeof why, "line %ld: %s", line, wrong);
            fail(1, path, why);
        }
        all->rated += all->pair[all->count].rating >= 0;
        all->pair[all->count].place = all->count;
        all->count++;
    }
    if (ferror(file)) fail_errno("cannot read", path);
    fclose(file);
    if (all->count == 0) fail(1, path, "there is no pair of a user and an item in it");
}

static inline int ratings_pair_by_user(const void *a, const void *b)
{
    const ratings_pair *p = (const ratings_pair *)a, *q = (const ratings_pair *)b;
    if (p->user != q->user) return p->user < q->user ? -1 : 1;
    return p->place < q->place ? -1 : p->place > q->place;
}

static inline int ratings_pair_by_place(const void *a, const void *b)
{
    const ratings_pair *p = (const ratings_pair *)a, *q = (const ratings_pair *)b;
    return p->place < q->place ? -1 : p->place > q->place;
}

/* Ratings of one user that are known, by rows of the model. */
typedef struct {
    pu_int count, *item;
    pu_real *y;
} ratings_known;

/* Predictions of `count` pairs of one user given what is known of that user, from a model of nothing but the rows that take part:
   first those that are known, then those that are asked for. row: of each pair, or -1. Exact, whatever the number of rows. */
static inline void ratings_predict(const pu_lgm *lgm, const ratings_known *known, const pu_options *options, pu_workspace *ws,
                                   long count, const pu_int *row, ratings_pair *pair)
{
    const pu_int D = lgm->Phi->cols, before = known->count, M = before + (pu_int)count;
    const pu_real *all = (const pu_real *)lgm->Phi->data;
    pu_real *Phi = need_reals(M * D), *eta = need_reals(M), *psi = need_reals(M), *out = need_reals(3 * M);
    pu_int start[2] = {0, 0}, *index = (pu_int *)need_bytes(((size_t)before + 1) * sizeof *index), i;
    pu_op map = pu_op_dense(M, D, Phi);
    pu_lgm part = *lgm;
    pu_predict_result p;
    pu_report report;
    pu_data one;
    for (i = 0; i < M; i++) {
        const pu_int from = i < before ? known->item[i] : row[i - before] < 0 ? 0 : row[i - before];
        memcpy(Phi + i * D, all + from * D, (size_t)D * sizeof *Phi);
        eta[i] = lgm->eta[from], psi[i] = lgm->psi[from];
        if (i < before) index[i] = i;
    }
    start[1] = before;
    one = pu_data_lists(1, M, start, index, known->y);
    part.Phi = &map, part.eta = eta, part.psi = psi;
    memset(&p, 0, sizeof p);
    p.mean = out, p.fit = out + M, p.variance = out + 2 * M;
    need(pu_predict(&part, &one, options, ws, &p, &report), &report);
    for (i = before; i < M; i++) {
        ratings_pair *to = &pair[i - before];
        to->mean = to->sd = to->sd_rating = (double)NAN;
        if (row[i - before] < 0) continue;
        to->mean = (double)p.mean[i], to->sd = sqrt((double)p.fit[i]), to->sd_rating = sqrt((double)p.variance[i]);
    }
    free(Phi), free(eta), free(psi), free(out), free(index);
}

#endif /* EXAMPLES_RATINGS_MODEL_H */
