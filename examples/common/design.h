/* design.h - rows for mixed effects, from a file or simulated: response, groups of levels, slopes, regressors.

       design d;
       design_default(&d);
       count += design_flags_table(&d, list + count);      --data --response --groups .. --simulate-write
       options_read(..);
       design_make(&d, seed);                              ends the program, with line and column, where a file is wrong
       .. pu_model_effects(&model, d.rows, d.groups, d.group, d.p, d.X, ..), d.y ..
       design_free(&d);

   Rows behind d.rows, up to d.all, are those of --predict: their levels are numbered on, so that d.known[g] levels are the
   data's. Include after program.h, csv.h, table.h. */
#ifndef EXAMPLES_DESIGN_H
#define EXAMPLES_DESIGN_H

enum { DESIGN_FLAGS = 15, DESIGN_GROUPS = 26, DESIGN_FIXED = 200, DESIGN_COLUMNS = DESIGN_GROUPS + DESIGN_FIXED + 1,
       DESIGN_NAME = TABLE_SPEC + CSV_NAME };

/* A regressor: the intercept (column -1), a column of numbers, or one level of a factor. */
typedef struct {
    char name[DESIGN_NAME];
    int column;
    int32_t level; /* -1: numbers */
} design_term;

typedef struct {
    /* flags */
    const char *data, *response, *group_list, *fixed_list, *slope_list, *predict, *level_list, *save;
    int separator, no_header, no_intercept, write_only;
    long sim_rows, sim_fixed;
    /* what the file is asked for; `words` has the texts */
    table t;
    table_column column[DESIGN_COLUMNS];
    char words[DESIGN_COLUMNS][TABLE_SPEC];
    int columns;
    /* the design */
    pu_int rows, all; /* of the data; with those to predict */
    pu_int groups, p;
    pu_group group[DESIGN_GROUPS];
    char name[DESIGN_GROUPS][DESIGN_NAME];
    int of[DESIGN_GROUPS], slope[DESIGN_GROUPS]; /* columns; slope -1: none */
    pu_int known[DESIGN_GROUPS];                 /* levels of the data */
    design_term *term;                           /* p */
    pu_real *X, *y;                              /* all x p, all; y is NaN in rows to predict */
    pu_real *hidden;                             /* all - rows: what --predict has of the response, NaN = nothing */
    double truth[DESIGN_GROUPS + 1];             /* simulated: variances, the last of the noise */
    double coefficient[DESIGN_FIXED];            /* simulated: b */
} design;

static inline void design_default(design *d)
{
    memset(d, 0, sizeof *d);
    d->sim_rows = 20000, d->sim_fixed = 1, d->level_list = "1000,100";
}

static inline int design_flags_table(design *d, option *list)
{
    int n = 0;
    list[n++] = opt_heading("the table");
    list[n++] = opt_text("data", "table, a row a line; first line names, or none; empty, NA, NaN = missing", &d->data);
    list[n++] = opt_text("response", "its column to explain: a name, or a number from 1", &d->response);
    list[n++] = opt_text("groups", "columns of levels, any text, with commas between; a:b = combinations of both", &d->group_list);
    list[n++] = opt_text("fixed", "regressors: columns of numbers, factor(COLUMN) for names", &d->fixed_list);
    list[n++] = opt_text("slopes", "random slopes GROUP:COLUMN, with commas between", &d->slope_list);
    list[n++] = opt_flag("no-intercept", "without an intercept", &d->no_intercept);
    list[n++] = opt_choice("separator", "of cells", &d->separator, "found,comma,semicolon,tab,colons");
    list[n++] = opt_flag("no-header", "the first line is data, whatever is in it", &d->no_header);
    list[n++] = opt_text("predict", "table of rows to predict, same columns, the response may lack", &d->predict);
    list[n++] = opt_number("simulate-rows", "without --data: rows", &d->sim_rows, 1, 2000000000);
    list[n++] = opt_text("simulate-levels", "without --data: levels of each group", &d->level_list);
    list[n++] = opt_number("simulate-fixed", "without --data: regressors beside the intercept", &d->sim_fixed, 0, 50);
    list[n++] = opt_text("simulate-write", "without --data: write the rows to this CSV file", &d->save);
    list[n++] = opt_flag("write-only", "and no more", &d->write_only);
    return n;
}

/* ---- what the file is asked for ---- */

/* The column of this kind called word[0 .. length - 1]; a new one where there is none. */
static inline int design_column(design *d, const char *word, size_t length, int kind)
{
    int i;
    if (length == 0 || length >= TABLE_SPEC) fail(2, word, "columns are names or numbers with commas between; see --help");
    for (i = 0; i < d->columns; i++)
        if (d->column[i].kind == kind && strlen(d->words[i]) == length && !strncmp(d->words[i], word, length)) return i;
    if (d->columns == DESIGN_COLUMNS) fail(2, word, "there are too many columns");
    memcpy(d->words[i], word, length);
    d->column[i] = table_want(d->words[i], kind);
    return d->columns++;
}

static inline void design_group_add(design *d, int of, int slope)
{
    const int g = (int)d->groups++;
    int i;
    if (g == DESIGN_GROUPS) fail(2, "--groups", "there are too many");
    for (i = 0; i < g; i++)
        if (d->of[i] == of && d->slope[i] == slope) fail(2, d->words[of], slope < 0 ? "is twice in --groups" : "has this slope twice");
    d->of[g] = of, d->slope[g] = slope;
}

static inline void design_term_add(design *d, int column, int32_t level)
{
    if (d->p == DESIGN_FIXED) fail(2, "--fixed", "there are more than 200 coefficients; a column of so many names is a group");
    d->term[d->p].column = column, d->term[d->p++].level = level;
}

/* All columns that the command line names. Factors get their terms once their levels are known: level -2 until then. */
static inline void design_ask(design *d)
{
    const char *at;
    design_column(d, d->response, strlen(d->response), TABLE_NUMBER);
    for (at = d->group_list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        design_group_add(d, design_column(d, at, strcspn(at, ","), TABLE_LEVEL), -1);
    for (at = d->slope_list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t length = strcspn(at, ",");
        size_t colon = length;
        while (colon > 0 && at[colon - 1] != ':') colon--;
        if (colon == 0) fail(2, "--slopes", "is GROUP:COLUMN, with commas between");
        design_group_add(d, design_column(d, at, colon - 1, TABLE_LEVEL), design_column(d, at + colon, length - colon, TABLE_NUMBER));
    }
    if (!d->no_intercept) design_term_add(d, -1, -1);
    for (at = d->fixed_list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t length = strcspn(at, ",");
        if (length > 8 && !strncmp(at, "factor(", 7) && at[length - 1] == ')')
            design_term_add(d, design_column(d, at + 7, length - 8, TABLE_LEVEL), -2);
        else design_term_add(d, design_column(d, at, length, TABLE_NUMBER), -1);
        if (d->term[d->p - 1].column == 0) fail(2, "--fixed", "the response cannot explain itself");
    }
}

/* ---- regressors ---- */

/* Each factor's place holder gives way to its levels but the first, in order; without an intercept the first factor has all. */
static inline void design_factors(design *d)
{
    design_term *asked = d->term;
    const pu_int count = d->p;
    int whole = d->no_intercept;
    pu_int i;
    d->term = (design_term *)need_bytes(DESIGN_FIXED * sizeof *d->term), d->p = 0;
    for (i = 0; i < count; i++) {
        const table_names *names = asked[i].level == -2 ? &d->column[asked[i].column].names : NULL;
        int32_t *order, k;
        if (!names) {
            design_term_add(d, asked[i].column, asked[i].level);
            continue;
        }
        order = (int32_t *)need_bytes((size_t)names->count * sizeof *order);
        table_order(names, order);
        for (k = whole ? 0 : 1; k < names->count; k++) design_term_add(d, asked[i].column, order[k]);
        whole = 0;
        free(order);
    }
    free(asked);
}

/* X, row by row, and the names of its columns. */
static inline void design_regressors(design *d)
{
    pu_int m, i;
    for (i = 0; i < d->p; i++) {
        design_term *t = d->term + i;
        const table_column *c = t->column < 0 ? NULL : d->column + t->column;
        if (!c) snprintf(t->name, sizeof t->name, "intercept");
        else if (t->level < 0) snprintf(t->name, sizeof t->name, "%s", c->name);
        else snprintf(t->name, sizeof t->name, "%s=%.60s", c->name, table_name(&c->names, t->level));
    }
    d->X = need_reals(d->all * d->p);
    for (i = 0; i < d->p; i++) {
        const int32_t level = d->term[i].level;
        const table_column *c = d->term[i].column < 0 ? NULL : d->column + d->term[i].column;
        pu_real *x = d->X + i;
        for (m = 0; m < d->all; m++) x[m * d->p] = !c ? PU_R(1) : level < 0 ? c->number[m] : (pu_real)(c->level[m] == level);
    }
}

/* Levels, slopes and names of the groups. */
static inline void design_groups(design *d)
{
    pu_int g;
    for (g = 0; g < d->groups; g++) {
        const table_column *c = d->column + d->of[g];
        d->group[g].level = c->level;
        snprintf(d->name[g], sizeof d->name[g], "%s", c->name);
        if (d->slope[g] >= 0) {
            const table_column *s = d->column + d->slope[g];
            d->group[g].slope = s->number;
            snprintf(d->name[g], sizeof d->name[g], "%s:%.60s", c->name, s->name);
        }
        d->group[g].name = d->name[g];
    }
}

/* Results are found by these names: no two may be the same. */
static inline void design_names(const design *d)
{
    pu_int i, k;
    for (i = 0; i < d->groups; i++) {
        if (!strcmp(d->name[i], "residual")) fail(2, d->name[i], "is what the noise is called here: a group needs another name");
        for (k = 0; k < i; k++)
            if (!strcmp(d->name[i], d->name[k])) fail(2, d->name[i], "is the name of two groups: columns joined, and a slope");
    }
    for (i = 0; i < d->p; i++)
        for (k = 0; k < i; k++)
            if (!strcmp(d->term[i].name, d->term[k].name)) fail(2, d->term[i].name, "is the name of two fixed effects");
}

/* ---- the file ---- */

/* d->t gets more rows from a file. */
static inline void design_read(design *d, const char *path)
{
    char why[CSV_WHY], what[400];
    snprintf(what, sizeof what, "%.300s", path);
    if (!table_read(&d->t, path, why)) fail(1, what, why);
}

static inline void design_load(design *d)
{
    static const char *const separators[] = {NULL, ",", ";", "\t", "::"};
    double low = HUGE_VAL, high = -HUGE_VAL;
    pu_int g, m;
    int i;
    if (!d->response) fail(2, "--response", "which column is to be explained? A name, or a number from 1");
    if (!d->group_list && !d->slope_list) fail(2, "--groups", "which columns have levels? Names, or numbers from 1");
    design_ask(d);
    table_open(&d->t, d->columns, d->column);
    d->t.separator = separators[d->separator], d->t.header = d->no_header ? -1 : 0;
    design_read(d, d->data);
    d->rows = d->t.rows;
    for (g = 0; g < d->groups; g++) d->known[g] = d->group[g].levels = d->column[d->of[g]].names.count;
    design_factors(d);
    if (d->predict) {
        int32_t before[DESIGN_COLUMNS];
        for (i = 0; i < d->columns; i++) before[i] = d->column[i].names.count;
        d->t.predict = 1;
        design_read(d, d->predict);
        for (i = 0; i < (int)d->p; i++) {
            const int c = d->term[i].column;
            if (d->term[i].level >= 0 && d->column[c].names.count > before[c])
                fail(1, table_name(&d->column[c].names, before[c]), "a factor of --predict has this level, which the data have not");
        }
    }
    d->all = d->t.rows;
    d->y = d->column[0].number;
    for (m = 1; m < d->rows && d->y[m] >= d->y[0] && d->y[m] <= d->y[0]; m++) continue;
    if (m == d->rows) fail(1, d->column[0].name, "is the same in all rows: there is nothing to explain");
    for (m = 0; m < d->rows; m++) {
        low = fmin(low, (double)d->y[m]), high = fmax(high, (double)d->y[m]);
        if (!(fabs((double)d->y[m]) < 1e100)) fail(1, d->column[0].name, "has numbers beyond 1e100, whose squares are none: take a larger unit");
    }
    if (high - low < 1e-100) fail(1, d->column[0].name, "has differences below 1e-100, whose squares vanish: take a smaller unit");
    for (i = 0; i < (int)d->groups; i++)
        if (!strcmp(d->column[d->of[i]].name, d->column[0].name)) fail(2, "--groups", "the response cannot explain itself");
    d->hidden = need_reals(d->all - d->rows);
    for (m = d->rows; m < d->all; m++) d->hidden[m - d->rows] = d->y[m], d->y[m] = (pu_real)NAN;
    design_groups(d);
    design_regressors(d);
    design_names(d);
    for (i = 1; i < d->columns; i++) { /* numbers that are in X now */
        for (g = 0; g < d->groups && d->slope[g] != i; g++) continue;
        if (g == d->groups) free(d->column[i].number), d->column[i].number = NULL;
    }
}

/* ---- simulated rows ---- */

/* A number from 0 to below n: splitmix64 of (seed, stream, index). */
static inline int32_t design_uniform(uint64_t seed, uint64_t stream, uint64_t index, int32_t n)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + stream * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (int32_t)((z >> 32) * (uint64_t)n >> 32);
}

/* Groups a, b, .. of so many levels each, which rows draw at random; regressors x1, x2, .. are standard normals. */
static inline void design_simulate(design *d, uint64_t seed)
{
    const char *at = d->level_list;
    pu_int m, i, k, g;
    int c;
    design_column(d, "y", 1, TABLE_NUMBER);
    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char letter = (char)('a' + d->groups), *end;
        const long levels = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || levels < 1 || levels > INT32_MAX || d->groups == DESIGN_GROUPS)
            fail(2, "--simulate-levels", "numbers from 1 with commas between, at most 26");
        d->group[d->groups].levels = d->known[d->groups] = (pu_int)levels;
        design_group_add(d, design_column(d, &letter, 1, TABLE_LEVEL), -1);
    }
    if (!d->no_intercept) design_term_add(d, -1, -1);
    for (i = 1; i <= (pu_int)d->sim_fixed; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", (int)i);
        design_term_add(d, design_column(d, name, strlen(name), TABLE_NUMBER), -1);
    }
    table_open(&d->t, d->columns, d->column);
    d->t.rows = d->rows = d->all = (pu_int)d->sim_rows;
    for (c = 0; c < d->columns; c++) {
        table_column *to = d->column + c;
        snprintf(to->name, sizeof to->name, "%s", to->wanted);
        if (to->kind == TABLE_NUMBER) {
            to->number = need_reals(d->rows);
            pu_normals(seed, 0, 0, (uint32_t)c, 3, 0, d->rows, to->number);
        } else {
            const int32_t levels = (int32_t)d->group[c - 1].levels; /* column 0 is y, then groups */
            to->level = (int32_t *)need_bytes((size_t)d->rows * sizeof *to->level);
            for (m = 0; m < d->rows; m++) to->level[m] = design_uniform(seed, (uint64_t)c, (uint64_t)m, levels);
        }
    }
    d->y = d->column[0].number;
    design_groups(d);
    design_regressors(d);
    d->truth[d->groups] = 0.8;
    for (k = 0; k < d->p; k++) d->coefficient[k] = d->term[k].column < 0 ? 3.3 : 0.5 / (double)(k + 1);
    for (m = 0; m < d->rows; m++) {
        double sum = sqrt(0.8) * (double)d->y[m];
        for (k = 0; k < d->p; k++) sum += d->coefficient[k] * (double)d->X[m * d->p + k];
        d->y[m] = (pu_real)sum;
    }
    for (g = 0; g < d->groups; g++) {
        pu_real *u = need_reals(d->group[g].levels);
        d->truth[g] = 0.3 / (double)(g + 1);
        pu_normals(seed, 1, (uint32_t)g, 0, 3, 0, d->group[g].levels, u);
        for (m = 0; m < d->rows; m++) d->y[m] += (pu_real)(sqrt(d->truth[g]) * (double)u[d->group[g].level[m]]);
        free(u);
    }
}

/* A header, then y, levels from 1, regressors. */
static inline void design_save(const design *d)
{
    FILE *file = file_open(d->save);
    pu_int m, i;
    fprintf(file, "y");
    for (i = 0; i < d->groups; i++) fprintf(file, ",%s", d->name[i]);
    for (i = !d->no_intercept; i < d->p; i++) fprintf(file, ",%s", d->term[i].name);
    for (m = 0; m < d->rows; m++) {
        fprintf(file, "\n%.17g", (double)d->y[m]);
        for (i = 0; i < d->groups; i++) fprintf(file, ",%ld", (long)d->group[i].level[m] + 1);
        for (i = !d->no_intercept; i < d->p; i++) fprintf(file, ",%.17g", (double)d->X[m * d->p + i]);
    }
    fprintf(file, "\n");
    file_close(file, d->save);
}

static inline void design_make(design *d, uint64_t seed)
{
    d->term = (design_term *)need_bytes(DESIGN_FIXED * sizeof *d->term);
    if (d->data) design_load(d);
    else {
        if (d->response || d->group_list || d->fixed_list || d->slope_list || d->predict)
            fail(2, "--data", "is needed where columns are named or rows predicted");
        design_simulate(d, seed);
        if (d->save) design_save(d);
    }
}

/* Numbers far from 0, years or times, are nearly the intercept, which costs digits: where a mean is above three standard deviations the
   column becomes x - mean, of which the fit's variances and likelihood do not depend. means: p, 0 where a column stays.
   Returns how many changed. */
static inline int design_centre(design *d, double *means)
{
    pu_int m, i;
    int count = 0;
    for (i = 0; i < d->p; i++) {
        double mean = 0, square = 0;
        means[i] = 0;
        if (d->no_intercept || d->term[i].column < 0 || d->term[i].level >= 0) continue;
        for (m = 0; m < d->rows; m++) {
            const double off = (double)d->X[m * d->p + i] - mean;
            mean += off / (double)(m + 1), square += off * ((double)d->X[m * d->p + i] - mean);
        }
        if (!(mean * mean * (double)d->rows > 9 * square)) continue;
        means[i] = mean, count++;
        for (m = 0; m < d->all; m++) d->X[m * d->p + i] = (pu_real)((double)d->X[m * d->p + i] - mean);
    }
    return count;
}

/* Undoes that. */
static inline void design_back(design *d, const double *means)
{
    pu_int m, i;
    for (m = 0; m < d->all; m++)
        for (i = 0; i < d->p; i++) d->X[m * d->p + i] = (pu_real)((double)d->X[m * d->p + i] + means[i]);
}

static inline void design_free(design *d)
{
    table_free(&d->t);
    free(d->X), free(d->hidden), free(d->term);
}

/* What a level is called: its text, with colons in a combination; simulated ones are numbers. Cut where it is too long. */
static inline const char *design_level(const design *d, pu_int g, pu_int level, char *name, size_t size)
{
    const table_names *names = &d->column[d->of[g]].names;
    char *at;
    if (names->count == 0) {
        snprintf(name, size, "%ld", (long)level + 1);
        return name;
    }
    snprintf(name, size, "%s", table_name(names, (int32_t)level));
    for (at = name; *at; at++)
        if (*at == TABLE_BETWEEN) *at = ':';
    return name;
}

#endif /* EXAMPLES_DESIGN_H */
